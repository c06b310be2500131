"""The loop that every system shares: read, search, commit.

    for each new piece of audio:
        READ    is there enough new speech to decode?
        search  best continuations of the committed tokens; STOP ends it
        COMMIT  which tokens are final?

Words leave the loop once they are whole; what has left it never changes.
"""

from __future__ import annotations

import bisect
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from simulst.background import Background
from simulst.calls import Steps, run_alone, steps_of
from simulst.config import Decoding
from simulst.errors import SimulstError, sentence_of, warn_once
from simulst.hypotheses import Beam, Tokens, without_end
from simulst.meter import Meter
from simulst.needs import Need
from simulst.policy.context import Context
from simulst.policy.late import Pace
from simulst.policy.stop import Watched
from simulst.search import SearchOptions
from simulst.session import Session, Window, find
from simulst.words import CUT, Words

ROUNDING = 1e-6  # samples; converting ms to samples may be off by so much
LEAST_MS = 100.0  # of audio; a model that heard less would invent its text
LONG_SECONDS = 120.0  # no sentence takes as long
AFTER_THE_END = "this stream has ended; open a new one for more audio."
LOUDEST = 100.0  # a sample; audio may be clipped or too loud, but what is louder has another unit


@dataclass(frozen=True)
class Emission:
    """A word that was written and is final. For languages without spaces (zh, ja, ...) it is a character.

    The texts of all emissions, joined, are the whole text. A piece without a leading space belongs to the word before.

    text: the word, with the space before it.
    delay_ms: ms of source that had been read when the word was written.
    elapsed_ms: delay_ms plus the computation time of the stream so far, in ms.
    """

    text: str
    delay_ms: float
    elapsed_ms: float


@dataclass(frozen=True)
class Step:
    """What a decoding step found and decided, for whoever watches a stream. All texts are of the utterance's beginning.

    read_ms: ms of source that had been read, of the whole stream.
    beams: the beams that COMMIT looked at, latest last: the texts of their hypotheses, best first.
    stable: what COMMIT found stable or overdue.
    before, after: what was committed before the step and after it.
    stopped: whether STOP ended the search; None: it was not asked. why: see `Stopping.why`.
    final: whether it is the step at the end of the source, where all is committed.
    """

    read_ms: float
    beams: tuple[tuple[str, ...], ...]
    stable: str
    before: str
    after: str
    stopped: bool | None = None
    why: str = ""
    final: bool = False


class OpenStream(ABC):
    """A stream of speech that is being translated: an utterance, or a recording of several. `open_stream` returns one.

    An error in a step ends a stream, as nobody knows how far the step came. `emissions` keeps all words.

    unit: what is written at once, "word" or "char".
    meter: the stream's clock.
    emissions: all words written so far.
    reads: ms of source read at each decoding step, growing.
    writes: tokens that each of these steps wrote, see `Instance`; empty if they are not counted.
    segments: first and last ms of source of each utterance that has ended; none if the stream is one utterance.
    languages: those that were found, each with the ms from which on it is heard; none if the language was named.
    source: the words of the source text that are final, if the model has one, as a cascade does; None: it has not. In
        languages with spaces each begins with one.
    """

    unit: str
    meter: Meter
    emissions: list[Emission]
    reads: list[float]
    writes: list[int]
    segments: Sequence[tuple[float, float]]
    languages: Sequence[tuple[float, str]] = ()
    source: list[Emission] | None = None
    _ended = ""  # a sentence that says why the stream takes no more audio

    @property
    @abstractmethod
    def spoken_ms(self) -> list[tuple[float, float]] | None:
        """When each word was spoken: first and last ms, once the stream has ended.

        None: this was not asked for when it was opened, or the model can't tell.
        """

    @property
    @abstractmethod
    def skipped(self) -> int:
        """How many decoding steps were left out because computation was too slow (see simulst/policy/late.py)."""

    @property
    @abstractmethod
    def unstable_text(self) -> str:
        """What follows the text written in the best hypothesis of the last step. It may still change."""

    @property
    def failed(self) -> bool:
        """Whether an error has ended the stream."""
        return self._ended not in ("", AFTER_THE_END)

    @property
    def committed_text(self) -> str:
        """The text that was written. It never changes."""
        return "".join(word.text for word in self.emissions)

    def push(self, samples: np.ndarray, finished: bool = False) -> list[Emission]:
        """Take in more audio and return the words that became final.

        samples: (n,) float32, at the session's sample rate, n >= 0.
        finished: whether the audio ends with these samples.

        Raises SimulstError: samples that are not finite, or of another kind: they are not taken in, and the stream goes
            on; audio after the end; any error in a step, also of a policy or model of one's own: it ends the stream.
        """
        with self.meter.running():  # the answers of its calls count, too
            return run_alone(self.push_steps(samples, finished))

    def push_steps(self, samples: np.ndarray, finished: bool = False) -> Steps[list[Emission]]:
        """`push` in steps: whoever takes them answers their calls, alone or with those of other streams.

        The stream's clock counts the steps, and stands still in between; for the answers, charge it (`Meter.charge`).
        Take all steps of a push before the next push. If a call can't be answered, throw the error into the steps.
        """
        return self.meter.metered(self._pushed(samples, finished))

    def _pushed(self, samples: np.ndarray, finished: bool) -> Steps[list[Emission]]:
        if self._ended:
            raise SimulstError(self._ended)
        samples, before = check_samples(samples), len(self.emissions)
        try:
            yield from self._take_in(samples, finished)
        except Exception as error:
            said = sentence_of(error)
            self._ended = f"this stream has ended with an error ({said.rstrip('.')}); open a new one."
            if isinstance(error, SimulstError):
                raise
            raise SimulstError(said) from error
        except BaseException:
            self._ended = "this stream was interrupted; open a new one."
            raise
        if finished:
            self._ended = AFTER_THE_END
        return self.emissions[before:]

    @abstractmethod
    def tell(self, background: Background) -> None:
        """From here on, this is known of the recording. It counts from the next search on."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Tell LATE for how many seconds the last push waited for other streams. The meter does not count them."""

    def count(self, text: str) -> int:
        """The length of a text in the model's tokens; 0 if it is not known."""
        return 0

    @abstractmethod
    def _take_in(self, samples: np.ndarray, finished: bool) -> Steps[None]:
        """Take in (n,) float32, and write what becomes final."""


@dataclass
class Stream(OpenStream):
    """One utterance, decoded while it is spoken.

    The result does not depend on how the audio is cut into pushes. Decoding happens at the positions that READ names
    and at the end. A position is skipped if the model has heard nothing new since the last step. There is one
    exception: if the audio ends exactly at such a position and `finished` comes in a later, empty push, the stream
    decodes twice there.

    session: the utterance inside the model.
    decoding: the policies and the search.
    unit: what is written at once, "word" or "char".
    emissions: all words written so far.
    reads: ms of source read at each decoding step, strictly rising.
    writes: tokens committed at each of them; at the end of the source, as many as STOP lets a step write.
    pace: how far computation is behind, of the whole stream that this one is a part of. None: of this one.
    begin_ms: where this part begins in the whole stream.
    load_model: loads other models, for the policies that need one.
    timed: whether `spoken_ms` is asked for once the stream has ended. Finding these times is not part of its lag.
    watch: is called after each decoding step. None: nobody watches.

    Raises SimulstError: the configuration needs something that the model does not have; a policy can't be opened.
    """

    session: Session
    decoding: Decoding
    unit: str = "word"
    emissions: list[Emission] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    segments: tuple[tuple[float, float], ...] = ()  # none: the stream is one utterance
    pace: Pace | None = None
    begin_ms: float = 0.0
    load_model: Callable[..., Any] | None = None
    timed: bool = False
    watch: Callable[[Step], None] | None = None

    def __post_init__(self) -> None:
        self.meter = self.session.meter
        session, traits = self.session, self.session.traits
        self._window = session if isinstance(session, Window) else None
        self.source = None if session.source_text is None else []
        self.timed = self.timed and Need.END_TIMES in traits.gives
        self._ends: list[float] = []  # seconds, of the committed tokens that have left the window, if `timed`
        usual = traits.default_search
        self._search: SearchOptions = (self.decoding.search or usual).filled(usual, traits.gives)
        self.decoding.check(self._search, traits.gives)
        self._words = Words(self.session.text, self.unit)
        self._committed: Tokens = ()
        context = Context(
            words=self._words,
            meter=self.meter,
            sample_rate=traits.sample_rate,
            block_end=lambda count: self._ms(session.block_end(count)),
            layers=traits.layers,
            heads=traits.heads,
            committed=lambda: self._committed,
            source_words=lambda: session.source_words,
            languages=session.opening.languages,
            trained_wait=traits.trained_wait,
            wait=traits.wait,
            next_ms=lambda ms: self._reading.next_ms(ms),
            load_model=self.load_model,
        )
        self._reading = self.decoding.read.open(context)
        opened = self.decoding.stop.open(context)
        self._watched = Watched(opened)
        self._stopping: Any = opened if self.watch is None else self._watched
        self._committed = opened.begins
        self._counted = len(self._committed)  # of these; `writes` has them
        self._best: Tokens = ()  # the best hypothesis of the last step
        self._beams: list[Beam] = []
        self._pending = np.zeros(0, dtype=np.float32)
        self._available = 0  # see `Session.available`, at the last step
        self._pace = self.pace or Pace()

    @property
    def skipped(self) -> int:
        return self._pace.skipped

    @property
    def committed(self) -> Tokens:
        """All tokens committed so far."""
        return self._committed

    @property
    def best(self) -> Tokens:
        """The best hypothesis of the last step: the committed tokens, and others that may still change."""
        return max(self._best, self._committed, key=len)

    @property
    def unstable_text(self) -> str:
        whole, written = self._words.plain(self.best), self.committed_text
        # A tokeniser may write the same tokens in another way once others follow; then nothing is known of the rest.
        return whole[len(written) :] if whole.startswith(written) else ""

    @property
    def spoken_ms(self) -> list[tuple[float, float]] | None:
        """A word begins where the one before it ends."""
        if not self.timed:
            return None
        known = len(self._ends)
        lengths = [len(self._words.plain(self._committed[:end]).rstrip(CUT)) for end in range(1, known + 1)]
        ends, seconds = [], 0.0
        for written in itertools.accumulate(len(word.text) for word in self.emissions):
            place = min(bisect.bisect_left(lengths, written), known - 1)  # the token with which the word is whole
            seconds = max(seconds, self._ends[place]) if known else seconds
            ends.append(seconds * 1000)
        return list(itertools.pairwise([0.0, *ends]))

    @property
    def missing(self) -> float:
        """How many more samples the next step needs. Fewer are only kept."""
        return self._needed() - self._pending.size

    def _take_in(self, samples: np.ndarray, finished: bool) -> Steps[None]:
        # `concatenate` always copies, so the caller may reuse its buffer.
        self._pending = np.concatenate([self._pending, samples])
        while self._pending.size >= (need := self._needed()) and not (finished and self._pending.size == need):
            yield from self._take(int(need))
        if finished:
            yield from self._take(self._pending.size, final=True)

    def tell(self, background: Background) -> None:
        self.session.tell(background)

    def count(self, text: str) -> int:
        return len(self.session.spell(text))

    def wait(self, seconds: float) -> None:
        self._pace.work(self.begin_ms + self._position() + self._ms(self._pending.size), seconds)

    def _needed(self) -> float:
        """How many more samples to take in before READ is asked again, or before the window is full."""
        position = self._position()
        target = self._reading.next_ms(position)
        if not target > position:  # also true if target is NaN
            read = self.decoding.read
            raise SimulstError(
                f"read: {read!r} returned {target:g} ms at {position:g} ms; next_ms must return a later position."
            )
        samples = target * self.session.traits.sample_rate / 1000
        if not math.isinf(samples):  # at least one sample: a later position may lie within the same one
            samples = max(math.ceil(samples - ROUNDING), self.session.length + 1)
        return min(samples, self._limit()) - self.session.length

    def _take(self, count: int, final: bool = False) -> Steps[None]:
        """Pass pending samples to the session, and to READ and STOP if they need audio. Step if READ is ready."""
        before = self.meter.seconds
        samples, self._pending = self._pending[:count], self._pending[count:]
        yield from steps_of(self.session.extend(samples, final))
        if self.source is not None:
            delay = self._position()
            new = (self.session.source_text or ())[len(self.source) :]
            self.source += [Emission(word, delay, delay + self.meter.seconds * 1000) for word in new]
        traits = self.session.traits
        any_length = traits.any_length or Need.LEAVING in self.decoding.segment.needs
        if self.pace is None and not any_length and self.session.length > LONG_SECONDS * traits.sample_rate:
            warn_once(
                f"more than {LONG_SECONDS / 60:.0f} minutes of audio are decoded as one sentence; add 'segment: "
                "{type: pause, seconds: 0.5}' to the decoding configuration."
            )
        if Need.AUDIO in self.decoding.read.needs and not final:
            yield from steps_of(self._reading.hear(samples))
        if Need.AUDIO in self.decoding.stop.needs:
            yield from steps_of(self._stopping.hear(samples, final))
        if final:
            yield from self._finish()
        elif self.session.length >= self._limit() or (self._reading.ready() and not self._skips()):
            yield from self._step()
        self._pace.work(self.begin_ms + self._position(), self.meter.seconds - before)

    def _skips(self) -> bool:
        """Whether this step is left out, because the audio of the next one will be there before it could begin."""
        if not self.decoding.late.skips:
            return False
        return self._pace.skip(self.begin_ms + self._reading.next_ms(self._position()))

    def _step(self) -> Steps[None]:
        """Search, commit the stable tokens, write the complete words."""
        if self.session.available == self._available:
            return  # the model would repeat its last result, and COMMIT would count that as agreement
        self._available = self.session.available
        self._watched.ended = None
        found = yield from find(self.session, self._committed, self._search, self._stopping)
        commit, known = self.decoding.commit, len(self._committed)
        self._best = without_end(found.best) or self._committed
        self._beams = [*self._beams, found.beam][-commit.window :]
        stable = commit.stable(self._beams)
        if not (isinstance(stable, tuple) and all(isinstance(token, Integral) for token in stable)):
            raise SimulstError(f"commit: {commit!r}: stable() must return a tuple of tokens, not {stable!r:.80}.")
        kept = without_end(stable[: max(known, len(stable) - found.held_back)])
        self._check_kept(kept)
        # Not what the search holds back.
        late = commit.overdue(self._best[known : len(self._best) - found.held_back], self._words, self._ago)
        compared = map(without_end, commit.compared(self._beams))
        after = (tokens[len(kept) :] if tokens[: len(kept)] == kept else () for tokens in compared)
        new = max(commit.release(kept[known:], self._words, after), late, key=len)
        self._committed += self._stopping.first(new)
        self._make_room()
        self._write()
        self._tell(self._beams, max(kept, self._committed[:known] + late, key=len), known)

    def _ago(self) -> list[float]:
        """For each token of the best hypothesis after those committed before this step: seconds since it was spoken."""
        evicted = self._window.evicted if self._window else 0
        ends = self.session.end_times(self._best[evicted:])[len(self._committed) - evicted :]
        return [self._position() / 1000 - end for end in ends]

    def _finish(self) -> Steps[None]:
        """Search to the end of the sentence. Commit and write all of it."""
        known, beams = len(self._committed), list[Beam]()
        if self._position() >= LEAST_MS or len(self._committed) > len(self._stopping.begins):
            found = yield from find(self.session, self._committed, self._search, None)
            self._check_kept(found.best)
            self._committed = max(found.best, self._committed, key=len)
            beams = [found.beam]
        self._best = self._committed
        self._write(final=True)
        self._tell(beams, self._committed, known, final=True)
        self._ends += self._end_times()

    def _tell(self, beams: Sequence[Beam], stable: Tokens, known: int, final: bool = False) -> None:
        """Tell whoever watches. known: how many tokens were committed before the step."""
        if self.watch is None:
            return
        text = self._words.plain
        stopped = None if final else self._watched.ended
        self.watch(
            Step(
                self.begin_ms + self._position(),
                tuple(tuple(text(without_end(found.tokens)) for found in beam) for beam in beams),
                text(stable),
                text(self._committed[:known]),
                text(self._committed),
                stopped,
                "" if stopped is None else self._watched.why(),
                final,
            )
        )

    def _end_times(self) -> list[float]:
        """Of the committed tokens in the window, if they are asked for: seconds."""
        tokens = self._committed[self._window.evicted if self._window else 0 :]
        if not (self.timed and tokens):
            return []
        with self.meter.uncounted():
            return list(self.session.end_times(tokens))

    def _make_room(self) -> None:
        """Move a full window. The words of the audio that leaves are committed: without it they would be lost.

        Of a window that is not full, SEGMENT says what leaves.
        """
        window = self._window
        if window is None:
            return
        if (spoken := window.leaving(self._best)) is not None:
            self._check_kept(spoken)
            self._committed = max(spoken, self._committed, key=len)
            ends = self._end_times()
            window.slide(self._committed)
        elif dropped := self.decoding.segment.dropped(self._committed[window.evicted :], self._words):
            ends = self._end_times()
            window.drop(self._committed, dropped)
        else:
            return
        self._ends += ends[: window.evicted - len(self._ends)]

    def _write(self, final: bool = False) -> None:
        words = self._words.write(self._committed, self.decoding.commit.ends_word, final)
        delay = self._position()
        written = len(self._committed) - self._counted
        self._counted += written
        if not self.reads or delay > self.reads[-1]:
            most = self.decoding.stop.most_tokens if final else None
            self.reads.append(delay)
            self.writes.append(written if most is None else min(written, most))
        elapsed = delay + self.meter.seconds * 1000
        self.emissions += [Emission(word, delay, elapsed) for word in words]

    def _check_kept(self, tokens: Tokens) -> None:
        known = min(len(tokens), len(self._committed))
        if tokens[:known] != self._committed[:known]:
            raise SimulstError(
                f"commit: {self.decoding.commit!r} changed tokens that were committed before; "
                "stable() must return an extension of them."
            )

    def _position(self) -> float:
        """How much source has been read, in ms."""
        return self._ms(self.session.length)

    def _ms(self, samples: float) -> float:
        return samples * 1000 / self.session.traits.sample_rate

    def _limit(self) -> float:
        """The length (samples) at which the window is due; infinite without a window."""
        return self._window.limit() if self._window else math.inf


def check_samples(samples: np.ndarray) -> np.ndarray:
    """The samples as (n,) float32.

    Raises SimulstError: wrong type or shape; samples that are not finite, or much too loud.
    """
    samples = np.asarray(samples)
    if not np.issubdtype(samples.dtype, np.floating):
        raise SimulstError(f"audio of type {samples.dtype} was pushed; give float32 samples within [-1, 1].")
    if samples.ndim != 1:
        raise SimulstError(f"audio of shape {samples.shape} was pushed; give mono samples of shape (n,).")
    if not np.isfinite(samples).all():
        raise SimulstError("audio with NaN or infinite samples was pushed; check the source.")
    if (loudest := float(np.abs(samples).max(initial=0))) > LOUDEST:
        raise SimulstError(
            f"audio with a sample of {loudest:g} was pushed; samples lie within [-1, 1], so divide those of 16 bits "
            "by 32768."
        )
    return samples.astype(np.float32)
