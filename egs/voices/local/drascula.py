"""Drascula: The Vampire Strikes Back: texts in six languages, speech in English and Spanish.

Speech: a file `<prefix><n>.ALS` for each line, samples without a header. Texts: `drascula.dat`, big-endian, from byte
7251:

    u16 number of languages | tables: u16 number of entries | for each language: u16 size | block of that size
    block: u16 0 | entries: u16 size of the entry | text | zero bytes

The prefix names the table, and a character or a group of characters who speak with each other; n is the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lines import Line, clean
from simulst.errors import SimulstError

GAME = "drascula"
MAGIC = b"DRASCULA"
TEXTS_AT = 7251
LANGUAGES = ("en", "es", "de", "fr", "it", "ru")
ENCODINGS = {"ru": "cp1251"}  # the others: cp850
TABLES = ("", "D", "B", "BJ", "E", "I", "L", "P", "T", "VB", "sys", "his", "verbs", "misc", "D1")
SPOKEN = ("en", "es")
MAIN = "main"  # what lines without a prefix are called: mostly the hero's

_NO_BREAK = re.compile(r"(?<=\w)º(?=\w)")  # one text has it for each of its spaces
_SPEECH = re.compile(r"([A-Z]*)(\d+)\.ALS", re.IGNORECASE)


def read_texts(path: Path) -> dict[str, list[dict[str, str]]]:
    """Prefix → entries, each language → text.

    Raises SimulstError: a file that is missing, of something else or another version, or cut off.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); delete the package and run again.") from error
    if not data.startswith(MAGIC):
        raise SimulstError(f"{path}: does not begin with {MAGIC.decode()}; it is no text file of the game.")
    reader = _Reader(path, data, TEXTS_AT)
    if (languages := reader.u16()) != len(LANGUAGES):
        raise SimulstError(
            f"{path}: has {languages} languages at byte {TEXTS_AT}, not {len(LANGUAGES)}; it is of another version."
        )
    tables = {}
    for prefix in TABLES:
        entries = reader.u16()
        columns = {language: _texts(reader, entries, language) for language in LANGUAGES}
        tables[prefix] = [{language: columns[language][n] for language in LANGUAGES} for n in range(entries)]
    return tables


def speech_files(folder: Path) -> dict[tuple[str, int], Path]:
    """Prefix and number → file. Links, which stand for speech of the other language, are left out."""
    found = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (match := _SPEECH.fullmatch(path.name)) and not path.is_symlink():
            found[match[1].upper(), int(match[2])] = path
    return found


def read_lines(texts: Path, speech: Mapping[str, Path]) -> Iterator[Line]:
    """All lines that have speech in some language, those without text too. speech: language → folder.

    Raises SimulstError: what `read_texts` raises, a folder without speech, a file that can't be read.
    """
    tables = read_texts(texts)
    files = {language: speech_files(folder) for language, folder in speech.items()}
    for language, found in files.items():
        if not found:
            raise SimulstError(f"{speech[language]}: holds no speech (*.ALS); delete the package and run again.")
    for prefix, number in sorted({key for found in files.values() for key in found}):
        table = tables.get(prefix, [])
        entry = table[number] if number < len(table) else {}
        section = prefix.lower() or MAIN
        yield Line(
            name=f"{GAME}-{section}-{number:04}",
            game=GAME,
            section=section,
            number=number,
            speaker=f"{GAME}-{section}",
            texts={language: clean(_NO_BREAK.sub(" ", text)) for language, text in entry.items()},
            speech={la: _read(found[prefix, number]) for la, found in files.items() if (prefix, number) in found},
        )


class _Reader:
    """Numbers and blocks, one after the other."""

    def __init__(self, path: Path, data: bytes, at: int) -> None:
        self.path, self._data, self._at = path, data, at

    def u16(self) -> int:
        return int.from_bytes(self.block(2), "big")

    def block(self, size: int) -> bytes:
        """Raises SimulstError: the file ends before."""
        block = self._data[self._at : self._at + size]
        if len(block) < size:
            raise SimulstError(f"{self.path}: cut off at byte {len(self._data)}; delete the package and run again.")
        self._at += size
        return block


def _texts(reader: _Reader, entries: int, language: str) -> list[str]:
    block = reader.block(reader.u16())
    texts = []
    at = 2
    for entry in range(entries):
        size = int.from_bytes(block[at : at + 2], "big")
        if size < 2 or at + size > len(block):
            raise SimulstError(
                f"{reader.path}: entry {entry} in {language} points outside of its table; it is damaged or of another "
                "version."
            )
        try:
            texts.append(block[at + 2 : at + size].split(b"\0")[0].decode(ENCODINGS.get(language, "cp850")))
        except UnicodeDecodeError:
            raise SimulstError(
                f"{reader.path}: entry {entry} in {language} has a byte that is no letter; it is damaged or of another "
                "version."
            ) from None
        at += size
    return texts


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); delete the package and run again.") from error
