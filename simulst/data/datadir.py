"""Kaldi-style data directories, as ESPnet reads them.

wav.scp        <recording> <audio file>
segments       <utterance> <recording> <start s> <end s>      (optional: without it, a recording is one utterance;
                                                              an end of -1 is the end of the recording)
utt2spk        <utterance> <speaker>
text.<lang>    <utterance> <sentence>                         (recipes call it text.tc.<lang>)
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simulst.audio.name import file_of, recording_name
from simulst.audio.read import seconds_of
from simulst.background import NOTHING, Background, known_of, read_backgrounds
from simulst.errors import SimulstError
from simulst.files.table import read_table, write_table


@dataclass(frozen=True)
class Utterance:
    """One sentence of speech and its reference translation.

    start: seconds from the beginning of the file `wav`.
    end: seconds from the beginning of the file; None for "to the end of the file".
    background: what is known of the recording before it begins.
    """

    name: str
    wav: Path
    reference: str
    start: float = 0.0
    end: float | None = None
    background: Background = NOTHING

    @property
    def seconds(self) -> float:
        """Its duration, according to its segment or its file's header. Raises SimulstError: no such audio file."""
        return (seconds_of(self.wav) if self.end is None else self.end) - self.start


def read_data_dir(root: str | Path, language: str) -> list[Utterance]:
    """All utterances of a data directory, in the order of its segments or wav.scp.

    Relative paths in wav.scp are relative to the data directory.

    language: language of the references (see `text_file`).

    Raises SimulstError: a table is missing; an utterance is listed twice; the tables do not hold the same
        utterances, or none.
    """
    root = Path(root)
    if not root.is_dir():
        raise SimulstError(f"{root}: no such data directory; prepare the data first.")
    recordings = {name: _audio_path(root, value) for name, value in read_table(root / "wav.scp").items()}
    text_path = text_file(root, language)
    references = read_table(text_path, allow_empty=True)
    segments_path = root / "segments"
    spans: dict[str, tuple[str, float, float | None]]
    if segments_path.is_file():
        spans = {name: _segment(segments_path, name, value) for name, value in read_table(segments_path).items()}
    else:
        spans = {name: (name, 0.0, None) for name in recordings}
    source = segments_path if segments_path.is_file() else root / "wav.scp"
    if spans.keys() != references.keys():
        odd = sorted(spans.keys() ^ references.keys())
        raise SimulstError(
            f"{text_path}: {len(references)} lines against {len(spans)} in {source.name}, first odd one '{odd[0]}'; "
            "both files must hold the same utterances."
        )
    if not spans:
        raise SimulstError(f"{source}: there is no utterance in it; prepare the data again.")
    utterances = []
    for name, (recording, start, end) in spans.items():
        if recording not in recordings:
            raise SimulstError(f"{segments_path}: '{name}' names recording '{recording}', which wav.scp lacks; add it.")
        utterances.append(Utterance(name, recordings[recording], references[name], start, end))
    return utterances


def text_file(root: Path, language: str) -> Path:
    """The text file of a language: `text.<language>` or, if that is missing, `text.tc.<language>`.

    language: such as "de", or the rest of a file's name, such as "lc.rm.en".

    Raises SimulstError: there is neither file.
    """
    for path in (root / f"text.{language}", root / f"text.tc.{language}"):
        if path.is_file():
            return path
    have = sorted(path.name.removeprefix("text.") for path in root.glob("text.*"))
    raise SimulstError(f"{root}: no text in language '{language}'; it has {', '.join(have) or 'no text.* file'}.")


def with_backgrounds(utterances: Sequence[Utterance], path: str | Path) -> list[Utterance]:
    """The utterances with what a table says of them. Raises SimulstError: it names none of them; a broken table."""
    known = read_backgrounds(path)
    told = []
    for utterance in utterances:
        own = known_of(known, (utterance.name, recording_name(utterance.wav)))
        told.append(replace(utterance, background=own or NOTHING))
    if told and not any(utterance.background != NOTHING for utterance in told):
        raise SimulstError(f"{path}: names none of the utterances, such as '{told[0].name}'; check its first column.")
    return told


def by_hash(utterances: Iterable[Utterance]) -> list[Utterance]:
    """The utterances in the order of the SHA-256 of their names."""
    return sorted(utterances, key=lambda utterance: hashlib.sha256(utterance.name.encode()).digest())


def drawn(utterances: Sequence[Utterance], number: int) -> list[Utterance]:
    """`number` utterances, in their order: those whose names have the lowest SHA-256.

    So the same ones are drawn everywhere, and a larger part holds the smaller ones.
    """
    chosen = {utterance.name for utterance in by_hash(utterances)[:number]}
    return [utterance for utterance in utterances if utterance.name in chosen]


def write_data_dir(root: str | Path, tables: dict[str, dict[str, str]]) -> None:
    """Write the tables of a data directory, sorted by key as Kaldi's tools need them.

    tables: file name → key → value.
    """
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    for file_name, table in tables.items():
        write_table(root / file_name, sorted(table.items()))


def check_has(path: Path, table: Mapping[str, str], names: Iterable[str]) -> None:
    """Raise SimulstError unless the table that was read from `path` has all these keys."""
    for name in names:
        if name not in table:
            raise SimulstError(f"{path}: has no line for '{name}'; prepare the data again.")


def _audio_path(root: Path, value: str) -> Path:
    if value.endswith("|"):
        raise SimulstError(f"{root / 'wav.scp'}: pipes ('{value}') are not run; write the audio to files first.")
    return file_of(Path(value) if Path(value).is_absolute() else root / value)


def _segment(path: Path, name: str, value: str) -> tuple[str, float, float | None]:
    """The recording, start and end of a segment. As in Kaldi, an end of -1 is the end of the recording: None."""
    parts = value.split()
    try:
        recording, start, end = unicodedata.normalize("NFC", parts[0]), float(parts[1]), float(parts[2])
    except (IndexError, ValueError):
        raise SimulstError(f"{path}: '{name} {value}' is not '<recording> <start> <end>'; fix the line.") from None
    if end == -1 and 0 <= start < math.inf:
        return recording, start, None
    if not 0 <= start < end < math.inf:
        raise SimulstError(f"{path}: '{name}' runs from {start:g} to {end:g} s; a segment needs 0 <= start < end.")
    return recording, start, end
