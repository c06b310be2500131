"""Unsegmented streams of any length: cut speech at its pauses, and decode each part as one utterance.

Models are trained on single sentences. They invent words in silence, and write little after the end of a sentence. So a
voice activity detector (vad.py) passes only speech to the loop. A pause ends the utterance like the end of a file: all
of it is decoded and written. The next speech begins a new utterance.

This code is around the loop, not inside a model. The loop decodes at positions that READ names in advance, but a pause
is recognised only after it has been heard.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from simulst.audio.units import SAMPLE_RATE
from simulst.audio.vad import CHUNK, start_of_stream
from simulst.calls import Steps
from simulst.errors import SimulstError
from simulst.meter import Meter
from simulst.policy.late import Pace
from simulst.policy.segment import Segmentation
from simulst.stream import Stream
from simulst.streams.listening import BEFORE, Listening

LEAST_SPEECH = 5 * CHUNK  # samples of unbroken speech that begin an utterance; shorter sounds are noise


@dataclass
class SegmentedStream(Listening):
    """A stream of any length, as a sequence of utterances; an `OpenStream`.

    No utterance is longer than twice `longest`: so much speech without a break is cut where it is, and goes on in the
    next utterance.

    open_part: opens each utterance, from its clock, the text before it, how far computation is behind, and the ms at
        which it begins.
    segment: where utterances end.
    unit: "word" or "char".
    meter: measures computation time.
    writes: empty: an utterance's tokens and those of the reference's sentences do not correspond.
    skipped: how many decoding steps were left out (see simulst/policy/late.py).

    Raises SimulstError: the model has another sample rate than the detector; the detector is missing.
    """

    open_part: Callable[[Meter, str, Pace, float], Stream]
    segment: Segmentation
    unit: str = "word"
    meter: Meter = field(default_factory=Meter)

    def __post_init__(self) -> None:
        self._begin = 0  # number of the utterance's first sample
        self._pace = Pace()
        first = self._open(self.meter, "")  # raises now if the configuration can't be decoded
        rate = first.session.traits.sample_rate
        self.source = first.source
        if rate != SAMPLE_RATE:
            raise SimulstError(
                f"segment: the detector of pauses hears audio of {SAMPLE_RATE} Hz, but the model {rate} Hz; "
                "write 'segment: {type: none}'."
            )
        self._pause = self.segment.seconds * SAMPLE_RATE
        self._longest = self.segment.longest * SAMPLE_RATE
        self.listen(start_of_stream, first.timed)
        self._quiet = 0  # samples up to the end of the last chunk without speech
        self._loud = 0  # samples up to the end of the last chunk of speech
        self._part: Stream | None = None  # None between utterances
        self._given = 0  # samples up to the last one that was passed to this utterance or the one before
        self._due = 0.0  # samples at which the utterance has something to do; until then it gets none

    @property
    def skipped(self) -> int:
        return self._pace.skipped

    def _rest(self) -> Steps[None]:
        if self._part is not None:
            yield from self._end(self._part)

    def wait(self, seconds: float) -> None:
        self._pace.work((self._start + self._audio.size) * 1000 / SAMPLE_RATE, seconds)

    def _open(self, meter: Meter, history: str) -> Stream:
        stream = self.open_part(meter, history, self._pace, self._begin * 1000 / SAMPLE_RATE)
        if self._told is not None:
            stream.tell(self._told)
        return stream

    def _step(self, end: int) -> Steps[None]:
        """Hear the next chunk, up to sample `end`, and pass the samples that are known to be speech to the loop."""
        before = self.meter.seconds
        speech = yield from self._is_speech(end)
        self._pace.work(end * 1000 / SAMPLE_RATE, self.meter.seconds - before)
        if speech:
            self._loud = end
        else:
            self._quiet = end
        if self._part is None and end - self._quiet >= LEAST_SPEECH:
            self._begin = self._given = max(self._quiet - BEFORE, self._given)
            self._part = self._open(self.meter.part(("utterance", self._begin)), self._history(end))
            self._due = 0.0
        if self._part is None:
            keep = max(self._quiet - BEFORE, self._given)
        else:
            # Silence is held back until more speech shows that it lies within the utterance.
            if self._loud == end and end >= self._due:
                yield from self._give(self._part)
                self._due = end + self._part.missing
            size = end - self._begin
            enough = CHUNK if size >= self._longest else self._pause
            if end - self._loud >= enough or size >= 2 * self._longest:
                yield from self._end(self._part)
            keep = self._given
        self._keep(keep)

    def _give(self, utterance: Stream, finished: bool = False) -> Steps[None]:
        """Pass all audio up to the end of the last speech."""
        samples = self._samples(self._given, self._loud)
        self._given = self._loud
        yield from self._passed(utterance, samples, finished)

    def _history(self, now: int) -> str:
        """The text that the next utterance's model is shown. now: a sample's number."""
        history = self.segment.history
        if not history.words:
            return ""
        since = 1000 * (now / SAMPLE_RATE - history.seconds)
        recent = list(itertools.takewhile(lambda word: word.delay_ms >= since, reversed(self.emissions)))
        text = "".join(word.text for word in reversed(recent)).strip()
        return text[-history.words :] if self.unit == "char" else " ".join(text.split()[-history.words :])

    def _end(self, utterance: Stream) -> Steps[None]:
        """Decode an utterance to its end."""
        yield from self._give(utterance, finished=True)
        if self._spoken is not None:
            begin_ms = utterance.begin_ms
            self._spoken += [(begin_ms + begin, begin_ms + end) for begin, end in utterance.spoken_ms or ()]
        self.segments.append((self._begin * 1000 / SAMPLE_RATE, self._given * 1000 / SAMPLE_RATE))
        self._part = None
