"""What policies may use: the loop gives them a context, and a search shows them its best hypothesis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simulst.hypotheses import Tokens
from simulst.meter import Meter
from simulst.needs import Need
from simulst.words import Words


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
    languages: spoken and written.
    trained_wait: k, the unit (ms) and the tokens after each unit of the wait-k that the model was trained for; None: it
        was not.
    load_model: loads another model, as `simulst.models.load_model` does; None: nobody can.
    """

    words: Words
    meter: Meter
    sample_rate: int
    block_end: Callable[[int], float]
    layers: int = 0
    heads: int = 0
    committed: Callable[[], Tokens] = tuple
    languages: tuple[str, str] = ("", "")
    trained_wait: tuple[int, float, int] | None = None
    load_model: Callable[..., Any] | None = None


class View(ABC):
    """The best hypothesis of a search that is about to extend it. Each value is computed only when it is asked for.

    tokens: its tokens after the committed ones. If a STOP asks for anything else, it declares that in `needs`.
    """

    @property
    @abstractmethod
    def tokens(self) -> Tokens: ...

    def odds_of_end(self, exact: bool = False) -> float:
        """log p_ctc(g·<eos>) - log p_ctc(g·more), by the CTC layer and the source so far (CUNI-KIT 2023, section 2.3).

        exact: whether `more` stands for the whole vocabulary (equation 4) or for the decoder's best token (equation 5).
        """
        raise NotImplementedError(f"{Need.CTC} was not declared in STOP's needs")

    def frames_left(self, layers: Sequence[int] = (), heads: Sequence[int] = ()) -> float:
        """Encoder frames of the audio after the one that the next token attends to most, or at which it begins.

        layers: the decoder layers whose source attention is averaged, counted from 0 (-1: the last); empty: all.
        heads: the heads in them, counted the same way; empty: all.
            If both are empty, only the heads that the model names for alignment are averaged, if it names some.
        """
        raise NotImplementedError(f"{Need.ATTENTION} was not declared in STOP's needs")

    def end_times(self) -> Sequence[float]:
        """The end time of each of `tokens`, in seconds of source."""
        raise NotImplementedError(f"{Need.END_TIMES} was not declared in STOP's needs")


class TokensView(View):
    """The beginning of a hypothesis that a search has ended.

    left: for each new token of the whole hypothesis, the encoder frames after the one at which it begins; only a
    session that gives `Need.ATTENTION` is asked.
    ends: the same for their end times; only a session that gives `Need.END_TIMES` is asked.
    """

    def __init__(
        self,
        tokens: Tokens,
        left: Callable[[], Sequence[float]] | None = None,
        ends: Callable[[], Sequence[float]] | None = None,
    ) -> None:
        self._tokens, self._left, self._ends = tokens, left, ends

    @property
    def tokens(self) -> Tokens:
        return self._tokens

    def frames_left(self, layers: Sequence[int] = (), heads: Sequence[int] = ()) -> float:
        if self._left is None:
            return super().frames_left(layers, heads)
        return self._left()[len(self._tokens)]

    def end_times(self) -> Sequence[float]:
        return super().end_times() if self._ends is None else self._ends()[: len(self._tokens)]
