"""Whisper's features."""

from __future__ import annotations

import math

import numpy as np

from simulst.audio.mel import MelBands, power_spectrum
from simulst.audio.units import FRAME, SAMPLE_RATE

FFT = 400
SILENCE = -0.5  # log-mel of silence after speech: 8 decades under usual speech, in Whisper's scaling


def frames_of(samples: int, padding_seconds: float, longest_seconds: float) -> int:
    """How many frames are encoded for a window of so many samples, an even number, as the encoder halves it."""
    seconds = min(samples / SAMPLE_RATE + padding_seconds, longest_seconds)
    return 2 * max(1, math.ceil(seconds * SAMPLE_RATE / FRAME / 2))


def log_mel(samples: np.ndarray, frames: int, bands: MelBands) -> np.ndarray:
    """Whisper's features: log10 mel energies (Radford et al. 2022, section 2.2, and the released models).

    samples: (n,) float32, 16 kHz.
    frames: the number of frames, at least n / 160. The rest is silence.
    bands: of filters (mels, 201).
    Returns: (mels, frames) float32, clipped at 8 decades below the maximum and scaled to about [-1, 1].
    """
    padded = np.pad(samples, (0, max(0, frames * FRAME - samples.size)))
    padded = np.pad(padded, FFT // 2, mode="reflect")
    pieces = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::FRAME][:frames]
    window = np.hanning(FFT + 1)[:-1].astype(np.float32)
    log = np.log10(np.maximum(bands(power_spectrum(pieces * window, FFT)), 1e-10))
    return np.ascontiguousarray((np.maximum(log, log.max() - 8.0) + 4.0) / 4.0)
