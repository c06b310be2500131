"""Hypotheses: what a search finds, and what COMMIT decides on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Tokens = tuple[int, ...]
"""Token ids of the model's vocabulary, `<eos>` left out."""

END = -1
"""Stands for `<eos>` at the end of a hypothesis of IBWBS, whose algorithm counts `<eos>` as a token (see `Found`)."""

WAIT = "<wait>"
"""The token with which a model that learnt it says that it has no more to write before it hears more."""


def lag_token(lag: int) -> str:
    """The token that tells such a model how many chunks to lag behind, such as `<lag2>`."""
    return f"<lag{lag}>"


def without_end(tokens: Tokens) -> Tokens:
    """Tokens without an END."""
    return tokens[:-1] if tokens[-1:] == (END,) else tokens


@dataclass(frozen=True)
class Hypothesis:
    """A possible text.

    tokens: all tokens from the start of the utterance on, the committed ones first.
    score: the log probability by which the search ranked it.
    """

    tokens: Tokens
    score: float = 0.0


Beam = Sequence[Hypothesis]
"""The hypotheses of one step, best first."""


@dataclass(frozen=True)
class Found:
    """The result of a step's search.

    beam: its hypotheses, best first. If `held_back` counts `<eos>` as a token, a hypothesis that ended has END after
        its text, and COMMIT sees it.
    held_back: of the tokens that COMMIT finds stable, so many at the end must not be committed yet.
    """

    beam: Beam
    held_back: int = 0

    @property
    def best(self) -> Tokens:
        """The tokens of the best hypothesis."""
        return self.beam[0].tokens if self.beam else ()
