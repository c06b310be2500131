"""Export for SimulEval: the same samples, one line per utterance, nothing done twice."""

from __future__ import annotations

import wave
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


def test_again_writes_only_what_is_missing_or_different(tmp_path: Path, utterances: list[Utterance]) -> None:
    out = tmp_path / "out"
    export_for_simuleval(utterances, out)
    one, part, last = (out / "wav" / f"{u.name}.wav" for u in utterances)
    before = one.stat()
    whole, samples = last.read_bytes(), soundfile.read(last)[0]
    part.unlink()
    last.write_bytes(whole[: len(whole) // 2])
    export_for_simuleval(utterances, out)
    assert (one.stat().st_mtime_ns, one.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert part.is_file()
    np.testing.assert_array_equal(
        soundfile.read(last)[0], samples
    )  # a WAV of floats also holds the second of its writing
    soundfile.write(one, soundfile.read(one)[0], 16000, subtype="PCM_16")  # as earlier versions wrote it
    export_for_simuleval(utterances, out)
    assert soundfile.info(one).subtype == "FLOAT"
    changed = [Utterance("one", tmp_path / "a.wav", "x", 0.0, 0.5)]
    export_for_simuleval(changed, out)
    assert load_audio(one).size == 8000
    assert (out / "target.txt").read_text() == "x\n"
