"""Hypotheses and the options of the search that makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulst.errors import SimulstError

Tokens = tuple[int, ...]
"""Token ids of the model's vocabulary, `<eos>` left out."""


@dataclass(frozen=True)
class Hypothesis:
    """tokens: from the start of the utterance, the committed ones first. score: log probability, as it was ranked."""

    tokens: Tokens
    score: float = 0.0


Beam = Sequence[Hypothesis]
"""The hypotheses of one step, best first."""


@dataclass(frozen=True)
class BeamSearch:
    """Beam search inside the model's library.

    beam: hypotheses kept (CUNI-KIT 2022 uses 8; 1 is greedy search).
    length_penalty: exponent of the length that scores are divided by.
    no_repeat_ngram: forbid n-grams of this length from coming twice; 0: allow them.
    max_tokens_per_second: bound on the text's length by the speech's, against endless repetition.
    """

    beam: int = 5
    length_penalty: float = 1.0
    no_repeat_ngram: int = 0
    max_tokens_per_second: float = 25.0

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise SimulstError(f"search: beam is {self.beam}; it must be at least 1.")
        if self.no_repeat_ngram < 0:
            raise SimulstError(f"search: no_repeat_ngram is {self.no_repeat_ngram}; give 0 (off) or a length.")
        if self.max_tokens_per_second <= 0:
            raise SimulstError(f"search: max_tokens_per_second is {self.max_tokens_per_second:g}; give more than 0.")
