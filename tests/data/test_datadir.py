"""Data directories: reading returns what was written; bad tables end in a SimulstError that names the file."""

from __future__ import annotations

import os
import unicodedata
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.audio.read import load_audio, write_wav
from simulst.data.datadir import Utterance, drawn, read_data_dir, write_data_dir
from simulst.errors import SimulstError
from simulst.files.table import read_table, write_table


def make(root: Path, **tables: str) -> Path:
    """Write tables; `_` in a keyword stands for the dot of the file name."""
    for name, text in tables.items():
        (root / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return root


def test_round_trip(tmp_path: Path) -> None:
    write_data_dir(
        tmp_path / "d",
        {
            "wav.scp": {"b": "/abs/b.wav", "a": "../a b.wav"},
            "text.de": {"b": "zwei drei", "a": "eins"},
            "utt2spk": {"b": "s", "a": "s"},
        },
    )
    assert (tmp_path / "d" / "utt2spk").read_text() == "a s\nb s\n"
    assert read_data_dir(tmp_path / "d", "de") == [
        Utterance("a", tmp_path / "d" / "../a b.wav", "eins"),
        Utterance("b", Path("/abs/b.wav"), "zwei drei"),
    ]
    assert not list((tmp_path / "d").glob("*.part"))


def test_segments_and_one_to_the_end(tmp_path: Path) -> None:
    """As Kaldi writes it."""
    write_wav(tmp_path / "a.wav", np.zeros(32000, np.float32))
    make(tmp_path, wav_scp="r a.wav\n", segments="u1 r 0 1.5\nu2 r 1.5 -1\n", text_en="u1 one\nu2 two\n")
    first, last = read_data_dir(tmp_path, "en")
    assert first == Utterance("u1", tmp_path / "a.wav", "one", 0.0, 1.5)
    assert (last.start, last.end) == (1.5, None)
    assert load_audio(last.wav, last.start, last.end).size == 8000
    assert (first.seconds, last.seconds) == (1.5, 0.5)


def test_texts_as_recipes_name_them(tmp_path: Path) -> None:
    make(tmp_path, wav_scp="u a.wav\n", text_tc_en="u cased\n", text_lc_rm_en="u lower\n")
    assert read_data_dir(tmp_path, "en")[0].reference == read_data_dir(tmp_path, "tc.en")[0].reference == "cased"
    assert read_data_dir(tmp_path, "lc.rm.en")[0].reference == "lower"
    make(tmp_path, text_en="u plain\n")
    assert read_data_dir(tmp_path, "en")[0].reference == "plain"
    assert read_data_dir(tmp_path, "tc.en")[0].reference == "cased"
    with pytest.raises(SimulstError, match=r"no text in language 'de'; it has en, lc\.rm\.en, tc\.en"):
        read_data_dir(tmp_path, "de")


def test_empty_reference_is_allowed(tmp_path: Path) -> None:
    make(tmp_path, wav_scp="u a.wav\n", text_en="u\n")
    assert read_data_dir(tmp_path, "en")[0].reference == ""


@given(st.sets(st.integers(0, 99), min_size=1, max_size=20), st.integers(1, 20), st.integers(1, 20))
def test_a_larger_part_holds_a_smaller_one_in_the_same_order(names: set[int], few: int, many: int) -> None:
    utterances = [Utterance(f"u{name}", Path("a.wav"), "") for name in names]
    few, many = sorted((few, many))
    part, larger = drawn(utterances, few), drawn(utterances, many)
    assert len(part) == min(few, len(utterances)) and set(part) <= set(larger)
    assert larger == [utterance for utterance in utterances if utterance in larger]
    assert set(drawn(utterances[::-1], few)) == set(part)


def test_the_part_is_no_beginning() -> None:
    utterances = [Utterance(f"u{number}", Path("a.wav"), "") for number in range(20)]
    assert [utterance.name for utterance in drawn(utterances, 3)] == ["u3", "u10", "u16"]


def test_tabs_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_bytes("\ufeffu\tone two\r\nv three\r\n".encode())
    assert read_table(path) == {"u": "one two", "v": "three"}


def test_names_in_two_normal_forms_are_one(tmp_path: Path) -> None:
    """Those of utterances, recordings and files."""
    nfc, nfd = (unicodedata.normalize(form, "né") for form in ("NFC", "NFD"))
    write_wav(tmp_path / f"{nfd}.wav", np.zeros(16000, np.float32))
    root = make(tmp_path, wav_scp=f"{nfc} {nfc}.wav\n", segments=f"{nfd} {nfd} 0 1\n", text_en=f"{nfc} x\n")
    [utterance] = read_data_dir(root, "en")
    assert (utterance.name, utterance.seconds) == (nfc, 1) and utterance.wav.is_file()


def test_what_no_line_can_hold(tmp_path: Path) -> None:
    for text in ("a\nb", os.fsdecode(b"caf\xe9.wav")):
        with pytest.raises(SimulstError, match=r"wav\.scp: a name or text has a line break or is no UTF-8"):
            write_table(tmp_path / "wav.scp", [("u", text)])


key = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=8).map(partial(unicodedata.normalize, "NFC"))
# One line without spaces at its ends; it may hold any letters and unusual separators.
value = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n"), max_size=20).map(str.strip)


@settings(max_examples=100)
@given(table=st.dictionaries(key, value, max_size=5))
def test_any_table_is_read_back(tmp_path_factory: pytest.TempPathFactory, table: dict[str, str]) -> None:
    path = tmp_path_factory.mktemp("table") / "text.xx"
    write_table(path, table.items())
    assert read_table(path, allow_empty=True) == table
