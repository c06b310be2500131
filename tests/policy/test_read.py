import math

import pytest

from simulst.errors import SimulstError
from simulst.policy.read import Block, Chunk, Offline


def positions(read: Chunk, steps: int) -> list[float]:
    found: list[float] = []
    for _ in range(steps):
        found.append(read.next_ms(found[-1] if found else 0.0))
    return found


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (Chunk(500), [500, 1000, 1500]),
        (Chunk(500, 2000), [2000, 2500, 3000]),
        (Chunk(500, 1200), [1200, 1700, 2200]),
        (Chunk(500, 300), [500, 1000, 1500]),
        (Chunk(0.25), [0.25, 0.5, 0.75]),
    ],
)
def test_chunk(read: Chunk, expected: list[float]) -> None:
    assert positions(read, 3) == expected


def test_offline_waits_for_the_end() -> None:
    assert Offline().next_ms(0) == math.inf


@pytest.mark.parametrize(
    ("read", "label"),
    [
        (Chunk(1000), "1000ms"),
        (Chunk(500.0, 2000.0), "500ms-wait2000"),
        (Chunk(500, 500), "500ms"),
        (Block(), "1block"),
        (Block(2), "2blocks"),
        (Offline(), "offline"),
    ],
)
def test_label(read: Chunk, label: str) -> None:
    assert read.label == label


@pytest.mark.parametrize("ms", [0, -1, math.nan, math.inf])
def test_bad_chunk(ms: float) -> None:
    with pytest.raises(SimulstError, match=r"read: ms is .*positive"):
        Chunk(ms)


@pytest.mark.parametrize("wait", [-1, math.nan, math.inf])
def test_bad_wait(wait: float) -> None:
    with pytest.raises(SimulstError, match=r"initial_wait_ms is .*0 or more"):
        Chunk(1000, wait)


def test_bad_block() -> None:
    with pytest.raises(SimulstError, match="read: n is 0; give at least one block"):
        Block(0)
