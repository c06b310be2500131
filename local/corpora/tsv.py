"""Read a corpus of tables and audio files. (`corpus` filters the segments and writes data directories.)

A table is UTF-8 text with one line per utterance and tabs between the fields. The first line names the columns. Nothing
is quoted or escaped, as in Common Voice and CoVoST. The columns are chosen by name. The audio files may have any format
that `load_audio` reads.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from tqdm import tqdm

from corpora.corpus import Choice, Log, Segment, Split, prepare, span
from corpora.text import has_words, one_line
from simulst.errors import SimulstError

LONGEST_NAME = 48
logger = logging.getLogger(__name__)
_QUOTED = re.compile(r'"(?:[^"]|"")*""(?:[^"]|"")*"')  # a field in marks with doubled marks in it
_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}$")


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns.

    audio: path of the audio file.
    source: transcript.
    target: translation.
    speaker: name of the speaker; None: each utterance has its own speaker.
    start: where the utterance begins in its file, in seconds; None: an utterance is a whole file.
    end: where the utterance ends, in seconds; with `start`, give this or `duration`.
    duration: length of the utterance, in seconds.
    split: name of the split that a row belongs to; None: all rows belong to one split.
    """

    audio: str = "path"
    source: str = "sentence"
    target: str = "translation"
    speaker: str | None = None
    start: str | None = None
    end: str | None = None
    duration: str | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        ends = [name for name in (self.end, self.duration) if name is not None]
        if len(ends) != (self.start is not None):
            raise SimulstError(
                "--start-column: goes with one of --end-column and --duration-column; give both options or none."
            )


def prepare_tsv(
    files: Mapping[str, Path],
    out: Path,
    pair: str,
    columns: Columns,
    folder: Path | None = None,
    choice: Choice | None = None,
) -> dict[str, Counter[str]]:
    """Write a data directory for each split.

    files: split → its table.
    pair: such as "de-en".
    folder: folder of the audio files; None: the table's folder.

    Returns: split → count for each of `corpus.COLUMNS`.
    Raises SimulstError: a file, folder or column is missing; a table is not UTF-8; what `prepare` raises.
    """
    for path in files.values():
        if not path.is_file():
            have = ", ".join(sorted(other.name for other in path.parent.glob("*.tsv"))) or "no .tsv files"
            raise SimulstError(f"{path}: no such file; {path.parent} has {have}.")
    if folder and not folder.is_dir():
        raise SimulstError(
            f"{folder}: no such folder; --audio is where the audio files are that the column '{columns.audio}' names."
        )
    splits = {
        split: Split(path, partial(read_tsv, columns, folder or path.parent, split)) for split, path in files.items()
    }
    return prepare(pair, splits, out, choice or Choice())


def read_tsv(columns: Columns, folder: Path, split: str, log: Log) -> Iterator[Segment]:
    """The utterances of one split in the table `log.listing`; faults go to the log.

    Raises SimulstError: a column is missing or appears twice; the table is not UTF-8.
    """
    rows = _rows(log.listing)
    _, header = next(rows, (1, []))
    places = _places(columns, header, log.listing)
    quoted = 0
    for line, row in tqdm(rows, split, disable=None):
        if columns.split and len(row) == len(header) and row[places["split"]] != split:
            continue
        log.counts["found"] += 1
        if len(row) != len(header):
            log.fault("bad segment", line, f"{len(row)} fields, but the header has {len(header)}")
            continue
        quoted += any(_QUOTED.fullmatch(row[place]) is not None for place in places.values())
        values = {name: one_line(row[place]) for name, place in places.items()}
        segment = _segment(folder, line, values, row[places["audio"]].strip())
        wordless = [name for name in ("source", "target") if not has_words(values[name])]
        if isinstance(segment, str):
            log.fault("bad segment", line, segment)
        elif wordless:
            log.fault("empty", line, f"there are no words in '{getattr(columns, wordless[0])}'")
        else:
            yield segment
    if quoted:
        logger.warning(
            '%s: %d rows have a field that looks quoted as by a writer of CSV ("so ""it"" looks"); the marks stay in '
            "the texts. If they don't belong there, write the table without quotes (csv.QUOTE_NONE).",
            log.listing,
            quoted,
        )


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each line. Only a line feed ends a line. Empty lines are skipped."""
    with path.open("rb") as file:
        for number, data in enumerate(file, start=1):
            try:
                line = data.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise SimulstError(f"{path}, line {number}: not UTF-8; convert the file.") from error
            if line:
                yield number, line.split("\t")


def _places(columns: Columns, header: list[str], path: Path) -> dict[str, int]:
    """Attribute of `Columns` → index of its field in a row."""
    places = {}
    for field in fields(columns):
        name = getattr(columns, field.name)
        if name is None:
            continue
        if header.count(name) != 1:
            have = ", ".join(header[:12]) or "none"
            problem = f"{'no' if name not in header else 'more than one'} column '{name}'; the first line names {have}"
            remedy = "separate the columns by tabs" if len(header) == 1 else "fix it"
            raise SimulstError(f"{path}: {problem}; {remedy}, or choose another with --{field.name}-column.")
        places[field.name] = header.index(name)
    return places


def _segment(folder: Path, line: int, values: Mapping[str, str], file: str) -> Segment | str:
    """A segment, or what is wrong with the row. file: the name of the audio file as the table has it."""
    path = values["audio"]
    if not path:
        return "no audio file is named"
    recording = name = _name(_SUFFIX.sub("", path))
    start, end = 0.0, math.inf
    if "start" in values:
        times = span(values["start"], values.get("duration") or _difference(values["start"], values["end"]))
        if isinstance(times, str):
            return times
        start, end = times
        name += f"-{round(1000 * start):07}-{round(1000 * end):07}"
    speaker = _name(values["speaker"]) if values.get("speaker") else name
    if speaker != name:
        name = f"{speaker}-{name}"
    return Segment(line, name, speaker, recording, folder / file, start, end, values["source"], values["target"])


def _difference(start: str, end: str) -> str:
    """The seconds from start to end; "" if one of them is not a number."""
    try:
        return str(float(end) - float(start))
    except ValueError:
        return ""


def _name(text: str) -> str:
    """A name of letters, digits, points and underscores; different texts have different names.

    It has no hyphen. Names that are joined by hyphens then sort by their first parts, as Kaldi's tools need it.
    """
    if re.fullmatch(rf"[\w.]{{1,{LONGEST_NAME}}}", text):
        return text
    kept = re.sub(r"[^\w.]+", "_", text)[-24:].strip("_.")
    return f"{kept}.{hashlib.sha256(text.encode()).hexdigest()[:10]}"
