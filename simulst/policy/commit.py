"""COMMIT: which tokens of the hypotheses are final.

All of them are pure functions of the last beams (CUNI-KIT 2022, section 3.3, where they are called `prefix(W)`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Tokens
from simulst.words import Words


class Commit(ABC):
    """What to commit after each step but the last. After the last step the best hypothesis is committed.

    label: a short name for tables and curves.
    curve: the label with "n" in place of the number that changes along a curve.
    swept: that number.
    window: how many of the latest beams `stable` looks at.
    ends_word: whether the committed tokens always end a word. If so, the word is written at once.
    """

    window: int = 1
    ends_word: bool = False

    @property
    @abstractmethod
    def label(self) -> str: ...

    @property
    def curve(self) -> str:
        return self.label

    @property
    def swept(self) -> float | None:
        return None

    @abstractmethod
    def stable(self, beams: Sequence[Beam]) -> Tokens:
        """The tokens that will not change, from the start of the utterance on.

        beams: the beams of the last steps, latest last, at most `window` of them (fewer at the beginning). Each beam
        holds hypotheses, best first, whose tokens begin with the tokens committed when it was searched.
        """

    def release(self, new: Tokens, words: Words) -> Tokens:
        """What to commit of the stable tokens that are new."""
        return new


@dataclass(frozen=True)
class All(Commit):
    """Everything in the best hypothesis, at once.

    last_word: whether the last word is written at once, too, and not only when the next word begins. (NAIST 2022 writes
        all that is translated at a boundary.) If the model extends that word at a later step, the rest of the word is
        written then. Punctuation at the end is not committed until something follows it: after a committed full stop, a
        model that was trained on whole sentences writes nothing more.
    """

    last_word: bool = False

    @property
    def label(self) -> str:
        return "all-last" if self.last_word else "all"

    @property
    def ends_word(self) -> bool:  # type: ignore[override]
        return self.last_word

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        return _best(beams[-1])

    def release(self, new: Tokens, words: Words) -> Tokens:
        if not self.last_word:
            return new
        new = new[: words.without_punctuation(new)]
        return new[: words.whole_characters(new)]


@dataclass(frozen=True)
class _Counted(Commit):
    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SimulstError(f"commit: n is {self.n}; it must be at least 1 (use type 'all' to commit everything).")

    @property
    def label(self) -> str:
        return self.curve[:-1] + str(self.n)

    @property
    def swept(self) -> float | None:
        return self.n


@dataclass(frozen=True)
class Hold(_Counted):
    """hold-n: the best hypothesis without its last n tokens; nothing if it has n or fewer (equation 1)."""

    curve = "hold-n"

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        best = _best(beams[-1])
        return best[: max(0, len(best) - self.n)]


@dataclass(frozen=True)
class LocalAgreement(_Counted):
    """LA-n: the common prefix of the best hypotheses of the last n steps; nothing before step n (equation 2)."""

    n: int = 2

    curve = "LA-n"

    @property
    def window(self) -> int:  # type: ignore[override]
        return self.n

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        if len(beams) < self.n:
            return ()
        return common_prefix(_best(beam) for beam in beams[-self.n :])


@dataclass(frozen=True)
class SharedPrefix(_Counted):
    """SP-n: the common prefix of all beam items of the last n steps; nothing before step n (equation 3)."""

    n: int = 2

    curve = "SP-n"

    @property
    def window(self) -> int:  # type: ignore[override]
        return self.n

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        if len(beams) < self.n or not all(beams[-self.n :]):
            return ()
        return common_prefix(hypothesis.tokens for beam in beams[-self.n :] for hypothesis in beam)


@dataclass(frozen=True)
class WholeWords(Commit):
    """Any COMMIT, but a word is committed only when `commit` finds the beginning of the next word stable.

    The papers also commit parts of words, and the next search must begin with them. In both cases a word is written
    only when it is complete. The difference matters at full stops: after a committed full stop, a model that was
    trained on whole sentences ends the sentence.
    """

    commit: Commit

    ends_word = True

    def __post_init__(self) -> None:
        if self.commit.ends_word:
            raise SimulstError(
                f"commit: whole_words holds the last word back, but {self.commit.label} writes it; remove one of them."
            )

    @property
    def label(self) -> str:
        return self.commit.label + "w"

    @property
    def curve(self) -> str:
        return self.commit.curve + "w"

    @property
    def swept(self) -> float | None:
        return self.commit.swept

    @property
    def window(self) -> int:  # type: ignore[override]
        return self.commit.window

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        return self.commit.stable(beams)

    def release(self, new: Tokens, words: Words) -> Tokens:
        new = self.commit.release(new, words)
        return new[: words.whole(new)]


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
