"""From a corpus's segments to data directories: which segments are kept, and in what form.

`must_c` and `tsv` read the segments.

Out: OUT/<pair>/<split>/{wav.scp,segments,utt2spk,spk2utt,text.tc.<target>,text.tc.<source>,text.lc.rm.<source>}

A segment that can't be used either stops the preparation, or is dropped and counted. OUT/<pair>/<split>/dropped.log
lists dropped segments with file and line. Training splits are also normalised and filtered; other splits keep their
texts.
"""

from __future__ import annotations

import hashlib
import math
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import abspath, isfile
from pathlib import Path
from statistics import median

from corpora.text import has_words, length, normalise
from simulst.audio.name import apart, file_of
from simulst.audio.read import whole_seconds
from simulst.errors import SimulstError
from simulst.files.folder import locked
from simulst.files.table import write_table
from simulst.measure.spoken import lower_without_punctuation

FAULTS = ("bad segment", "no audio", "bad audio", "past end", "empty", "duplicate", "in a test")
FILTERS = ("too short", "too long", "non-speech", "ratio")
COLUMNS = ("found", *FAULTS, *FILTERS, "clipped", "kept", "talks", "minutes")
DROPPED = "dropped.log"
OVERSHOOT = 0.1  # seconds that a segment may end after its file; its end is then clipped
SLACK = 2  # words that are added to both lengths, as the ratio of short sentences varies a lot


@dataclass(frozen=True)
class Choice:
    """Which segments are kept.

    on_error: "drop" or "stop" at a faulty segment.
    seconds: shortest and longest segment of a training split.
    max_ratio: limit of the length ratio in training splits. Let s and t be the lengths of source and target (words, or
        characters in languages without spaces) and m the median of t / s. A segment is kept if (t/m + 2) / (s + 2) lies
        between 1 / max_ratio and max_ratio. The median makes the limit comparable between language pairs; the 2
        protects short sentences.
    punctuation: "moses" or "keep", for training splits.
    training: names of the training splits.
    """

    on_error: str = "drop"
    seconds: tuple[float, float] = (0.2, 30.0)
    max_ratio: float = 3.0
    punctuation: str = "moses"
    training: tuple[str, ...] = ("train",)

    def __post_init__(self) -> None:
        least, most = self.seconds
        if not 0 <= least < most:
            raise SimulstError(
                f"--min-seconds {least:g}, --max-seconds {most:g}: nothing lies between; give 0 or more, and then more."
            )
        if not self.max_ratio > 1:
            raise SimulstError(f"--max-ratio: {self.max_ratio:g} would drop everything; give more than 1, or inf.")


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of a recording with its source and target text.

    line: line of the corpus's listing.
    name: unique and without spaces; names sort in the order of their speakers.
    speaker: without spaces.
    recording: name of the recording, without spaces.
    audio: file of the recording.
    start: seconds.
    end: seconds; infinite for "to the end of the file".
    source: text as `text.one_line` returns it.
    target: text as `text.one_line` returns it.
    """

    line: int
    name: str
    speaker: str
    recording: str
    audio: Path
    start: float
    end: float
    source: str
    target: str


class Log:
    """Counts dropped segments, or stops at the first fault.

    listing: the file that lists the segments.
    stop: raise SimulstError at a fault.
    """

    def __init__(self, listing: Path, stop: bool) -> None:
        self.listing = listing
        self.stop = stop
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []

    def fault(self, reason: str, place: int | str, what: str) -> None:
        """Drop a faulty segment, or stop. place: a line of the listing, or file and line."""
        if self.stop:
            raise SimulstError(f"{self._place(place)}: {what}; fix it, or choose --on-error drop.")
        self.filter(reason, place, what)

    def filter(self, reason: str, place: int | str, what: str) -> None:
        """Drop a segment that is correct but not wanted."""
        self.counts[reason] += 1
        self.lines.append(f"{self._place(place)}: {reason}: {what}")

    def _place(self, place: int | str) -> str:
        return place if isinstance(place, str) else f"{self.listing}, line {place}"


@dataclass(frozen=True)
class Split:
    """A split of a corpus.

    listing: the file that lists its segments.
    read: yields its segments; reports faults to the log and counts "found" there.
    """

    listing: Path
    read: Callable[[Log], Iterable[Segment]]


def prepare(pair: str, splits: Mapping[str, Split], out: Path, choice: Choice) -> dict[str, Counter[str]]:
    """Write a data directory for each split of a language pair, each whole or not at all.

    If a training split and another split share a recording, it is dropped from the training split.

    pair: such as "en-de".

    Returns: split → count for each of COLUMNS.
    Raises SimulstError: no segment is left; two files have one name; the disk is full; another run uses the pair's
        folder; any fault, if on_error is "stop".
    """
    if not re.fullmatch(r"\w+-[\w-]+", pair):
        raise SimulstError(f"'{pair}' is no language pair; give it as source-target, such as en-de.")
    if odd := [split for split in splits if not re.fullmatch(r"\w[\w.-]*", split)]:  # splits become folder names
        raise SimulstError(f"'{odd[0]}' cannot name a split; use letters, digits, points and hyphens.")
    with locked(out / pair):
        return _prepare(pair, splits, out, choice)


def _prepare(pair: str, splits: Mapping[str, Split], out: Path, choice: Choice) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    tested = _Tested()
    for split in sorted(splits, key=lambda name: name in choice.training):  # training last: it avoids other recordings
        log = Log(splits[split].listing, choice.on_error == "stop")
        segments = list(_usable(splits[split].read(log), log))
        if split in choice.training:
            segments = _for_training(segments, tested, pair, choice, log)
        else:
            tested.add(segments, split)
        if not segments:
            raise SimulstError(f"{log.listing}: no segment can be used ({_summary(log)}); fix the corpus.")
        segments.sort(key=lambda segment: segment.name)
        _count(segments, log)
        _write(out / pair / split, pair, segments, log)
        counts[split] = log.counts
    return {split: counts[split] for split in splits}


def _for_training(segments: Iterable[Segment], tested: _Tested, pair: str, choice: Choice, log: Log) -> list[Segment]:
    """The segments that are kept of a training split, with normalised texts. tested: recordings of other splits."""
    segments = _of_length(_untested(segments, tested, log), choice, log)
    return _of_ratio(list(_normalised(segments, pair, choice, log)), pair, choice, log)


def _count(segments: Sequence[Segment], log: Log) -> None:
    log.counts.update(kept=len(segments), talks=len({segment.recording for segment in segments}))
    log.counts["minutes"] = round(sum(segment.end - segment.start for segment in segments) / 60)


def span(start: object, duration: object) -> tuple[float, float] | str:
    """Start and end in seconds, from numbers or their text; or a phrase that says what is wrong with them."""
    try:
        first, seconds = float(start), float(duration)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return "start or duration is no number"
    if not (first >= 0 and seconds > 0 and first + seconds < math.inf):
        return f"a segment at {first:g} s of {seconds:g} s cannot be right"
    if seconds <= 0.0005:  # segment names count in milliseconds
        return f"a segment of {seconds:g} s is too short to hold sound"
    return first, first + seconds


# ---- choosing ----


def _usable(segments: Iterable[Segment], log: Log) -> Iterator[Segment]:
    """Segments inside a readable file, without duplicates. Infinite ends are set, and ends after the file clipped."""
    # Recording → its file as it is listed and as it is there, and its seconds or what is wrong with it.
    files: dict[str, tuple[Path, Path, float | str]] = {}
    seen: dict[str, int] = {}  # name → line
    for segment in segments:
        if segment.recording not in files:
            audio = file_of(segment.audio)
            files[segment.recording] = segment.audio, audio, _seconds(audio)
        named, audio, seconds = files[segment.recording]
        if named != segment.audio:
            both = " and ".join(apart(segment.audio, named))
            raise SimulstError(
                f"{log.listing}, line {segment.line}: {both} would both be named '{segment.recording}'; rename one."
            )
        segment = replace(segment, audio=audio)
        if isinstance(seconds, str):
            log.fault("bad audio" if isfile(audio) else "no audio", segment.line, seconds)
        elif seconds + OVERSHOOT < segment.end < math.inf or _ms(segment.start) >= _ms(min(segment.end, seconds)):
            what = f"ends at {segment.end:.2f} s, {audio.name}"
            if segment.end == math.inf:  # audio of half a millisecond, or nothing after the segment's start
                what = f"begins at {segment.start:.2f} s, {audio.name} ends"
            log.fault("past end", segment.line, f"the segment {what} at {seconds:.2f} s")
        elif segment.name in seen:
            log.fault("duplicate", segment.line, f"the same segment as in line {seen[segment.name]}")
        else:
            seen[segment.name] = segment.line
            log.counts["clipped"] += seconds < segment.end < math.inf
            yield replace(segment, end=seconds) if segment.end > seconds else segment


def _ms(seconds: float) -> int:
    """As the segments file has it, in which a segment of less than half a millisecond may have no length."""
    return round(1000 * seconds)


def _seconds(audio: Path) -> float | str:
    """The file's duration in seconds, or what is wrong with it: missing, unreadable, truncated."""
    if not isfile(audio):  # unlike Path.is_file, returns False for a name that no file can have
        return f"{audio} is missing"
    try:
        return whole_seconds(audio)
    except SimulstError as error:
        return str(error).removesuffix(".")


class _Tested:
    """The recordings of splits that are not for training, by their names and by what their files hold.

    A link, another spelling of a path or a copy has another name, but holds the same. The same recording in another
    encoding is not found.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # recording → split
        self._files: dict[tuple[int, str], str] = {}  # size and digest → split
        self._sizes: set[int] = set()

    def add(self, segments: Iterable[Segment], split: str) -> None:
        """Take in the recordings of a split."""
        for recording, audio in {segment.recording: segment.audio for segment in segments}.items():
            size = audio.stat().st_size
            self._names[recording] = self._files[size, _digest(audio)] = split
            self._sizes.add(size)

    def split_with(self, recording: str, audio: Path) -> str | None:
        """The split that has this recording; None: there is none. Only files of a known size are read."""
        if recording in self._names:
            return self._names[recording]
        size = audio.stat().st_size
        return self._files.get((size, _digest(audio))) if size in self._sizes else None


def _digest(path: Path) -> str:
    """A digest of what a file holds."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _untested(segments: Iterable[Segment], tested: _Tested, log: Log) -> Iterator[Segment]:
    splits: dict[str, str | None] = {}  # recording → the split that has it
    for segment in segments:
        recording = segment.recording
        if recording not in splits:
            splits[recording] = tested.split_with(recording, segment.audio)
        if split := splits[recording]:
            log.fault("in a test", segment.line, f"the talk '{recording}' is also in {split}")
        else:
            yield segment


def _of_length(segments: Iterable[Segment], choice: Choice, log: Log) -> Iterator[Segment]:
    for segment in segments:
        seconds = segment.end - segment.start
        if choice.seconds[0] <= seconds <= choice.seconds[1]:
            yield segment
        else:
            log.filter("too short" if seconds < choice.seconds[0] else "too long", segment.line, f"{seconds:.2f} s")


def _normalised(segments: Iterable[Segment], pair: str, choice: Choice, log: Log) -> Iterator[Segment]:
    """The segments with normalised texts; segments without words are dropped."""
    source, _, target = pair.partition("-")
    for segment in segments:
        texts = (
            normalise(segment.source, source, choice.punctuation),
            normalise(segment.target, target, choice.punctuation),
        )
        if all(map(has_words, texts)):
            yield replace(segment, source=texts[0], target=texts[1])
        else:
            log.filter("non-speech", segment.line, f"{segment.source} | {segment.target}")


def _of_ratio(segments: Sequence[Segment], pair: str, choice: Choice, log: Log) -> list[Segment]:
    """The segments whose length ratio is within `Choice.max_ratio`."""
    languages = pair.partition("-")[::2]
    lengths = [tuple(map(length, (segment.source, segment.target), languages)) for segment in segments]
    middle = median(t / s for s, t in lengths) if lengths else 1.0
    kept = []
    for segment, (s, t) in zip(segments, lengths, strict=True):
        ratio = (t / middle + SLACK) / (s + SLACK)
        if 1 / choice.max_ratio <= ratio <= choice.max_ratio:
            kept.append(segment)
        else:
            log.filter("ratio", segment.line, f"lengths {s} to {t}, the median is 1 to {middle:.2f}")
    return kept


# ---- writing ----


def _write(place: Path, pair: str, segments: Sequence[Segment], log: Log) -> None:
    """Write a data directory and dropped.log, whole or not at all. The segments are sorted by name."""
    part = place.with_name(place.name + ".part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name, rows in _tables(pair, segments).items():
            write_table(part / name, rows)
        (part / DROPPED).write_text("".join(f"{line}\n" for line in log.lines), encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        part.replace(place)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise SimulstError(f"{place}: cannot be written ({error.strerror}); make room there.") from error


def _tables(pair: str, segments: Sequence[Segment]) -> dict[str, Iterable[tuple[str, str]]]:
    """File name → its rows, sorted by key."""
    source, _, target = pair.partition("-")
    speakers: dict[str, list[str]] = defaultdict(list)
    for segment in segments:
        speakers[segment.speaker].append(segment.name)
    recordings = {segment.recording: segment.audio for segment in segments}
    return {
        "wav.scp": ((name, abspath(audio)) for name, audio in sorted(recordings.items())),
        "segments": ((s.name, f"{s.recording} {s.start:.3f} {s.end:.3f}") for s in segments),
        "utt2spk": ((s.name, s.speaker) for s in segments),
        "spk2utt": ((speaker, " ".join(names)) for speaker, names in sorted(speakers.items())),
        f"text.tc.{target}": ((s.name, s.target) for s in segments),
        f"text.tc.{source}": ((s.name, s.source) for s in segments),
        f"text.lc.rm.{source}": ((s.name, lower_without_punctuation(s.source)) for s in segments),
    }


def _summary(log: Log) -> str:
    counts = ", ".join(f"{reason}: {log.counts[reason]}" for reason in (*FAULTS, *FILTERS) if log.counts[reason])
    return "; the first: ".join([counts, *log.lines[:1]]) or "none found"


def report(out: Path, pair: str, counts: Mapping[str, Counter[str]]) -> str:
    """The table of counts, and the paths of the logs of dropped segments."""
    logs = [out / pair / split / DROPPED for split, n in counts.items() if any(n[c] for c in (*FAULTS, *FILTERS))]
    return "\n".join([count_table(counts), *(f"dropped segments and reasons: {path}" for path in logs)])


def count_table(counts: Mapping[str, Counter[str]]) -> str:
    """The counts as text: one line per split, without columns for reasons that never occurred."""
    rare = (*FAULTS, *FILTERS, "clipped")
    columns = [c for c in COLUMNS if c not in rare or any(count[c] for count in counts.values())]
    rows = [["split", *columns]] + [[split, *(str(count[c]) for c in columns)] for split, count in counts.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
