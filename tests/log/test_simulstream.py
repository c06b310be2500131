"""simulstream's log: what its lines make of a recording's text, and what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulst.errors import SimulstError
from simulst.log import read_log
from simulst.log.instance import Instance
from simulst.log.simulstream import read_simulstream
from simulst.measure import score

NAME = {"id": 1, "metadata": {"wav_name": "/audio/talk.wav"}}


def chunk(seconds: float, new: str, deleted: str = "", client: int = 1, computed: float = 0.25) -> dict[str, Any]:
    """Tokens are divided by "|"."""
    return {
        "id": client,
        "total_audio_processed": seconds,
        "computation_time": computed,
        "generated_tokens": new.split("|") if new else [],
        "deleted_tokens": deleted.split("|") if deleted else [],
    }


def read(folder: Path, *rows: dict[str, Any] | str, unit: str = "word") -> list[Instance]:
    path = folder / "metrics.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return read_log(path, unit)


def test_times(tmp_path: Path) -> None:
    """A chunk's computation is its own in the log; `elapsed` adds it up."""
    rows = [chunk(1.0, "Hello,"), chunk(2.0, ""), chunk(3.0, " big| world"), chunk(3.5, ".")]
    [instance] = read(tmp_path, {"model_loading_time": 3.1}, NAME, *rows)
    assert (instance.name, instance.source) == ("talk", ["/audio/talk.wav"])
    assert instance.prediction == "Hello, big world."
    assert instance.delays == [1000, 3000, 3500]
    assert instance.elapsed == [1250, 3750, 4500]
    assert instance.chunk_elapsed == [1250, 3250, 3750]
    assert (instance.source_length, instance.compute_ms) == (3500, 1000)
    assert score([instance])["RTF"] == pytest.approx(1 / 3.5, abs=1e-4)
    assert Instance(**json.loads(instance.to_json())) == instance


@pytest.mark.parametrize(
    ("tokens", "unit", "text"),
    [
        ("the|cat", "word", "the cat"),
        ("▁the|▁c|at", "word", "the cat"),
        (" the| c|at", "word", "the cat"),
        ("你|好| a|b", "char", "你好 ab"),
        ("▁你好|世界|▁AI|▁好", "char", "你好世界 AI 好"),
        ("今日|\u3000は", "char", "今日 は"),
        ("we worked|long.", "word", "we worked long."),
        ("10\u00a0000|personnes", "word", "10\u00a0000 personnes"),
        ("▁10|\u00a0|000|▁personnes|▁ici|.", "word", "10\u00a0000 personnes ici."),
        ("▁今天|\u3000|下|▁AI", "char", "今天 下 AI"),
        ("h|e|l|l|o| |w|o|r|l|d", "word", "hello world"),
        ("We worked |long", "word", "We worked long"),
    ],
)
def test_tokens(tmp_path: Path, tokens: str, unit: str, text: str) -> None:
    [instance] = read(tmp_path, NAME, chunk(1.0, tokens), unit=unit)
    assert instance.prediction == text
    assert instance.delays == [1000.0] * len(instance.units(unit))


def test_what_is_written_again_counts_from_then(tmp_path: Path) -> None:
    rows = [chunk(1.0, " a| b| c"), chunk(2.0, " b| d", deleted=" b| c"), chunk(3.0, "e")]
    [instance] = read(tmp_path, NAME, *rows)
    assert instance.prediction == "a b de"
    assert instance.delays == [1000, 2000, 3000]


def test_clients_in_turns(tmp_path: Path) -> None:
    """Also where a later client has the number of an earlier one, and one is left without a word."""
    other = {"id": 2, "metadata": {"wav_name": "b.wav"}}
    again = {"id": 1, "metadata": {"wav_name": "c.wav"}}
    rows = [NAME, chunk(1.0, "x"), other, chunk(1.0, "y", client=2), chunk(2.0, "z"), again, chunk(1.0, "")]
    found = {i.name: i.prediction for i in read(tmp_path, *rows)}
    assert found == {"talk": "x z", "b": "y", "c": ""}


def test_clients_without_a_name_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not their audio, and not the recordings of others."""
    unnamed = {"id": 1, "metadata": {"wav_name": ""}}
    rows = [chunk(1.0, "x", client=2), NAME, chunk(1.0, "a"), chunk(2.0, "y", client=2), unnamed, chunk(1.0, "z")]
    [instance] = read(tmp_path, *rows)
    assert (instance.name, instance.prediction) == ("talk", "a")
    assert "left out the audio of 2 clients that have not named a recording" in caplog.text


@given(
    st.lists(st.text("abcé.", min_size=1, max_size=8), min_size=30, max_size=60)
    | st.lists(st.text("abcé.", min_size=3, max_size=8), min_size=6, max_size=29),
    st.sampled_from("\u00a0 \u202f\u3000"),
    st.integers(0, 29),
    st.sampled_from(["word", "sentencepiece", "spaced"]),
    st.sampled_from(["inside", "before", "after"]),
)
def test_one_token_does_not_change_how_all_are_joined(
    words: list[str], space: str, place: int, form: str, where: str
) -> None:
    """A single token with a space in it, or at one of its ends."""
    shapes: dict[str, Callable[[str], str]] = {"word": str, "sentencepiece": "▁{}".format, "spaced": " {}".format}
    place %= len(words)
    odd = {"inside": f"10{space}000", "before": f"{space}10", "after": f"10{space}"}[where]
    tokens = [shapes[form](odd if number == place else word) for number, word in enumerate(words)]
    rows = [json.dumps(row) for row in (NAME, {**chunk(1.0, ""), "generated_tokens": tokens})]
    [instance] = read_simulstream(rows, "word", "x")
    words[place] = odd
    assert instance.prediction.split() == " ".join(words).split()


def test_a_stranger_with_a_recordings_id(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An id names another client if its audio begins again, if its stream has ended, and after a new start."""
    named = [NAME, chunk(1.0, "a"), chunk(2.0, "b")]
    end, start = chunk(2.0, ""), {"model_loading_time": 1.0}
    for rest in (
        [chunk(0.1, "z")],
        [end, chunk(5.0, "z")],
        [start, chunk(5.0, "z")],
        [chunk(0.1, "z"), chunk(9.0, "y")],
    ):
        caplog.clear()
        [instance] = read(tmp_path, *named, *rest)
        assert (instance.prediction, instance.source_length) == ("a b", 2000)
        assert "left out the audio of 1 clients" in caplog.text
    caplog.clear()
    read(tmp_path, *named, end, chunk(0.0, ""))
    assert not caplog.text, "a stream without audio"


def test_names_with_points(tmp_path: Path) -> None:
    name = {"id": 1, "metadata": {"wav_name": "/a/2022.acl-long.268"}}
    other = {"id": 2, "metadata": {"wav_name": "/a/2022.acl-long.367.wav"}}
    found = read(tmp_path, name, chunk(1.0, "a"), other, chunk(1.0, "b", client=2))
    assert [i.recording for i in found] == [i.name for i in found] == ["2022.acl-long.268", "2022.acl-long.367"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([NAME, "{half"], "line 2: not a line of simulstream's log"),
        ([chunk(1.0, "a", client=3)], "has no audio of a named recording"),
        ([NAME, {"id": 1}], "line 2: not a chunk of simulstream's log: total_audio_processed: Field required"),
        ([NAME, {**chunk(1.0, "a"), "computation_time": "fast"}], "computation_time"),
        ([NAME, chunk(1.0, "a"), chunk(2.0, "", deleted="b")], "line 3: deletes tokens that do not end"),
        ([NAME, chunk(1.0, "a"), NAME, chunk(1.0, "a")], "line 3: talk begins again"),
        ([{"id": 1, "metadata": {}}, chunk(1.0, "a")], "has no audio of a named recording"),
        ([{"model_loading_time": 3.0}], "has no audio of a named recording"),
        ([NAME], "has no audio of a named recording"),
        ([NAME, chunk(0.0, "")], "has no audio of a named recording"),
    ],
)
def test_bad_logs(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(SimulstError, match=message):
        read(tmp_path, *rows)
