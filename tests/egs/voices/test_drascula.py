from __future__ import annotations

from pathlib import Path

import pytest
from games import drascula_texts, speech

from drascula import LANGUAGES, TEXTS_AT, read_lines, read_texts, speech_files
from simulst.errors import SimulstError

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
    assert lines["drascula-vb-0000"].texts["en"] == "HELLO"
    assert lines["drascula-vb-0000"].texts["de"] == "ICH BIN DA"
    assert lines["drascula-f-0003"].texts == {}  # no table has this name


def test_speech_of_one_language(folders: dict[str, Path]) -> None:
    (folders["es"] / "1.ALS").unlink()
    lines = list(read_lines(folders["en"] / "drascula.dat", folders))
    assert list(lines[-2].speech) == ["en", "es"] and [set(line.speech) for line in lines].count({"en"}) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"DRACULA2" + data[8:], "does not begin with DRASCULA"),
        (lambda data: data[:100], "cut off at byte 100"),
        (lambda data: data[:-1], "cut off at byte"),
        (lambda data: data[:TEXTS_AT] + b"\0\5" + data[TEXTS_AT + 2 :], "has 5 languages at byte 7251, not 6"),
        (lambda data: data[: TEXTS_AT + 8] + b"\x7f\xff" + data[TEXTS_AT + 10 :], "entry 0 in en points outside"),
        (lambda data: data[: TEXTS_AT + 8] + b"\0\0" + data[TEXTS_AT + 10 :], "entry 0 in en points outside"),
        (lambda data: data.replace("ёж".encode("cp1251"), b"\x98\x98"), "entry 0 in ru has a byte that is no letter"),
    ],
)
def test_damage_ends_in_a_sentence(folders: dict[str, Path], change: object, message: str) -> None:
    path = folders["en"] / "drascula.dat"
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(SimulstError, match=rf"drascula\.dat: .*{message}") as raised:
        read_texts(path)
    assert "\n" not in str(raised.value)


def test_missing_files(folders: dict[str, Path]) -> None:
    with pytest.raises(SimulstError, match="cannot be read"):
        read_texts(folders["es"] / "drascula.dat")
    with pytest.raises(SimulstError, match=r"none: holds no speech"):
        list(read_lines(folders["en"] / "drascula.dat", {"en": folders["en"] / "none"}))
