"""Tables of Kaldi's form, a key and its value on each line, and CTM files: the times of words, as NIST has them."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from simulst.errors import SimulstError
from simulst.files.folder import write_atomically
from simulst.files.text import lines_of


def write_table(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Write one table. Raises SimulstError: a name or text that can't stand in it; the file can't be written."""
    lines = [f"{key} {value}" for key, value in rows]
    for line in lines:
        if re.search("[\n\ud800-\udfff]", line):
            raise SimulstError(f"{path}: a name or text has a line break or is no UTF-8, {line!a}; rename the file.")
    write_atomically(path, "".join(f"{line}\n" for line in lines))


def read_table(path: str | Path, allow_empty: bool = False) -> dict[str, str]:
    """Read a file of `key value` lines.

    allow_empty: accept keys without a value.

    Returns: key → value.
    Raises SimulstError: the file is missing or not UTF-8; a key is repeated; a key has no value.
    """
    path = Path(path)
    table: dict[str, str] = {}
    for number, line in enumerate(lines_of(path, "a data directory needs it; prepare the data again"), start=1):
        if not line.strip():
            continue
        key, value = (*re.split(r"[ \t]+", line.strip(), maxsplit=1), "")[:2]
        key = unicodedata.normalize("NFC", key)
        if key in table:
            raise SimulstError(f"{path}, line {number}: '{key}' stands there twice; remove one of the lines.")
        if not value and not allow_empty:
            raise SimulstError(f"{path}, line {number}: '{key}' has no value; complete the line.")
        table[key] = value
    return table


class Timed(NamedTuple):
    """A word of an utterance or recording. begin, end: seconds."""

    name: str
    begin: float
    end: float
    word: str


def read_ctm(path: Path) -> Iterator[Timed]:
    """The words of a file. Lines that begin with ;; are comments.

    Raises SimulstError: the file is missing; a line has no times.
    """
    for number, line in enumerate(lines_of(path), start=1):
        if not line.strip() or line.startswith(";;"):
            continue
        try:
            name, _, begin, seconds, word = line.split()[:5]
            found = Timed(name, float(begin), float(begin) + float(seconds), word)
            if not 0 <= found.end < math.inf:
                raise ValueError
        except ValueError:
            raise SimulstError(
                f"{path}, line {number}: no times; CTM has another form: '{line[:60]}' is not '<utterance> <channel> "
                "<first second> <seconds> <word>'."
            ) from None
        yield found
