"""A folder of IWSLT's simultaneous track: its layouts, films, order, and what is known of the recordings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import sounds
import yaml

from make_small import make_small, write_film
from prepare_iwslt import Layout, prepare_iwslt
from simulst.audio.read import HEARD, digest_of_beginning, load_audio
from simulst.background import ALL, Background, read_known
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError
from simulst.files.table import read_table
from simulst.handin.check import digest_of_audio
from simulst.measure.segmentation import read_segmentation

RATE = 16000
SECONDS = {"zoo": 3, "art": 2, "bee": 2}
TEXTS = {"en": "a zoo\nwith cats\nart\nbees\nhum\n", "zh": "动物园\n有猫\n艺术\n蜜蜂\n嗡嗡\n"}


def speech(seed: int, seconds: int) -> np.ndarray:
    """Noise whose loudness rises and falls."""
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, seconds * RATE)
    return (noise * (0.6 + 0.4 * np.sin(np.arange(noise.size) / 700))).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three recordings whose order is not that of their names: a film, a stereo file at another rate, a plain WAV."""
    audio = {name: speech(seed, seconds) for seed, (name, seconds) in enumerate(SECONDS.items())}
    rows = [("zoo", 0.1, 1.2), ("zoo", 1.5, 1.4), ("art", 0.0, 0.9), ("bee", 0.2, 0.7), ("bee", 1.0, 0.9)]
    texts = {language: text.splitlines() for language, text in TEXTS.items()}
    folder = sounds.write_iwslt(tmp_path / "dev2026", audio, rows, texts)
    write_film(folder / "audio/zoo.mp4", load_audio(folder / "audio/zoo.wav"))
    (folder / "audio/zoo.wav").unlink()
    stereo = np.repeat(speech(1, 2)[:, None], 2, axis=1)
    soundfile.write(folder / "audio/art.wav", stereo, 2 * RATE, subtype="PCM_16")
    return folder


def test_a_folder_of_the_organisers(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "data"
    prepare_iwslt(folder, out)
    found = read_data_dir(out, "zh")
    assert [(u.name, u.reference) for u in found] == [("zoo", "动物园有猫"), ("art", "艺术"), ("bee", "蜜蜂嗡嗡")]
    assert [u.reference for u in read_data_dir(out, "en")] == ["a zoo with cats", "art", "bees hum"]
    assert [*read_table(out / "wav.scp")] == [*SECONDS]
    assert found[2].wav.resolve() == (folder / "audio/bee.wav").resolve()
    for language in TEXTS:
        talks = read_segmentation(out / "talks.yaml", out / f"talks.{language}")
        assert talks == read_segmentation(folder / "audio-segments.yaml", folder / f"{language}.txt")
    listed = (out / "wavs.txt").read_text().splitlines()
    for name, utterance in zip(listed, found, strict=True):
        info = soundfile.info(out / name)  # as simulstream wants it
        assert (info.format, info.subtype, info.channels, info.samplerate) == ("WAV", "PCM_16", 1, RATE)
        assert (out / name).resolve() == utterance.wav.resolve()
    assert not (out / "context.tsv").exists()


def test_recordings_are_those_that_a_hand_in_names(folder: Path, tmp_path: Path) -> None:
    """Films and other files, too: verify gets the organisers' recordings, and pack those of the data directory."""
    prepare_iwslt(folder, tmp_path / "data")
    for utterance in read_data_dir(tmp_path / "data", "en"):
        [given] = (folder / "audio").glob(f"{utterance.name}.*")
        assert digest_of_audio(utterance.wav) == digest_of_audio(given), given


def test_the_sound_of_a_film_is_in_its_place(folder: Path, tmp_path: Path) -> None:
    """Sentences lie where the YAML says: a film's sound is not shifted."""
    prepare_iwslt(folder, tmp_path / "data")
    said, heard = speech(0, SECONDS["zoo"]), load_audio(tmp_path / "data/wav/zoo.wav")
    spectrum = np.fft.rfft(heard, 1 << 17) * np.conj(np.fft.rfft(said, 1 << 17))
    shift = int(np.argmax(np.fft.irfft(spectrum)))
    assert min(shift, (1 << 17) - shift) <= RATE // 200
    assert abs(heard.size - said.size) < RATE // 5


def test_other_layouts(folder: Path, tmp_path: Path) -> None:
    """Recordings beside the texts; the texts named like the YAML; every file by name; JSON, which OmniSTEval reads.

    All give the same.
    """
    prepare_iwslt(folder, tmp_path / "data")
    beside = tmp_path / "beside"
    beside.mkdir()
    for path in (folder / "audio").iterdir():
        (beside / path.name).symlink_to(path)
    (beside / "devset.yaml").symlink_to(folder / "audio-segments.yaml")
    for language in TEXTS:
        (beside / f"devset.{language}").symlink_to(folder / f"{language}.txt")
    prepare_iwslt(beside, tmp_path / "data2")
    named = Layout(folder / "audio", folder / "audio-segments.yaml", {la: folder / f"{la}.txt" for la in TEXTS})
    prepare_iwslt(tmp_path, tmp_path / "data3", named)
    segments = tmp_path / "ref_segments.json"
    segments.write_text(json.dumps(yaml.safe_load((folder / "audio-segments.yaml").read_text()), indent=1))
    prepare_iwslt(tmp_path, tmp_path / "data4", replace(named, segmentation=segments))
    for name in ("talks.yaml", "talks.zh", "text.en"):
        assert len({(tmp_path / data / name).read_bytes() for data in ("data", "data2", "data3", "data4")}) == 1
    for text, told in (("{", "not valid JSON"), ("{}", "no list of segments"), ("[1]", "segment 1: another")):
        segments.write_text(text)
        with pytest.raises(SimulstError, match=told):
            read_segmentation(segments, folder / "en.txt" if text != "[1]" else segments)


def test_context_by_name_by_order_and_by_what_is_heard(folder: Path, tmp_path: Path) -> None:
    (folder / "known.tsv").write_text("recording\tterms\nbee\tBiene=bee\n*\tUni\nzoo\tZoo\n")
    prepare_iwslt(folder, tmp_path / "data", context=folder / "known.tsv")
    known = read_known(tmp_path / "data/context.tsv")
    terms = {"zoo": ("Zoo", "Zoo"), "art": ("Uni", "Uni"), "bee": ("Biene", "bee"), ALL: ("Uni", "Uni")}
    assert known.by_name == {name: Background(terms=(pair,)) for name, pair in terms.items()}
    assert [*known.by_name] == [*terms] and len(known.in_order) == 3
    for utterance in read_data_dir(tmp_path / "data", "en"):
        assert known.by_audio[digest_of_beginning(load_audio(utterance.wav))] == known.by_name[utterance.name]


def test_context_as_a_list_of_texts(folder: Path, tmp_path: Path) -> None:
    for number in range(3):
        (folder / f"paper{number}.text").write_text(f"Paper {number}\n\n\ton  speech.\n")
    (folder / "papers").write_text("paper2.text\npaper0.text\npaper1.text\n")
    prepare_iwslt(folder, tmp_path / "data", context=folder / "papers")
    known = read_known(tmp_path / "data/context.tsv")
    texts = {name: one.text for name, one in known.by_name.items()}
    assert texts == {"zoo": "Paper 2 on speech.", "art": "Paper 0 on speech.", "bee": "Paper 1 on speech."}


def test_recordings_that_begin_alike_are_told_apart_by_order_only(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audio = speech(5, 2)
    for name in ("art", "bee"):
        soundfile.write(folder / f"audio/{name}.wav", audio, RATE, subtype="PCM_16")
    (folder / "known.tsv").write_text("recording\tterms\n*\tUni\n")
    prepare_iwslt(folder, tmp_path / "data", context=folder / "known.tsv")
    assert "art, bee: begin with the same sound" in caplog.text
    assert len(read_known(tmp_path / "data/context.tsv").by_audio) == 1


def test_the_digest_of_a_beginning() -> None:
    """It needs so many samples after the first that sounds, and none before or after them."""
    audio = np.round(speech(3, 1) * 32768) / 32768
    silence = np.zeros(999, np.float32)
    digest = digest_of_beginning(audio)
    assert len(digest) == 16 and digest == digest_of_beginning(np.concatenate([silence, audio[:HEARD]]))
    assert digest != digest_of_beginning(audio[1:])
    for short in (audio[: HEARD - 1], silence, audio[:0]):
        assert digest_of_beginning(short) == ""


def test_what_is_written_is_whole_or_not_there(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "data"
    soundfile.write(folder / "audio/bee.wav", speech(2, 1), RATE, subtype="PCM_16")  # the last recording ends too soon
    with pytest.raises(SimulstError, match=r"bee\.wav: the sentence at 1 s ends at 1\.90 s, but"):
        prepare_iwslt(folder, out)
    assert not [path for path in tmp_path.iterdir() if "data" in path.name]
    soundfile.write(folder / "audio/bee.wav", speech(2, 2), RATE, subtype="PCM_16")
    prepare_iwslt(folder, out)
    before = (out / "made_of.json").read_bytes()
    (folder / "en.txt").write_text(TEXTS["en"].upper())
    with pytest.raises(SimulstError, match=r"data: was begun with sentences .* name another folder, or use --force"):
        prepare_iwslt(folder, out)
    assert (out / "made_of.json").read_bytes() == before
    prepare_iwslt(folder, out, force=True)
    assert (out / "talks.en").read_text() == TEXTS["en"].upper()


def test_a_full_disk(folder: Path, small_disk: Path) -> None:
    """A recording of 2 MiB does not fit."""
    soundfile.write(folder / "audio/art.wav", np.zeros((1 << 20, 2)), RATE, subtype="PCM_16")
    with pytest.raises(SimulstError, match=r"cannot be written .*; fix that and run the same command again"):
        prepare_iwslt(folder, small_disk / "data")
    assert not [*small_disk.iterdir()]


def test_the_small_folder_of_the_recipe(folder: Path, tmp_path: Path) -> None:
    """It is in the layout, has a film, and each sentence is where its YAML says."""
    audio = {f"u{n}": np.full(RATE, (n + 1) / 8) for n in range(4)}
    texts = {language: {f"u{n}": f"{language} {n}" for n in range(4)} for language in ("es", "en")}
    data = sounds.write(tmp_path / "prompts", audio, texts)
    assert make_small(data, tmp_path / "small", ("es", "en"), seconds=2) == 2
    assert sorted(path.name for path in (tmp_path / "small/audio").iterdir()) == ["es1.wav", "es2.mp4"]
    prepare_iwslt(tmp_path / "small", tmp_path / "talks")
    audio = {u.name: load_audio(u.wav) for u in read_data_dir(tmp_path / "talks", "es")}
    sentences = read_segmentation(tmp_path / "talks/talks.yaml", tmp_path / "talks/talks.en")
    assert [s.text for s in sentences] == [f"en {n}" for n in range(4)]
    for n, s in enumerate(sentences):
        middle = audio[s.recording][round((s.offset + 0.2) * RATE) : round((s.offset + 0.8) * RATE)]
        if s.recording == "es1":
            assert middle == pytest.approx((n + 1) / 8, abs=1e-3)
