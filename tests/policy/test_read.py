import math
from types import SimpleNamespace
from typing import Any

import pytest
from fake import context_of

from simulst.errors import SimulstError
from simulst.needs import Need
from simulst.policy import boundary
from simulst.policy.boundary import Boundary
from simulst.policy.read import Block, Chunk, Offline, Read, WaitK, WaitKAtTestTime, WaitStride


def positions(read: Read, steps: int, **known: Any) -> list[float]:
    reading, found = read.open(context_of(**known)), [0.0]
    for _ in range(steps):
        found.append(reading.next_ms(found[-1]))
    return found[1:]


@pytest.fixture(autouse=True)
def predictor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A predictor of boundaries that nobody asks, in the file p."""
    load = boundary._load
    predictor = SimpleNamespace(predictor=SimpleNamespace(tau=100))
    monkeypatch.setattr(boundary, "_load", lambda path: predictor if path == "p" else load(path))


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (Chunk(500), [500, 1000, 1500]),
        (Chunk(500, 2000), [2000, 2500, 3000]),
        (Chunk(500, 1200), [1200, 1700, 2200]),
        (Chunk(500, 300), [500, 1000, 1500]),
        (Chunk(0.25), [0.25, 0.5, 0.75]),
        (Offline(), [math.inf]),
        (WaitKAtTestTime(1), [280, 560, 840, 1120]),
        (WaitKAtTestTime(3), [840, 1120, 1400, 1680]),
        (WaitKAtTestTime(2, 500), [1000, 1500, 2000, 2500]),
        (Boundary(0.5, "p"), [1000, 2000, 3000, 4000]),
        (Boundary(0.5, "p", 48), [480, 960, 1440, 1920]),
    ],
)
def test_schedules(read: Read, expected: list[float]) -> None:
    assert positions(read, len(expected)) == expected


@pytest.mark.parametrize("frames", [4, 48, 100])
def test_pieces_keep_their_places(frames: int) -> None:
    """Also if a step came between the positions, as it does when a window is full."""
    reading, piece = Boundary(0.5, "p", frames).open(context_of()), frames * 10
    for number in range(3000):
        assert reading.next_ms(number * piece) == (number + 1) * piece
        assert reading.next_ms(number * piece + 0.0625) == (number + 1) * piece
        assert reading.next_ms((number + 1) * piece - 0.0625) == (number + 1) * piece


def test_wait_k_is_that_of_the_model() -> None:
    read = WaitK(3, 320, name="FT")
    trained_wait = (3, 320.0, 1)
    assert positions(read, 3, trained_wait=trained_wait) == positions(WaitKAtTestTime(3, 320), 3) == [960, 1280, 1600]
    with pytest.raises(SimulstError, match=r"read: wait_k is for models that were trained for it; .*test_time_wait_k"):
        read.open(context_of())
    for trained in ((5, 320.0, 1), (3, 280.0, 1), (3, 320.0, 2)):
        other = f"{trained[0]}, {trained[1]:g} and {trained[2]}"
        with pytest.raises(SimulstError, match=f"k 3, unit_ms 320 and writes 1, .* with {other}; write those"):
            read.open(context_of(trained_wait=trained))


def test_only_a_boundary_needs_the_audio() -> None:
    for read in (Chunk(500), Offline(), WaitKAtTestTime(3), WaitStride(100, 10)):
        assert read.needs == frozenset() and read.open(context_of()).ready()
    assert (Block().needs, Boundary(0.5, "p").needs) == ({Need.BLOCKS}, {Need.AUDIO})
    with pytest.raises(SimulstError, match=r"nowhere\.pth: no such file; name a predictor"):
        Boundary(0.5, "nowhere.pth").open(context_of())
    with pytest.raises(SimulstError, match=r"read: the boundary predictor hears 16000 Hz, and the model 8000 Hz"):
        Boundary(0.5, "nowhere.pth").open(context_of(sample_rate=8000))


def test_the_model_knows_where_blocks_end() -> None:
    reading = Block(3).open(context_of(block_end=lambda n: 1000.0 + n))
    assert reading.next_ms(7.0) == 1003.0 and reading.ready()
