"""What policies meet: what the loop lends them, and what a search shows them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulst.meter import Meter
from simulst.needs import Need
from simulst.search import Tokens
from simulst.words import Words


@dataclass(frozen=True)
class Context:
    """What the loop lends to the policies of one stream.

    words: from tokens to words. meter: the stream's clock, and what it shares with other streams.
    sample_rate: of the audio. block_end: the position (ms of source) at which the encoder will have written so many
    more blocks than now. layers, heads: of the decoder's source attention; 0 where it can't be seen.
    """

    words: Words
    meter: Meter
    sample_rate: int
    block_end: Callable[[int], float]
    layers: int = 0
    heads: int = 0


class View(ABC):
    """The best hypothesis of a search that is about to extend it. Each value is computed only when it is asked for.

    tokens: those after the committed ones. STOP declares what else it asks for, in `needs`.
    """

    @property
    @abstractmethod
    def tokens(self) -> Tokens: ...

    def odds_of_end(self, exact: bool = False) -> float:
        """log p_ctc(g·<eos>) - log p_ctc(g·more), by the CTC layer and the source so far (CUNI-KIT 2023, section 2.3).

        exact: `more` is the whole vocabulary (equation 4), not the decoder's favourite alone (equation 5).
        """
        raise NotImplementedError(f"{Need.CTC} was not declared in STOP's needs")

    def frames_left(self, layers: Sequence[int] = (), heads: Sequence[int] = ()) -> float:
        """Encoder frames of the audio after the one that the next token attends to most, or at which it begins.

        layers, heads: those of the decoder whose source attention is averaged, counted from 0 (-1: the last); empty:
        all.
        """
        raise NotImplementedError(f"{Need.ATTENTION} was not declared in STOP's needs")

    def end_times(self) -> Sequence[float]:
        """When each token had been spoken, seconds of source."""
        raise NotImplementedError(f"{Need.END_TIMES} was not declared in STOP's needs")


class TokensView(View):
    """The beginning of a hypothesis that a search has ended.

    left: for each new token of the whole hypothesis, the encoder frames after the one at which it begins; only a
    session that gives `Need.ATTENTION` is asked.
    """

    def __init__(self, tokens: Tokens, left: Callable[[], Sequence[float]] | None = None) -> None:
        self._tokens, self._left = tokens, left

    @property
    def tokens(self) -> Tokens:
        return self._tokens

    def frames_left(self, layers: Sequence[int] = (), heads: Sequence[int] = ()) -> float:
        if self._left is None:
            return super().frames_left(layers, heads)
        return self._left()[len(self._tokens)]
