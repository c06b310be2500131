"""Pitch features beside log-mel features, as in Kaldi: voicing, pitch, change of pitch (Ghahremani et al. 2014).

The pitch is found by YIN (de Cheveigné and Kawahara 2002), which looks at each frame alone. Kaldi's tracker and
librosa's pYIN look for the best path through all frames, so that later audio changes the pitch of earlier frames. Here
a frame's features depend on its own audio and on the frames before it. They do not depend on how the audio is cut.
librosa's YIN is not used: if several processes call it first, they spoil its cache of compiled code, and crash.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from simulst.audio.features import LogMel
from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError

PITCH_DIMS = 3
LOW, HIGH = 60, 400  # Hz
STEP = 4  # pitch is sought at a quarter of the sample rate, as in Kaldi: below 1 kHz
LOW_PASS = np.hanning(18)[1:-1].astype(np.float32) / np.hanning(18).sum(dtype=np.float32)
WINDOW, OVERLAP = 200, 128  # samples at the lower rate: 50 ms that YIN sees, 32 ms that are compared
SHORTEST, LONGEST = SAMPLE_RATE // STEP // HIGH, SAMPLE_RATE // STEP // LOW  # periods, in samples at the lower rate
FFT = 256  # points: WINDOW samples and zeros, so that no lag wraps round
DIP = 0.1  # a frame with a lower normalised difference is periodic
PAST = 150  # frames (1.5 s): the pitch is relative to its mean in them
REACH = STEP * WINDOW // 2 + len(LOW_PASS)  # samples on either side of a frame's centre that its features depend on


def pitch_features(audio: np.ndarray, start: int, first: int, last: int, hop: int) -> np.ndarray:
    """The pitch features of the frames `first` (included) to `last` (excluded).

    audio: (n,) float32 at 16 kHz, the samples from number `start` on; silence lies around them.
    start: number of the first sample in `audio`, at most (first - PAST) * hop - REACH, or 0.
    hop: samples between frames, a multiple of STEP. Frame i is centred on sample i * hop.

    Returns: (frames, 3) float32: how periodic the frame is (0 to 1); the logarithm of its pitch less the mean of the
    last 1.5 s; how much that logarithm has grown since the frame before. The last two are weighted by the first, as
    the mean is: in frames without voice they are near 0.
    """
    if last <= first:
        return np.zeros((0, PITCH_DIMS), dtype=np.float32)
    before = min(first, PAST)
    voicing, pitch = _pitch(_slow(audio, start, first - before, last, hop), hop // STEP)
    weighted = np.concatenate([[[0.0, 0.0]], np.cumsum(np.stack([voicing * pitch, voicing], 1), 0)])
    ends = np.arange(before, before + last - first) + 1
    sums = weighted[ends] - weighted[np.maximum(ends - PAST - 1, 0)]
    level = sums[:, 0] / np.maximum(sums[:, 1], 1e-3)
    growth = np.diff(pitch, prepend=pitch[:1])[before:]
    voicing, pitch = voicing[before:], pitch[before:]
    return np.stack([voicing, voicing * (pitch - level), voicing * growth], 1).astype(np.float32)


def _slow(audio: np.ndarray, start: int, first: int, last: int, hop: int) -> np.ndarray:
    """The audio that these frames see, at a quarter of the rate."""
    half, taps = STEP * WINDOW // 2, len(LOW_PASS)
    begin = first * hop - half - taps // 2
    size = (last - 1 - first) * hop + STEP * WINDOW + taps
    samples = np.zeros(size, dtype=np.float32)
    low, high = max(begin, start), min(begin + size, start + audio.size)
    if high > low:
        samples[low - begin : high - begin] = audio[low - start : high - start]
    count = (size - taps) // STEP
    # Slices, because a convolution may add in another order for another length of audio.
    slow = np.zeros(count, dtype=np.float32)
    for tap, weight in enumerate(LOW_PASS):
        slow += weight * samples[tap : tap + STEP * count : STEP]
    return slow


def _pitch(slow: np.ndarray, hop: int) -> tuple[np.ndarray, np.ndarray]:
    """The voicing (0 to 1) and the logarithm of the pitch (of Hz) of each frame, (frames,) float64 each."""
    rate = SAMPLE_RATE // STEP
    frames = np.lib.stride_tricks.sliding_window_view(slow, WINDOW)[::hop].astype(np.float64)
    period = _period(frames)
    whole = period.astype(np.int64)
    places = whole[:, None] + np.arange(OVERLAP)
    later, latest = np.take_along_axis(frames, places, 1), np.take_along_axis(frames, places + 1, 1)
    later += (period - whole)[:, None] * (latest - later)  # the period lies between two samples
    now = frames[:, :OVERLAP]
    energy = (now**2).sum(1) * (later**2).sum(1)
    correlation = (now * later).sum(1) / np.sqrt(energy + 1e-8)
    return correlation.clip(0, 1), np.log(rate / period)


def _period(frames: np.ndarray) -> np.ndarray:
    """The period of each frame, in samples: (frames, WINDOW) → (frames,). Steps 2 to 5 of YIN."""
    lags = np.arange(1, LONGEST + 2)
    # The squared difference of two stretches is the sum of their energies minus twice their correlation.
    begin = np.fft.rfft(frames[:, :OVERLAP], FFT)
    correlation = np.fft.irfft(np.fft.rfft(frames, FFT) * begin.conj(), FFT)[:, lags]
    energy = np.cumsum(frames**2, 1)
    energy = np.concatenate([energy[:, OVERLAP - 1 : OVERLAP], energy[:, OVERLAP:] - energy[:, :-OVERLAP]], 1)
    difference = np.maximum(energy[:, :1] + energy[:, lags] - 2 * correlation, 0)
    total = np.cumsum(difference, 1)
    normal = np.where(total > 1e-10, difference * lags / np.maximum(total, 1e-10), 1.0)
    before, here, after = normal[:, SHORTEST - 2 : -2], normal[:, SHORTEST - 1 : -1], normal[:, SHORTEST:]
    dips = (here < DIP) & (here <= before) & (here < after)
    best = np.where(dips.any(1), dips.argmax(1), here.argmin(1))[:, None]
    left, middle, right = (np.take_along_axis(part, best, 1)[:, 0] for part in (before, here, after))
    bend = left - 2 * middle + right
    shift = np.where(bend > 1e-10, (left - right) / (2 * np.maximum(bend, 1e-10)), 0.0)
    return SHORTEST + best[:, 0] + shift.clip(-0.5, 0.5)


class LogMelPitch(LogMel):
    """Log-mel features followed by the three pitch features. The arguments are those of LogMel.

    Raises SimulstError: as LogMel does; the hop is no multiple of 4 samples.
    """

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        if self.hop % STEP:
            raise SimulstError(
                f"frontend: hop_length {self.hop} does not fit pitch features; give a multiple of {STEP}."
            )
        self._reach = max(self._reach, REACH)

    @property
    def dims(self) -> int:
        return super().dims + PITCH_DIMS

    def keep_from(self, frame: int) -> int:
        return min(super().keep_from(frame), max(0, (frame - PAST) * self.hop - REACH))

    def frames(self, audio: np.ndarray, start: int, first: int, last: int) -> torch.Tensor:
        mels = super().frames(audio, start, first, last)
        if not len(mels):
            return mels
        pitch = torch.from_numpy(pitch_features(audio, start, first, last, self.hop))
        return torch.cat([mels, pitch.to(mels)], 1)
