"""Energies in mel bands: the filters, and their product with a power spectrum, which has the same bits everywhere.

A library's product adds in an order that depends on its number of threads, on the processor and on the number of
frames, and other last bits of features change words. A filter reaches over few bins, so here each band is summed bin by
bin.
"""

from __future__ import annotations

import numpy as np

LINEAR_HZ, LINEAR_MELS = 1000.0, 15.0  # up to here, mels are proportional to Hz
PER_MEL = np.log(6.4) / 27.0  # from there on, to the logarithm: 27 mels for a factor of 6.4


def mel_filters(mels: int, n_fft: int, sample_rate: int) -> np.ndarray:
    """Triangular filters from 0 Hz to half the sample rate, (mels, n_fft / 2 + 1) float32.

    The scale and the norm are those of Slaney's Auditory Toolbox (1998): each triangle has the same area over Hz.
    librosa, and so Whisper, has them as its default.
    """
    top = LINEAR_MELS + np.log(sample_rate / 2 / LINEAR_HZ) / PER_MEL
    places = np.linspace(0.0, top, mels + 2)
    bends = LINEAR_HZ * np.exp(PER_MEL * (places - LINEAR_MELS))
    edges = np.where(places < LINEAR_MELS, places * LINEAR_HZ / LINEAR_MELS, bends)[:, None]  # in Hz
    bins = np.arange(n_fft // 2 + 1) * (sample_rate / n_fft)
    up = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return (np.maximum(0, np.minimum(up, down)) * 2 / (edges[2:] - edges[:-2])).astype(np.float32)


class MelBands:
    """Sums of a power spectrum in bands.

    filters: (mels, bins).
    """

    def __init__(self, filters: np.ndarray) -> None:
        counts = np.count_nonzero(filters, 1)
        # Of each filter the bins that it reaches, in order; shorter filters end with weights of 0.
        self._bins = np.argsort(filters == 0, axis=1, kind="stable")[:, : max(1, counts.max())].T.copy()
        self._weights = np.take_along_axis(filters.astype(np.float32), self._bins.T, 1).T[:, :, None].copy()

    @property
    def count(self) -> int:
        return self._bins.shape[1]

    def __call__(self, power: np.ndarray) -> np.ndarray:
        """(bins, frames) float32 → (mels, frames) float32."""
        total = self._weights[0] * power[self._bins[0]]
        for weights, bins in zip(self._weights[1:], self._bins[1:], strict=True):
            total += weights * power[bins]
        return total


def power_spectrum(pieces: np.ndarray, n_fft: int) -> np.ndarray:
    """The squares of a Fourier transform of pieces of audio, (frames, samples) float32 → (n_fft / 2 + 1, frames).

    numpy transforms each piece by itself, in one thread.
    """
    spectrum = np.fft.rfft(pieces, n_fft, axis=1)
    return np.ascontiguousarray((spectrum.real**2 + spectrum.imag**2).T)
