from __future__ import annotations

from pathlib import Path

import pytest
from games import HEADER, pack, say, script_file, speech, write_sky

from simulst.errors import SimulstError
from steel_sky import LANGUAGES, place_of, read_lines

LINES = [
    {"en": "Hello, Joey.", "de": "Hallo, Joey.", "fr": "Bonjour, Joey."},
    {"en": "`WHERE' am I?", "es": "¿DÓNDE  estoy?", "sv": "VAR är jag?"},
]


def test_lines_with_speech_texts_and_speakers(tmp_path: Path) -> None:
    scripts = {60400: HEADER + pack(script_file([say(2, 4, 0)]))}
    write_sky(tmp_path, LINES, scripts)
    first, second, introduction = read_lines(tmp_path)
    assert (first.name, first.section, first.number, first.speaker) == ("sky-0-0000", "0", 0, "sky-joey")
    assert set(first.texts) == set(LANGUAGES) and first.texts["fr"] == "Bonjour, Joey."
    assert first.speech == {"en": speech(1, 0)} and first.seconds("en") == 1
    assert second.speaker == "sky-unknown"
    assert second.texts["en"] == "'WHERE' am I?" and second.texts["es"] == "¿DÓNDE estoy?"
    assert introduction.texts == {} and introduction.section == "7"


def test_numbers_of_speech() -> None:
    places = {50000: (0, 0), 50599: (0, 599), 50600: (1, 0), 51100: (2, 0), 55229: (6, 149), 55230: (7, 0)}
    assert {number: place_of(number) for number in places} == places


def test_texts_in_another_code(tmp_path: Path) -> None:
    write_sky(tmp_path, LINES)
    data = tmp_path / "sky.dsk"
    content = bytearray(data.read_bytes())
    # The texts of the first language lie after the last speech; their bits begin after two tables.
    at = content.index(b"\1\2\3") + 3
    at += -at % 16 + 8
    content[at + 2 : at + 12] = b"\xff" * 10
    data.write_bytes(content)
    with pytest.raises(SimulstError, match=r"sky\.dsk, (en, section 0, message|file 60600)"):
        list(read_lines(tmp_path))
