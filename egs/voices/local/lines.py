"""A line of a game: an actor's speech, and its text in each language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import soxr

from corpora.text import one_line
from simulst.audio.units import SAMPLE_RATE
from simulst.measure.spoken import lower_without_punctuation

RATE = 11025
"""Samples per second of both games' speech: unsigned, 8 bits, one channel."""


@dataclass(frozen=True)
class Line:
    """A line of a game.

    name: unique; names sort in the order of the game's numbers.
    section: part of the game; `number` counts its lines.
    speaker: a name without spaces, the same for all lines of a character; "unknown" if it is not certain.
    texts: language → text.
    speech: language → samples in the game's format (see RATE).
    """

    name: str
    game: str
    section: str
    number: int
    speaker: str
    texts: Mapping[str, str]
    speech: Mapping[str, bytes]

    def seconds(self, language: str) -> float:
        """How long the speech is."""
        return len(self.speech[language]) / RATE


def clean(text: str) -> str:
    """One line with plain quotes and single spaces."""
    return re.sub(r" +", " ", one_line(text.replace("`", "'").replace("\0", " ")))


def bare(text: str) -> str:
    """Words alone, in small letters, for comparisons."""
    return lower_without_punctuation(text.replace("'", " "))


def samples(speech: bytes) -> np.ndarray:
    """The games' samples (see RATE) as shape (n,), float32, 16 kHz."""
    data = np.frombuffer(speech, np.uint8).astype(np.float32)
    return soxr.resample((data - 128) / 128, RATE, SAMPLE_RATE)
