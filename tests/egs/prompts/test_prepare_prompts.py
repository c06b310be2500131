"""Stage 1 of egs/prompts, on tiny packages made here: no network, no apt."""

from __future__ import annotations

import gzip
import io
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from contents import contents
from debs import deb
from hypothesis import given
from hypothesis import strategies as st

import debian
from prepare_prompts import clean, prepare_prompts, read_transcript, select, split_of, word_count
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError

SAID = {
    "en": "Please say number {} and then press the pound key.",
    "es": "Por favor diga el número {} y presione gato.",
}
TEXTS = {
    language: "; comment\nbeep: [a beep]\n" + "".join(f"p{i}: {said.format(i)}\n" for i in range(12))
    for language, said in SAID.items()
}


def speech(seconds: float = 3.0, level: float = 0.1) -> bytes:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).normal(0, level, round(seconds * 8000))
    soundfile.write(buffer, noise.clip(-1, 1), 8000, format="WAV")
    return buffer.getvalue()


def put_packages(downloads: Path) -> Path:
    downloads.mkdir()
    for language, text in TEXTS.items():
        name = f"asterisk-core-sounds-{language}"
        transcript = {f"usr/share/doc/{name}/core-sounds-{language}.txt.gz": gzip.compress(text.encode())}
        deb(downloads / f"{name}_1-1_all.deb", transcript)
    wavs = {f"p{i}": speech() for i in range(12)} | {"beep": speech(0.2)}
    files = {f"usr/share/asterisk/sounds/es_MX_f_X/{name}.wav": data for name, data in wavs.items()}
    deb(downloads / "asterisk-core-sounds-es-wav_1-1_all.deb", files)
    return downloads


@pytest.fixture
def no_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "_apt", lambda arguments, folder: "E: no network")


@pytest.fixture(params=["dpkg", "python"])
def unpacker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    elif not shutil.which("dpkg"):
        pytest.skip("no dpkg")
    return request.param


@pytest.mark.usefixtures("no_apt", "unpacker")
def test_whole_stage(tmp_path: Path) -> None:
    downloads, out = put_packages(tmp_path / "downloads"), tmp_path / "recipe" / "data"
    counts = prepare_prompts(downloads, out, ("es",))["es"]
    assert counts["found"] == 13
    assert counts["non-speech"] == 1
    assert counts["kept"] == counts["dev"] + counts["tst"] == 12
    assert counts["dev seconds"] == 3 * counts["dev"]
    first = contents(out)
    assert not list(out.rglob("*.part"))
    (tmp_path / "recipe").rename(tmp_path / "moved")
    for language, said in SAID.items():
        places = [tmp_path / "moved/data/es-en" / split for split in ("dev", "tst")]
        utterances = [u for place in places for u in read_data_dir(place, language)]
        assert {u.name: u.reference for u in utterances} == {f"es-p{i}": said.format(i) for i in range(12)}
        assert all(u.wav.is_file() for u in utterances)
    (out / "es-en/talks-long").mkdir(parents=True)  # stage 11 writes it there
    prepare_prompts(downloads, out, ("es",))
    (out / "es-en/talks-long").rmdir()
    assert contents(out) == first


@pytest.mark.usefixtures("no_apt")
def test_killed_midway(tmp_path: Path) -> None:
    downloads, out = put_packages(tmp_path / "downloads"), tmp_path / "out"
    prepare_prompts(downloads, out, ("es",))
    whole = contents(out)
    shutil.rmtree(out)
    (out / "unpacked" / "asterisk-core-sounds-es-wav.part" / "junk").mkdir(parents=True)
    (out / "unpacked" / "asterisk-core-sounds-en" / "no stamp yet").mkdir(parents=True)
    (out / "es-en" / "dev.part").mkdir(parents=True)
    (out / "es-en" / "dev.part" / "text.en").write_text("half")
    prepare_prompts(downloads, out, ("es",))
    assert contents(out) == whole


@pytest.mark.usefixtures("no_apt", "unpacker")
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"<html>"])
def test_broken_package(tmp_path: Path, damage: object) -> None:
    downloads = put_packages(tmp_path / "downloads")
    package = downloads / "asterisk-core-sounds-es-wav_1-1_all.deb"
    package.write_bytes(damage(package.read_bytes()))  # type: ignore[operator]
    with pytest.raises(SimulstError, match=r"es-wav_1-1_all\.deb: cannot be unpacked .*delete it"):
        prepare_prompts(downloads, tmp_path / "out", ("es",))
    assert not (tmp_path / "out" / "es-en").exists()


def test_zstd_without_dpkg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    deb(tmp_path / "a.deb", {"x": b"x"})
    data = (tmp_path / "a.deb").read_bytes().replace(b"data.tar.xz ", b"data.tar.zst")
    (tmp_path / "a.deb").write_bytes(data)
    with pytest.raises(SimulstError, match="install dpkg"):
        debian.unpack(tmp_path / "a.deb", tmp_path / "out")


def test_only_missing_packages_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads = put_packages(tmp_path / "downloads")
    package = downloads / "asterisk-core-sounds-es_1-1_all.deb"
    data = package.read_bytes()
    package.unlink()
    calls = []

    def apt(arguments: list[str], folder: Path) -> str:
        calls.append(arguments)
        if len(calls) == 1:
            return "E: Unable to locate package"
        if arguments[0] == "download":
            (folder / package.name).write_bytes(data)
        return ""

    monkeypatch.setattr(debian, "_apt", apt)
    monkeypatch.setattr(debian.os, "geteuid", lambda: 0)
    prepare_prompts(downloads, tmp_path / "out", ("es",))
    prepare_prompts(downloads, tmp_path / "out", ("es",))
    download = ["download", "asterisk-core-sounds-es"]
    assert calls == [download, ["update"], download]
    assert not (downloads / "apt.part").exists()


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Added.", "Added."),
        ("[ascending tones]", ""),
        ("[ tono de error ]", ""),
        ("(beep)", ""),
        ("<beep ascending>", ""),
        ("...", ""),
        ("dot [.]", "dot"),
        ("... letters of  your name.", "letters of your name."),
        ("...to mute, or unmute yourself. Again.", "to mute, or unmute yourself. Again."),
        ("… чтобы вас", "чтобы вас"),
        ("will be exactly...", "will be exactly"),
        ("погромче слышать....", "погромче слышать"),
        ("one ... two", "one... two"),
        ("press the key. (simple tone sound plays)", "press the key."),
        ("il tasto. (produrre un beep, ma non in questo file).", "il tasto."),
        ("Spiacente, [quello] non è valido.", "Spiacente, non è valido."),
        ("menu poli (ne m'appelez plus, jamais), 4.", "menu poli, ne m'appelez plus, jamais, 4."),
        ("“Pour quitter, appuyez sur 8.”", "Pour quitter, appuyez sur 8."),
        ('les autres participants..."', "les autres participants"),
        ("клавишу «решётка».", 'клавишу "решётка".'),
        ("c’è “dial” e ”hangup”", "c'è \"dial\" e \"hangup\""),
        ("press * or #", "press * or #"),
    ],
)  # fmt: skip
def test_clean(text: str, spoken: str) -> None:
    assert clean(text) == spoken


@given(st.text(st.sampled_from("ab1 .?!…“”\"'()[]<>\t\n")))
def test_clean_gives_one_line(text: str) -> None:
    spoken = clean(text)
    assert spoken == " ".join(spoken.split())
    assert not spoken or word_count(spoken)


def test_word_count() -> None:
    assert word_count("press * to - toggle 1, ok") == 5


def test_read_transcript(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    text = (
        "\ufeff; comment\n\nb/c-d:  one: two \nb/c-d: later\nempty:\n"
        "m-n: A. m-o: B.m-p: C\nx-y: x-y: D\nu: see www.a-b.org: E\n"
    )
    path.write_text(text, encoding="utf-8")
    assert read_transcript(path) == {
        "b/c-d": "one: two", "empty": "", "m-n": "A.", "m-o": "B.", "m-p": "C", "x-y": "D", "u": "see www.a-b.org: E",
    }  # fmt: skip


@pytest.mark.parametrize("data", [b"no name here\n", "a: é".encode("latin-1")])
def test_bad_transcript(tmp_path: Path, data: bytes) -> None:
    for name, content in (("t.txt", data), ("t.txt.gz", gzip.compress(data)), ("u.txt.gz", data)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SimulstError, match=name):
            read_transcript(tmp_path / name)


def test_select_counts_every_decision(tmp_path: Path) -> None:
    eight = "one two three four five six seven eight"
    english = {
        "a": eight, "b": eight.upper() + ".", "c": eight, "gone": eight, "few": "one * two three four five six seven",
        "quiet": eight, "tone": "[tone]", "text": eight, "long": eight, "fast": eight, "sub/d": eight,
    }  # fmt: skip
    transcript = {name: f"uno dos tres {name}" for name in english} | {
        "b": "Uno dos, tres A", "tone": "[tono]", "text": "", "alone": "uno dos", "fast": "uno dos tres cuatro" * 3,
    }  # fmt: skip
    seconds = {"quiet": 3.0, "long": 9.0}
    for name in [*transcript, "extra"]:
        if name != "gone":
            path = tmp_path / f"{name}.wav"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(speech(seconds.get(name, 3.0), 1e-4 if name == "quiet" else 0.1))
    kept, counts = select(transcript, english, tmp_path, min_words=8)
    assert [p.name for p in kept] == ["a", "c", "sub/d"]
    assert {name: n for name, n in counts.items() if n} == {
        "found": 13, "no recording": 1, "no transcript": 2, "no English": 1, "non-speech": 2, "short": 1,
        "duplicate": 1, "implausible": 2, "kept": 3,
    }  # fmt: skip


def test_broken_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(speech()[:1000])
    with pytest.raises(SimulstError, match=r"a\.wav"):
        select({"a": "uno"}, {"a": "one two"}, tmp_path, min_words=1)


def test_split_is_fixed() -> None:
    assert [split_of(name) for name in ("vm-intro", "invalid", "agent-alreadyon")] == ["tst", "tst", "dev"]
    share = sum(split_of(str(i)) == "dev" for i in range(4000)) / 4000
    assert 0.22 < share < 0.28
