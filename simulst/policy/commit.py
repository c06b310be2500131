"""COMMIT: which tokens of the hypotheses are safe for ever.

All of them are pure functions of the last beams, from CUNI-KIT 2022, section 3.3 (`prefix(W)` there).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from simulst.errors import SimulstError
from simulst.search import Beam, Tokens


class Commit(Protocol):
    """What to commit after a step that was not the last; after the last one the best hypothesis is committed."""

    @property
    def label(self) -> str:
        """A short name for tables and curves."""

    @property
    def window(self) -> int:
        """How many of the latest beams `stable` looks at."""

    @property
    def whole_words(self) -> bool:
        """Whether the loop keeps the last word back until `stable` has the beginning of the next one.

        The papers commit (and force) parts of words too. Nothing of a word is written before it is whole either way,
        but a model that was trained on whole sentences ends the sentence behind a committed full stop for good.
        """

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        """The tokens that may be committed, counted from the start of the utterance.

        beams: the beams of the last steps, latest last, at most `window` of them (fewer at the beginning). Each beam
        holds hypotheses, best first, whose tokens begin with the tokens committed when it was searched.
        """


@dataclass(frozen=True)
class All:
    """Everything in the best hypothesis, at once.

    last_word: its last word is written without waiting for the next one to begin, as the model has ended the sentence
        behind it (NAIST 2022 writes all that is translated at a boundary). Should the model go on with that word at a
        later step, what it adds leaves as a word of its own. Only punctuation at the end is not committed before
        something follows it: behind a committed full stop, a model that was trained on whole sentences says no more.
    """

    whole_words: bool = False
    last_word: bool = False

    def __post_init__(self) -> None:
        if self.whole_words and self.last_word:
            raise SimulstError("commit: whole_words keeps the last word back, last_word writes it; give one of them.")

    @property
    def label(self) -> str:
        return "all" + _suffix(self.whole_words) + ("-last" if self.last_word else "")

    @property
    def window(self) -> int:
        return 1

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        return _best(beams[-1])


@dataclass(frozen=True)
class Hold:
    """hold-n: the best hypothesis less its last n tokens, nothing if it has n or fewer (equation 1)."""

    n: int
    whole_words: bool = False

    def __post_init__(self) -> None:
        _check(self.n)

    @property
    def label(self) -> str:
        return f"hold-{self.n}" + _suffix(self.whole_words)

    @property
    def window(self) -> int:
        return 1

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        best = _best(beams[-1])
        return best[: max(0, len(best) - self.n)]


@dataclass(frozen=True)
class LocalAgreement:
    """LA-n: what the best hypotheses of the last n steps begin with; nothing before the n-th (equation 2)."""

    n: int = 2
    whole_words: bool = False

    def __post_init__(self) -> None:
        _check(self.n)

    @property
    def label(self) -> str:
        return f"LA-{self.n}" + _suffix(self.whole_words)

    @property
    def window(self) -> int:
        return self.n

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        if len(beams) < self.n:
            return ()
        return common_prefix(_best(beam) for beam in beams[-self.n :])


@dataclass(frozen=True)
class SharedPrefix:
    """SP-n: what all beam items of the last n steps begin with; nothing before the n-th (equation 3)."""

    n: int = 2
    whole_words: bool = False

    def __post_init__(self) -> None:
        _check(self.n)

    @property
    def label(self) -> str:
        return f"SP-{self.n}" + _suffix(self.whole_words)

    @property
    def window(self) -> int:
        return self.n

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        if len(beams) < self.n or not all(beams[-self.n :]):
            return ()
        return common_prefix(hypothesis.tokens for beam in beams[-self.n :] for hypothesis in beam)


def common_prefix(sequences: Iterable[Tokens]) -> Tokens:
    """The longest common prefix of all sequences; empty for none."""
    result: Tokens | None = None
    for sequence in sequences:
        if result is None:
            result = sequence
            continue
        same = 0
        for left, right in zip(result, sequence, strict=False):
            if left != right:
                break
            same += 1
        result = result[:same]
    return result or ()


def _best(beam: Beam) -> Tokens:
    return beam[0].tokens if beam else ()


def _suffix(whole_words: bool) -> str:
    return "w" if whole_words else ""


def _check(n: int) -> None:
    if n < 1:
        raise SimulstError(f"commit: n is {n}; it must be at least 1 (use type 'all' to commit everything).")
