"""The clock of a stream. The tests control the time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from simulst.calls import run_alone
from simulst.meter import Memo, Meter


def test_only_what_runs_is_counted(clock: Any) -> None:
    one = Meter()
    clock.now += 5
    with one.running():
        clock.now += 2
        assert one.seconds == 2
        with one.running():
            clock.now += 3
        assert one.seconds == 5
    clock.now += 7
    assert one.seconds == 5
    with pytest.raises(ValueError), one.running():
        clock.now += 1
        raise ValueError
    assert one.seconds == 6


def slow(clock: Any, seconds: float, value: str) -> Any:
    def compute() -> str:
        clock.now += seconds
        return value

    return compute


def test_shared_results_cost_everyone_the_same(clock: Any) -> None:
    memo = Memo()
    first, second, apart = Meter(memo), Meter(memo), Meter()
    assert not first.knows("a")
    for one in (first, second, apart):
        with one.running():
            assert one.shared("a", slow(clock, 4, "one")) == "one"
        assert one.seconds == 4
    assert second.knows("a") and not apart.knows("a")
    assert clock.now == 108  # computed twice: with the memo, and without
    assert second.shared("a", slow(clock, 4, "another")) == "one"


def test_a_price_holds_what_was_borrowed(clock: Any) -> None:
    """b is computed from a, which another stream has computed. b costs the time of both."""
    memo = Memo()
    Meter(memo).shared("a", slow(clock, 4, "a"))
    one, other = Meter(memo), Meter(memo)
    assert one.shared("b", lambda: one.shared("a", slow(clock, 99, "")) + slow(clock, 1, "b")()) == "ab"
    assert other.shared("b", slow(clock, 99, "")) == "ab"
    assert one.seconds == other.seconds == 5


def test_steps_are_shared_too(clock: Any) -> None:
    memo = Memo()

    class Call:
        def answer(self) -> str:
            clock.now += 3
            return "x"

    def steps() -> Generator[Call, str, str]:
        return (yield Call()) + (yield Call())

    for _ in range(2):
        one = Meter(memo)
        with one.running():
            assert run_alone(one.shared_steps("a", steps)) == "xx"
        assert one.seconds == 6
    assert clock.now == 106


def test_what_is_free_and_what_is_charged(clock: Any) -> None:
    memo = Memo()
    Meter(memo).shared("a", slow(clock, 4, "a"))
    one = Meter(memo)
    with one.running():
        clock.now += 1
        with one.uncounted():
            clock.now += 50
            one.shared("a", slow(clock, 4, "a"))
        one.charge(2)
        assert one.seconds == 3
    assert one.seconds == 3


def test_parts_have_one_clock_and_results_of_their_own(clock: Any) -> None:
    memo = Memo()
    whole = Meter(memo)
    one, other, again = whole.part(1), whole.part(2), Meter(memo).part(1)
    with whole.running(), one.running():
        one.shared("a", slow(clock, 4, "first"))
    assert other.shared("a", slow(clock, 2, "second")) == "second"
    assert again.shared("a", slow(clock, 9, "")) == "first"
    assert whole.seconds == one.seconds == other.seconds == 6
    assert again.seconds == 4


def test_what_is_done_once_in_a_stream() -> None:
    """Its parts are the same stream; other streams, also of the same memo, are others."""
    memo = Memo()
    stream, other = Meter(memo), Meter(memo)
    assert stream.part("a").first("x") and not stream.first("x") and not stream.part("b").first("x")
    assert stream.first("y") and other.first("x")
