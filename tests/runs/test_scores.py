"""scores.json, and the log that it is made of."""

import json
from pathlib import Path

import pytest
from run_commands import COUNT, command, simulst

from simulst.runs import read_run_log


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
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    for place in (log, log.parent):
        caplog.clear()
        assert len(read_run_log(place)) == COUNT - 1
        assert f"of the indices 0 to {COUNT - 1}, 1 are missing, first {COUNT - 1}" in caplog.text
    for other in ("source_type: speech\n", "["):
        (log.parent / "config.yaml").write_text(other)
        caplog.clear()
        assert len(read_run_log(log)) == COUNT - 1 and not caplog.records
