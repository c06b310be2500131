"""What there is between speech in long recordings: silence, noise, and music of a simple synthesiser."""

from __future__ import annotations

import numpy as np

from simulst.audio.units import SAMPLE_RATE

KINDS = ("silence", "noise", "music")
NOISE = 10 ** (-35 / 20)  # root mean square, relative to full scale
MUSIC = 10 ** (-25 / 20)
BEAT = 0.3  # seconds from note to note
CHORDS = ((48, 60, 64, 67), (43, 59, 62, 67), (45, 57, 60, 64), (41, 57, 60, 65))  # C, G, a, F as MIDI numbers
NOTES_PER_CHORD = 8


def gap(kind: str, samples: int, rng: np.random.Generator) -> np.ndarray:
    """So many samples of one of KINDS, float32, 16 kHz. rng: the same state gives the same samples."""
    if kind == "silence":
        return np.zeros(samples, np.float32)
    if kind == "noise":  # like a fan: low frequencies are strongest
        from scipy.signal import lfilter  # here, as it takes a second

        return _at_level(lfilter([1], [1, -0.9], rng.standard_normal(samples)), NOISE)
    audio = np.zeros(samples + SAMPLE_RATE)
    for n, first in enumerate(range(0, samples, round(BEAT * SAMPLE_RATE))):
        chord = CHORDS[n // NOTES_PER_CHORD % len(CHORDS)]
        notes = [chord[0], chord[1 + int(rng.integers(3))]] if n % 4 == 0 else [chord[1 + int(rng.integers(3))]]
        for note in notes:
            audio[first : first + SAMPLE_RATE] += _note(note)
    return _at_level(audio[:samples], MUSIC)


def _note(number: int) -> np.ndarray:
    """A plucked note of one second with four harmonics. number: MIDI's."""
    time = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    pitch = 440 * 2 ** ((number - 69) / 12)
    waves = [np.sin(2 * np.pi * pitch * k * time) * np.exp(-(2 + 2 * k) * time) / k for k in range(1, 5)]
    return np.sum(waves, axis=0) * np.minimum(1, time / 0.005)


def _at_level(audio: np.ndarray, level: float) -> np.ndarray:
    scale = level / np.sqrt(np.mean(np.square(audio)))
    return (audio * scale).astype(np.float32)
