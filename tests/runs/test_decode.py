"""Runs through the command line: what is decoded, shared, kept and told."""

import functools
import io
import json
import re
import resource
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from fake import FakeModel
from run_commands import COUNT, DURATIONS, LA2, MODEL, SWEEP, command, options, sentence, simulst, timeless

from simulst.errors import SimulstError
from simulst.log import read_log
from simulst.runs import decode
from simulst.runs.score import score_run
from simulst.stream import Emission, Stream

pytestmark = pytest.mark.usefixtures("warm_programs")


def test_evaluate(data: Path) -> None:
    status, out, error = simulst(*command(data))
    assert (status, error) == (0, "")
    assert "BLEU" in out
    folder = data.parent / "out"
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "instances.log", "scores.json"]
    log = read_log(folder)
    assert [instance.name for instance in log] == [f"u{i}" for i in range(COUNT)]
    assert [instance.source_length for instance in log] == DURATIONS
    assert log[0].reads == [500, 1000]
    assert all(instance.elapsed[-1] > instance.delays[-1] for instance in log)
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["sentences"] == COUNT and scores["BLEU"] > 10
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["label"] == "LA-2_beam2_500ms" and config["task"]["model"] == MODEL
    assert config["source_type"] == "speech" and config["target_type"] == "text"


def test_recognition_of_a_part(data: Path) -> None:
    languages = ["--source-lang", "fr", "--target-lang", "fr", "--text", "en"]
    assert simulst(*command(data, "out", "--draw", "3", *languages))[0] == 0
    folder = data.parent / "out"
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["sentences"] == 3 and scores["CER"] > 0 and scores["WER"] > 0
    (folder / "scores.json").unlink()
    assert score_run(folder, "fr", "word") == scores


def test_sharing_changes_no_log(data: Path) -> None:
    for out, flag in (("shared", "--share"), ("alone", "--no-share")):
        status, table, error = simulst(*command(data, out, flag, name="sweep"))
        assert (status, error) == (0, "")
        assert "LA-2" in table and "offline" in table
    folders = sorted(path.name for path in (data.parent / "shared").iterdir())
    assert folders == ["LA-2_1000ms", "LA-2_500ms", "hold-3_1000ms", "hold-3_500ms", "offline"]
    for name in folders:
        assert timeless(data.parent / "shared" / name) == timeless(data.parent / "alone" / name)


@pytest.mark.parametrize("streams", [2, 99])
def test_streams_change_no_log(data: Path, streams: int) -> None:
    """But for the computation times, which are not logged."""
    assert simulst(*command(data, "alone", name="sweep"))[0] == 0
    status, table, error = simulst(*command(data, "together", "--streams", streams, name="sweep"))
    assert (status, error) == (0, "") and "LA-2" in table
    for folder in (data.parent / "alone").iterdir():
        found = data.parent / "together" / folder.name
        assert [replace(instance, waited_ms=None) for instance in read_log(found)] == timeless(folder)
        scores = json.loads((found / "scores.json").read_text())
        assert scores["BLEU"] == json.loads((folder / "scores.json").read_text())["BLEU"]
        assert not [name for name, value in scores.items() if name.endswith(("_CA", "RTF")) and value is not None]


@pytest.mark.parametrize("streams", [1, 3])
def test_a_long_recording_shows_how_far_it_is(data: Path, monkeypatch: pytest.MonkeyPatch, streams: int) -> None:
    assert simulst(*command(data, "at_once"))[0] == 0
    monkeypatch.setattr(decode, "SHARED_SECONDS", 0)
    monkeypatch.setattr(decode, "PIECE", 8000)
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(decode, "tqdm", functools.partial(decode.tqdm, file=terminal, mininterval=0))
    assert simulst(*command(data, "long", "--streams", str(streams)))[0] == 0
    assert timeless(data.parent / "long") == timeless(data.parent / "at_once")
    assert re.search(r"u0: 0 of 1 s of audio .*u0: 1 of 1 s of audio ", terminal.getvalue(), re.DOTALL)


def test_streams_and_what_looks_at_the_time(data: Path) -> None:
    (data.parent / "la2.yaml").write_text(LA2 + "late: {type: skip}\n")
    status, _, error = simulst(*command(data, "out", "--streams", "2"))
    assert status == 1 and "leave out --streams" in sentence(error)


def test_an_utterance_of_many_that_fails(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are decoded and kept."""

    def work(self: FakeModel, name: str) -> None:
        if name == "3":
            raise SimulstError("the model can't hear")

    monkeypatch.setattr(FakeModel, "work", work)
    status, _, error = simulst(*command(data, "out", "--streams", "4"))
    assert status == 1 and "u3: the model can't hear" in sentence(error)
    assert len((data.parent / "out" / "instances.log").read_text().splitlines()) == COUNT - 1


def test_a_larger_sweep_decodes_what_is_new(data: Path) -> None:
    note = data.parent / "note"
    args = command(data, "out", *options(log=note), name="sweep")
    (data.parent / "sweep.yaml").write_text("read: {type: offline}\ncommit: {type: all}")
    assert simulst(*args)[0] == 0
    (data.parent / "sweep.yaml").write_text(SWEEP)
    assert simulst(*args)[0] == 0
    assert Counter(note.read_text().split()) == {str(i): 5 for i in range(COUNT)}


def test_a_policy_that_lets_nothing_through_is_told(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        return [message for message in caplog.messages if "nothing was written" in message]

    assert simulst(*command(data, "out"))[0] == 0 and not told()
    (data.parent / "la2.yaml").write_text("read: {type: chunk, ms: 500}\ncommit: {type: hold, n: 1000}\n")
    assert simulst(*command(data, "other"))[0] == 0
    [said] = told()
    assert said.startswith("hold-1000_500ms: nothing was written before the end of any of 6 utterances; STOP or COMMIT")


@pytest.mark.parametrize("waited", [0.0, 1e3])
def test_computation_times_beside_other_work_are_told(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, waited: float
) -> None:
    monkeypatch.setattr(decode, "waited_seconds", lambda before: waited)
    assert simulst(*command(data, "out"))[0] == 0
    told = [message for message in caplog.messages if "other work was in the way" in message]
    assert len(told) == (waited > 0)
    assert {instance.waited_ms or 0.0 for instance in read_log(data.parent / "out")} == {1000 * waited}


def test_a_configuration_that_fails_does_not_take_the_others_with_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push = Stream.push

    def fails(self: Stream, samples: np.ndarray, finished: bool = False) -> list[Emission]:
        if self.decoding.label == "hold-3_500ms":
            raise SimulstError("the model can't hold")
        return push(self, samples, finished)

    monkeypatch.setattr(Stream, "push", fails)
    status, _, error = simulst(*command(data, "sweep", name="sweep"))
    assert status == 1
    assert f"{COUNT} of {COUNT} utterances failed" in sentence(error)
    assert "First: u0 under hold-3_500ms: the model can't hold" in error
    for folder in (data.parent / "sweep").iterdir():
        lines = (folder / "instances.log").read_text().splitlines()
        assert len(lines) == (0 if folder.name == "hold-3_500ms" else COUNT), folder


POLICIES = """
from dataclasses import dataclass
from simulst.policy.commit import Commit
from simulst.policy.read import Read, Schedule
from simulst.policy.stop import Stop, Stopping

@dataclass(frozen=True)
class Own(Commit):
    how: str
    label = "own-{how}"
    def stable(self, beams):
        best = beams[-1][0].tokens
        if len(best) >= 12:  # u5 alone is as long
            {"raise": lambda: 1 / 0, "key": lambda: {}["x"], "assert": lambda: self.wrong()}[self.how]()
        return best[:-1]
    def wrong(self):
        assert False, "no"

@dataclass(frozen=True)
class Shut(Read):
    label = "shut"
    def open(self, context):
        raise LookupError("shut")
"""


@pytest.mark.parametrize(
    ("how", "kind", "jobs"),
    [
        ("raise", "ZeroDivisionError", 1),
        ("raise", "ZeroDivisionError", 2),
        ("key", "KeyError", 1),
        ("assert", "Assert", 1),
    ],
)
def test_an_error_in_a_policy_costs_its_utterance_only(
    data: Path, monkeypatch: pytest.MonkeyPatch, how: str, kind: str, jobs: int
) -> None:
    (data.parent / "own_policies.py").write_text(POLICIES)
    monkeypatch.syspath_prepend(data.parent)
    monkeypatch.setenv("PYTHONPATH", str(data.parent), prepend=":")
    (data.parent / "la2.yaml").write_text(
        f"read: {{type: chunk, ms: 500}}\ncommit: {{type: own_policies:Own, how: {how}}}\n"
    )
    status, _, error = simulst(*command(data, "out", "--jobs", jobs))
    failed = [name for name in range(COUNT) if DURATIONS[name] >= 2500]
    assert status == 1 and f"{len(failed)} of {COUNT} utterances failed" in sentence(error)
    assert f"First: u{failed[0]}: {kind}" in error and "own_policies.py, line" in error
    assert [i.index for i in read_log(data.parent / "out")] == [n for n in range(COUNT) if n not in failed]


def test_an_error_when_a_policy_is_opened_is_a_sentence(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data.parent / "own_policies.py").write_text(POLICIES)
    monkeypatch.syspath_prepend(data.parent)
    (data.parent / "la2.yaml").write_text("read: {type: own_policies:Shut}\ncommit: {type: all}\n")
    status, _, error = simulst(*command(data, "out"))
    assert status == 1 and "the stream cannot be opened (LookupError: shut, " in sentence(error)


@pytest.mark.parametrize("hard", [204, 4096])
def test_more_configurations_than_files_may_be_open(data: Path, monkeypatch: pytest.MonkeyPatch, hard: int) -> None:
    """The soft limit is raised as far as the hard one allows."""
    limits = [(203, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda what: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda what, pair: limits.append(pair))
    for _ in range(2):
        assert simulst(*command(data, "out", name="sweep"))[0] == 0
    assert limits[1:] == [(min(205, hard), hard)] * (1 if hard > 205 else 2)
