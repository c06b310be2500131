"""Streams whose language is found while they run.

The model is asked once enough voice has been heard. Until then the audio waits; then a stream in this language is given
all of it. The language is asked for again after a long pause, or if no words come of the voice. It is changed only if
another one is much more probable. Then the stream ends, and one in the other language goes on: from the pause on if no
words were written since, else from now on. So no words are lost or written twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulst.audio.units import SAMPLE_RATE
from simulst.audio.vad import start_of_stream
from simulst.calls import Alone, Steps
from simulst.errors import SimulstError
from simulst.meter import Meter
from simulst.stream import OpenStream
from simulst.streams.listening import BEFORE, Listening

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asking:
    """When the language is asked for, and what is taken for an answer (docs/experiments/2026-11-28-language-found.md).

    voice: seconds of it after which the model is asked, again and again until it is sure.
    sure: the least probability of a language of which it is sure.
    taken: the answer that begins a stream, sure or not.
    more_probable: so many times more probable must another language be than the one that was found.
    pause: seconds without voice after which it is asked for again.
    empty: seconds of voice without a word after which it is asked for again.
    wait: the most seconds of audio that wait for voice.
    finish: for so many seconds a change waits for the end of a word.
    """

    voice: tuple[float, ...] = (2.0, 3.0, 4.0, 6.0, 9.0, 13.0)
    sure: float = 0.9
    taken: int = 3
    more_probable: float = 100.0
    pause: float = 1.0
    empty: float = 8.0
    wait: float = 30.0
    finish: float = 1.0


class AutoStream(Listening):
    """A stream in a language that is found; an `OpenStream`.

    tell: tells how probable each language is in audio, (n,) float32.
    among: the languages that may be found; empty: all that it tells of.
    open_part: opens a stream in a language, from its clock and the ms at which it begins.
    unit: "word" or "char".
    meter: measures computation time.
    replays: whether all words before a pause are final after it.
    timed: whether `spoken_ms` is asked for.

    Raises SimulstError: what `open_part` raises for the first of the languages; the detector is missing.
    """

    _asking = Asking()

    def __init__(
        self,
        tell: Callable[[np.ndarray], Mapping[str, float]],
        among: Sequence[str],
        open_part: Callable[[str, Meter, float], OpenStream],
        unit: str,
        meter: Meter,
        replays: bool,
        timed: bool = False,
    ) -> None:
        for language in among[:1]:
            open_part(language, meter, 0.0)  # raises now if it can't be opened
        self.unit, self.meter = unit, meter
        self.languages: list[tuple[float, str]] = []
        self._tell, self._among, self._open_part = tell, frozenset(among), open_part
        self._replays = replays
        self.listen(start_of_stream, timed)
        meter.first("language")  # a session of the model need not tell it, too
        self._begin = 0  # its first sample
        self._skipped = 0  # by the parts before
        self._loud = 0  # samples up to the end of the last chunk of speech
        # What the model is asked about begins with this sample; None: it is not asked.
        self._since: int | None = None
        self._asked = 0  # how often about this
        self._voice = 0  # samples of voice since then; if it is not asked, since the last word
        self._written = 0  # words then
        self._sure = False  # whether it was sure of the last language
        self._settled = True  # whether all words before were final then

    @property
    def skipped(self) -> int:
        return self._skipped + (self._part.skipped if self._part else 0)

    def wait(self, seconds: float) -> None:
        if self._part is not None:
            self._part.wait(seconds)

    def _step(self, end: int) -> Steps[None]:
        begin, asking = self._heard, self._asking
        if speech := (yield from self._is_speech(end)):
            paused = self._part is None or begin - self._loud >= asking.pause * SAMPLE_RATE
            if self._since is None and paused:
                self._ask_from(max(begin - BEFORE, self._start))
            self._loud = end
            self._voice += end - begin
        elif self._part is not None and end - self._loud >= asking.pause * SAMPLE_RATE:
            self._since = None  # of too little voice
        if self._part is not None:
            yield from self._give(self._part, self._samples(begin, end))
            if self._since is None and self._output > self._written:
                self._written, self._voice = self._output, 0
            if self._since is None and self._voice >= asking.empty * SAMPLE_RATE:
                self._ask_from(end)
        if self._since is not None and self._is_enough(self._since, end, speech):
            yield from self._ask(self._since, end)
        # Speech may begin a little before the chunk that tells it.
        self._keep(max(self._start, end - BEFORE) if self._since is None else min(self._since, end))

    @property
    def _output(self) -> int:
        """How many words there are, also of the source text."""
        return len(self.emissions) + len(self.source or ())

    def _ask_from(self, begin: int) -> None:
        """Begin to ask for the language of the audio from a sample on."""
        self._since, self._asked, self._voice, self._written = begin, 0, 0, self._output
        self._settled = self._replays and not (self._part and self._part.unstable_text)

    def _is_enough(self, since: int, end: int, speech: bool) -> bool:
        """Whether enough voice has been heard, and, if words are being written, none goes on."""
        asking = self._asking
        more = self._voice / SAMPLE_RATE - asking.voice[self._asked]
        waits = self._part is None and (end - since) >= asking.wait * SAMPLE_RATE
        return waits or (more >= 0 and (self._part is None or not speech or more >= asking.finish))

    def _ask(self, since: int, end: int) -> Steps[None]:
        """Ask for the language of the audio up to a sample, and act on the answer."""
        asking = self._asking
        first = max(since, end - round(asking.wait * SAMPLE_RATE))
        call = Alone(self._tell, (self._samples(first, end),))
        found = yield from self.meter.shared_call(("language", first, end), call)
        known = {language: p for language, p in found.items() if not self._among or language in self._among}
        if not known:
            raise SimulstError("the model could not tell which language is spoken; name it.")
        best = max(known, key=known.__getitem__)
        self._asked += 1
        sure = known[best] >= asking.sure * sum(known.values())
        if sure or self._asked >= asking.taken:
            yield from self._take_answer(best, sure, known, since, end)
        if sure or self._asked == len(asking.voice):
            self._since, self._voice = None, 0

    def _take_answer(self, best: str, sure: bool, known: Mapping[str, float], since: int, end: int) -> Steps[None]:
        """Begin with a language, or change to it if the one before is plainly wrong, or if only this one is sure."""
        language = self.languages[-1][1] if self.languages else ""
        plain = known[best] > self._asking.more_probable * known.get(language, 0.0)
        if best == language:
            self._sure = self._sure or sure
            return
        if self._part is not None and not (plain or (sure and not self._sure)):
            return
        self._sure = sure
        if self._part is None or (self._settled and self._output == self._written):
            yield from self._change(best, since, end)
        else:
            yield from self._give(self._part, self._samples(end, end), finished=True)
            yield from self._change(best, end, end)
            self._settled = False  # what comes before `end` is final

    def _change(self, language: str, begin: int, end: int) -> Steps[None]:
        """Open a stream in a language, and give it the audio from `begin` on."""
        begin_ms = begin * 1000 / SAMPLE_RATE
        self._skipped = self.skipped
        self.languages.append((begin_ms, language))
        logger.info("%.1f s: the language is '%s'.", begin_ms / 1000, language)
        part = self.meter.part(("language", language, begin))
        self._begin, self._part = begin, self._open_part(language, part, begin_ms)
        if self._told is not None:
            self._part.tell(self._told)
        yield from self._give(self._part, self._samples(begin, end))

    def _give(self, part: OpenStream, samples: np.ndarray, finished: bool = False) -> Steps[None]:
        cut, timed = len(part.segments), len(part.spoken_ms or ()) if self._replays else 0
        yield from self._passed(part, samples, finished)
        begin_ms = self._begin * 1000 / SAMPLE_RATE

        def later(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
            return [(begin_ms + first, begin_ms + last) for first, last in spans]

        self.segments += later(part.segments[cut:])
        if self._spoken is not None and (finished or self._replays):
            times = part.spoken_ms
            self._spoken = None if times is None else [*self._spoken, *later(times[timed:])]

    def _rest(self) -> Steps[None]:
        end = self._heard
        if self._part is None and self._since is not None:
            self._asked = len(self._asking.voice) - 1  # the last time
            yield from self._ask(self._since, end)
        if self._part is not None:
            yield from self._give(self._part, np.zeros(0, np.float32), finished=True)
