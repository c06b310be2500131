"""What is known of a recording before it begins: text, such as an abstract, and terms.

A table, UTF-8, with tabs between the columns `recording`, `text` and `terms` (one of the two may be missing):

    recording   text                                terms
    talk1       Speech translation by attention.    attention; beam search

`recording` is the name of an utterance, or that of its audio file without its ending. Terms are written in the target
language, with `;` between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from simulst.errors import SimulstError

if TYPE_CHECKING:
    from simulst.data.datadir import Utterance

COLUMNS = ("recording", "text", "terms")


@dataclass(frozen=True)
class Background:
    """What is known of one recording.

    text: the model is shown it.
    terms: the model is shown them, too, and searches give them a bonus.
    """

    text: str = ""
    terms: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        """All of it as one text."""
        return " ".join(part for part in (self.text, ", ".join(self.terms)) if part)


NOTHING = Background()


def read_backgrounds(path: str | Path) -> dict[str, Background]:
    """Recording → what is known of it. Raises SimulstError: no such table, or a broken line."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise SimulstError(f"{path}: no such file; write it, or leave --context out.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SimulstError(f"{path}: cannot be read ({error}); give a table in UTF-8.") from error
    names = lines[0].split("\t") if lines else []
    if "recording" not in names or not set(names) <= set(COLUMNS) or len(names) != len(set(names)) or len(names) < 2:
        raise SimulstError(
            f"{path}: the first line must name the columns recording, text and terms, with tabs between."
        )
    found: dict[str, Background] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        values = line.split("\t")
        if len(values) != len(names):
            raise SimulstError(f"{path}, line {number}: {len(values)} columns, not {len(names)}; complete the line.")
        row = dict(zip(names, map(str.strip, values), strict=True))
        if row["recording"] in found:
            raise SimulstError(f"{path}, line {number}: '{row['recording']}' stands there twice; remove one of them.")
        terms = tuple(term.strip() for term in row.get("terms", "").split(";") if term.strip())
        found[row["recording"]] = Background(row.get("text", ""), terms)
    return found


def with_backgrounds(utterances: Sequence[Utterance], path: str | Path) -> list[Utterance]:
    """The utterances with what a table says of them. Raises SimulstError: it names none of them; a broken table."""
    known = read_backgrounds(path)
    told = []
    for utterance in utterances:
        own = known.get(utterance.name) or known.get(utterance.wav.stem)
        told.append(replace(utterance, background=own or NOTHING))
    if told and not any(utterance.background != NOTHING for utterance in told):
        raise SimulstError(f"{path}: names none of the utterances, such as '{told[0].name}'; check its first column.")
    return told
