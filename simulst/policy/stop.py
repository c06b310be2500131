"""STOP: when the decoding of one piece of source ends, before its end of sentence if need be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from simulst.errors import SimulstError
from simulst.search import Tokens


@dataclass(frozen=True)
class Evidence:
    """What a search knows of its best hypothesis g when it is about to extend it by another token.

    log_odds_end: log p_ctc(g·<eos>) - log p_ctc(g·more), by the CTC layer and the source so far.
    frames_left: encoder frames behind the one that the next token attends to most.
    tokens: of g, those behind the committed ones.
    Each is NaN, or empty, unless STOP asked for it.
    """

    log_odds_end: float = math.nan
    frames_left: float = math.nan
    tokens: Tokens = ()


class Stop(Protocol):
    """When to end a search. At the end of the source every search runs to the end of the sentence."""

    @property
    def label(self) -> str:
        """A short name for tables and curves; empty for the ordinary case."""

    @property
    def max_new_tokens(self) -> int | None:
        """The most tokens that a search may add to the committed ones; None: until the end of the sentence."""

    @property
    def max_new_words(self) -> int | None:
        """The most words (characters for zh, ja, ...) that a step commits; None: any number.

        The loop sees to it, and has the search end by `EnoughWords` instead of this STOP. A user's own need not know.
        """

    @property
    def needs(self) -> str:
        """The evidence that `ends` looks at: "" (none), "ctc", "ctc_exact", "attention" or "tokens"."""

    @property
    def discard(self) -> int:
        """How many of the last tokens of g are given up when `ends` says so."""

    def ends(self, evidence: Evidence) -> bool:
        """Whether the search ends with g."""


class _Plain:
    """No evidence: only the number of tokens, or the end of the sentence, ends a search."""

    needs = ""
    discard = 0
    max_new_tokens: int | None = None
    max_new_words: int | None = None

    def ends(self, evidence: Evidence) -> bool:
        return False


@dataclass(frozen=True)
class EndOfSentence(_Plain):
    """Decode until the model says `<eos>`."""

    @property
    def label(self) -> str:
        return ""


@dataclass(frozen=True)
class MaxTokens(_Plain):
    """At most `n` new tokens a step: the write parameter N of Nguyen et al. 2021, section 2.2."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SimulstError(f"stop: n is {self.n}; at least one token must be written.")

    @property
    def label(self) -> str:
        return f"N{self.n}"

    @property
    def max_new_tokens(self) -> int | None:  # type: ignore[override]
        return self.n


@dataclass(frozen=True)
class MaxWords(_Plain):
    """At most `n` words a step, or characters for zh, ja, ... (wait-k: 1).

    A word counts once the next one has begun; its end can't be known before. Thus nothing is written of a sentence's
    last word while the source goes on, nor of one that the model ends too early. A token of several characters counts
    as one if it comes first in a step. The loop cuts the hypothesis, and has the search end where that is possible, by
    `EnoughWords`.
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SimulstError(f"stop: n is {self.n}; at least one word must be written.")

    @property
    def label(self) -> str:
        return f"W{self.n}"

    @property
    def max_new_words(self) -> int | None:  # type: ignore[override]
        return self.n


@dataclass(frozen=True)
class EnoughWords(_Plain):
    """What the loop hands to the search for a bound on words: end once so many are whole.

    A search knows tokens, but not which of them make a word (`unit`: or a character). count: whole words in tokens.
    """

    n: int
    unit: str
    count: Callable[[Tokens], int] = field(repr=False, compare=False)

    needs = "tokens"
    label = ""

    def ends(self, evidence: Evidence) -> bool:
        return self.count(evidence.tokens) >= self.n


@dataclass(frozen=True)
class CTC(_Plain):
    """The CTC online policy (CUNI-KIT 2023, section 2.3): end once log Odds_end(g) > threshold, less g's last token.

    threshold: C_end in the paper, which recommends -2 to 2. A lower one ends each search sooner, so that
        less is written and latency is higher.
    exact: the odds' denominator sums over the whole vocabulary (equation 4) instead of taking the decoder's favourite
        alone (equation 5). It is larger, so that searches end later and latency is lower.
    """

    threshold: float
    exact: bool = False

    discard = 1

    def __post_init__(self) -> None:
        if math.isnan(self.threshold):
            raise SimulstError("stop: threshold is not a number; the paper's values lie between -2 and 2.")

    @property
    def label(self) -> str:
        return f"CTC{'-exact' if self.exact else ''}{self.threshold:+g}"

    @property
    def needs(self) -> str:  # type: ignore[override]
        return "ctc_exact" if self.exact else "ctc"

    def ends(self, evidence: Evidence) -> bool:
        return evidence.log_odds_end > self.threshold


@dataclass(frozen=True)
class AlignAtt(_Plain):
    """AlignAtt (Papi et al. 2023): end before a token whose attention is strongest on the last `frames` encoder frames.

    layers, heads: those of the decoder whose source attention is averaged, counted from 0 (-1: the last); empty: all.
    """

    frames: int
    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()

    needs = "attention"

    def __post_init__(self) -> None:
        if self.frames < 1:
            raise SimulstError(f"stop: frames is {self.frames}; at least the last frame must stop the search.")

    @property
    def label(self) -> str:
        chosen = (("L", self.layers), ("H", self.heads))
        return "-".join(
            [f"AlignAtt{self.frames}", *(name + "+".join(map(str, which)) for name, which in chosen if which)]
        )

    def ends(self, evidence: Evidence) -> bool:
        return evidence.frames_left < self.frames
