"""Names of recordings."""

import os
import unicodedata
from pathlib import Path

import pytest

from simulst.audio.name import apart, file_of, recording_name, recordings_in
from simulst.errors import SimulstError


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/data/talk.wav", "talk"),
        ("talk.MP3", "talk"),
        ("talk", "talk"),
        ("a.b/talk.m4a", "talk"),
        ("2022.acl-long.268", "2022.acl-long.268"),
        ("x/2022.acl-long.268.wav", "2022.acl-long.268"),
        ("talk.v2", "talk.v2"),
        ("talk.de.flac", "talk.de"),
        (".wav", ".wav"),
        ("", ""),
    ],
)
def test_only_suffixes_of_audio_are_cut(source: str, name: str) -> None:
    assert recording_name(source) == recording_name(Path(source)) == name


NFC, NFD = (unicodedata.normalize(form, "né_1.wav") for form in ("NFC", "NFD"))


def test_names_in_two_normal_forms_are_one() -> None:
    assert recording_name(f"/x/{NFD}") == recording_name(NFC) == "né_1"
    assert recording_name(os.fsdecode(b"caf\xe9.wav")) == "caf\ufffd"  # it can be written and shown


@pytest.mark.parametrize(("there", "asked"), [(NFC, NFD), (NFD, NFC), (NFD, NFD)])
def test_the_file_that_is_there_is_found(tmp_path: Path, there: str, asked: str) -> None:
    for folder in ("", "é", unicodedata.normalize("NFD", "ö/è")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / there).touch()
        wanted = tmp_path / unicodedata.normalize("NFC", folder) / asked
        assert file_of(wanted).is_file()
        assert file_of(wanted).samefile(tmp_path / folder / there)
    assert file_of(tmp_path / "ü.wav") == tmp_path / "ü.wav" and file_of(tmp_path / "nö" / NFC) == tmp_path / "nö" / NFC
    (tmp_path / asked).touch()  # the very name comes first
    assert file_of(tmp_path / asked) == tmp_path / asked


def test_names_that_look_alike_are_told_apart() -> None:
    assert apart("a.wav", "b.wav") == ("a.wav", "b.wav")
    for first, second in (
        (NFC, NFD),
        ("a\u00a0", "a"),
        ("A.wav", "a.wav"),
        ("a", "a\r"),
        ("ａ", "a"),
        ("é\u200b", "é"),
    ):
        shown = apart(first, second)
        assert shown[0] != shown[1] and all(name.isascii() for name in shown)


def test_recordings_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SimulstError, match="has no recordings, such as"):
        recordings_in(tmp_path)
    for name in ("b.MP3", "a.wav", "c.txt", "film.mp4", ".d.wav"):
        (tmp_path / name).touch()
    (tmp_path / "e.wav").mkdir()
    assert [path.name for path in recordings_in(tmp_path)] == ["a.wav", "b.MP3", "film.mp4"]
    with pytest.raises(SimulstError, match="no such folder"):
        recordings_in(tmp_path / "nowhere")
