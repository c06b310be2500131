"""Searches as steps, run alone. tests/streams/test_driver.py runs many of them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import pytest

from simulst.calls import Steps, Turns, run_alone


@dataclass(frozen=True)
class Double:
    number: int

    def answer(self) -> int:
        return 2 * self.number


def doubled(number: int, times: int) -> Steps[int]:
    for _ in range(times):
        number = yield Double(number)
    return number


def test_alone() -> None:
    assert [run_alone(doubled(3, times)) for times in (0, 1, 4)] == [3, 6, 48]


def test_errors_reach_whoever_drives() -> None:
    def broken() -> Steps[int]:
        yield Double(1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_alone(broken())


def test_turns_are_taken_in_order() -> None:
    turns, order, threads = Turns(1), list[int](), []

    def comes(number: int) -> None:
        with turns:
            order.append(number)

    with turns:
        for number in range(5):
            threads.append(threading.Thread(target=comes, args=[number]))
            threads[-1].start()
            while len(turns._waiting) <= number:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == [*range(5)]


def test_turns_that_end() -> None:
    """Who is inside leaves; who waits, or comes then, does not get in."""
    turns, inside, leave, late = Turns(2), threading.Event(), threading.Event(), list[int]()

    def comes() -> None:
        with turns:
            inside.set()
            leave.wait()

    def comes_late() -> None:
        with turns:
            late.append(1)

    first = threading.Thread(target=comes)
    first.start()
    inside.wait()
    ends = threading.Thread(target=turns.end)
    with turns:
        threading.Thread(target=comes_late, daemon=True).start()
        while not turns._waiting:
            time.sleep(0.001)
        [waits] = turns._waiting
        ends.start()
        while [*turns._waiting] in ([], [waits]):  # until the late one has gone, and the end waits
            time.sleep(0.001)
    leave.set()
    ends.join()
    threading.Thread(target=comes_late, daemon=True).start()
    while not turns._waiting:
        time.sleep(0.001)
    assert not late and not turns._free
