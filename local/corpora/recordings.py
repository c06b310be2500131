"""Recordings that are made of shorter ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from simulst.audio.read import write_wav

_T = TypeVar("_T")
Placed = tuple[int, np.ndarray]
"""Where audio begins in a recording, in samples; and the audio, shape (n,), float32, 16 kHz."""


def write_recording(path: Path, samples: int, placed: Iterable[Placed]) -> None:
    """Write a WAV of so many samples, 16 kHz, 16 bits, with silence where nothing is placed."""
    audio = np.zeros(samples, np.float32)
    for first, piece in placed:
        audio[first : first + piece.size] = piece[: samples - first]
    write_wav(path, audio)


def grouped(items: Sequence[_T], lengths: Sequence[float], usual: float, shortest: float) -> list[list[_T]]:
    """Divide items into recordings of about equal length, keeping their order.

    lengths: seconds of each item.
    usual, shortest: seconds of a recording. If there is less than `shortest` in all, there is one.
    """
    total = sum(lengths)
    parts = max(1, min(round(total / usual), int(total // shortest)))
    groups: list[list[_T]] = [[] for _ in range(parts)]
    heard = 0.0
    for item, length in zip(items, lengths, strict=True):
        groups[min(parts - 1, int((heard + length / 2) / total * parts))].append(item)
        heard += length
    return [group for group in groups if group]
