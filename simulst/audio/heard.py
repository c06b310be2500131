"""A digest of a recording's beginning. A program that is not told a recording's name can recognise it by this."""

from __future__ import annotations

import hashlib

import numpy as np

from simulst.audio.read import as_int16
from simulst.audio.units import SAMPLE_RATE

HEARD = SAMPLE_RATE // 10
"""Samples that are compared. Samples of exactly 0 at the very beginning are skipped."""


def digest_of_beginning(samples: np.ndarray) -> str:
    """The digest (16 hexadecimal digits) of the first HEARD samples from the first on that is not 0, as 16 bits.

    samples: the recording from its beginning, shape (n,), float32, 16 kHz.

    Returns: "" if the samples do not reach so far yet.
    """
    sounding = as_int16(samples)
    sounds = np.flatnonzero(sounding)
    part = sounding[sounds[0] :][:HEARD] if sounds.size else sounds
    if part.size < HEARD:
        return ""
    return hashlib.sha256(part.astype("<i2").tobytes()).hexdigest()[:16]
