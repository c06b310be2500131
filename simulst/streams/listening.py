"""What streams share that listen to a detector of speech (simulst.audio.vad), and pass audio to streams inside them.

Their results do not depend on how the audio is cut into pushes, as the detector hears chunks of 32 ms. A word's delay
is the end of the chunk after which it could be written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from simulst.audio.units import SAMPLE_RATE
from simulst.audio.vad import CHUNK, Hearing
from simulst.background import Background
from simulst.calls import Batched, Steps
from simulst.stream import Emission, OpenStream

BEFORE = SAMPLE_RATE // 20  # samples before the first chunk of speech that belong to it


def hear(chunks: Sequence[tuple[Hearing, np.ndarray]]) -> list[Hearing]:
    """The detector's states after the next chunk of each stream, (CHUNK,) float32 at 16 kHz, from those before it."""
    hearings, samples = zip(*chunks, strict=True)
    return hearings[0].next_together(hearings, samples)


class Listening(OpenStream):
    """A stream that hears chunk by chunk. `listen` begins it; `_step` takes a chunk in, and `_rest` ends it."""

    _part: OpenStream | None = None  # the stream inside that is open
    _told: Background | None = None
    _audio: np.ndarray  # of which some has been dropped from the front
    _start: int  # number of its first sample
    _heard: int  # samples that the detector has heard
    _spoken: list[tuple[float, float]] | None
    segments: list[tuple[float, float]]

    @property
    def unstable_text(self) -> str:
        text = self._part.unstable_text if self._part else ""
        return self._space(self._part) + text if self._part and text else ""

    def tell(self, background: Background) -> None:
        self._told = background
        if self._part is not None:
            self._part.tell(background)

    @property
    def spoken_ms(self) -> list[tuple[float, float]] | None:
        return self._spoken

    def listen(self, begin: Callable[[], Hearing], timed: bool) -> None:
        """Begin. timed: whether `spoken_ms` is asked for. Raises SimulstError: the detector is missing."""
        self.emissions, self.reads, self.writes, self.segments = [], [], [], []
        self._spoken = [] if timed else None
        self._hearing = begin()
        self._audio, self._start, self._heard = np.zeros(0, dtype=np.float32), 0, 0

    @abstractmethod
    def _step(self, end: int) -> Steps[None]:
        """Take in the next chunk, up to sample `end`."""

    @abstractmethod
    def _rest(self) -> Steps[None]:
        """The audio has ended."""

    def _take_in(self, samples: np.ndarray, finished: bool) -> Steps[None]:
        self._audio = np.concatenate([self._audio, samples])
        end = self._start + self._audio.size
        while self._heard + CHUNK <= end:
            yield from self._step(self._heard + CHUNK)
        if finished and self._heard < end:
            yield from self._step(end)
        if finished:
            yield from self._rest()

    def _is_speech(self, end: int) -> Steps[bool]:
        """Hear the chunk up to sample `end`."""
        chunk = self._samples(self._heard, end)
        if chunk.size < CHUNK:
            chunk = np.pad(chunk, (0, CHUNK - chunk.size))
        call = Batched(hear, (self._hearing, chunk))
        self._hearing = yield from self.meter.shared_call(("hearing", end), call)
        self._heard = end
        return self._hearing.speech

    def _samples(self, begin: int, end: int) -> np.ndarray:
        return self._audio[begin - self._start : end - self._start]

    def _keep(self, begin: int) -> None:
        """Drop the audio before a sample."""
        self._audio, self._start = self._audio[begin - self._start :], begin

    def _space(self, part: OpenStream) -> str:
        """What stands before the next word of a stream inside: a space between two of them."""
        return " " if self.emissions and self.unit == "word" and not part.emissions else ""

    def _passed(self, part: OpenStream, samples: np.ndarray, finished: bool) -> Steps[None]:
        """Pass audio to a stream inside, and take its words."""
        steps, before, known = len(part.reads), len(part.emissions), len(part.source or ())
        delay, space = self._heard * 1000 / SAMPLE_RATE, self._space(part)

        def late(word: Emission, space: str = "") -> Emission:
            return Emission(space + word.text, delay, delay + (word.elapsed_ms - word.delay_ms))

        try:
            yield from part.push_steps(samples, finished)
        finally:  # a part that fails keeps its words
            new = part.emissions[before:]
            self.emissions += [late(word, space if not number else "") for number, word in enumerate(new)]
            if part.source is not None:
                self.source = [] if self.source is None else self.source
                self.source += map(late, part.source[known:])
        if (finished or len(part.reads) > steps) and self.reads[-1:] != [delay]:
            self.reads.append(delay)
