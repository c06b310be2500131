"""A machine that is too slow: steps are left out as a live system would leave them out, and no audio is lost."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake import RATE, FakeModel, FakeSession, Loudness
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import simulst
from simulst import meter
from simulst.config import LIVE, Decoding, load_decoding, parse_decoding
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.opening import Opening
from simulst.policy.commit import All
from simulst.policy.late import Skip
from simulst.policy.read import Chunk
from simulst.policy.segment import Pause
from simulst.runs.decode import instance_of
from simulst.stream import Stream
from simulst.streams import open_stream

HOW = Decoding(Chunk(1000), All())


@pytest.fixture(autouse=True)
def no_other_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is charged counts as computation."""
    monkeypatch.setattr(meter, "time", SimpleNamespace(perf_counter=lambda: 0.0))


class Slow(FakeModel):
    """Each search takes so many seconds, in turn."""

    costs: tuple[float, ...] = (0.0,)

    def session(self, opening: Opening | None = None) -> FakeSession:
        session = super().session(opening)
        search, model = session.search, self

        def slowly(*args: Any) -> Any:
            session.meter.charge(model.costs[(len(session.searches)) % len(model.costs)])
            return search(*args)

        session.search = slowly  # type: ignore[method-assign]
        return session


def slow(*costs: float) -> Slow:
    model = Slow(unstable=0)
    model.costs = costs
    return model


def live(seconds: float, costs: tuple[float, ...]) -> tuple[list[float], int]:
    """When a live system decodes: as soon as it is free, what has come by then. Whole seconds; the end is no step."""
    reads: list[float] = []
    free, last, skipped = 0.0, 0, 0
    while True:
        at = max(last + 1, math.floor(free))
        if at >= seconds:
            skipped += max(0, math.ceil(seconds) - 1 - last)
            return [*reads, 1000 * seconds], skipped
        skipped += at - last - 1
        free = max(free, at) + costs[len(reads) % len(costs)]
        reads.append(1000.0 * at)
        last = at


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.floats(0.3, 20),
    st.lists(st.integers(0, 320).map(lambda n: n / 64), min_size=1, max_size=4),  # their sums are exact
    st.lists(st.integers(1, 90000), max_size=4),
)
@example(9.5, [2.5], [])
@example(9.5, [2.0], [])
def test_steps_are_those_of_a_live_system(seconds: float, costs: list[float], cuts: list[int]) -> None:
    samples = np.zeros(round(seconds * RATE), np.float32)
    stream = Stream(slow(*costs).session(), replace(HOW, late=Skip()))
    for piece in np.split(samples, sorted(min(cut, samples.size) for cut in cuts)):
        stream.push(piece)
    stream.push(samples[:0], finished=True)
    expected, skipped = live(samples.size / RATE, tuple(costs))
    if samples.size % RATE:  # the end is not where READ decodes
        assert stream.reads == pytest.approx(expected)
        assert stream.skipped == skipped
    assert "".join(e.text for e in stream.emissions).strip() == FakeModel().truth(samples.size).strip(), (
        "no audio is lost"
    )


def test_waiting_skips_nothing() -> None:
    stream = Stream(slow(9.0).session(), HOW)
    stream.push(np.zeros(5 * RATE + 1, np.float32), finished=True)
    assert len(stream.reads) == 6 and stream.skipped == 0


def test_the_log_says_so() -> None:
    stream = Stream(slow(2.5).session(), replace(HOW, late=Skip()))
    stream.push(np.zeros(10 * RATE - 1, np.float32), finished=True)
    instance = instance_of(stream, Utterance("a", "a.wav", None), 0, 10000.0)  # type: ignore[arg-type]
    assert instance.skipped == stream.skipped == 5
    assert '"skipped": 5' in instance.to_json()
    assert "skipped" not in replace(instance, skipped=0).to_json()


def test_delay_is_carried_over_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next utterance begins late if the one before it took long."""
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    speech, quiet = np.full(3 * RATE, 0.5, np.float32), np.zeros(RATE // 2, np.float32)
    audio = np.concatenate([speech, quiet] * 3)
    counts = []
    for cost in (0.0, 1.6):
        stream = open_stream(slow(cost), replace(HOW, segment=Pause(0.2), late=Skip()), "es", "en")
        stream.push(audio, finished=True)
        assert len(stream.segments) == 3
        counts.append((stream.skipped, len(stream.reads)))
    assert counts[0][0] == 0 and counts[1][0] > 3
    assert sum(counts[0]) == sum(counts[1])


def test_configurations() -> None:
    raw = {"read": {"type": "chunk", "ms": 1000}, "commit": {"type": "all"}}
    assert parse_decoding(raw, "here").late.skips is False
    skipping = parse_decoding({**raw, "late": {"type": "skip"}}, "here")
    assert (skipping.label, skipping.late.skips) == ("all_skip_1000ms", True)
    assert load_decoding(Path(simulst.__file__).parents[1] / "conf/decode/live.yaml") == LIVE
    with pytest.raises(SimulstError, match="there is no late 'drop'; choose from wait, skip"):
        parse_decoding({**raw, "late": {"type": "drop"}}, "here")
