"""Computations in steps: a stream, an encoder or a search asks for its heavy computations instead of making them.

Such a computation is a generator. It yields calls (encode features, a step of the decoder, a search by a library),
receives their answers, and returns its result. `run_alone` runs one of them and answers its calls one by one. The
driver (simulst/streams/driver.py) runs many of them. It answers calls of several as one batch, or in threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Call(Protocol):
    """A heavy computation that somebody asks for.

    It may have a `turn`: then a thread of its own answers it inside this context, while the driver goes on with other
    streams. The answer must not need what other threads may change. `Turns` bound how many answer at once. One that
    has what `Batched` has beside may share a batch with others of its class.
    """

    def answer(self) -> Any:
        """Compute it for this one alone."""


@dataclass(frozen=True)
class Batched:
    """A call of a function that takes a list of arguments and returns the list of their answers.

    The answers must be those of each argument alone, up to rounding. The function must not change the arguments, as it
    is called again if it fails.

    size: how much of a batch this call is, such as its rows. Each stream is charged so much of the batch's time.
    alike: arguments for which this is equal may share a batch; None: this one is answered by itself.
    most: the most calls of a batch with this one; None: as many as the driver takes.
    turn: see `Call`.
    """

    function: Callable[[list[Any]], Sequence[Any]]
    argument: Any
    size: float = 1.0
    alike: Hashable = ()
    most: int | None = None
    turn: AbstractContextManager[Any] | None = None

    @property
    def together(self) -> Hashable:
        """Calls for which this is equal may be answered as one batch. None: this one only by itself."""
        return None if self.alike is None else (self.function, self.alike)  # methods of one object are equal

    def answer(self) -> Any:
        return self.function([self.argument])[0]

    @staticmethod
    def answer_together(calls: Sequence[Batched]) -> Sequence[Any]:
        return calls[0].function([call.argument for call in calls])


@dataclass(frozen=True)
class Alone:
    """A call of a function with these arguments, which shares no batch. turn: see `Call`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    turn: AbstractContextManager[Any] | None = None

    def answer(self) -> Any:
        return self.function(*self.arguments)


class Turns:
    """A context for up to `most` threads at once. Others wait, and the one that came first goes first.

    Python's semaphores do not keep this order.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._free, self._waiting, self._lock = most, deque[Any](), threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1

    def end(self) -> None:
        """Wait until all threads have left. No other one can enter then, and those that wait now never do."""
        with self._lock:
            self._waiting.clear()
        for _ in range(self.most):
            self.__enter__()


Steps = Generator[Call, Any, T]
"""A computation that yields calls and returns a T."""


def steps_of(returned: Steps[T] | T) -> Steps[T]:
    """What a method returned that may be plain or a generator: its result, or the steps to it."""
    return (yield from returned) if isinstance(returned, Generator) else returned


def ask(call: Call) -> Steps[Any]:
    """A computation that is one call."""
    return (yield call)


def run_alone(steps: Steps[T], answer: Callable[[Call], Any] = lambda call: call.answer()) -> T:
    """Run one computation to its end and return its result. Each call is answered by itself.

    answer: answers a call.

    The error of an answer is raised where the computation has asked for it, so a stream knows that it has failed.
    """
    try:
        call = next(steps)
        while True:
            try:
                answered = answer(call)
            except BaseException as error:
                call = steps.throw(error)
            else:
                call = steps.send(answered)
    except StopIteration as end:
        return end.value
