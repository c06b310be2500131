"""What comes in the place of samples is told, and sound is never taken for it."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulst.serve.sent import looks_like


def wave(hz: float, noise: float, size: int) -> Any:
    random = np.random.default_rng(size).uniform(-1, 1, size)
    return (1 - noise) * np.sin(2 * np.pi * hz * np.arange(size) / 16000 + 0.1) + noise * random


@settings(max_examples=200, deadline=None)
@given(
    amplitude=st.floats(1e-3, 0.9),
    noise=st.floats(0.02, 1),  # without any, a tone may have four values in all
    offset=st.sampled_from([0.0]) | st.floats(-0.5, 0.5),
    hz=st.floats(1, 8000),
    size=st.integers(400, 4000),
)
@example(amplitude=0.9, noise=1.0, offset=0.0, hz=1.0, size=1600)
def test_sound_is_sound(amplitude: float, noise: float, offset: float, hz: float, size: int) -> None:
    """A tone with noise, and an offset that some microphones have. The same as floats of 32 bits is told."""
    samples = np.clip(amplitude * wave(hz, noise, size) + offset, -1, 1)
    integers = (32767 * samples).astype("<i2")
    assert not looks_like(integers.tobytes())
    for floats in (samples, integers / 32768):  # also of a file of 16 bits
        if np.count_nonzero(floats) > 200:
            assert looks_like(floats.astype("<f4").tobytes()) == "floats of 32 bits"


@settings(max_examples=60, deadline=None)
@given(amplitude=st.floats(0.1, 0.9), hz=st.floats(200, 1500), size=st.integers(3000, 4000))
def test_other_integers(amplitude: float, hz: float, size: int) -> None:
    samples = amplitude * wave(hz, 0.02, size)
    assert looks_like((2147483647 * samples).astype("<i4").tobytes()) == "integers of 32 bits"


@pytest.mark.parametrize(
    ("kind", "subtype", "name"),
    [
        ("FLAC", "PCM_16", "FLAC"),
        ("WAV", "PCM_16", "WAV"),
        ("OGG", "OPUS", "Ogg"),
        ("AIFF", "PCM_16", "AIFF"),
        ("AU", "PCM_16", "AU"),
        ("CAF", "PCM_16", "CAF"),
        ("NIST", "PCM_16", "SPHERE"),
        ("MP3", "MPEG_LAYER_III", ""),
    ],
)
def test_files(kind: str, subtype: str, name: str) -> None:
    """By how they begin; compressed ones also in the middle."""
    file = io.BytesIO()
    soundfile.write(file, 0.2 * wave(440, 0.5, 80_000), 16000, format=kind, subtype=subtype)
    data = file.getvalue()
    if name:
        assert looks_like(data[:3200]) == f"a file ({name})"
    if kind in ("FLAC", "OGG", "MP3"):
        middle = [looks_like(data[start : start + 3200]) for start in range(3200, len(data) - 3200, 3200)]
        assert middle.count("compressed audio") >= len(middle) / 2 > 0
