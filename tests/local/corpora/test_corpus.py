"""Choosing segments and writing them, for any corpus."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest
import soundfile
from contents import contents
from hypothesis import given
from hypothesis import strategies as st

from corpora import corpus
from corpora.corpus import Choice, Log, Segment, Split, prepare, span
from simulst.errors import SimulstError
from simulst.files.table import read_table

ONE = Segment(1, "s_a_1", "s", "a", Path("a.wav"), 0.0, 1.0, "One.", "Eins.")


def texts(lengths: list[tuple[int, int]], letters: str = "a ") -> list[Segment]:
    return [replace(ONE, line=i, name=str(i), source="a " * s, target=letters * t) for i, (s, t) in enumerate(lengths)]


def by_ratio(lengths: list[tuple[int, int]], max_ratio: float, pair: str = "en-de", letters: str = "a ") -> list[int]:
    """The indices of the segments that are kept."""
    log = Log(Path("x"), False)
    kept = corpus._of_ratio(texts(lengths, letters), pair, Choice(max_ratio=max_ratio), log)
    assert log.counts["ratio"] == len(log.lines) == len(lengths) - len(kept)
    return [segment.line for segment in kept]


LIMITS = st.integers(102, 900).map(lambda n: n / 100 + 0.00137)  # never met exactly
LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=20)


@given(LENGTHS, LIMITS)
def test_the_ratio_is_that_of_the_documentation(lengths: list[tuple[int, int]], limit: float) -> None:
    m = median(t / s for s, t in lengths)
    want = [i for i, (s, t) in enumerate(lengths) if 1 / limit <= (t / m + 2) / (s + 2) <= limit]
    assert by_ratio(lengths, limit) == want


@given(LENGTHS, LIMITS)
def test_the_ratio_is_the_same_in_words_and_characters(lengths: list[tuple[int, int]], limit: float) -> None:
    """If each target word becomes three characters, the same segments are dropped."""
    assert by_ratio(lengths, limit, "en-ja", "日本語 ") == by_ratio(lengths, limit)


@given(LENGTHS)
def test_the_median_pair_always_stays_and_a_wider_limit_keeps_more(lengths: list[tuple[int, int]]) -> None:
    narrow, wide = by_ratio(lengths, 1.5), by_ratio(lengths, 3)
    assert set(narrow) <= set(wide) and by_ratio(lengths, float("inf")) == list(range(len(lengths)))
    odd = lengths[: len(lengths) - 1 + len(lengths) % 2]
    middle = sorted(range(len(odd)), key=lambda i: odd[i][1] / odd[i][0])[len(odd) // 2] if odd else 0
    assert middle in by_ratio(odd or lengths, 1.01)


def test_short_sentences_are_spared() -> None:
    lengths = [(10, 10)] * 9
    assert by_ratio([*lengths, (1, 4)], 3)[-1] == 9
    assert by_ratio([*lengths, (10, 40)], 3)[-1] == 8
    assert by_ratio([*lengths, (40, 10)], 3)[-1] == 8


@given(st.floats() | st.text(max_size=5), st.floats() | st.text(max_size=5))
def test_a_span_is_a_pair_of_times_or_a_reason(start: float | str, duration: float | str) -> None:
    times = span(start, duration)
    assert isinstance(times, str) or 0 <= times[0] <= times[1] < float("inf")


def test_spans() -> None:
    assert span("1.5", 2) == (1.5, 3.5)
    assert span(10**400, 2) == span("a", 2) == "start or duration is no number"
    assert span(1.7e308, 1.7e308) == "a segment at 1.7e+308 s of 1.7e+308 s cannot be right"
    assert span(0, 1.7e308) == (0, 1.7e308) and span(0, 0.0004) == "a segment of 0.0004 s is too short to hold sound"
    assert span(-1, 2) == "a segment at -1 s of 2 s cannot be right"


class Talk:
    """One recording of 5 s with the given segments."""

    def __init__(self, root: Path, segments: list[Segment]) -> None:
        self.root, self.audio = root, root / "a.wav"
        soundfile.write(self.audio, np.zeros(80000, np.float32), 16000)
        self.segments = [replace(segment, audio=self.audio) for segment in segments]

    def prepare(self, split: str = "train", choice: Choice | None = None) -> dict[str, int]:
        def read(log: Log) -> Iterator[Segment]:
            log.counts["found"] = len(self.segments)
            yield from self.segments

        splits = {split: Split(self.root / "list", read)}
        return prepare("en-de", splits, self.root, choice or Choice())[split]


def test_an_open_end_is_that_of_the_file(tmp_path: Path) -> None:
    counts = Talk(tmp_path, [replace(ONE, end=float("inf"))]).prepare()
    assert counts["kept"] == 1 and counts["clipped"] == 0
    assert read_table(tmp_path / "en-de/train/segments") == {"s_a_1": "a 0.000 5.000"}


def test_two_files_under_one_name(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [ONE, replace(ONE, name="s_a_2", line=2)])
    talk.segments[1] = replace(talk.segments[1], audio=tmp_path / "other" / "a.wav")
    with pytest.raises(SimulstError, match=r"list, line 2: .*/other/a.wav and .*/a.wav would both be named 'a'"):
        talk.prepare()


def test_a_full_disk_keeps_what_was_written_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(tmp_path, [ONE])
    talk.prepare()
    before = contents(tmp_path)

    def fail(path: Path, rows: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(corpus, "write_table", fail)
    with pytest.raises(SimulstError, match=r"en-de/train: cannot be written \(No space left on device\); make room"):
        talk.prepare()
    assert contents(tmp_path) == before and [path.name for path in (tmp_path / "en-de").iterdir()] == ["train"]


def test_the_report_names_the_logs_of_dropped_segments(tmp_path: Path) -> None:
    log = f"\ndropped segments and reasons: {tmp_path / 'en-de/train/dropped.log'}"
    counts = Talk(tmp_path, [ONE, replace(ONE, name="s_a_2", start=6.0, end=7.0)]).prepare()
    assert corpus.report(tmp_path, "en-de", {"train": counts}).endswith(log)
    counts = Talk(tmp_path, [replace(ONE, end=5.05)]).prepare()  # clipped is not dropped
    assert "dropped" not in corpus.report(tmp_path, "en-de", {"train": counts})


def test_only_splits_for_training_are_changed(tmp_path: Path) -> None:
    song = replace(ONE, name="s_a_2", line=2, start=2.0, end=3.0, source="♪ La la ♪", target="„Es“ ist eins.")
    talk = Talk(tmp_path, [replace(ONE, target="„Eins“ (Applaus)"), song])
    for split, choice, target in (
        ("train", Choice(), '"Eins"'),
        ("train", Choice(punctuation="keep"), "„Eins“"),
        ("train", Choice(training=()), "„Eins“ (Applaus)"),
        ("dev", Choice(), "„Eins“ (Applaus)"),
        ("dev", Choice(training=("train", "dev")), '"Eins"'),
    ):
        counts, changed = talk.prepare(split, choice), "(Applaus)" not in target
        texts = {"s_a_1": target} | ({} if changed else {"s_a_2": "„Es“ ist eins."})
        assert read_table(tmp_path / "en-de" / split / "text.tc.de") == texts and counts["non-speech"] == changed
        log = (tmp_path / "en-de" / split / "dropped.log").read_text()
        assert ("line 2: non-speech: ♪ La la ♪ | „Es“ ist eins.\n" in log) == changed
