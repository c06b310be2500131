"""STOP: when a step's search ends. It may end before the model has ended the sentence.

At the end of the source STOP is not asked: the search runs to the end of the sentence.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from simulst.calls import Steps, steps_of
from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.needs import Need
from simulst.options import Amount, AnyNumber, Count
from simulst.policy.base import Options
from simulst.policy.commit import All, Commit
from simulst.policy.context import Context, HeadPairs, Look, TokensView, View, WaitToken
from simulst.words import Words

Nats = Annotated[float, Field(ge=0)]


class Stop(Options):
    """Options of a STOP. Sweeps share results by them, so they can be hashed.

    fixes_read: whether the model's training says which READ goes with it.
    """

    label = ""
    fixes_read: ClassVar[bool] = False

    @property
    def whole_words(self) -> bool:
        """Whether COMMIT must commit whole words."""
        return False

    @property
    def ends_in_word(self) -> bool:
        """Whether the search may end within a word, so that COMMIT must also hold the last word back."""
        return False

    @property
    def most_tokens(self) -> int | None:
        """The most tokens that a step commits; None: no such number."""
        return None

    @property
    def enough_tokens(self) -> int | None:
        """A number of new tokens that a step rarely exceeds; None: no such number.

        It is for searches that can't be stopped between two tokens.
        """
        return self.most_tokens

    def check(self, commit: Commit) -> None:
        """Raise SimulstError if this STOP does not go with the COMMIT of a configuration."""
        if self.ends_in_word and commit.ends_word and not commit.whole_words:
            raise SimulstError(
                f"stop: {self.label} may end the search within a word, which {commit.label} would write; "
                "write 'whole_words: true' instead of 'last_word: true' under commit."
            )
        if self.whole_words and not commit.ends_word:
            raise SimulstError(
                f"stop: {self.label} counts whole words; write 'whole_words: true' under commit, next to its type."
            )

    @abstractmethod
    def open(self, context: Context) -> Stopping:
        """Open this STOP for a new stream. Raises SimulstError: options that do not fit the model."""


class Stopping(ABC):
    """A STOP, opened for one stream.

    options: those that were opened. If options, audio and committed tokens are the same, so are the results.
    context: what it may use.
    discard: how many of the last tokens are dropped when `ends` ends the search.
    attends: the heads that it names, if it looks at attention.
    begins: tokens with which the text begins, and which are never written.
    end: the token that ends a step's text in place of <eos>; the sentence then can't end before the source has. None:
        <eos>.
    complete: whether the text that `end` ends is all that was heard.
    """

    options: Stop
    discard: int = 0
    attends: HeadPairs = ()
    begins: Tokens = ()
    end: int | None = None
    complete: bool = True

    def __init__(self, options: Stop, context: Context) -> None:
        self.options, self.context = options, context

    def hear(self, samples: np.ndarray, final: bool) -> Steps[None] | None:
        """Take in new audio, (n,) float32. It is called only if STOP needs `Need.AUDIO`.

        final: whether the audio ends with these samples.

        A STOP with a model of its own may be a generator here, which yields its calls (simulst/calls.py).
        """
        return None

    @abstractmethod
    def ends(self, view: View) -> bool:
        """Whether the search ends now, with its best hypothesis. This is asked before each token."""

    def why(self) -> str:
        """What the last answer of `ends` was made of, such as "12 frames left, least 25"; empty: it does not tell."""
        return ""

    def first(self, new: Tokens) -> Tokens:
        """The tokens that a step may commit, of those that COMMIT releases: as many as STOP has, or fewer."""
        return new[: self.options.most_tokens]


class Watched:
    """A STOP, opened, whose last answer is kept as `ended`; None: it was not asked since somebody set it so."""

    def __init__(self, stop: Stopping) -> None:
        self._stop = stop
        self.ended: bool | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stop, name)

    def ends(self, view: View) -> bool:
        self.ended = bool(self._stop.ends(view))
        return self.ended


def end_of(stop: Stopping, new: Tokens, view: Callable[[Tokens], View] = TokensView) -> int | None:
    """How many of the new tokens of a finished search are left if STOP had ended it; None: it would not have.

    It is for searches that can't be stopped. A search asks before each token, also before `<eos>`.

    view: what STOP sees of the first tokens.
    """
    asked = (length for length in range(len(new) + 1) if stop.ends(view(new[:length])))
    length = next(asked, None)
    return None if length is None else max(0, length - stop.discard)


@dataclass(frozen=True)
class EndOfSentence(Stop):
    """Decode until the model writes `<eos>`."""

    def open(self, context: Context) -> Stopping:
        return _EndOfSentence(self, context)


class _EndOfSentence(Stopping):
    def ends(self, view: View) -> bool:
        return False


class Measured(Stop):
    """A STOP that compares a number with a bound, the option that `sweeps` names.

    why: what is said of both, such as "entropy {:.2f}, most {:g}".
    discard: see `Stopping`.
    """

    why: ClassVar[str]
    discard: ClassVar[int] = 0

    @abstractmethod
    def measure(self, view: View, words: Words) -> float:
        """The number."""

    def is_over(self, number: float) -> bool:
        """Whether it ends the search."""
        assert self.swept is not None
        return number > self.swept

    def first(self, new: Tokens, words: Words) -> Tokens:
        return new[: self.most_tokens]

    def open(self, context: Context) -> Stopping:
        return _Measured(self, context)


class _Measured(Stopping):
    options: Measured
    _found = math.nan

    def __init__(self, options: Measured, context: Context) -> None:
        super().__init__(options, context)
        self.discard = options.discard

    def ends(self, view: View) -> bool:
        self._found = self.options.measure(view, self.context.words)
        return self.options.is_over(self._found)

    def why(self) -> str:
        return self.options.why.format(self._found, self.options.swept)

    def first(self, new: Tokens) -> Tokens:
        return self.options.first(new, self.context.words)


@dataclass(frozen=True)
class MaxTokens(Measured):
    """At most `n` new tokens per step: the write parameter N of Nguyen et al. 2021, section 2.2."""

    n: Count

    label = "N{n}"
    sweeps = "n"
    why = "{} new tokens, most {}"

    @property
    def most_tokens(self) -> int:
        return self.n

    def measure(self, view: View, words: Words) -> int:
        return len(view.tokens)

    def is_over(self, number: float) -> bool:
        return number >= self.n


@dataclass(frozen=True)
class MaxWords(Measured):
    """At most `n` words per step; for zh, ja, ... characters. wait-k uses n 1.

    A word counts when the next word has begun, because only then it is known to be complete. So COMMIT must commit
    whole words. The last word of a sentence is not written before the source ends, even if the model ends the sentence
    early. If the first token of a step has several characters, it counts as one.
    """

    n: Count

    label = "W{n}"
    sweeps = "n"
    why = "{} new words, most {}"
    whole_words = True

    @property
    def enough_tokens(self) -> int:
        return 10 * self.n

    def measure(self, view: View, words: Words) -> int:
        return words.count(view.tokens)

    def is_over(self, number: float) -> bool:
        return number >= self.n

    def first(self, new: Tokens, words: Words) -> Tokens:
        return new[: words.first(new, self.n)]


@dataclass(frozen=True)
class CTC(Measured):
    """The CTC online policy (CUNI-KIT 2023, section 2.3): end at log Odds_end(g) > threshold, and drop g's last token.

    threshold: C_end in the paper, which recommends -2 to 2. With a lower threshold each search ends sooner, less is
        written, and latency is higher.
    exact: whether the denominator of the odds sums over the whole vocabulary (equation 4) or has only the decoder's
        best token (equation 5). The exact sum is larger, so searches end later and latency is lower.
    """

    threshold: AnyNumber
    exact: bool = False

    label = "CTC{exact:-exact}{threshold:+g}"
    sweeps = "threshold"
    why = "log odds of the end {:+.2f}, threshold {:g}"
    discard = 1
    needs = frozenset({Need.CTC, Need.STEPS})

    def measure(self, view: View, words: Words) -> float:
        return view.odds_of_end(self.exact)


@dataclass(frozen=True)
class AlignAtt(Stop):
    """AlignAtt (Papi et al. 2023): end before a token that attends most to one of the last `frames` encoder frames.

    For the translator of a cascade, `words` goes by the words that the recogniser has committed (arXiv 2606.03967).

    frames: how many encoder frames at the end of the audio count as the last. A frame is 20 ms in Whisper and 40 ms in
        most other models.
    layers: the decoder layers whose source attention is averaged, counted from 0 (-1: the last); empty: all.
    heads: the heads in them, counted the same way; empty: all.
    words: in place of `frames`: how many of the last committed words are not accessible yet. Words that the recogniser
        may still change never are: they are read, not relied on. Characters of zh, ja, ...
    pairs: in place of `layers` and `heads`: each head as its layer and its number there.
    zscore, median: see `Look`.

    If no heads are named, and the model names those that align its text, only these are averaged. Whisper does
    (`alignment_heads`), and so do models with a file of `simulst models heads`. In CTranslate2's form Whisper shows no
    others, so `layers`, `heads` and `pairs` stay empty.
    """

    frames: Count | None = None
    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()
    words: Amount | None = None
    pairs: tuple[tuple[int, int], ...] = ()
    zscore: bool = False
    median: Count = 1

    label = "AlignAtt{last}{counts_words:w}{layers:-L}{heads:-H}{named:-P}{zscore:-z}{?median:-med}"
    sweeps = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.frames is None) == (self.words is None):
            raise SimulstError("stop: align_att needs one of the options 'frames' and 'words'.")
        if self.pairs and (self.layers or self.heads):
            raise SimulstError("stop: 'pairs' names heads by layer and number; leave 'layers' and 'heads' out.")
        if self.median % 2 == 0:
            raise SimulstError(f"stop: median is {self.median}; give an odd number of places, 1 for none.")

    @property
    def needs(self) -> frozenset[Need]:
        words = {Need.SOURCE_WORDS} if self.counts_words else set()
        return frozenset({Need.ATTENTION} | words | ({Need.ATTENTION_OF_STEPS} if self.zscore else set()))

    @property
    def last(self) -> int:
        """How many frames or words at the end are not accessible."""
        return self.frames if self.frames is not None else self.words or 0

    @property
    def counts_words(self) -> bool:
        """Whether words are counted, not frames."""
        return self.words is not None

    @property
    def named(self) -> tuple[str, ...]:
        """The pairs, for the label."""
        return tuple(f"{layer}.{head}" for layer, head in self.pairs)

    def open(self, context: Context) -> Stopping:
        layers, heads = zip(*self.pairs, strict=True) if self.pairs else (self.layers, self.heads)
        for name, chosen, size in (("layers", layers, context.layers), ("heads", heads, context.heads)):
            option = "pairs" if self.pairs else name
            if chosen and not size:
                raise SimulstError(f"stop: this model chooses the heads that align its text; leave '{option}' out.")
            for number in chosen:
                if not -size <= number < size:
                    raise SimulstError(
                        f"stop: {option} names {number}, but the decoder has {size} {name}, counted from 0."
                    )
        return _AlignAtt(self, context)


class _AlignAtt(Stopping):
    options: AlignAtt
    _left = math.nan

    def __init__(self, options: AlignAtt, context: Context) -> None:
        super().__init__(options, context)
        pairs: HeadPairs = options.pairs
        if options.layers or options.heads:
            layers, heads = options.layers or range(context.layers), options.heads or range(context.heads)
            pairs = list(itertools.product(layers, heads))
        self.attends = [(layer % context.layers, head % context.heads) for layer, head in pairs]
        self._look = Look(self.attends, options.zscore, options.median)

    def ends(self, view: View) -> bool:
        if self.options.counts_words:
            self._left = self.context.source_words() - 1 - view.source_word(self._look)
        else:
            self._left = view.frames_left(self._look)
        return self._left < self.options.last

    def why(self) -> str:
        left = f"{self._left:g}" if math.isfinite(self._left) else "all"
        return f"{left} {'words' if self.options.counts_words else 'frames'} left, least {self.options.last}"


@dataclass(frozen=True)
class Entropy(Measured):
    """End before a token of which the model is not sure.

    most: the entropy of its distribution, in nats, above which the search ends.
    """

    most: Nats

    label = "entropy{most:g}"
    sweeps = "most"
    why = "entropy {:.2f}, most {:g}"
    needs = frozenset({Need.DISTRIBUTION})

    def measure(self, view: View, words: Words) -> float:
        log_p = view.distribution()
        p = np.exp(log_p)
        return -float((p * np.where(p > 0, log_p, 0.0)).sum())


@dataclass(frozen=True)
class Divergence(Measured):
    """End before a token whose distribution will still change, after DiG-SST (Chen et al., AAAI 2024).

    A head on the decoder's states foresees by how much (simulst/training/divergence.py).

    threshold: the divergence (KL, nats) above which the search ends.
    """

    threshold: Nats

    label = "divergence{threshold:g}"
    sweeps = "threshold"
    why = "divergence {:.2f}, threshold {:g}"
    needs = frozenset({Need.STEPS, Need.DIVERGENCE})

    def measure(self, view: View, words: Words) -> float:
        return view.divergence()


@dataclass(frozen=True)
class Token(Stop):
    """A chunk's writing ends where the model writes its wait token, which is committed, but never goes out.

    The model learnt it on chunk-aligned data (simulst/prefix/chunks.py), so READ must be the `chunk` of its training.

    lag: how many chunks the text lags behind: one of those that the model learnt.
    complete: whether the token's CTC score tells how likely the text is all that was heard. Then words go out earlier,
        and the text is worse. Otherwise the score tells how likely the text was heard.
    name: a part of the label, to tell models apart.
    """

    lag: int
    complete: bool = False
    name: str = ""

    label = "token{lag}{complete:-complete}{name:-}"
    sweeps = "lag"
    fixes_read = True
    needs = frozenset({Need.STEPS})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.complete and self.lag:
            raise SimulstError("stop: token with 'complete' would undo its lag; give lag 0, or leave 'complete' out.")

    def check(self, commit: Commit) -> None:
        if commit not in (All(), All(last_word=True, punctuation=True)):
            raise SimulstError(
                "stop: with token, all is committed; write 'commit: {type: all, last_word: true, punctuation: true}'."
            )

    def open(self, context: Context) -> Stopping:
        """Open this STOP. Raises SimulstError: the model has no wait token, or learnt other lags or chunks."""
        wait = context.wait
        if wait is None:
            raise SimulstError("stop: token needs a model that learnt a wait token (docs/learn.md); take another STOP.")
        if self.lag not in wait.lags:
            learnt = ", ".join(map(str, wait.lags))
            raise SimulstError(f"stop: token has lag {self.lag}, but the model learnt {learnt}; write one of these.")
        first = context.next_ms(0.0)
        if math.isfinite(first) and (first, context.next_ms(first)) != (wait.first_ms, wait.first_ms + wait.ms):
            raise SimulstError(
                f"stop: token needs the chunks of the model's training; write 'read: {{type: chunk, ms: {wait.ms:g}, "
                f"initial_wait_ms: {wait.first_ms:g}}}'."
            )
        return _Token(self, context, wait)


class _Token(Stopping):
    def __init__(self, options: Token, context: Context, wait: WaitToken) -> None:
        super().__init__(options, context)
        self.end, self.begins, self.complete = wait.token, wait.lags[options.lag], options.complete

    def ends(self, view: View) -> bool:
        return view.tokens[-1:] == (self.end,)


@dataclass(frozen=True)
class AnyOf(Stop):
    """Several STOPs at once. The search ends as soon as one of them ends it.

    of: the STOPs.
    """

    of: tuple[Stop, ...]

    label = "{of}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.of:
            raise SimulstError("stop: any_of names no STOP; give at least one under 'of'.")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset[Need]().union(*(stop.needs for stop in self.of))

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(file for stop in self.of for file in stop.files)

    @property
    def whole_words(self) -> bool:
        return any(stop.whole_words for stop in self.of)

    @property
    def ends_in_word(self) -> bool:
        return any(stop.ends_in_word for stop in self.of)

    @property
    def most_tokens(self) -> int | None:
        return min((stop.most_tokens for stop in self.of if stop.most_tokens is not None), default=None)

    @property
    def enough_tokens(self) -> int | None:
        return min((stop.enough_tokens for stop in self.of if stop.enough_tokens is not None), default=None)

    def open(self, context: Context) -> Stopping:
        return _AnyOf(self, context)


class _AnyOf(Stopping):
    options: AnyOf

    def __init__(self, options: AnyOf, context: Context) -> None:
        super().__init__(options, context)
        self._parts = [stop.open(context) for stop in options.of]
        self.attends = [pair for part in self._parts for pair in part.attends]
        self.begins = next((part.begins for part in self._parts if part.begins), ())
        self.end = next((part.end for part in self._parts if part.end is not None), None)
        self.complete = all(part.complete for part in self._parts)
        self._ended: list[Stopping] = []  # by the last answer

    def hear(self, samples: np.ndarray, final: bool) -> Steps[None]:
        for part in self._parts:
            if Need.AUDIO in part.options.needs:
                yield from steps_of(part.hear(samples, final))

    def ends(self, view: View) -> bool:
        ended = [part for part in self._parts if part.ends(view)]
        self.discard = max((part.discard for part in ended), default=0)
        self._ended = ended
        return bool(ended)

    def why(self) -> str:
        return "; ".join(filter(None, (part.why() for part in self._ended or self._parts)))

    def first(self, new: Tokens) -> Tokens:
        for part in self._parts:
            new = part.first(new)
        return new
