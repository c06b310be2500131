"""Searches as steps: a search asks for its heavy computations instead of making them.

A search is a generator. It yields calls (encode features, the CTC layer's posteriors, a step of the decoder), receives
their answers, and returns its result. `run_alone` runs one search and answers its calls one by one. `run_together` runs
many searches step by step and answers the calls of each step as one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Call(Protocol):
    """A heavy computation that a search asks for."""

    def answer(self) -> Any:
        """Compute it for this one search."""


Steps = Generator[Call, Any, T]
"""A computation that yields calls and returns a T."""


def run_alone(steps: Steps[T]) -> T:
    """Run one search to its end and return its result. Each call is answered by itself."""
    try:
        call = next(steps)
        while True:
            call = steps.send(call.answer())
    except StopIteration as end:
        return end.value


def run_together(searches: Sequence[Steps[T]], answer: Callable[[dict[int, Any]], dict[int, Any]]) -> list[T]:
    """Run many searches step by step and return their results, in the order of `searches`.

    answer: answers one call of each search that is still running: {search number: call} → {search number: answer}.
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
