"""Searches as steps: run alone, and many together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulst.search.calls import Steps, run_alone, run_together


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


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), max_size=8))
def test_together_as_alone(some: list[tuple[int, int]]) -> None:
    """Searches may end at different times. Each round answers one call of each search that is still running."""
    rounds: list[dict[int, Any]] = []

    def answer(calls: dict[int, Any]) -> dict[int, Any]:
        rounds.append(dict(calls))
        return {number: call.answer() for number, call in reversed(calls.items())}

    assert run_together([doubled(*one) for one in some], answer) == [run_alone(doubled(*one)) for one in some]
    assert len(rounds) == max((times for _, times in some), default=0)
    for i, calls in enumerate(rounds):
        assert set(calls) == {number for number, (_, times) in enumerate(some) if times > i}


def test_errors_reach_whoever_drives() -> None:
    def broken() -> Steps[int]:
        yield Double(1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_alone(broken())
    with pytest.raises(ValueError, match="broken"):
        run_together([doubled(1, 3), broken()], lambda calls: {n: call.answer() for n, call in calls.items()})
