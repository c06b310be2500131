"""MuST-C's layout, as data directories.

In:  ROOT/<pair>/data/<split>/txt/{<split>.yaml,<split>.<source>,<split>.<target>}, ROOT/<pair>/data/<split>/wav/*.wav
Out: OUT/<pair>/<split>/{wav.scp,segments,utt2spk,spk2utt,text.tc.<target>,text.tc.<source>,text.lc.rm.<source>}

Versions 1 to 3 differ in how the YAML is written, and in talks; both are read as YAML. Line n of the texts belongs to
segment n of the YAML. What can't be used is dropped and counted, with file and line in OUT/<pair>/<split>/dropped.log,
or stops the preparation. Never dropped, but always a stop: what would shift the texts against the segments.
"""

from __future__ import annotations

import math
import re
import shutil
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from simulst.data.audio import load_audio, seconds_of
from simulst.data.datadir import write_data_dir
from simulst.errors import SimulstError

SPLITS = ("train", "dev", "tst-COMMON", "tst-HE")
REASONS = ("no wav", "bad wav", "bad segment", "past end", "empty", "duplicate", "in a test", "too short", "too long")
COLUMNS = ("found", *REASONS, "clipped", "kept", "talks", "minutes")
OVERSHOOT = 0.1  # seconds that a segment may last longer than its file; it is clipped
SECONDS = (0.2, 30.0)  # of a training segment
FILTERED = ("train",)

_SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, where it was built


@dataclass(frozen=True)
class Entry:
    """A segment of the YAML, with its texts; start and end in seconds, `line` that of the YAML."""

    line: int
    speaker: str
    talk: str
    start: float
    end: float
    source: str
    target: str

    @property
    def name(self) -> str:
        """<speaker>_<talk>_<start ms>_<end ms>, numbers padded, so that speakers and utterances sort alike."""
        return f"{self.speaker}_{self.talk}_{round(1000 * self.start):07}_{round(1000 * self.end):07}"


@dataclass
class _Log:
    """Drops with a count, or stops at the first."""

    stop: bool
    counts: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)

    def drop(self, reason: str, place: str, what: str) -> None:
        if self.stop:
            raise SimulstError(f"{place}: {what}; mend it, or choose on_error 'drop'.")
        self.filter(reason, place, what)

    def filter(self, reason: str, place: str, what: str) -> None:
        self.counts[reason] += 1
        self.lines.append(f"{place}: {reason}: {what}")


def prepare_must_c(
    root: Path,
    out: Path,
    pair: str,
    splits: Sequence[str] = SPLITS,
    on_error: str = "drop",
    seconds: tuple[float, float] = SECONDS,
    filtered: Sequence[str] = FILTERED,
) -> dict[str, Counter[str]]:
    """Read `splits` of a pair such as "en-de" and write a data directory for each, whole or not at all.

    root: the folder that holds <pair>. on_error: "drop" or "stop".
    seconds: least and greatest length of a segment in the splits named in `filtered`.
    A talk of "train" that another one of `splits` has too is dropped from "train".
    Returns: split → count for each of COLUMNS.
    Raises SimulstError: pair, split or file missing, text that is not UTF-8, unreadable YAML, segments and lines that
        differ in number, nothing left; with on_error "stop" any fault at all.
    """
    if on_error not in ("drop", "stop"):
        raise SimulstError(f"--on-error: '{on_error}' is not offered; choose drop or stop.")
    folders = {split: find_split(root, pair, split) for split in splits}
    counts: dict[str, Counter[str]] = {}
    tested: dict[str, str] = {}  # talk → split
    for split in sorted(splits, key=lambda name: name == "train"):
        log = _Log(on_error == "stop")
        entries = read_split(folders[split], pair, split, log)
        if split == "train":
            entries = [e for e in entries if not _is_tested(e, tested, folders[split], split, log)]
        else:
            tested |= {entry.talk: split for entry in entries}
        if split in filtered:
            entries = [e for e in entries if _has_length(e, seconds, folders[split], split, log)]
        if not entries:
            raise SimulstError(f"{folders[split]}: no segment can be used ({_summary(log)}); mend the corpus.")
        log.counts.update(kept=len(entries), talks=len({e.talk for e in entries}))
        log.counts["minutes"] = round(sum(e.end - e.start for e in entries) / 60)
        _write(out / pair / split, folders[split] / "wav", pair, entries, log)
        counts[split] = log.counts
    return {split: counts[split] for split in splits}


def find_split(root: Path, pair: str, split: str) -> Path:
    """The folder of a split. Raises SimulstError, naming what there is, for a pair or a split that is not there."""
    data = root / pair / "data"
    if not data.is_dir():
        have = sorted(path.parent.name for path in root.glob("*-*/data"))
        raise SimulstError(f"{root}: no language pair '{pair}'; it has {', '.join(have) or 'none (<pair>/data/)'}.")
    if not (data / split).is_dir():
        have = sorted(path.name for path in data.iterdir() if path.is_dir())
        raise SimulstError(f"{data}: no split '{split}'; it has {', '.join(have) or 'none'}.")
    return data / split


# ---- reading ----


def read_split(folder: Path, pair: str, split: str, log: _Log) -> list[Entry]:
    """The usable entries of a split; faults go to the log. Raises SimulstError: what shifts texts against segments."""
    languages = pair.split("-")
    texts = [read_lines(folder / "txt" / f"{split}.{language}") for language in languages]
    path = folder / "txt" / f"{split}.yaml"
    segments, numbers = read_segments(path)
    for language, lines in zip(languages, texts, strict=True):
        if len(lines) != len(segments):
            raise SimulstError(
                f"{path}: {len(segments)} segments, but {len(lines)} lines in {split}.{language}, so line "
                f"{min(len(lines), len(segments)) + 1} has no partner; copy the files again."
            )
    log.counts["found"] = len(segments)
    lengths: dict[str, float | str] = {}  # talk → seconds, or what is wrong with its WAV
    seen: dict[str, int] = {}  # name → line
    entries = []
    rows = enumerate(zip(numbers, segments, *texts, strict=True), start=1)
    for row, (number, segment, source, target) in tqdm(rows, f"{pair} {split}", len(segments), disable=None):
        place = f"{path}, line {number}"
        entry = _entry(number, segment, source, target)
        if isinstance(entry, str):
            log.drop("bad segment", place, entry)
            continue
        wav = _wav_path(folder / "wav", segment)
        if entry.talk not in lengths:
            lengths[entry.talk] = _length(wav)
        length = lengths[entry.talk]
        words = {languages[0]: lower_without_punctuation(source), languages[1]: target}
        wordless = [language for language in languages if not words[language]]
        if isinstance(length, str):
            log.drop("bad wav" if wav.is_file() else "no wav", place, length)
        elif entry.end > length + OVERSHOOT or entry.start >= length:
            log.drop("past end", place, f"the segment ends at {entry.end:.2f} s, {wav.name} at {length:.2f} s")
        elif wordless:
            log.drop("empty", f"{folder / 'txt' / split}.{wordless[0]}, line {row}", "there are no words")
        elif entry.name in seen:
            log.drop("duplicate", place, f"the segment of line {seen[entry.name]} again")
        else:
            seen[entry.name] = number
            log.counts["clipped"] += entry.end > length
            entries.append(replace(entry, end=min(entry.end, length)))
    return entries


def read_lines(path: Path) -> list[str]:
    """The lines of a text, without space around; Windows line ends and a byte order mark are accepted.

    Only line feeds end a line: MuST-C has other separators within its sentences.
    Raises SimulstError: no such file, or not UTF-8.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); copy the corpus again.") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SimulstError(f"{path}, line {line}: not UTF-8; convert the file.") from error
    return [" ".join(line.split()) for line in text.removesuffix("\n").split("\n")] if text else []


def read_segments(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """The segments of a YAML list, and the line of each. Raises SimulstError: no such file, or not such a list."""
    read_lines(path)  # its errors name the line
    text = path.read_text(encoding="utf-8-sig")
    try:
        segments = yaml.load(text, _SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise SimulstError(f"{path}{line}: not YAML ({getattr(error, 'problem', error)}); copy it again.") from error
    if segments is None:
        segments = []
    if not isinstance(segments, list):
        raise SimulstError(f"{path}: no list of segments; each line should be '- {{duration: ..., offset: ...}}'.")
    numbers = [number for number, line in enumerate(text.split("\n"), start=1) if line.startswith("-")]
    return segments, numbers if len(numbers) == len(segments) else list(range(1, len(segments) + 1))


def lower_without_punctuation(text: str) -> str:
    """Lower-cased words of letters, marks, digits and apostrophes, one space between: "It's twenty-one." →
    "it's twenty one"."""
    text = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    return " ".join(word for word in (part.strip("'") for part in _NOT_WORD.sub(" ", text).split()) if word)


_NOT_WORD = re.compile(r"[^\w']|_")


def _entry(line: int, segment: object, source: str, target: str) -> Entry | str:
    """An entry, or what is wrong with the segment."""
    if not isinstance(segment, dict):
        return "this is no segment"
    if missing := [key for key in ("offset", "duration", "wav") if segment.get(key) is None]:
        return f"'{missing[0]}' is missing"
    try:
        start, duration = float(segment["offset"]), float(segment["duration"])
    except (TypeError, ValueError):
        return "offset or duration is no number"
    if not (0 <= start < math.inf and 0 < duration < math.inf):
        return f"a segment at {start:g} s of {duration:g} s cannot be"
    if round(1000 * duration) < 1:
        return f"a segment of {duration:g} s has no sound"
    wav = str(segment["wav"])
    if Path(wav).name != wav:
        return f"'{wav}' is no plain file name"
    talk = wav.removesuffix(".wav")
    speaker = str(segment.get("speaker_id") or talk)
    return Entry(line, _padded(speaker), _padded(talk), start, start + duration, source, target)


def _padded(name: str) -> str:
    """ "spk.12" → "spk.00012": numbers sort, and no name is the beginning of another."""
    return re.sub(r"\d+", lambda digits: digits[0].zfill(5), re.sub(r"\s+", "-", name))


def _wav_path(folder: Path, segment: Mapping[str, Any]) -> Path:
    name = str(segment["wav"])
    return folder / (name if name.endswith(".wav") else f"{name}.wav")


def _length(wav: Path) -> float | str:
    """Seconds, or what is wrong with the file: missing, unreadable, truncated."""
    try:
        load_audio(wav, 0.0, min(0.01, seconds_of(wav)) or None)  # also compares the header with the file's size
        return seconds_of(wav)
    except SimulstError as error:
        return str(error) if wav.is_file() else f"{wav} is missing"


# ---- choosing ----


def _is_tested(entry: Entry, tested: Mapping[str, str], folder: Path, split: str, log: _Log) -> bool:
    if entry.talk in tested:
        place = f"{folder / 'txt' / split}.yaml, line {entry.line}"
        log.drop("in a test", place, f"the talk '{entry.talk}' is also in {tested[entry.talk]}")
    return entry.talk in tested


def _has_length(entry: Entry, seconds: tuple[float, float], folder: Path, split: str, log: _Log) -> bool:
    duration = entry.end - entry.start
    if seconds[0] <= duration <= seconds[1]:
        return True
    reason = "too short" if duration < seconds[0] else "too long"
    log.filter(reason, f"{folder / 'txt' / split}.yaml, line {entry.line}", f"{duration:.2f} s")
    return False


# ---- writing ----


def _write(place: Path, wavs: Path, pair: str, entries: Sequence[Entry], log: _Log) -> None:
    """Write beside the place, then move it there whole."""
    source, target = pair.split("-")
    speakers: dict[str, list[str]] = defaultdict(list)
    files = {_padded(path.stem): str(path.resolve()) for path in wavs.glob("*.wav")}
    for entry in entries:
        speakers[entry.speaker].append(entry.name)
    tables = {
        "wav.scp": {entry.talk: files[entry.talk] for entry in entries},
        "segments": {e.name: f"{e.talk} {e.start:.3f} {e.end:.3f}" for e in entries},
        "utt2spk": {e.name: e.speaker for e in entries},
        "spk2utt": {speaker: " ".join(sorted(names)) for speaker, names in speakers.items()},
        f"text.tc.{target}": {e.name: e.target for e in entries},
        f"text.tc.{source}": {e.name: e.source for e in entries},
        f"text.lc.rm.{source}": {e.name: lower_without_punctuation(e.source) for e in entries},
    }
    part = place.with_name(place.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    write_data_dir(part, tables)
    (part / "dropped.log").write_text("".join(f"{line}\n" for line in log.lines), encoding="utf-8")
    shutil.rmtree(place, ignore_errors=True)
    part.replace(place)


def _summary(log: _Log) -> str:
    return ", ".join(f"{reason}: {log.counts[reason]}" for reason in REASONS if log.counts[reason]) or "none found"


def table(counts: Mapping[str, Counter[str]]) -> str:
    """The counts as text: one line per split, without the reasons that never occurred."""
    columns = [c for c in COLUMNS if c not in (*REASONS, "clipped") or any(count[c] for count in counts.values())]
    rows = [["split", *columns]] + [[split, *(str(count[c]) for c in columns)] for split, count in counts.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
