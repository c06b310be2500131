from __future__ import annotations

from pathlib import Path

import pytest
from games import drascula_texts, speech

from drascula import LANGUAGES, read_lines, read_texts, speech_files

ENTRIES = {
    "": [
        {},
        {"en": "WHY?", "es": "¿POR QUE?", "de": "WARUM?", "fr": "À QUOI ÇA?", "it": "PERCHÉ?", "ru": "Зачем?"},
    ],
    "VB": [{"en": "  HELLO", "es": "HOLA", "de": "ICHºBINºDA", "ru": "Привет, ёж"}],
}


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    found = {language: tmp_path / language for language in ("en", "es")}
    for n, folder in enumerate(found.values()):
        folder.mkdir()
        for m, name in enumerate(("1.ALS", "vb0.als", "F3.ALS", "NOTA.ALG")):
            (folder / name).write_bytes(speech(1 + n, m))
    (found["es"] / "B2.ALS").symlink_to("../en/1.ALS")
    (found["en"] / "drascula.dat").write_bytes(drascula_texts(ENTRIES))
    return found


def test_texts(folders: dict[str, Path]) -> None:
    tables = read_texts(folders["en"] / "drascula.dat")
    assert tables[""][1] == ENTRIES[""][1] and tables["VB"][0]["ru"] == "Привет, ёж"
    assert tables[""][0] == dict.fromkeys(LANGUAGES, "") and tables["D1"] == []


def test_links_are_no_speech(folders: dict[str, Path]) -> None:
    assert set(speech_files(folders["es"])) == {("", 1), ("VB", 0), ("F", 3)}
    assert speech_files(folders["es"] / "none") == {}


def test_lines(folders: dict[str, Path]) -> None:
    lines = {line.name: line for line in read_lines(folders["en"] / "drascula.dat", folders)}
    assert list(lines) == ["drascula-main-0001", "drascula-f-0003", "drascula-vb-0000"]
    line = lines["drascula-main-0001"]
    assert line.speaker == "drascula-main" and line.texts["it"] == "PERCHÉ?"
    assert line.speech == {"en": speech(1, 0), "es": speech(2, 0)}
    assert (lines["drascula-vb-0000"].texts["en"], lines["drascula-vb-0000"].texts["de"]) == ("HELLO", "ICH BIN DA")
    assert lines["drascula-f-0003"].texts == {}  # no table has this name


def test_speech_of_one_language(folders: dict[str, Path]) -> None:
    (folders["es"] / "1.ALS").unlink()
    lines = list(read_lines(folders["en"] / "drascula.dat", folders))
    assert list(lines[-2].speech) == ["en", "es"] and [set(line.speech) for line in lines].count({"en"}) == 1
