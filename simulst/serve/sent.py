"""Checks of audio that a client sends as integers of 16 bits, before anything is computed with it."""

from __future__ import annotations

import re

import numpy as np

from simulst.errors import SimulstError

LONGEST = 120  # seconds of audio in one chunk
BEGINNINGS = {  # of files: kind → the bytes
    "WAV": rb"RIFF....WAVE|RF64....WAVE|RIFX....WAVE",
    "FLAC": rb"fLaC",
    "Ogg": rb"OggS\0",
    "WebM": rb"\x1aE\xdf\xa3",
    "MP4": rb"....ftyp",
    "MP3": rb"ID3[\2-\4]\0",
    "AIFF": rb"FORM....AIF[FC]",
    "AU": rb"\.snd\0\0",
    "CAF": rb"caff\0",
    "AMR": rb"#!AMR",
    "SPHERE": rb"NIST_1A",
}
LEAST = 1000  # samples of which it is told what they are; 0.1 s has 1600
RATES = (4_000, 384_000)  # Hz; whatever a client names is resampled, and takes 16000 times the memory for 1 Hz


def check_sent(audio: bytes, rate: int, whole: bool) -> None:
    """Raise SimulstError: a sample rate that audio does not have, too much at once, or what are no 16-bit samples.

    whole: whether the last sample is to be complete.
    """
    lowest, highest = RATES
    if not lowest <= rate <= highest:
        raise SimulstError(f"sample_rate is {rate}; give the audio's, from {lowest} to {highest} Hz.")
    if len(audio) > 2 * LONGEST * rate:
        raise SimulstError(f"{len(audio) / 2 / rate:.0f} s of audio came at once; give at most {LONGEST} s.")
    if whole and len(audio) % 2:
        raise SimulstError("half a sample came; send integers of 16 bits.")
    if found := looks_like(audio):
        raise SimulstError(f"the samples look like {found}; send integers of 16 bits.")


def looks_like(audio: bytes) -> str:
    """What the bytes are, if they are hardly integers of 16 bits; else empty. The end of the audio is looked at.

    Neighbouring samples of sound are alike, and loud white noise is no sound that anybody translates. Compressed audio
    is such noise. Samples of another kind are sound once they are read as that.
    """
    for kind, beginning in BEGINNINGS.items():
        if re.match(beginning, audio, re.DOTALL):
            return f"a file ({kind})"
    size = len(audio) // 4 * 4
    part = audio[max(0, size - 65536) : size]
    if _like_floats(part):
        return "floats of 32 bits"
    samples = np.frombuffer(part, "<i2")
    if samples.size < LEAST:
        return ""
    if _is_white(samples[::2]) and (_alike(samples[1::2]) > 0.5 or not samples[1::2].any()):
        return "integers of 32 bits"
    return "compressed audio" if _is_white(samples) else ""


def _alike(samples: np.ndarray) -> float:
    """The correlation of neighbours, from -1 to 1; 0: there is no sound."""
    values = samples.astype(np.float64)
    power = np.dot(values, values)
    return float(np.dot(values[1:], values[:-1]) / power) if power else 0.0


def _is_white(samples: np.ndarray) -> bool:
    """Whether the samples are spread evenly over 16 bits, and neighbours know nothing of each other."""
    bins = np.histogram(samples, bins=8, range=(-32768, 32768))[0] / samples.size
    return bool(abs(_alike(samples)) < 0.1 and bins.min() > 0.1 and bins.max() < 0.155)


def _like_floats(audio: bytes) -> bool:
    """Whether 16-bit samples are halves of floats between 1e-6 and 1.

    The upper half of such a float has one of few exponents, and its lower half is any number. Of integers, neighbours
    are alike.
    """
    pairs = np.frombuffer(audio, dtype="<u2").reshape(-1, 2)
    pairs = pairs[pairs.any(axis=1)]
    lower, upper = (((pairs & 0x7FFF) >= 0x3580) & ((pairs & 0x7FFF) <= 0x3F80)).mean(axis=0) if len(pairs) else (0, 0)
    return bool(len(pairs) >= 100 and upper > 0.9 and lower < 0.5)
