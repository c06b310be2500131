"""What is known of a recording before it begins: text, such as an abstract, and terms.

A table, UTF-8, with tabs between the columns `recording`, `text`, `target_text` and `terms` (all but the first may be
missing, but not all of them):

    recording   text                            target_text                 terms
    talk1       Una charla sobre traducción.    A talk on translation.      haz=beam; CTC
    *                                                                       Madrid

`recording` is the name of an utterance, or that of its audio file without its ending; `*` is every recording without a
line of its own. `text` is in the source language, `target_text` in the target language. A term is `source=target`; one
without `=` is the same in both languages, and one of the two may be empty.

`egs/iwslt/local/prepare_iwslt.py` also writes a column `audio`: the digest of how the recording begins
(simulst.audio.read), for programs that are not told its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from simulst.audio.name import plain_name
from simulst.errors import SimulstError
from simulst.files.text import lines_of

COLUMNS = ("recording", "audio", "text", "target_text", "terms")
ALL = "*"  # the recording's name in the line of all others
MOST_CHARACTERS = 4000  # of terms, and of each text, that are told of a stream while it runs


@dataclass(frozen=True)
class Background:
    """What is known of one recording. A model is told what is in the language that it writes.

    text: in the source language.
    target_text: in the target language.
    terms: (in the source language, in the target language); "" where it is not known.
    prompted: whether Whisper's prompt has the terms, too. A list in it makes Whisper base leave out words
        (docs/experiments/2026-11-25-prompts.md), so it is asked for.
    """

    text: str = ""
    target_text: str = ""
    terms: tuple[tuple[str, str], ...] = ()
    prompted: bool = False

    @property
    def target_terms(self) -> tuple[str, ...]:
        """The terms in the target language, to which searches give a bonus."""
        return tuple(target for _, target in self.terms if target)

    @property
    def spoken(self) -> Background:
        """What is known in the source language, for a model that writes it."""
        terms = tuple((source, source) for source, _ in self.terms if source)
        return Background(self.text, self.text, terms, self.prompted)

    def between(self, source: str, target: str) -> Background:
        """What is known for these languages: if they are one, only that in the source language."""
        return self.spoken if source == target else self


NOTHING = Background()


@dataclass(frozen=True)
class Known:
    """What a table says.

    by_name: recording → what is known of it, in the order of the lines. by_audio: the same by the digest of the audio.
    """

    by_name: dict[str, Background]
    by_audio: dict[str, Background]

    @property
    def in_order(self) -> list[Background]:
        """What is known of each recording, without the line of all others."""
        return [known for name, known in self.by_name.items() if name != ALL]


def read_backgrounds(path: str | Path) -> dict[str, Background]:
    """Recording → what is known of it. Raises SimulstError: no such table, or a broken line."""
    return read_known(path).by_name


def read_known(path: str | Path) -> Known:
    """A table. Raises SimulstError: there is none, or a broken line."""
    path = Path(path)
    lines = [line.removesuffix("\r") for line in lines_of(path, "write it, or give no context")] or [""]
    names = lines[0].split("\t")
    says = set(names) - {"recording", "audio"}
    if "recording" not in names or not says or not says < set(COLUMNS) or len(names) != len(set(names)):
        raise SimulstError(
            f"{path}: the first line must name the column recording and at least one of text, target_text and terms, "
            f"with tabs between, but is {lines[0][:60]!r}."
        )
    found = Known({}, {})
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        values = line.split("\t")
        if len(values) != len(names):
            raise SimulstError(f"{where}: {len(values)} columns, not {len(names)}; complete the line.")
        row = dict(zip(names, map(str.strip, values), strict=True))
        row["recording"] = plain_name(row["recording"])
        audio = row.get("audio", "")
        if row["recording"] in found.by_name or audio in found.by_audio:
            twice = row["recording"] if row["recording"] in found.by_name else audio
            raise SimulstError(f"{where}: '{twice}' stands there twice; remove one of them.")
        terms = tuple(_term(term, where) for term in row.get("terms", "").split(";") if term.strip())
        background = Background(row.get("text", ""), row.get("target_text", ""), terms)
        found.by_name[row["recording"]] = background
        if audio:
            found.by_audio[audio] = background
    return found


def table_of_backgrounds(known: Mapping[str, Background], audio: Mapping[str, str]) -> str:
    """The text of a table, with its lines in this order. audio: recording → digest; it may lack some."""
    lines = ["\t".join(COLUMNS)]
    for name, one in known.items():
        terms = "; ".join(f"{source}={target}" for source, target in one.terms)
        lines.append("\t".join((name, audio.get(name, ""), one.text, one.target_text, terms)))
    return "".join(f"{line}\n" for line in lines)


def told(terms: str = "", text: str = "", target_text: str = "") -> Background:
    """What somebody says of a stream while it runs. terms: as in a table, or one a line.

    Raises SimulstError: they are too long; a broken term.
    """
    for name, value in (("terms", terms), ("text", text), ("target_text", target_text)):
        if len(value) > MOST_CHARACTERS:
            raise SimulstError(f"{name}: {len(value)} characters are too many; give at most {MOST_CHARACTERS}.")
    found = tuple(_term(term, "terms") for term in terms.replace("\n", ";").split(";") if term.strip())
    return Background(" ".join(text.split()), " ".join(target_text.split()), found, prompted=True)


def _term(term: str, where: str) -> tuple[str, str]:
    source, paired, target = map(str.strip, term.partition("="))
    if paired and not (source or target):
        raise SimulstError(f"{where}: '=' stands there without a term; write source=target.")
    return source, target if paired else source


def known_of(known: Mapping[str, Background], names: Iterable[str] = ()) -> Background | None:
    """What a table says of the recording with one of these names, or else of all recordings; None: nothing."""
    return next((known[name] for name in (*names, ALL) if name in known), None)


def known_of_all(path: str | Path) -> Background:
    """What a table says of all recordings, for programs that do not tell their names.

    Raises SimulstError: it does not say it; a broken table.
    """
    found = known_of(read_backgrounds(path))
    if found is None:
        raise SimulstError(
            f"{path}: has no line for the recording '{ALL}'; add it, as this program does not tell a recording's name."
        )
    return found
