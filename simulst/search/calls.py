"""Searches as steps: a search asks for its heavy computations instead of making them.

A search is a generator. It yields calls (encode features, the CTC layer's posteriors, a step of the decoder), is sent
their answers, and returns its result. Whoever drives it answers: `alone` one search by itself; `together` many searches
that grow in step, so that a batch pays once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Call(Protocol):
    """Something heavy that is to be computed."""

    def answer(self) -> Any:
        """Compute it for this search alone."""


Steps = Generator[Call, Any, T]
"""A computation that yields calls and returns a T."""


def alone(steps: Steps[T]) -> T:
    """Drive one search to its result, answering each call by itself."""
    try:
        call = next(steps)
        while True:
            call = steps.send(call.answer())
    except StopIteration as end:
        return end.value


def together(searches: Sequence[Steps[T]], answer: Callable[[dict[int, Any]], dict[int, Any]]) -> list[T]:
    """Drive many searches, a call of each at a time; their results in order.

    answer: from the calls of the searches that go on, by the searches' numbers, to the calls' answers.
    """
    results: dict[int, T] = {}
    calls: dict[int, Call] = {}

    def advance(number: int, value: Any) -> None:
        try:
            calls[number] = searches[number].send(value)
        except StopIteration as end:
            results[number] = end.value

    for number in range(len(searches)):
        advance(number, None)
    while calls:
        asked, calls = calls, {}
        for number, value in answer(asked).items():
            advance(number, value)
    return [results[number] for number in range(len(searches))]
