"""scores.json, and the log that it is made of."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from run_commands import COUNT, command, simulst

from simulst.errors import SimulstError
from simulst.log.instance import digest_of_test_set
from simulst.measure import file as scores_module
from simulst.measure.file import recordings_scores
from simulst.runs.score import read_run_log, score_run


def test_scores_of_recordings_stay(data: Path) -> None:
    """A finished run is not scored again as if its recordings were sentences; a new one is."""
    assert simulst(*command(data, "out"))[0] == 0
    path = data.parent / "out/scores.json"
    usual = json.loads(path.read_text())
    longform = {**usual, "recordings": COUNT, "LongYAAL": 5.0, "LongYAAL_CA": 6.0}
    path.write_text(json.dumps(longform))
    assert simulst(*command(data, "out"))[0] == 0
    assert json.loads(path.read_text()) == longform
    assert simulst(*command(data, "out", "--force"))[0] == 0
    assert json.loads(path.read_text()).keys() == usual.keys()


def test_a_log_whose_end_is_missing(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A run's config.yaml says how many utterances there should be; beside another program's log there is none."""
    assert simulst(*command(data, "out"))[0] == 0
    log = data.parent / "out/instances.log"
    caplog.clear()
    assert len(read_run_log(log)) == COUNT and not caplog.records
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    for place in (log, log.parent):
        caplog.clear()
        assert len(read_run_log(place)) == COUNT - 1
        assert f"of the indices 0 to {COUNT - 1}, 1 are missing, first {COUNT - 1}" in caplog.text
    for other in ("source_type: speech\n", "["):
        (log.parent / "config.yaml").write_text(other)
        caplog.clear()
        assert len(read_run_log(log)) == COUNT - 1 and not caplog.records


def test_scores_belong_to_a_log_by_what_it_holds(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Times of files say nothing: copies, checkouts and clocks change them. Another log has other scores."""
    assert simulst(*command(data, "out"))[0] == 0
    folder = data.parent / "out"
    scores, log = folder / "scores.json", folder / "instances.log"
    usual = json.loads(scores.read_text())
    longform = {**usual, "recordings": COUNT, "LongYAAL": 5.0, "LongYAAL_CA": 6.0}
    scores.write_text(json.dumps(longform))
    for times in ((1, 2), (2, 1), (1, 1)):
        for file, time in zip((scores, log), times, strict=True):
            os.utime(file, (time, time))
        assert recordings_scores(folder) == longform
    log.write_text(log.read_text().replace("the", "a"))
    os.utime(log, (0, 0))
    assert recordings_scores(folder) is None
    assert "its scores of whole recordings are of another instances.log, so they are replaced" in caplog.text
    assert score_run(folder, "en", bootstrap=0)["log"] != usual["log"]


def test_one_test_set_has_one_digest(data: Path) -> None:
    """Whatever the system; but not with other names, references or audio."""
    assert simulst(*command(data, "out"))[0] == 0 and simulst(*command(data, "sweep", name="sweep"))[0] == 0
    folders = [data.parent / "out", *(path for path in (data.parent / "sweep").iterdir() if path.is_dir())]
    assert len({json.loads((folder / "scores.json").read_text())["test_set"] for folder in folders}) == 1
    instances = read_run_log(folders[0])
    one = digest_of_test_set(instances)
    assert digest_of_test_set([replace(i, prediction="", delays=[]) for i in instances[::-1]]) == one
    for change in ({"reference": "x"}, {"name": "x"}, {"source_length": 99.0}):
        assert digest_of_test_set([replace(instances[0], **change), *instances[1:]]) != one


def test_a_finished_run_where_nothing_can_be_written(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is shown. One that is not finished can't go on there."""
    assert simulst(*command(data, "out"))[0] == 0
    folder = data.parent / "out"
    before = {path: path.read_bytes() for path in folder.iterdir()}
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: not (mode == os.W_OK and Path(path) == folder) and access(path, mode)
    )
    status, out, _ = simulst(*command(data, "out"))
    assert status == 0 and "BLEU" in out and "cannot be written" not in caplog.text
    assert {path: path.read_bytes() for path in folder.iterdir()} == before

    def refuse(path: Path, text: str) -> None:
        raise SimulstError(f"{path}: cannot be written (Read-only file system)")

    monkeypatch.setattr(scores_module, "write_atomically", refuse)
    (folder / "scores.json").unlink()
    status, out, _ = simulst(*command(data, "out"))
    assert status == 0 and "BLEU" in out and "scores.json: cannot be written" in caplog.text
    log = folder / "instances.log"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-2]))
    status, _, error = simulst(*command(data, "out"))
    assert status == 1 and "nothing can be written there, and 2 utterances are missing; copy it" in error
