"""Pitch features say what was spoken at which pitch, and do not depend on how the audio is cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.audio.pitch import (
    DIP,
    LONGEST,
    OVERLAP,
    PAST,
    PITCH_DIMS,
    SHORTEST,
    WINDOW,
    LogMelPitch,
    _period,
    pitch_features,
)
from simulst.errors import SimulstError

HOP = 160
LOG_MEL = LogMelPitch(torch.rand(257, 5, generator=torch.Generator().manual_seed(0)), 512, 400, HOP)


def voice(hz: np.ndarray) -> np.ndarray:
    """A voice of seven harmonics; hz: (n,) the pitch at each sample."""
    phase = 2 * np.pi * np.cumsum(hz) / 16000
    return sum(0.1 / k * np.sin(k * phase) for k in range(1, 8)).astype(np.float32)


def mixed(samples: int, seed: int) -> np.ndarray:
    """Voice, noise and silence in turn."""
    random = np.random.default_rng(seed)
    audio = voice(180 + 80 * np.sin(np.arange(samples) / 4000)) + random.normal(0, 0.01, samples).astype(np.float32)
    third = samples // 3
    audio[:third] = random.normal(0, 0.1, third)
    audio[third : third + third // 4] = 0
    return audio


@pytest.mark.parametrize(("low", "high"), [(80, 160), (150, 300), (350, 200)])
def test_a_glide(low: float, high: float) -> None:
    seconds = 2
    features = pitch_features(voice(np.geomspace(low, high, 16000 * seconds)), 0, 0, 100 * seconds, HOP)
    inner = features[10:-10]
    assert inner[:, 0].min() > 0.97
    rise = math.log(high / low) / (100 * seconds)
    assert inner[:, 2] == pytest.approx(rise, abs=0.01) and inner[:, 2].mean() == pytest.approx(rise, rel=0.05)
    assert inner[-1, 1] == pytest.approx(rise * PAST / 2, rel=0.1)  # above the mean of the last 1.5 s


def literal_yin(frame: np.ndarray) -> float:
    """Steps 2 to 5 of de Cheveigné and Kawahara 2002 for one frame, in loops: its period in samples."""
    lags = range(1, LONGEST + 2)
    difference = {lag: sum((frame[i] - frame[i + lag]) ** 2 for i in range(OVERLAP)) for lag in lags}  # equation 6
    normal, total = {}, 0.0
    for lag in lags:  # equation 8
        total += difference[lag]
        normal[lag] = difference[lag] * lag / total if total > 1e-10 else 1.0
    sought = range(SHORTEST, LONGEST + 1)
    dips = [lag for lag in sought if normal[lag] < DIP and normal[lag - 1] >= normal[lag] < normal[lag + 1]]
    best = dips[0] if dips else min(sought, key=lambda lag: normal[lag])
    left, middle, right = (normal[best + step] for step in (-1, 0, 1))
    if (bend := left - 2 * middle + right) <= 1e-10:
        return best
    return best + min(0.5, max(-0.5, (left - right) / (2 * bend)))


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(70, 380), st.sampled_from([0.0, 0.02, 0.2, 1.0]))
def test_the_period_is_that_of_yin(seed: int, hz: float, noise: float) -> None:
    random = np.random.default_rng(seed)
    times = np.arange(WINDOW) / 4000
    frame = sum(np.cos(2 * np.pi * k * hz * times + random.uniform(0, 6)) / k for k in range(1, 5))
    frame = frame + noise * random.normal(size=WINDOW)
    assert _period(frame[None])[0] == pytest.approx(literal_yin(frame), rel=1e-6)


def test_what_has_no_pitch() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 16000).astype(np.float32)
    assert pitch_features(noise, 0, 0, 100, HOP)[5:-5, 0].mean() < 0.3
    assert not pitch_features(np.zeros(16000, dtype=np.float32), 0, 0, 100, HOP).any()
    assert pitch_features(np.zeros(0, dtype=np.float32), 0, 0, 3, HOP).shape == (3, PITCH_DIMS)
    assert np.isfinite(pitch_features(np.full(9000, 0.5, dtype=np.float32), 0, 0, 50, HOP)).all()


@settings(max_examples=30)
@given(data=st.data(), samples=st.integers(600, 50000), seed=st.integers(0, 99))
def test_any_piece_has_the_features_of_the_whole(data: st.DataObject, samples: int, seed: int) -> None:
    """What follows the piece does not matter, nor does what lies before `keep_from`."""
    audio = mixed(samples, seed)
    whole = LOG_MEL.frames(audio, 0, 0, LOG_MEL.count(samples, final=True))
    assert whole.shape == (samples // HOP + 1, 5 + PITCH_DIMS)
    end = data.draw(st.integers(300, samples))
    last = LOG_MEL.count(end, final=False)
    first = data.draw(st.integers(0, last))
    start = data.draw(st.integers(0, LOG_MEL.keep_from(first)))
    piece = LOG_MEL.frames(audio[start:end], start, first, last)
    torch.testing.assert_close(piece, whole[first:last], atol=1e-5, rtol=0)


def test_a_hop_that_does_not_fit() -> None:
    with pytest.raises(SimulstError, match="hop_length 150 does not fit pitch features; give a multiple of 4"):
        LogMelPitch(torch.rand(257, 5), 512, 400, 150)
