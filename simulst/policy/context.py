"""What policies may use: the loop gives them a context, and a search shows them its best hypothesis."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulst.hypotheses import Tokens
from simulst.meter import Meter
from simulst.needs import Need
from simulst.words import Words

HeadPairs = Sequence[tuple[int, int]]
"""Heads of a decoder, each as the number of its layer and its number there; negative ones are counted from the end."""


@dataclass(frozen=True)
class Look:
    """How a place of the source is read from attention: where the mean of some heads is greatest.

    heads: empty: those that the model names for alignment, or all if it names none.
    zscore: whether the weights of a head at each place first get mean 0 and standard deviation 1 over the steps so far.
        So places that a head always attends to count less. The first steps stay as they are.
    median: of how many neighbouring places the median then replaces each weight; 1: none.
    """

    heads: HeadPairs = ()
    zscore: bool = False
    median: int = 1


PLAIN = Look()


@dataclass(frozen=True)
class WaitToken:
    """The token with which a model says that it has no more to write before it hears more.

    token: its number.
    lags: lag, in chunks → the tokens with which a text begins that has this lag.
    first_ms, ms: length of the first chunk of speech in training, and of the others.
    """

    token: int
    lags: Mapping[int, Tokens]
    first_ms: float
    ms: float


@dataclass(frozen=True)
class Context:
    """What the policies of one stream may use.

    words: turns tokens into words.
    meter: the stream's clock, and what it shares with other streams.
    sample_rate: samples per second of the audio.
    block_end: block_end(n) is the position (ms of source) at which the encoder will have written n more blocks.
    layers: how many decoder layers have source attention; 0 if the model does not show it.
    heads: how many heads each of them has.
    committed: committed() are all tokens committed so far.
    source_words: how many words of the source text are final, if the source is a text that a recogniser writes.
    languages: spoken and written.
    trained_wait: k, the unit (ms) and the tokens after each unit of the wait-k that the model was trained for; None: it
        was not.
    wait: the wait token that the model learnt; None: it learnt none.
    next_ms: READ's, see `Reading.next_ms`.
    load_model: loads another model, as `simulst.models.load_model` does; None: nobody can.
    """

    words: Words
    meter: Meter
    sample_rate: int
    block_end: Callable[[int], float]
    layers: int = 0
    heads: int = 0
    committed: Callable[[], Tokens] = tuple
    source_words: Callable[[], float] = lambda: math.inf
    languages: tuple[str, str] = ("", "")
    trained_wait: tuple[int, float, int] | None = None
    wait: WaitToken | None = None
    next_ms: Callable[[float], float] = lambda ms: math.inf
    load_model: Callable[..., Any] | None = None


class View:
    """The best hypothesis of a search that is about to extend it. Each value is computed only when it is asked for.

    tokens: its tokens after the committed ones. If a STOP asks for anything else, it declares that in `needs`.
    """

    tokens: Tokens

    def odds_of_end(self, exact: bool = False) -> float:
        """log p_ctc(g·<eos>) - log p_ctc(g·more), by the CTC layer and the source so far (CUNI-KIT 2023, section 2.3).

        exact: whether `more` stands for the whole vocabulary (equation 4) or for the decoder's best token (equation 5).
        """
        raise NotImplementedError(f"{Need.CTC} was not declared in STOP's needs")

    def frames_left(self, look: Look = PLAIN) -> float:
        """Encoder frames of the audio after the one that the next token attends to most, or at which it begins.

        Of a source text, tokens are counted. look: how this is read from attention.
        """
        raise NotImplementedError(f"{Need.ATTENTION} was not declared in STOP's needs")

    def distribution(self) -> np.ndarray:
        """log p of all next tokens, (V,) float64, by the decoder alone."""
        raise NotImplementedError(f"{Need.DISTRIBUTION} was not declared in STOP's needs")

    def divergence(self) -> float:
        """How far the distribution is expected to be from that with all speech: KL in nats."""
        raise NotImplementedError(f"{Need.DIVERGENCE} was not declared in STOP's needs")

    def source_word(self, look: Look = PLAIN) -> int:
        """The word of the source text that the next token attends to most, counted from 0; for zh, ja: character."""
        raise NotImplementedError(f"{Need.SOURCE_WORDS} was not declared in STOP's needs")

    def end_times(self) -> Sequence[float]:
        """The end time of each of `tokens`, in seconds of source."""
        raise NotImplementedError(f"{Need.END_TIMES} was not declared in STOP's needs")


class TokensView(View):
    """The beginning of a hypothesis that a search has ended.

    left: for each new token of the whole hypothesis, the encoder frames after the one at which it begins; only a
    session that gives `Need.ATTENTION` has them.
    ends: the same for their end times, of `Need.END_TIMES`.
    """

    def __init__(
        self, tokens: Tokens, left: Sequence[float] | None = None, ends: Sequence[float] | None = None
    ) -> None:
        self.tokens, self._left, self._ends = tokens, left, ends

    def frames_left(self, look: Look = PLAIN) -> float:
        return super().frames_left(look) if self._left is None else self._left[len(self.tokens)]

    def end_times(self) -> Sequence[float]:
        return super().end_times() if self._ends is None else self._ends[: len(self.tokens)]
