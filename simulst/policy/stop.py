"""STOP: when the decoding of one piece of source ends, before its end of sentence if need be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from simulst.errors import SimulstError


class Stop(Protocol):
    """When to end a search. At the end of the source every search runs to the end of the sentence."""

    @property
    def label(self) -> str:
        """A short name for tables and curves; empty for the ordinary case."""

    @property
    def max_new_tokens(self) -> int | None:
        """The most tokens that a search may add to the committed ones; None: until the end of the sentence."""


@dataclass(frozen=True)
class EndOfSentence:
    """Decode until the model says `<eos>`."""

    @property
    def label(self) -> str:
        return ""

    @property
    def max_new_tokens(self) -> int | None:
        return None


@dataclass(frozen=True)
class MaxTokens:
    """At most `n` new tokens a step: the write parameter N of Nguyen et al. 2021, section 2.2."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SimulstError(f"stop: n is {self.n}; at least one token must be written.")

    @property
    def label(self) -> str:
        return f"N{self.n}"

    @property
    def max_new_tokens(self) -> int | None:
        return self.n
