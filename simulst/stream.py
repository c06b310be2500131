"""The loop that every system shares: read, search, commit.

    for each new piece of audio:
        READ    is there enough new speech to decode? (It may have the audio listened to.)
        search  best continuations of the committed tokens; STOP ends it
        COMMIT  which tokens are safe for ever

Words leave the loop once they are whole; what has left it never changes.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.models.base import Memo, Session
from simulst.policy.read import Block, listener_of
from simulst.policy.stop import EndOfSentence, EnoughWords, Stop
from simulst.search import Beam, Tokens

CUT = "\N{REPLACEMENT CHARACTER}"  # where a character is cut in two


@dataclass(frozen=True)
class Emission:
    """A word (a character for zh, ja, ...) that was written for ever.

    delay_ms: source read when it was written. elapsed_ms: the same plus all computation time so far.
    """

    text: str
    delay_ms: float
    elapsed_ms: float


@dataclass
class Stream:
    """One utterance on its way through the loop.

    The result does not depend on how the audio is cut into pushes: decoding happens exactly at the positions that
    READ names, and at the end. (Only where the end is told after a step that was already there, both steps happen.)
    memo: what READ's listener shares with other configurations; that of the session, if it has one.
    `emissions` and `reads` (ms of source at each decoding step, growing) are the whole record.
    Raises SimulstError: a READ whose listener can't be loaded, or hears another sample rate than the session.
    """

    session: Session
    decoding: Decoding
    unit: str = "word"
    emissions: list[Emission] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    compute_seconds: float = 0.0
    memo: Memo | None = None

    def __post_init__(self) -> None:
        self._committed: Tokens = ()
        self._written = 0  # tokens whose words have left
        # A user's own STOP and COMMIT need not know of these.
        self._most_words: int | None = getattr(self.decoding.stop, "max_new_words", None)
        self._whole_words = bool(getattr(self.decoding.commit, "whole_words", False) or self._most_words)
        self._last_word = bool(getattr(self.decoding.commit, "last_word", False))
        self._memo = self.memo or Memo(keep=False)
        self._listener = listener_of(self.decoding.read, self._memo)
        if self._listener and self._listener.sample_rate != self.session.sample_rate:
            raise SimulstError(
                f"read: {self.decoding.read!r} hears audio of {self._listener.sample_rate} Hz, and the model "
                f"{self.session.sample_rate} Hz; take another READ, such as chunk."
            )
        self._beams: list[Beam] = []
        self._pending = np.zeros(0, dtype=np.float32)
        self._finished = False

    @property
    def committed(self) -> Tokens:
        """All tokens committed so far."""
        return self._committed

    def push(self, samples: np.ndarray, finished: bool = False) -> list[Emission]:
        """Hand over more audio; get the words that became final.

        samples: shape (n,), float32, at the session's rate, n >= 0. finished: no audio comes after these.
        Raises SimulstError: audio after the end, samples that are not finite, a COMMIT that takes something back.
        """
        if self._finished:
            raise SimulstError("this stream has ended; open a new one for more audio.")
        samples = check_samples(samples)
        before = len(self.emissions)
        # Always a copy: the caller may fill the same buffer again.
        self._pending = np.concatenate([self._pending, samples])
        while self._pending.size >= (need := self._needed()) and not (finished and self._pending.size == need):
            if self._read(int(need), final=False):
                self._step(final=False)
        if finished:
            self._finished = True
            self._read(self._pending.size, final=True)
            self._step(final=True)
        return self.emissions[before:]

    def _needed(self) -> float:
        """Samples until the next step, or question to the listener: READ's word, unless the window is full before."""
        if isinstance(self.decoding.read, Block):
            target = self.session.block_end(self.decoding.read.n)
            return min(target, self.session.limit()) - self.session.length
        decoded = self._position()
        target = self.decoding.read.next_ms(decoded)
        if not target > decoded:  # nor for NaN
            read = self.decoding.read
            raise SimulstError(f"read: {read!r} asked for {target:g} ms after {decoded:g} ms; it must grow.")
        samples = math.inf if math.isinf(target) else math.ceil(target * self.session.sample_rate / 1000)
        return min(samples, self.session.limit()) - self.session.length

    def _position(self) -> float:
        """Source read, in ms."""
        return self.session.length * 1000 / self.session.sample_rate

    def _read(self, count: int, final: bool) -> bool:
        """Hand pending samples to the session; whether to decode behind them."""
        samples, self._pending = self._pending[:count], self._pending[count:]
        self.session.extend(samples, final)
        if self._listener is None or final:
            return True
        started, saved = time.perf_counter(), self._memo.saved_seconds
        ready = self._listener.ready(samples)
        self.compute_seconds += time.perf_counter() - started + self._memo.saved_seconds - saved
        return ready or self.session.is_full()

    def _step(self, final: bool) -> None:
        started, saved = time.perf_counter(), self.session.saved_seconds
        # With no more source to come, a bound on new tokens only cuts the same words into several steps.
        stop: Stop = EndOfSentence() if final else self.decoding.stop
        if self._most_words and not final:
            stop = EnoughWords(self._most_words, self.unit, self._count)
        beam = self.session.search(self._committed, self.decoding.search, stop)
        best = beam[0].tokens if beam else self._committed
        if final:
            self._commit(best)
        else:
            self._beams = [*self._beams, beam][-self.decoding.commit.window :]
            stable = self.decoding.commit.stable(self._beams)
            if beam and beam[0].withheld:
                stable = stable[: max(len(self._committed), len(stable) - beam[0].withheld)]
            if self._last_word:
                stable = self._without_stop(stable)
            if self._whole_words:
                known = len(self._committed)
                stable = stable[: known + self._boundary(stable[known:], self._most_words)]
            self._commit(stable)
            if self.session.is_full():
                # Speech is about to leave the window: its words are better committed early than lost.
                self._commit(self.session.spoken(best))
                self.session.slide(self._committed)
        words = self._write(final)
        saved = self.session.saved_seconds - saved
        self.compute_seconds += time.perf_counter() - started + saved
        delay = self._position()
        if not self.reads or delay > self.reads[-1]:
            self.reads.append(delay)
        elapsed = delay + self.compute_seconds * 1000
        self.emissions += [Emission(word, delay, elapsed) for word in words]

    def _commit(self, stable: Tokens) -> None:
        known = min(len(stable), len(self._committed))
        if stable[:known] != self._committed[:known]:
            raise SimulstError(f"commit: {self.decoding.commit!r} took back tokens that were committed before.")
        if len(stable) > known:
            self._committed = stable

    def _boundary(self, tokens: Tokens, most: int | None = None) -> int:
        """How many of the tokens form whole words (characters), `most` of them: behind each one another begins.

        If the first token brings more than `most`, it is taken as it is; it can't be divided.
        """
        bound = 0
        for end in range(len(tokens), 0, -1):
            if self._is_boundary(tokens, end):
                bound = end
                if most is None or len(self._units(tokens[:end])) <= most:
                    break
        return bound

    def _is_boundary(self, tokens: Tokens, end: int) -> bool:
        """Whether tokens[:end] are whole words (characters), by what follows them or by a space at their end."""
        text = self.session.text(tokens[:end])
        if self.unit == "word" and text[-1:].isspace():
            return True
        if end == len(tokens) or (self.unit == "char" and text.endswith(CUT)):
            return False
        return len(self._units(tokens[: end + 1])) > len(self._units(tokens[:end]))

    def _count(self, tokens: Tokens) -> int:
        """Whole words (characters)."""
        return len(self._units(tokens[: self._boundary(tokens)]))

    def _units(self, tokens: Tokens) -> list[str]:
        text = self.session.text(tokens)
        return list(text.replace(" ", "")) if self.unit == "char" else text.split()

    def _write(self, final: bool) -> list[str]:
        """The words (characters) that are whole now and were not written yet.

        With whole_words the next word's beginning has been seen already. Should the model go on with the last written
        word after all, what it adds leaves as a word of its own: nothing is taken back.
        """
        new = self._committed[self._written :]
        if not final and (self.unit == "char" or self._last_word):
            new = self._whole_characters(new)
        elif not final and not self._whole_words:
            new = new[: self._boundary(new)]
        self._written += len(new)
        return self._units(new)

    def _without_stop(self, tokens: Tokens) -> Tokens:
        """The tokens but for new ones of punctuation at their end."""
        end = len(tokens)
        while end > len(self._committed):
            text = self.session.text(tokens[end - 1 : end])
            if any(character.isalnum() or character == CUT for character in text):
                break
            end -= 1
        return tokens[:end]

    def _whole_characters(self, tokens: Tokens) -> Tokens:
        while tokens and self.session.text(tokens).endswith(CUT):
            tokens = tokens[:-1]
        return tokens


def check_samples(samples: np.ndarray) -> np.ndarray:
    """Pushed audio as float32, shape (n,). Raises SimulstError: of another type or shape, or not finite."""
    samples = np.asarray(samples)
    if not np.issubdtype(samples.dtype, np.floating):
        raise SimulstError(f"audio of type {samples.dtype} was pushed; give float32 samples within [-1, 1].")
    if samples.ndim != 1:
        raise SimulstError(f"audio of shape {samples.shape} was pushed; give mono samples of shape (n,).")
    if not np.isfinite(samples).all():
        raise SimulstError("audio with NaN or infinite samples was pushed; check the source.")
    return samples.astype(np.float32)
