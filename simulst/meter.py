"""The clock of one stream: what its computation takes, as if it ran alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Results for one utterance that several streams share, each with the seconds that it took to compute."""

    def __init__(self) -> None:
        self.results: dict[Hashable, tuple[Any, float]] = {}


class _Clock:
    """Seconds that are counted while it runs."""

    def __init__(self) -> None:
        self.counted = 0.0  # of intervals that have ended, and charges
        self.running = 0  # nested contexts
        self.since = 0.0  # when the outermost one began

    @property
    def seconds(self) -> float:
        return self.counted + (time.perf_counter() - self.since if self.running else 0.0)


class Meter:
    """Computation time of one stream. Each stream has a meter of its own; several may share a memo.

    A result that another stream has put into the memo costs this stream what it cost the other one. So
    computation-aware latency is that of a stream that runs alone, whatever is shared.
    """

    def __init__(self, memo: Memo | None = None) -> None:
        self._memo = memo
        self._clock = _Clock()
        self._name: Hashable = None  # of the part of the stream

    def part(self, name: Hashable) -> Meter:
        """A meter for a part of the stream: the same clock, while results are kept apart by this name."""
        part = Meter(self._memo)
        part._clock, part._name = self._clock, name
        return part

    @property
    def seconds(self) -> float:
        """Computation time so far."""
        return self._clock.seconds

    @contextmanager
    def running(self) -> Iterator[None]:
        """Everything inside is computation. Contexts may be nested; time counts once."""
        clock = self._clock
        if not clock.running:
            clock.since = time.perf_counter()
        clock.running += 1
        try:
            yield
        finally:
            clock.running -= 1
            if not clock.running:
                clock.counted += time.perf_counter() - clock.since

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Nothing inside is counted: neither time nor charges."""
        before = self.seconds
        try:
            yield
        finally:
            self._clock.counted -= self.seconds - before

    def charge(self, seconds: float) -> None:
        """Count time that passed elsewhere."""
        self._clock.counted += seconds

    def knows(self, key: Hashable) -> bool:
        """Whether a stream has put a result under this key."""
        return self._memo is not None and (self._name, key) in self._memo.results

    def shared(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What `compute` gives, computed by the first stream that asks."""
        if self.knows(key):
            return self._recall(key)
        with self.running():
            before = self.seconds
            return self._store(key, compute(), before)

    def shared_steps(self, key: Hashable, steps: Callable[[], Generator[Any, Any, T]]) -> Generator[Any, Any, T]:
        """The same for a computation that is written as steps (see simulst/search/calls.py)."""
        if self.knows(key):
            return self._recall(key)
        with self.running():
            before = self.seconds
            return self._store(key, (yield from steps()), before)

    def _recall(self, key: Hashable) -> Any:
        assert self._memo is not None
        value, seconds = self._memo.results[self._name, key]
        self.charge(seconds)
        return value

    def _store(self, key: Hashable, value: T, before: float) -> T:
        if self._memo is not None:
            # What was charged in between belongs to the price.
            self._memo.results[self._name, key] = (value, self.seconds - before)
        return value
