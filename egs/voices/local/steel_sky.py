"""The lines of Beneath a Steel Sky, the edition with speech (0.0372): speech in English, texts in seven languages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from lines import Line, clean
from name_code import sky_code
from sky_archive import SkyArchive
from sky_speakers import UNKNOWN, read_names, read_speakers
from sky_text import sections

GAME = "sky"
LANGUAGES = ("en", "de", "fr", "sv", "it", "pt", "es")
SPOKEN = ("en",)
FIRST_SPEECH, LAST_SPEECH = 50000, 60000
FIRST_OF_SECTION = (0, 600, 1100, 2430, 3380, 4530, 5080, 5230)  # numbers of speech, from FIRST_SPEECH


def place_of(number: int) -> tuple[int, int]:
    """Section and number of the text that a file of speech belongs to."""
    line = number - FIRST_SPEECH
    section = bisect_right(FIRST_OF_SECTION, line) - 1
    return section, line - FIRST_OF_SECTION[section]


def read_texts(archive: SkyArchive) -> dict[str, dict[tuple[int, int], str]]:
    """Language → section and number → text as the game has it. Raises SimulstError: damaged, or in another code."""
    code = sky_code()
    return {
        language: {
            (section, number): "".join(
                code.decode(bits, f"{archive.data_file}, {language}, section {section}, message {number}").symbols
            )
            for section, messages in sections(archive, language)
            for number, bits in enumerate(messages)
        }
        for language in LANGUAGES
    }


def read_lines(folder: Path) -> Iterator[Line]:
    """All lines with speech, those without text (the introduction) too. folder: of the game's files.

    Raises SimulstError: a file that is missing or damaged.
    """
    archive = SkyArchive(folder)
    speakers = read_speakers(archive, read_names(folder / "sky.cpt"))
    texts = read_texts(archive)
    for number in archive.numbers(FIRST_SPEECH, LAST_SPEECH):
        if not archive.is_packed(number):
            continue  # sounds of a few bytes
        section, line = place = place_of(number)
        yield Line(
            name=f"{GAME}-{section}-{line:04}",
            game=GAME,
            section=str(section),
            number=line,
            speaker=f"{GAME}-{speakers.get(place, UNKNOWN)}",
            texts={language: clean(of[place]) for language, of in texts.items() if place in of},
            speech={"en": archive.unpacked(number)},
        )
