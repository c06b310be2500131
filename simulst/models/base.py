"""What the loop needs of a model: take audio in, and continue a committed prefix."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

import numpy as np

from simulst.policy.stop import Stop
from simulst.search import Beam, Tokens

T = TypeVar("T")


class Memo:
    """Results for one utterance that the configurations of a sweep share.

    Whoever asks later is charged, in `saved_seconds`, the time that the first one spent, so that computation-aware
    latency is that of a configuration run alone. keep: False remembers nothing, for an utterance decoded once.
    """

    def __init__(self, keep: bool = True) -> None:
        self._keep = keep
        self._store: dict[Hashable, tuple[Any, float]] = {}
        self.saved_seconds = 0.0

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value under `key`, computed at the first call."""
        if key in self._store:
            value, seconds = self._store[key]
            self.saved_seconds += seconds
            return value
        started, saved = time.perf_counter(), self.saved_seconds
        value = compute()
        if not self._keep:
            return value
        # What `compute` itself took from the memo belongs to its price.
        self._store[key] = (value, time.perf_counter() - started + self.saved_seconds - saved)
        return value


class Session(Protocol):
    """One utterance inside a model."""

    sample_rate: int

    @property
    def length(self) -> int:
        """Samples taken in since the start of the utterance."""

    @property
    def saved_seconds(self) -> float:
        """Computation time that was borrowed from other configurations (see Memo)."""

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        """Take in audio, shape (n,), float32. final: no audio comes after it."""

    def search(self, committed: Tokens, options: Any, stop: Stop) -> Beam:
        """Hypotheses for all audio so far, best first, that begin with the committed tokens."""

    def text(self, tokens: Tokens) -> str:
        """Plain text; a character cut in two ends in U+FFFD."""

    def block_end(self, count: int) -> float:
        """The length (samples since the start) at which the encoder will have written `count` more blocks than now.

        Raises SimulstError: this model's encoder has no blocks.
        """

    def limit(self) -> float:
        """The length (samples since the start) at which the window will be full; infinity if it never is."""

    def is_full(self) -> bool:
        """Whether audio must leave the window before more is taken in."""

    def spoken(self, tokens: Tokens) -> Tokens:
        """Of a hypothesis, what a full window commits, so that `slide` loses nothing."""

    def slide(self, committed: Tokens) -> None:
        """Let the oldest audio go, together with its committed tokens; they stay committed."""


class Model(Protocol):
    """A loaded model, for one language pair."""

    sample_rate: int

    def session(self, memo: Memo | None = None) -> Session:
        """A new utterance. Sessions of the same utterance may share a memo."""
