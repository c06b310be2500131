"""English speech by eSpeak NG (from the PyPI package espeakng-loader), for the corpora of recipes.

Voices, rates and pitches vary, and each talk has its own room and noise. The same talk gives the same bytes.
"""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import soxr
from scipy.signal import lfilter, oaconvolve
from tqdm import tqdm

from simulst.audio.read import write_wav
from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError
from simulst.machine.cluster import interrupts_blocked

Range = tuple[float, float]
# "en-gb" has no variants. The unseen voices are for tests alone.
# fmt: off
VOICES = (
    "en-us+f3", "en+m7", "en-gb-x-rp+m4", "en-us+Andy", "en-gb-scotland+f2", "en-us-nyc+m3",
    "en-029+f4", "en-us+Alicia", "en-gb-x-gbclan+m1", "en+Annie", "en-us+m8", "en-gb-x-rp+linda",
    "en-us+Mike", "en-gb-x-gbcwmd+f1", "en+Lee", "en-us+steph",
)
# fmt: on
UNSEEN_VOICES = ("en-us+f5", "en-gb-x-rp+m6", "en+Gene", "en-us+belinda")
RATE = (130, 175)  # words per minute
PITCH = (35, 65)  # eSpeak's scale, 0 to 100
PAUSE: Range = (0.4, 1.2)  # seconds of silence between sentences, and before the first
MARGIN = 0.05  # seconds of silence inside a segment, at either end
REVERBERATION = (0.08, 0.35)  # seconds until the echo has fallen by 60 dB
DIRECT_TO_ECHO = (4.0, 14.0)  # dB
SIGNAL_TO_NOISE = (15.0, 35.0)  # dB


@dataclass(frozen=True)
class Breath:
    """English that is said without a pause, after a silence whose length in seconds is drawn from `pause`."""

    pause: Range
    text: str


class Said(Protocol):
    """A segment: the breaths that are said in it, at least one."""

    @property
    def said(self) -> tuple[Breath, ...]: ...


S = TypeVar("S", bound=Said)


@dataclass(frozen=True)
class Talk(Generic[S]):
    """Some segments of one speaker, in one WAV file.

    seed: of the rate, the pitch, the pauses, the room and the noise.
    """

    name: str
    speaker: str
    voice: str
    seed: str
    segments: tuple[S, ...]


@dataclass(frozen=True)
class Span:
    """Where a segment lies in its talk, in seconds."""

    offset: float
    duration: float


def speak_talk(talk: Talk[S], path: Path) -> list[Span]:
    """Synthesise a talk as a WAV file (16 kHz, 16 bits, mono). Returns the spans of its segments.

    Raises SimulstError: eSpeak fails.
    """
    rng = np.random.default_rng(list(talk.seed.encode()))
    rate, pitch = int(rng.integers(*RATE)), int(rng.integers(*PITCH))
    pieces, spans, at = [], [], 0
    with espeak() as say:
        for segment in talk.segments:
            start = None
            for breath in segment.said:
                # Rate and pitch vary a little from breath to breath.
                speech = say(breath.text, talk.voice, rate + int(rng.integers(-8, 9)), pitch + int(rng.integers(-4, 5)))
                silence = np.zeros(round(rng.uniform(*breath.pause) * SAMPLE_RATE), np.float32)
                pieces += [silence, speech]
                if start is None:
                    start = round((at + len(silence)) / SAMPLE_RATE - MARGIN, 2)
                at += len(silence) + len(speech)
            assert start is not None  # a segment has words
            spans.append(Span(start, round(at / SAMPLE_RATE + MARGIN - start, 2)))
    pieces.append(np.zeros(round(PAUSE[0] * SAMPLE_RATE), np.float32))
    samples = in_a_room(np.concatenate(pieces), rng)
    write_wav(path, samples)
    return spans


def in_a_room(speech: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add echo and coloured noise, both light; same shape (n,), float32, peak 0.5 to 0.9."""
    seconds = rng.uniform(*REVERBERATION)
    time = np.arange(round(seconds * SAMPLE_RATE), dtype=np.float32) / SAMPLE_RATE
    echo = rng.standard_normal(len(time), dtype=np.float32) * np.exp(-6.9 * time / seconds)
    echo[: SAMPLE_RATE // 500] = 0  # nothing comes back within 2 ms
    echo *= 10 ** (-rng.uniform(*DIRECT_TO_ECHO) / 20) / np.sqrt(np.sum(np.square(echo)))
    echo[0] = 1
    wet = oaconvolve(speech, echo)[: len(speech)]
    noise = lfilter([1], [1, -rng.uniform(0.2, 0.95)], rng.standard_normal(len(wet)))
    level = np.sqrt(np.mean(np.square(wet[speech != 0])))
    noise *= level / np.std(noise) * 10 ** (-rng.uniform(*SIGNAL_TO_NOISE) / 20)
    noisy = wet + noise
    return (noisy * (rng.uniform(0.5, 0.9) / np.abs(noisy).max())).astype(np.float32)


def speak_talks(talks: Sequence[Talk[S]], folder: Path, jobs: int, label: str) -> list[list[Span]]:
    """Synthesise talks as `folder/<name>.wav`. Returns the spans of each one's segments.

    jobs: processes; the result does not depend on them.
    label: of the progress bar.

    Raises SimulstError: eSpeak fails.
    """
    paths = [folder / f"{talk.name}.wav" for talk in talks]
    if jobs <= 1:
        return list(tqdm(map(speak_talk, talks, paths), label, len(talks), unit="talk", disable=None))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        with interrupts_blocked():
            spoken = pool.map(speak_talk, talks, paths)
        return list(tqdm(spoken, label, len(talks), unit="talk", disable=None))


# ---- eSpeak NG ----

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
_SYNCHRONOUS, _DONT_EXIT, _UTF8, _RATE, _PITCH = 2, 0x8000, 1, 1, 3


@contextmanager
def espeak() -> Iterator[Say]:
    """A fresh instance of eSpeak NG.

    Its output depends on what it said before (noise, voice flutter), and nothing resets that. So each call loads a copy
    of the library, which the linker treats as a separate library.
    Raises SimulstError: the package is missing; eSpeak does not start.
    """
    from _ctypes import dlclose

    try:
        import espeakng_loader
    except ImportError:
        raise SimulstError(
            "espeakng_loader: not installed; run tools/install.sh, or pip install espeakng-loader."
        ) from None
    with tempfile.TemporaryDirectory(prefix="simulst-") as folder:
        library = ctypes.CDLL(shutil.copy(espeakng_loader.get_library_path(), folder))
        try:
            yield Say(library, str(espeakng_loader.get_data_path()))
            library.espeak_Terminate()
        finally:
            dlclose(library._handle)


class Say:
    """Converts text to speech: `say(text, voice, rate, pitch)` returns samples, shape (n,), float32, 16 kHz."""

    def __init__(self, library: ctypes.CDLL, data: str) -> None:
        self._library = library
        self._rate = library.espeak_Initialize(_SYNCHRONOUS, 0, data.encode(), _DONT_EXIT)
        if self._rate <= 0:
            raise SimulstError(f"{data}: eSpeak NG does not start with it; install espeakng-loader again.")
        self._heard: list[bytes] = []
        self._callback = _CALLBACK(self._hear)  # kept, as the library calls it
        library.espeak_SetSynthCallback(self._callback)
        library.espeak_ng_SetRandSeed(ctypes.c_long(1))

    def _hear(self, samples: ctypes._Pointer[ctypes.c_short], n: int, events: int) -> int:
        if samples and n:
            self._heard.append(ctypes.string_at(samples, 2 * n))
        return 0

    def __call__(self, text: str, voice: str, rate: int, pitch: int) -> np.ndarray:
        library = self._library
        self._heard.clear()
        if library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise SimulstError(f"eSpeak NG: has no voice '{voice}'; choose another in local/speech.py.")
        library.espeak_SetParameter(_RATE, rate, 0)
        library.espeak_SetParameter(_PITCH, pitch, 0)
        data = text.encode()
        failed = library.espeak_Synth(data, ctypes.c_size_t(len(data) + 1), 0, 0, 0, _UTF8, None, None)
        samples = np.frombuffer(b"".join(self._heard), np.int16).astype(np.float32) / 32768
        if failed or not samples.any():
            raise SimulstError(f"eSpeak NG: says nothing for '{text}' with voice '{voice}'; change either.")
        spoken = np.flatnonzero(np.abs(samples) > 0.002)
        return soxr.resample(samples[spoken[0] : spoken[-1] + 1], self._rate, SAMPLE_RATE)
