"""CTM files: the times of words, as NIST's scoring tools have them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from simulst.errors import SimulstError
from simulst.files.text import lines_of


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
