"""COMMIT: which tokens of the hypotheses are final.

All of them are pure functions of the last beams (CUNI-KIT 2022, section 3.3, where they are called `prefix(W)`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Tokens
from simulst.policy.base import Options
from simulst.words import Words


@dataclass(frozen=True)
class Commit(Options):
    """What to commit after each step but the last. After the last step the best hypothesis is committed.

    whole_words: whether a word is committed only when the beginning of the next word is stable. The papers also commit
        parts of words, and the next search must begin with them. In both cases a word is written only when it is
        complete. The difference matters at full stops: after a committed full stop, a model that was trained on whole
        sentences ends the sentence.
    """

    whole_words: bool = field(default=False, kw_only=True)

    @property
    def window(self) -> int:
        """How many of the latest beams `stable` looks at."""
        return 1

    @property
    def ends_word(self) -> bool:
        """Whether the committed tokens always end a word. If so, the word is written at once."""
        return self.whole_words

    @abstractmethod
    def stable(self, beams: Sequence[Beam]) -> Tokens:
        """The tokens that will not change, from the start of the utterance on.

        beams: the beams of the last steps, latest last, at most `window` of them (fewer at the beginning). Each beam
        holds hypotheses, best first, whose tokens begin with the tokens committed when it was searched.
        """

    def release(self, new: Tokens, words: Words) -> Tokens:
        """What to commit of the stable tokens that are new."""
        return new[: words.whole(new)] if self.whole_words else new

    def _fill(self, template: str) -> str:
        return super()._fill(template) + "w" * self.whole_words


@dataclass(frozen=True)
class All(Commit):
    """Everything in the best hypothesis, at once.

    last_word: whether the last word is written at once, too, and not only when the next word begins. (NAIST 2022 writes
        all that is translated at a boundary.) If the model extends that word at a later step, the rest of the word is
        written then.
    punctuation: with last_word: whether punctuation at the end is committed at once, too, as NAIST 2022 does. If not,
        it waits until something follows it: after a committed full stop, a model that was trained on whole sentences
        writes nothing more.
    """

    last_word: bool = False
    punctuation: bool = False

    label = "all{last_word:-last}{punctuation:-punct}"

    def __post_init__(self) -> None:
        if self.last_word and self.whole_words:
            raise SimulstError(
                "commit: whole_words holds the last word back, but last_word writes it; remove one of them."
            )

        if self.punctuation and not self.last_word:
            raise SimulstError("commit: punctuation goes with last_word: true; without it, all tokens are committed.")

    @property
    def ends_word(self) -> bool:
        return self.last_word or self.whole_words

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        return _best(beams[-1])

    def release(self, new: Tokens, words: Words) -> Tokens:
        if not self.last_word:
            return super().release(new, words)
        if not self.punctuation:
            new = new[: words.without_punctuation(new)]
        return new[: words.whole_characters(new)]


@dataclass(frozen=True)
class _Counted(Commit):
    n: int

    sweeps = "n"

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SimulstError(f"commit: n is {self.n}; it must be at least 1 (use type 'all' to commit everything).")


@dataclass(frozen=True)
class Hold(_Counted):
    """hold-n: the best hypothesis without its last n tokens; nothing if it has n or fewer (equation 1)."""

    label = "hold-{n}"

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        best = _best(beams[-1])
        return best[: max(0, len(best) - self.n)]


@dataclass(frozen=True)
class LocalAgreement(_Counted):
    """LA-n: the common prefix of the best hypotheses of the last n steps; nothing before step n (equation 2)."""

    n: int = 2

    label = "LA-{n}"

    @property
    def window(self) -> int:
        return self.n

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        if len(beams) < self.n:
            return ()
        return common_prefix(_best(beam) for beam in beams[-self.n :])


@dataclass(frozen=True)
class SharedPrefix(_Counted):
    """SP-n: the common prefix of all beam items of the last n steps; nothing before step n (equation 3)."""

    n: int = 2

    label = "SP-{n}"

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
