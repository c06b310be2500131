"""The clock of one stream. It counts computation time as if the stream ran alone.

A stream is a computation in steps (simulst/calls.py). It may be suspended while somebody else answers its call.
Its clock then stands still (`metered`), and whoever answers charges the stream for its share.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from simulst.calls import Call, Steps, ask

T = TypeVar("T")
Memo = dict[Hashable, tuple[Any, float]]
"""Results that several streams of one utterance share, each with the seconds that its computation took."""


class _Clock:
    """Counts the seconds inside its context. Contexts may be nested; time is counted once."""

    def __init__(self) -> None:
        self.counted = 0.0  # seconds of the intervals that have ended, plus charges
        self.running = 0  # how many nested contexts are open
        self.since = 0.0  # when the outermost context began
        self.done: set[Hashable] = set()  # what was done once in this stream
        self.sounds_like = ""

    @property
    def seconds(self) -> float:
        return self.counted + (time.perf_counter() - self.since if self.running else 0.0)

    def __enter__(self) -> None:
        if not self.running:
            self.since = time.perf_counter()
        self.running += 1

    def __exit__(self, *error: object) -> None:
        self.running -= 1
        if not self.running:
            self.counted += time.perf_counter() - self.since


class Meter:
    """The computation time of one stream. Each stream has its own meter. Several meters may share a memo.

    If a stream takes a result from the memo, it is charged the time that the result cost the stream that computed it.
    So computation-aware latency is that of a stream that runs alone, even if streams share work.
    """

    def __init__(self, memo: Memo | None = None) -> None:
        self._memo = memo
        self._clock = _Clock()
        self._name: Hashable = None  # the name of the part of the stream

    def part(self, name: Hashable) -> Meter:
        """A meter for one part of the stream. It has the same clock; in the memo, results of this part are separate."""
        part = Meter(self._memo)
        part._clock, part._name = self._clock, (self._name, name)
        return part

    def first(self, what: Hashable) -> bool:
        """Whether nobody has asked so before, in any part of this stream."""
        known = what in self._clock.done
        self._clock.done.add(what)
        return not known

    @property
    def sounds_like(self) -> str:
        """The language in which the stream seems to be, if it is hardly the one that was named; else empty."""
        return self._clock.sounds_like

    @sounds_like.setter
    def sounds_like(self, language: str) -> None:
        self._clock.sounds_like = language

    @property
    def seconds(self) -> float:
        """Computation time so far."""
        return self._clock.seconds

    def running(self) -> AbstractContextManager[None]:
        """Count the time inside this context. Contexts may be nested; time is counted once."""
        return self._clock

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Count nothing inside this context, neither time nor charges."""
        before = self.seconds
        try:
            yield
        finally:
            self._clock.counted -= self.seconds - before

    def charge(self, seconds: float) -> None:
        """Add seconds of computation that took place elsewhere."""
        self._clock.counted += seconds

    def knows(self, key: Hashable) -> bool:
        """Whether the memo has a result for this key."""
        return self._memo is not None and (self._name, key) in self._memo

    def shared(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of `compute`. The first stream that asks computes it; the others take it from the memo."""
        if self.knows(key):
            return self._recall(key)
        with self.running():
            before = self.seconds
            return self._store(key, compute(), before)

    def shared_steps(self, key: Hashable, steps: Callable[[], Generator[Any, Any, T]]) -> Generator[Any, Any, T]:
        """Like `shared`, for a computation in steps. It costs what the stream is charged between its first and last."""
        if self.knows(key):
            return self._recall(key)
        before = self.seconds
        return self._store(key, (yield from steps()), before)

    def shared_call(self, key: Hashable, call: Call) -> Steps[Any]:
        """Like `shared`, for the answer of a call."""
        return self.shared_steps(key, lambda: ask(call))

    def metered(self, steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """The same steps. Their time is counted, except while they are suspended at a call."""
        answer: Any = None
        errors: list[BaseException] = []  # no variable keeps one: its traceback has this frame, and all would stay
        while True:
            with self._clock:
                try:
                    call = steps.throw(errors.pop()) if errors else steps.send(answer)
                except StopIteration as end:
                    return end.value
            try:
                answer = yield call
            except BaseException as error:  # of whoever answers; also if nobody does
                errors.append(error)

    def _recall(self, key: Hashable) -> Any:
        assert self._memo is not None
        value, seconds = self._memo[self._name, key]
        self.charge(seconds)
        return value

    def _store(self, key: Hashable, value: T, before: float) -> T:
        if self._memo is not None:
            # The difference includes charges, so nested shared results are part of the cost.
            self._memo[self._name, key] = (value, self.seconds - before)
        return value
