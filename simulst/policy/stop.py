"""STOP: when the decoding of one piece of source ends, before its end of sentence if need be.

At the end of the source no STOP is asked: the search runs to the end of the sentence.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from simulst.errors import SimulstError
from simulst.needs import Need
from simulst.policy.context import Context, View
from simulst.search import Tokens
from simulst.words import Words


class Stopping(ABC):
    """A STOP, opened for one stream.

    discard: how many of the last tokens are given up once `ends` has said so.
    """

    discard: int = 0

    @property
    @abstractmethod
    def options(self) -> Stop:
        """What was opened. Searches that agree in it, in the audio and in the committed tokens give the same."""

    def hear(self, samples: np.ndarray, final: bool) -> None:
        """Take in audio that is new, (n,) float32. Only a STOP that needs `Need.AUDIO` is called."""

    @abstractmethod
    def ends(self, view: View) -> bool:
        """Whether the search ends with its best hypothesis. It is asked before each token."""

    def first(self, new: Tokens) -> Tokens:
        """What a step may commit of the tokens that COMMIT lets through."""
        return new


class Stop(Stopping):
    """Options of a STOP: a frozen dataclass with a label. Most hold no state: opened, they are themselves.

    label: a short name for tables and curves, empty for the ordinary case. curve, swept: the label with "n" for the
    number that changes along a curve, and that number. needs: what is asked of the view. files: what `open` reads.
    whole_words: whether COMMIT has to commit whole words. enough_tokens: how many new tokens a step hardly ever
    exceeds, for a search that can't be stopped between two tokens; None: any number.
    """

    needs: frozenset[Need] = frozenset()
    files: tuple[str, ...] = ()
    whole_words: bool = False
    enough_tokens: int | None = None

    @property
    def label(self) -> str:
        return ""

    @property
    def curve(self) -> str:
        return self.label

    @property
    def swept(self) -> float | None:
        return None

    @property
    def options(self) -> Stop:
        return self

    def open(self, context: Context) -> Stopping:
        """For a new stream. Raises SimulstError: options that do not fit the model."""
        return self


@dataclass(frozen=True)
class EndOfSentence(Stop):
    """Decode until the model says `<eos>`."""

    def ends(self, view: View) -> bool:
        return False


@dataclass(frozen=True)
class MaxTokens(Stop):
    """At most `n` new tokens a step: the write parameter N of Nguyen et al. 2021, section 2.2."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SimulstError(f"stop: n is {self.n}; at least one token must be written.")

    @property
    def label(self) -> str:
        return f"N{self.n}"

    @property
    def curve(self) -> str:
        return "N-n"

    @property
    def swept(self) -> float | None:
        return self.n

    @property
    def enough_tokens(self) -> int | None:  # type: ignore[override]
        return self.n

    def ends(self, view: View) -> bool:
        return len(view.tokens) >= self.n

    def first(self, new: Tokens) -> Tokens:
        return new[: self.n]


@dataclass(frozen=True)
class MaxWords(Stop):
    """At most `n` words a step, or characters for zh, ja, ... (wait-k: 1).

    A word counts once the next one has begun; its end can't be known before. So COMMIT has to commit whole words, and
    nothing is written of a sentence's last word while the source goes on, nor of one that the model ends too early. A
    token of several characters counts as one if it comes first in a step.
    """

    n: int

    whole_words = True

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SimulstError(f"stop: n is {self.n}; at least one word must be written.")

    @property
    def label(self) -> str:
        return f"W{self.n}"

    @property
    def curve(self) -> str:
        return "W-n"

    @property
    def swept(self) -> float | None:
        return self.n

    @property
    def enough_tokens(self) -> int | None:  # type: ignore[override]
        return 10 * self.n

    def open(self, context: Context) -> Stopping:
        return _MaxWords(self, context.words)

    def ends(self, view: View) -> bool:
        raise AssertionError("what a word is, only an opened STOP knows")


class _MaxWords(Stopping):
    def __init__(self, options: MaxWords, words: Words) -> None:
        self._options, self._words = options, words

    @property
    def options(self) -> Stop:
        return self._options

    def ends(self, view: View) -> bool:
        return self._words.count(view.tokens) >= self._options.n

    def first(self, new: Tokens) -> Tokens:
        return new[: self._words.first(new, self._options.n)]


@dataclass(frozen=True)
class CTC(Stop):
    """The CTC online policy (CUNI-KIT 2023, section 2.3): end once log Odds_end(g) > threshold, less g's last token.

    threshold: C_end in the paper, which recommends -2 to 2. A lower one ends each search sooner, so that
        less is written and latency is higher.
    exact: the odds' denominator sums over the whole vocabulary (equation 4) instead of taking the decoder's favourite
        alone (equation 5). It is larger, so that searches end later and latency is lower.
    """

    threshold: float
    exact: bool = False

    discard = 1
    needs = frozenset({Need.CTC, Need.STEPS})

    def __post_init__(self) -> None:
        if math.isnan(self.threshold):
            raise SimulstError("stop: threshold is not a number; the paper's values lie between -2 and 2.")

    @property
    def label(self) -> str:
        return f"CTC{'-exact' if self.exact else ''}{self.threshold:+g}"

    @property
    def curve(self) -> str:
        return f"CTC{'-exact' if self.exact else ''}-n"

    @property
    def swept(self) -> float | None:
        return self.threshold

    def ends(self, view: View) -> bool:
        return view.odds_of_end(self.exact) > self.threshold


@dataclass(frozen=True)
class AlignAtt(Stop):
    """AlignAtt (Papi et al. 2023): end before a token whose attention is strongest on the last `frames` encoder frames.

    frames: of 40 ms in ESPnet models, of 20 ms in Whisper.
    layers, heads: those of the decoder whose source attention is averaged, counted from 0 (-1: the last); empty: all.
        A model that aligns its text by heads of its own choice (Whisper) takes none.
    """

    frames: int
    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()

    needs = frozenset({Need.ATTENTION})

    def __post_init__(self) -> None:
        if self.frames < 1:
            raise SimulstError(f"stop: frames is {self.frames}; at least the last frame must stop the search.")

    @property
    def label(self) -> str:
        return self._named(str(self.frames))

    @property
    def curve(self) -> str:
        return self._named("-n")

    @property
    def swept(self) -> float | None:
        return self.frames

    def _named(self, frames: str) -> str:
        chosen = (("L", self.layers), ("H", self.heads))
        return "-".join([f"AlignAtt{frames}", *(name + "+".join(map(str, which)) for name, which in chosen if which)])

    def open(self, context: Context) -> Stopping:
        for name, chosen, size in (("layers", self.layers, context.layers), ("heads", self.heads, context.heads)):
            if chosen and not size:
                raise SimulstError(f"stop: this model chooses the heads that align its text; leave '{name}' out.")
            for number in chosen:
                if not -size <= number < size:
                    raise SimulstError(
                        f"stop: {name} names {number}, but the decoder has {size} {name}, counted from 0."
                    )
        return self

    def ends(self, view: View) -> bool:
        return view.frames_left(self.layers, self.heads) < self.frames


@dataclass(frozen=True)
class AnyOf(Stop):
    """Several STOPs at once: the search ends as soon as one of them says so."""

    of: tuple[Stop, ...]

    def __post_init__(self) -> None:
        if not self.of:
            raise SimulstError("stop: any_of names no STOP; give at least one under 'of'.")

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        return frozenset[Need]().union(*(stop.needs for stop in self.of))

    @property
    def files(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(file for stop in self.of for file in stop.files)

    @property
    def whole_words(self) -> bool:  # type: ignore[override]
        return any(stop.whole_words for stop in self.of)

    @property
    def enough_tokens(self) -> int | None:  # type: ignore[override]
        return min((stop.enough_tokens for stop in self.of if stop.enough_tokens is not None), default=None)

    @property
    def label(self) -> str:
        return "+".join(stop.label for stop in self.of if stop.label)

    def open(self, context: Context) -> Stopping:
        return _AnyOf(self, [stop.open(context) for stop in self.of])

    def ends(self, view: View) -> bool:
        raise AssertionError("the parts are opened first")


class _AnyOf(Stopping):
    def __init__(self, options: AnyOf, parts: list[Stopping]) -> None:
        self._options, self._parts = options, parts

    @property
    def options(self) -> Stop:
        return self._options

    def hear(self, samples: np.ndarray, final: bool) -> None:
        for part in self._parts:
            if Need.AUDIO in part.options.needs:
                part.hear(samples, final)

    def ends(self, view: View) -> bool:
        ended = [part for part in self._parts if part.ends(view)]
        self.discard = max((part.discard for part in ended), default=0)
        return bool(ended)

    def first(self, new: Tokens) -> Tokens:
        for part in self._parts:
            new = part.first(new)
        return new
