"""Hypotheses and the options of the search that makes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

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

    @property
    def label(self) -> str:
        """What is not as usual, for tables and curves; empty if nothing is."""
        names = {"beam": "beam", "length_penalty": "lp", "no_repeat_ngram": "ngram", "max_tokens_per_second": "tps"}
        changed = [f for f in fields(self) if getattr(self, f.name) != f.default]
        return "-".join(f"{names[f.name]}{getattr(self, f.name):g}" for f in changed)

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise SimulstError(f"search: beam is {self.beam}; it must be at least 1.")
        if self.no_repeat_ngram < 0:
            raise SimulstError(f"search: no_repeat_ngram is {self.no_repeat_ngram}; give 0 (off) or a length.")
        if not math.isfinite(self.length_penalty):
            raise SimulstError(f"search: length_penalty is {self.length_penalty:g}; give a finite number.")
        if not (math.isfinite(self.max_tokens_per_second) and self.max_tokens_per_second > 0):
            raise SimulstError(f"search: max_tokens_per_second is {self.max_tokens_per_second:g}; give more than 0.")
