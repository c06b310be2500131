"""Streams without end or segmentation: speech is cut at its pauses, and each part is decoded as one utterance.

Models are trained on single sentences; they invent words in silence and write little after a sentence's end. So a
voice activity detector (simulst/vad.py) lets only speech into the loop. A pause ends the utterance as the end of a file
would: all of it is decoded and written, and the next speech begins a new one.

This stands around the loop, not inside of a model: a session is searched at positions that READ names in advance, but
that a pause has lasted long enough is known only once it has been heard.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.models.base import Memo, Model
from simulst.stream import Emission, Stream, check_samples
from simulst.vad import CHUNK, SAMPLE_RATE, check_pause, silence

BEFORE = SAMPLE_RATE // 20  # samples before the first chunk of speech that belong to it
LEAST_SPEECH = 5 * CHUNK  # samples of speech without a break that begin an utterance; noises may be shorter


def open_stream(model: Model, decoding: Decoding, unit: str = "word", memo: Memo | None = None) -> Stream | Segmented:
    """A stream through a model: cut at pauses if the model has an attribute `pause` above 0, else one utterance.

    memo: what the configurations of a sweep share on this stream.
    """
    pause = getattr(model, "pause", 0.0)
    if pause:
        return Segmented(model, decoding, pause, unit, memo)
    return Stream(model.session(memo), decoding, unit, memo=memo)


@dataclass
class Segmented:
    """A stream of any length, as a sequence of utterances. It is used as `Stream` is.

    pause: seconds without speech that end an utterance, more than 0.
    The result does not depend on how the audio is cut into pushes: it is heard in chunks of 32 ms, and a word's delay
    is the end of the chunk with which the loop could write it, so that the detector's own delay is part of it.
    `emissions` and `reads` (ms of source at each decoding step, growing) are the whole record. `segments` holds the
    utterances that have ended: the samples between which they lie.
    Raises SimulstError: see `check_pause`; a model of another rate than the detector's.
    """

    model: Model
    decoding: Decoding
    pause: float
    unit: str = "word"
    memo: Memo | None = None
    emissions: list[Emission] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    segments: list[tuple[int, int]] = field(default_factory=list)
    compute_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_pause(self.pause)
        if self.model.sample_rate != SAMPLE_RATE:
            raise SimulstError(
                f"pause: the detector hears audio of {SAMPLE_RATE} Hz, and the model {self.model.sample_rate} Hz; "
                "load the model with pause=0."
            )
        self._hearing = silence()
        self._audio = np.zeros(0, dtype=np.float32)
        self._start = 0  # number of its first sample
        self._heard = 0  # samples that the detector has had
        self._quiet = 0  # the same, up to its last chunk without speech
        self._loud = 0  # the same, up to its last chunk of speech
        self._utterance: Stream | None = None  # while there is one
        self._begin = 0  # samples before it
        self._given = 0  # samples up to the last that it, or the one before, was given
        self._finished = False

    def push(self, samples: np.ndarray, finished: bool = False) -> list[Emission]:
        """Hand over more audio; get the words that became final. Arguments and errors are those of `Stream.push`."""
        if self._finished:
            raise SimulstError("this stream has ended; open a new one for more audio.")
        self._audio = np.concatenate([self._audio, check_samples(samples)])
        self._finished = finished
        before, end = len(self.emissions), self._start + self._audio.size
        while self._heard + CHUNK <= end:
            self._step(self._heard + CHUNK)
        if finished and self._heard < end:
            self._step(end)
        if finished and self._utterance is not None:
            self._end(self._utterance)
        return self.emissions[before:]

    def _step(self, end: int) -> None:
        """Hear the next chunk, up to sample `end`, and hand on what is known to be speech."""
        if self._is_speech(end):
            self._loud = end
        else:
            self._quiet = end
        if self._utterance is None and end - self._quiet >= LEAST_SPEECH:
            self._begin = self._given = max(self._quiet - BEFORE, self._given)
            memo = None if self.memo is None else self.memo.get(("utterance", self._begin), Memo)
            self._utterance = Stream(self.model.session(memo), self.decoding, self.unit, memo=memo)
        if self._utterance is None:
            keep = max(self._quiet - BEFORE, self._given)
        else:
            # Silence is held back until speech behind it shows that it belongs to the utterance.
            if self._loud == end:
                self._give(self._utterance, self._audio[self._given - self._start : end - self._start])
                self._given = end
            keep = self._given
            if end - self._loud >= self.pause * SAMPLE_RATE:
                self._end(self._utterance)
        self._audio, self._start = self._audio[keep - self._start :], keep

    def _is_speech(self, end: int) -> bool:
        chunk = self._audio[self._heard - self._start : end - self._start]
        hearing, memo = self._hearing, self.memo or Memo(keep=False)
        started, saved = time.perf_counter(), memo.saved_seconds
        self._hearing = memo.get(("hearing", end), lambda: hearing.next(np.pad(chunk, (0, CHUNK - chunk.size))))
        self._heard = end
        self.compute_seconds += time.perf_counter() - started + memo.saved_seconds - saved
        return self._hearing.speech

    def _give(self, utterance: Stream, samples: np.ndarray, finished: bool = False) -> None:
        spent, steps = utterance.compute_seconds, len(utterance.reads)
        words = utterance.push(samples, finished)
        delay = self._heard * 1000 / SAMPLE_RATE
        for word in words:
            computed = self.compute_seconds - spent + (word.elapsed_ms - word.delay_ms) / 1000
            self.emissions.append(Emission(word.text, delay, delay + computed * 1000))
        self.compute_seconds += utterance.compute_seconds - spent
        if (finished or len(utterance.reads) > steps) and self.reads[-1:] != [delay]:
            self.reads.append(delay)

    def _end(self, utterance: Stream) -> None:
        """Decode an utterance to its end."""
        self._give(utterance, np.zeros(0, dtype=np.float32), finished=True)
        self.segments.append((self._begin, self._given))
        self._utterance = None
