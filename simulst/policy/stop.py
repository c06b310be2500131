"""STOP: when a step's search ends. It may end before the model has ended the sentence.

At the end of the source STOP is not asked: the search runs to the end of the sentence.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.needs import Need
from simulst.policy.context import Context, View
from simulst.words import Words


class Stopping(ABC):
    """A STOP, opened for one stream.

    discard: how many of the last tokens are dropped when `ends` ends the search.
    """

    discard: int = 0

    @property
    @abstractmethod
    def options(self) -> Stop:
        """The options that were opened. If options, audio and committed tokens are the same, so are the results."""

    def hear(self, samples: np.ndarray, final: bool) -> None:
        """Take in new audio, (n,) float32. It is called only if STOP needs `Need.AUDIO`.

        final: whether the audio ends with these samples.
        """

    @abstractmethod
    def ends(self, view: View) -> bool:
        """Whether the search ends now, with its best hypothesis. This is asked before each token."""

    def first(self, new: Tokens) -> Tokens:
        """The tokens that a step may commit, of those that COMMIT releases: all, or only the first ones."""
        return new


class Stop(Stopping):
    """Options of a STOP: a frozen dataclass with a label. Most of them have no state, so `open` returns them unchanged.

    label: a short name for tables and curves; empty for the default.
    curve: the label with "n" in place of the number that changes along a curve.
    swept: that number.
    needs: what STOP asks of the view.
    files: the files that `open` reads.
    whole_words: whether COMMIT must commit whole words.
    ends_in_word: whether the search may end within a word, so that COMMIT must also hold the last word back.
    enough_tokens: a number of new tokens that a step rarely exceeds; None: no such number. It is for searches that
        can't be stopped between two tokens.
    """

    needs: frozenset[Need] = frozenset()
    files: tuple[str, ...] = ()
    whole_words: bool = False
    ends_in_word: bool = False
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
        """Open this STOP for a new stream. Raises SimulstError: options that do not fit the model."""
        return self


@dataclass(frozen=True)
class EndOfSentence(Stop):
    """Decode until the model writes `<eos>`."""

    def ends(self, view: View) -> bool:
        return False


@dataclass(frozen=True)
class MaxTokens(Stop):
    """At most `n` new tokens per step: the write parameter N of Nguyen et al. 2021, section 2.2."""

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
    """At most `n` words per step; for zh, ja, ... characters. wait-k uses n 1.

    A word counts when the next word has begun, because only then it is known to be complete. So COMMIT must commit
    whole words. The last word of a sentence is not written before the source ends, even if the model ends the sentence
    early. If the first token of a step has several characters, it counts as one.
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
        raise AssertionError("only an opened STOP knows what a word is")


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
    """The CTC online policy (CUNI-KIT 2023, section 2.3): end at log Odds_end(g) > threshold, and drop g's last token.

    threshold: C_end in the paper, which recommends -2 to 2. With a lower threshold each search ends sooner, less is
        written, and latency is higher.
    exact: whether the denominator of the odds sums over the whole vocabulary (equation 4) or has only the decoder's
        best token (equation 5). The exact sum is larger, so searches end later and latency is lower.
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
    """AlignAtt (Papi et al. 2023): end before a token that attends most to one of the last `frames` encoder frames.

    frames: how many encoder frames at the end of the audio count as the last. A frame is 20 ms in Whisper and 40 ms in
        most other models.
    layers: the decoder layers whose source attention is averaged, counted from 0 (-1: the last); empty: all.
    heads: the heads in them, counted the same way; empty: all.

    If `layers` and `heads` are empty, and the model names the heads that align its text, only these are averaged.
    Whisper does (`alignment_heads`). In CTranslate2's form it shows no others, so `layers` and `heads` stay empty.
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
    """Several STOPs at once. The search ends as soon as one of them ends it.

    of: the STOPs.
    """

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
    def ends_in_word(self) -> bool:  # type: ignore[override]
        return any(stop.ends_in_word for stop in self.of)

    @property
    def enough_tokens(self) -> int | None:  # type: ignore[override]
        return min((stop.enough_tokens for stop in self.of if stop.enough_tokens is not None), default=None)

    @property
    def label(self) -> str:
        return "+".join(stop.label for stop in self.of if stop.label)

    def open(self, context: Context) -> Stopping:
        return _AnyOf(self, [stop.open(context) for stop in self.of])

    def ends(self, view: View) -> bool:
        raise AssertionError("only an opened STOP can be asked")


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
