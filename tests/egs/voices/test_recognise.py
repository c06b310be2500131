from __future__ import annotations

import json
import sys
from pathlib import Path

import librosa
import numpy as np
import pytest
from games import speech

import recognise as module
from recognise import FFT, MELS, Recogniser, log_mel, recognise
from simulst.errors import SimulstError

sys.path.insert(0, str(Path(__file__).parents[2] / "models"))
import tiny_whisper

CLIPS = {f"c{n}": speech(0.5 + n / 10, n) for n in range(20)}


class Fake:
    """Says how long the clips are, and fails where it is told to."""

    calls = 0
    fail_at = 99

    def __init__(self, folder: Path, language: str) -> None:
        self.language = language

    def texts(self, clips: list[np.ndarray]) -> list[str]:
        Fake.calls += 1
        if Fake.calls == Fake.fail_at:
            raise KeyboardInterrupt
        return [f"{self.language} {round(clip.size / 16000, 1)}" for clip in clips]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Recogniser", Fake)
    Fake.calls, Fake.fail_at = 0, 99


@pytest.mark.usefixtures("fake")
def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    cache = tmp_path / "heard" / "en.jsonl"
    Fake.fail_at = 2
    with pytest.raises(KeyboardInterrupt):
        recognise(CLIPS, "en", tmp_path, cache)
    assert len(cache.read_text().splitlines()) == module.BATCH
    cache.write_text(cache.read_text() + '{"name": "c19", "dig')  # half a line
    heard = recognise(CLIPS, "en", tmp_path, cache)
    assert heard == {f"c{n}": f"en {0.5 + n / 10:.1f}" for n in range(20)}
    assert Fake.calls == 2 + 2
    assert recognise(CLIPS, "en", tmp_path, cache) == heard and Fake.calls == 4


@pytest.mark.usefixtures("fake")
def test_other_audio_is_recognised_again(tmp_path: Path) -> None:
    cache = tmp_path / "en.jsonl"
    recognise(CLIPS, "en", tmp_path, cache)
    heard = recognise({**CLIPS, "c3": speech(5, 1)}, "en", tmp_path, cache)
    assert heard["c3"] == "en 5.0" and Fake.calls == 4
    assert recognise(CLIPS, "en", tmp_path, cache)["c3"] == "en 0.8"


@pytest.mark.usefixtures("fake")
def test_lines_of_something_else_are_passed_over(tmp_path: Path) -> None:
    cache = tmp_path / "en.jsonl"
    cache.write_text('not JSON\n[1]\n{"name": "c0"}\n' + json.dumps({"name": "c0", "digest": "x", "text": "y"}) + "\n")
    assert recognise({"c0": CLIPS["c0"]}, "en", tmp_path, cache) == {"c0": "en 0.5"}


def test_features_are_those_of_librosa() -> None:
    samples = np.random.default_rng(0).normal(0, 0.1, 16000).astype(np.float32)
    filters = librosa.filters.mel(sr=16000, n_fft=FFT, n_mels=MELS).astype(np.float32)
    padded = np.concatenate([samples, np.zeros(16000, np.float32)])
    mel = librosa.feature.melspectrogram(
        y=padded, sr=16000, n_fft=FFT, hop_length=160, n_mels=MELS, pad_mode="reflect", power=2.0
    )[:, :200]
    log = np.log10(np.maximum(mel, 1e-10))
    wanted = (np.maximum(log, log.max() - 8) + 4) / 4
    found = log_mel(samples, 200, filters)
    assert found.shape == (MELS, 200) and found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-3)


def test_a_real_model(tmp_path: Path) -> None:
    """Random weights: only the shapes and the batch are tested."""
    model = Recogniser(tiny_whisper.write(tmp_path / "tiny", eos=6), "es", threads=1)
    clips = [np.random.default_rng(n).normal(0, 0.1, 16000 * n).astype(np.float32) for n in (1, 2, 13)]
    texts = model.texts(clips[:2])
    assert len(texts) == 2 and all(isinstance(text, str) for text in texts)
    assert model.texts(clips[2:])[0] == model.texts(clips[2:])[0]


def test_no_model(tmp_path: Path) -> None:
    with pytest.raises(SimulstError, match=r"the model cannot be loaded .*; delete it and run again"):
        Recogniser(tmp_path, "en")
