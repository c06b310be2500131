"""Export for SimulEval: the same samples, one line per utterance."""

from __future__ import annotations

import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from simulst.audio.read import load_audio
from simulst.data.datadir import Utterance
from simulst.data.simuleval_files import export_for_simuleval


@pytest.fixture
def utterances(tmp_path: Path) -> list[Utterance]:
    noise = np.random.default_rng(0).uniform(-0.9, 0.9, (8000, 2))
    soundfile.write(tmp_path / "a.wav", noise, 8000)
    soundfile.write(tmp_path / "b.flac", noise[:, 0], 44100)
    return [
        Utterance("one", tmp_path / "a.wav", "eins  zwei"),
        Utterance("part", tmp_path / "a.wav", "", 0.25, 0.75),
        Utterance("späť.b", tmp_path / "b.flac", "drei\nvier\r\nfünf \u2028"),
    ]


def test_export(tmp_path: Path, utterances: list[Utterance], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = Path("deep/out")
    export_for_simuleval(utterances, out)
    assert (out / "target.txt").read_text(encoding="utf-8") == "eins  zwei\n\ndrei vier fünf \u2028\n"
    paths = (out / "source.txt").read_text(encoding="utf-8").splitlines()
    assert paths == [str(tmp_path / "deep/out/wav" / f"{u.name}.wav") for u in utterances]
    for path, utterance in zip(paths, utterances, strict=True):
        found, rate = soundfile.read(path, dtype="float32")  # as SimulEval reads it
        assert rate == 16000
        np.testing.assert_array_equal(found, load_audio(utterance.wav, utterance.start, utterance.end))
    assert not list(out.rglob("*.part"))


def test_16_bit_audio_at_16_khz_stays_as_it_is(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).integers(-32768, 32768, 4000).astype(np.int16)
    samples[:2] = -32768, 32767
    soundfile.write(tmp_path / "a.wav", samples, 16000)
    export_for_simuleval([Utterance("one", tmp_path / "a.wav", "")], tmp_path / "out")
    with wave.open(str(tmp_path / "out/wav/one.wav")) as file:  # if Python's own module opens it, other tools do
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        np.testing.assert_array_equal(np.frombuffer(file.readframes(4000), np.int16), samples)


def test_again(tmp_path: Path, utterances: list[Utterance]) -> None:
    """What a kill has left, and another part of the audio."""
    out = tmp_path / "out"
    export_for_simuleval(utterances, out)
    one, part, _ = (out / "wav" / f"{u.name}.wav" for u in utterances)
    whole = part.read_bytes()
    part.write_bytes(whole[: len(whole) // 2])
    export_for_simuleval([replace(utterances[0], end=0.5, reference="x"), utterances[1]], out)
    assert (load_audio(one).size, load_audio(part).size) == (8000, 8000)
    assert (out / "target.txt").read_text() == "x\n\n"
