"""COMMIT: which tokens of the hypotheses are final.

All of them are pure functions of the last beams (CUNI-KIT 2022, section 3.3, where they are called `prefix(W)`).
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Tokens
from simulst.needs import Need
from simulst.options import Amount, Count, NotNegative
from simulst.policy.base import Options
from simulst.words import Words


@dataclass(frozen=True)
class Commit(Options):
    """What to commit after each step but the last. After the last step the best hypothesis is committed.

    whole_words: whether a word is committed only when another one begins after it, in all hypotheses of `compared`. The
        papers also commit parts of words, and the next search must begin with them. In both cases a word is written
        only when it is complete. The difference matters at full stops: after a committed full stop, a model that was
        trained on whole sentences ends the sentence.
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

    def compared(self, beams: Sequence[Beam]) -> list[Tokens]:
        """The hypotheses that `stable` looks at: the best one of each of the last beams."""
        return [_best(beam) for beam in beams[-self.window :]]

    def release(self, new: Tokens, words: Words, after: Iterable[Tokens]) -> Tokens:
        """What to commit of the stable tokens that are new. after: what follows them in each of the `compared`."""
        if not self.whole_words or all(words.whole(new + rest[:1]) >= len(new) for rest in after):
            return new
        return new[: words.whole(new)]

    def overdue(self, new: Tokens, words: Words, ago: Callable[[], Sequence[float]]) -> Tokens:
        """What to commit now although it is not stable, because the text would be too far behind: a beginning of `new`.

        new: the tokens of the newest best hypothesis after the committed ones.
        ago: ago() are the seconds of source that were read after each of them had been spoken; `needs` must have
            Need.END_TIMES.
        """
        return ()

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
        super().__post_init__()
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

    def release(self, new: Tokens, words: Words, after: Iterable[Tokens]) -> Tokens:
        if not self.last_word:
            return super().release(new, words, after)
        if not self.punctuation:
            new = new[: words.without_punctuation(new)]
        return new[: words.whole_characters(new)]


@dataclass(frozen=True)
class Hold(Commit):
    """hold-n: the best hypothesis without its last n tokens; nothing if it has n or fewer (equation 1)."""

    n: Count

    label, sweeps = "hold-{n}", "n"

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        best = _best(beams[-1])
        return best[: max(0, len(best) - self.n)]


@dataclass(frozen=True)
class LocalAgreement(Commit):
    """LA-n: the common prefix of the best hypotheses of the last n steps; nothing before step n (equation 2).

    most_behind: the most words (characters for zh, ja, ...) of the newest best hypothesis that are not committed after
        a step, whether they are stable or not; 0: any number. That hypothesis translates all speech that was read, so
        these words are how far the text is behind it. If there are more, the first ones are committed, until so many
        are left. NeMo's streaming translation has such a bound (its option `waitk`), but counts the words of its
        recogniser less those that are committed, which drifts if one language has more words.
    most_behind_seconds: a word of that hypothesis is committed if so many seconds of source were read after it had been
        spoken, whether it is stable or not; 0: never. A model says when by its attention (Need.END_TIMES).
    """

    n: Count = 2
    most_behind: Amount = 0
    most_behind_seconds: NotNegative = 0.0

    label, sweeps = "LA-{n}{bounds:-behind}", "n"

    @property
    def bounds(self) -> tuple[str, ...]:
        words, seconds = self.most_behind, self.most_behind_seconds
        return (*([f"{words}"] if words else []), *([f"{seconds:g}s"] if seconds else []))

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.END_TIMES}) if self.most_behind_seconds else frozenset()

    @property
    def window(self) -> int:
        return self.n

    def overdue(self, new: Tokens, words: Words, ago: Callable[[], Sequence[float]]) -> Tokens:
        due = 0
        if self.most_behind and (more := words.count_all(new) - self.most_behind) > 0:
            due = words.first(new, more)
        if self.most_behind_seconds and new:
            spoken = sum(seconds >= self.most_behind_seconds for seconds in ago())
            due = max(due, *(end for end in (0, *words.ends(new)) if end <= spoken))
        return new[:due]

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        return common_prefix(self.compared(beams)) if len(beams) >= self.n else ()


@dataclass(frozen=True)
class SharedPrefix(Commit):
    """SP-n: the common prefix of all beam items of the last n steps; nothing before step n (equation 3)."""

    n: Count = 2

    label, sweeps = "SP-{n}", "n"

    @property
    def window(self) -> int:
        return self.n

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        return common_prefix(self.compared(beams)) if len(beams) >= self.n and all(beams[-self.n :]) else ()

    def compared(self, beams: Sequence[Beam]) -> list[Tokens]:
        return [hypothesis.tokens for beam in beams[-self.n :] for hypothesis in beam]


def common_prefix(sequences: Iterable[Tokens]) -> Tokens:
    """The longest common prefix of all sequences; empty for none."""
    given = list(sequences)
    first, last = min(given, default=()), max(given, default=())  # what both begin with, all begin with
    differ = [*map(operator.ne, first, last), True]
    return first[: differ.index(True)]


def _best(beam: Beam) -> Tokens:
    return beam[0].tokens if beam else ()
