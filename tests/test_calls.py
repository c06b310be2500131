"""Searches as steps, run alone. tests/streams/test_driver.py runs many of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from simulst.calls import Steps, run_alone


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
