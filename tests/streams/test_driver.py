"""Many streams in one driver: each finds what it finds alone, whatever happens to the others."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import weakref
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake import RATE, FakeModel, FakeSession, opening
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst import meter
from simulst.calls import Call, Steps, Turns, run_alone
from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.meter import Meter
from simulst.policy.commit import All
from simulst.policy.read import Chunk
from simulst.stream import Stream
from simulst.streams import driver as module
from simulst.streams.driver import CANCELLED, Driver, DriverThread


@dataclass
class World:
    """What happened, and the clock of the test. room: the most calls that a batch has memory for."""

    now: float = 0.0
    room: float = math.inf
    batches: list[list[int]] = field(default_factory=list)

    def perf_counter(self) -> float:
        return self.now


@dataclass(frozen=True)
class Double:
    """Doubles a number; takes a second, and in a batch half of one for each number. Negative ones have an error."""

    number: int
    world: World = field(compare=False)
    kind: Hashable = 0

    @property
    def together(self) -> Hashable:
        return self.kind

    @property
    def size(self) -> float:
        return 1.0 + self.number % 3

    def answer(self) -> int:
        self.world.now += 1.0
        self.world.batches.append([self.number])
        if self.number < 0:
            raise ValueError("negative")
        return 2 * self.number

    @classmethod
    def answer_together(cls, calls: Sequence[Double]) -> list[int]:
        world = calls[0].world
        assert len({call.kind for call in calls}) == 1 and None not in {call.kind for call in calls}
        world.now += len(calls) / 2
        if len(calls) > world.room:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
        world.batches.append([call.number for call in calls])
        if any(call.number < 0 for call in calls):
            raise ValueError("negative")
        return [2 * call.number for call in calls]


AWAY = "away"


@dataclass(frozen=True)
class Away:
    """Doubles a number in a thread, two of them at once."""

    number: int

    turn = Turns(2)

    def answer(self) -> int:
        if self.number < 0:
            raise ValueError("negative")
        return 2 * self.number


def doubled(number: int, kinds: Sequence[Hashable], world: World, fails: int | None = None) -> Steps[int]:
    for place, kind in enumerate(kinds):
        asked = -1 if place == fails else number
        number = yield Away(asked) if kind == AWAY else Double(asked, world, kind)
        number %= 1000
    return number


computations = st.lists(
    st.tuples(
        st.integers(0, 9),  # the number
        st.lists(st.sampled_from([0, 1, None, AWAY]), max_size=6),  # kinds of its calls
        st.none() | st.integers(0, 7),  # the call that fails
        st.integers(0, 20),  # after how many steps it joins
        st.none() | st.integers(0, 25),  # after how many steps it is cancelled
    ),
    max_size=8,
)


@settings(max_examples=150)
@given(
    computations, st.sampled_from([math.inf, 1, 2, 5]), st.sampled_from([1, 3, 64]), st.sampled_from([0.0, 2.0, 1e9])
)
def test_as_alone(some: list[Any], room: float, most: int, longest_wait: float) -> None:
    """Computations join, leave, fail and are cancelled at any time; batches may be too large for the memory."""
    world, alone = World(room=room), World()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "time", world)
        driver = Driver(longest_wait, most)
        found: dict[int, Future[int]] = {}
        owners = [object() for _ in some]
        for step in range(200):
            for number, (value, kinds, fails, joins, leaves) in enumerate(some):
                if step == joins:
                    found[number] = driver.run(doubled(value, kinds, world, fails), owner=owners[number])
                if step == leaves:
                    driver.cancel(owners[number])
            driver.step()
            if step > 25 and not driver.busy:
                break
        assert not driver.busy and not driver._waiting and not driver._begun and not driver._threaded
    assert all(len(batch) <= most for batch in world.batches)
    for number, (value, kinds, fails, _, leaves) in enumerate(some):
        error = found[number].exception(timeout=0)
        if leaves is not None and str(error) == CANCELLED:
            continue
        if fails is not None and fails < len(kinds):
            assert isinstance(error, ValueError)
        else:
            assert found[number].result() == run_alone(doubled(value, kinds, alone))


def test_charges_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the time of the computation; each stream is charged by the size of its calls."""
    world = World()
    monkeypatch.setattr(module, "time", world)
    monkeypatch.setattr(meter, "time", world)
    driver, meters = Driver(math.inf), [Meter() for _ in range(3)]
    for number, one in enumerate(meters):
        driver.run(doubled(number, [0, 0], world), lambda one=one: one)  # type: ignore[misc]
    driver.run(doubled(5, [1], world), lambda: meters[0])
    driver.finish()
    assert sum(one.seconds for one in meters) == pytest.approx(world.now) == pytest.approx(2 * 1.5 + 1.0)
    assert meters[1].seconds == pytest.approx(1.5 * 2 / 6 + 1.5 * 3 / 6)  # sizes 1, 2, 3, then 1, 3, 2


def test_nobody_waits_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The most common calls come first, until another one has waited for longer than the bound."""
    world = World()
    monkeypatch.setattr(module, "time", world)
    driver = Driver(longest_wait=3.5)
    driver.run(doubled(7, ["rare"], world))
    for number in range(3):
        driver.run(doubled(number, ["common"] * 9, world))
    while not any(7 in batch for batch in world.batches):
        before = world.now
        driver.step()
    assert 3.5 < before <= 3.5 + 1.5  # one batch of three takes 1.5 s


@pytest.mark.parametrize(("most", "sizes"), [(2, [2, 2, 1]), (9, [3, 2]), (None, [3, 2])])
def test_calls_say_how_many_share_a_batch(monkeypatch: pytest.MonkeyPatch, most: int | None, sizes: list[int]) -> None:
    monkeypatch.setattr(Double, "most", most, raising=False)
    driver, world = Driver(math.inf, most_calls=3), World()
    found = [driver.run(doubled(number, [0], world)) for number in range(5)]
    driver.finish()
    assert [one.result() for one in found] == [0, 2, 4, 6, 8] and [len(batch) for batch in world.batches] == sizes


def test_who_goes_alone_goes_first() -> None:
    """Else those that are done with it would run ahead of the others, in small batches."""
    world, driver = World(), Driver(math.inf)
    for number in range(4):
        driver.run(doubled(number + 1, [0, None, 0, 0], world))
    driver.finish()
    assert [len(batch) for batch in world.batches] == [4, 1, 1, 1, 1, 4, 4]


class Held:
    """Something large that a computation holds."""


class Asked:
    """A call that is answered when the test says so. came: it was asked."""

    turn = nullcontext()

    def __init__(self) -> None:
        self.came, self.may_answer = threading.Event(), threading.Event()

    def answer(self) -> int:
        self.came.set()
        self.may_answer.wait()
        return 21


def asking(call: Call, world: World, held: list[Any] | None = None) -> Steps[int]:
    large = Held()
    if held is not None:
        held.append(weakref.ref(large))
    number = yield call
    return (yield Double(number, world))


def test_others_go_on_while_threads_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several are asked at once. Streams are charged the time until their answers, not that until their turn."""
    world = World()
    all_wait = threading.Barrier(3, lambda: setattr(world, "now", 100.0))

    @contextmanager
    def turn() -> Iterator[None]:
        all_wait.wait()
        yield

    monkeypatch.setattr(module, "time", world)
    monkeypatch.setattr(meter, "time", world)
    driver, calls, clocks = Driver(), [Asked() for _ in range(3)], [Meter() for _ in range(3)]
    away = [driver.run(asking(one, world), lambda c=c: c) for one, c in zip(calls, clocks, strict=True)]  # type: ignore[misc]
    for call in calls:
        call.turn = turn()  # type: ignore[assignment]
    there = threading.Semaphore(0)
    driver.on_answer = there.release
    driver.step()
    for call in calls:
        call.came.wait()
    here = driver.run(doubled(1, [0] * 5, world))
    while not here.done():
        driver.step()
    assert here.result() == 32 and driver.busy and not driver.ready and not any(one.done() for one in away)
    world.now += 7
    for call in calls:
        call.may_answer.set()
    for _ in calls:
        there.acquire()
    driver.finish()
    assert [one.result() for one in away] == [42] * 3
    assert [clock.seconds for clock in clocks] == [pytest.approx(12 + 1.5 / 3)] * 3  # 5 s of the other one, and 7 s


def test_who_is_cancelled_while_a_thread_answers() -> None:
    """It is freed at once; its answer is nobody's."""
    driver, call, held, owner, world = Driver(), Asked(), list[Any](), object(), World()
    found = driver.run(asking(call, world, held), owner=owner)
    driver.step()
    call.came.wait()
    assert held[0]() is not None
    driver.cancel(owner)
    assert held[0]() is None and not driver.busy and str(found.exception(timeout=0)) == CANCELLED
    answered = threading.Event()
    driver.on_answer = answered.set
    call.may_answer.set()
    answered.wait()
    other = driver.run(doubled(1, [AWAY, 0], world))
    driver.finish()
    assert other.result() == 4


def test_who_is_cancelled_before_its_turn() -> None:
    """Nothing is computed for it any more."""
    comes, passed = threading.Event(), threading.Event()

    @contextmanager
    def turn() -> Iterator[None]:
        comes.wait()
        yield
        passed.set()

    driver, call, owner = Driver(), Asked(), object()
    call.may_answer.set()
    call.turn = turn()  # type: ignore[assignment]
    found = driver.run(asking(call, World()), owner=owner)
    driver.step()
    driver.cancel(owner)
    comes.set()
    passed.wait()
    assert str(found.exception(timeout=0)) == CANCELLED and not call.came.is_set() and not driver.ready


def test_calls_of_a_stream_keep_their_order() -> None:
    model, driver = FakeModel(), Driver()
    how, audio = Decoding(Chunk(300), All()), np.zeros(2 * RATE, np.float32)
    stream, alone = (Stream(FakeSession(model, opening()), how) for _ in range(2))
    found = [driver.push(stream, audio[:9000]), driver.push(stream, audio[9000:]), driver.push(stream, audio[:0], True)]
    too_late = driver.push(stream, audio)
    driver.finish()
    expected = [alone.push(audio[:9000]), alone.push(audio[9000:]), alone.push(audio[:0], True)]
    assert [[e.text for e in one.result()] for one in found] == [[e.text for e in one] for one in expected]
    with pytest.raises(SimulstError, match="has ended"):
        too_late.result()


@pytest.mark.parametrize("end", ["cancel", "error", "result"])
def test_a_stream_that_ends_is_not_kept(end: str) -> None:
    """Its memory is free at once, without a collection of garbage."""
    driver, world, owner = Driver(math.inf), World(), object()
    held: list[weakref.ref[Held]] = []

    def computation(fails: bool) -> Steps[None]:
        large = Held()
        held.append(weakref.ref(large))
        yield Double(1, world)
        yield Double(-1 if fails else 1, world)
        del large

    clock = Meter()
    found = driver.run(clock.metered(computation(end == "error")), lambda: clock, owner)
    other = driver.run(doubled(1, [0] * 5, world))
    driver.step()
    assert held[0]() is not None
    if end == "cancel":
        driver.cancel(owner)
    else:
        driver.step()
        if end == "error":
            assert isinstance(found.exception(timeout=0), ValueError)
            del found
    assert held[0]() is None
    driver.finish()
    assert other.result() == 32


@pytest.mark.parametrize("many", [1, 3])
def test_a_thread_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """Its stream ends with the error, alone."""
    world, driver = World(), Driver(math.inf)
    found = [driver.run(doubled(number, [0, AWAY, 0], world)) for number in range(many)]
    other = driver.run(doubled(5, [0, 0, 0], world))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", unable)
        driver.finish()
    assert other.result() == 40
    for one in found:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            one.result()


def unable(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_any_error_of_a_thread_ends_the_wait() -> None:
    def asks() -> Steps[None]:
        with pytest.raises(SystemExit):
            yield Exits()

    class Exits(Away):
        def answer(self) -> int:
            raise SystemExit

        def __init__(self) -> None:
            pass

    driver = Driver()
    found = driver.run(asks())
    driver.finish()
    assert found.result() is None


class Odd(Double):
    """A call, or a computation, that is wrong in one of many ways. Negative numbers are."""

    def __init__(self, number: int, world: World, way: str) -> None:
        super().__init__(number, world)
        object.__setattr__(self, "way", way)

    @property
    def together(self) -> Hashable:
        return [] if self.way == "no key" and self.number < 0 else 0  # type: ignore[attr-defined,return-value]

    @property
    def size(self) -> float:
        if self.way == "no size" and self.number < 0:  # type: ignore[attr-defined]
            raise ValueError("no size")
        return 1.0

    def answer(self) -> int:
        if self.number < 0:
            raise {"cancelled": asyncio.CancelledError, "exit": SystemExit}.get(self.way, GeneratorExit)  # type: ignore[attr-defined]
        return 2 * self.number

    @classmethod
    def answer_together(cls, calls: Sequence[Any]) -> list[int]:
        if calls[0].way == "too few":
            return [1]
        if any(call.number < 0 for call in calls):
            raise asyncio.CancelledError
        return [2 * call.number for call in calls]


@pytest.mark.parametrize("way", ["cancelled", "exit", "generator", "no key", "no size", "too few"])
def test_one_streams_fault_is_its_own(way: str) -> None:
    """Whatever it raises, and whatever is wrong with its calls."""

    def asks(number: int) -> Steps[int]:
        return (yield Odd(number, World(), way)) + (yield Odd(abs(number), World(), way))

    driver = Driver(math.inf)
    bad, *good = (driver.run(asks(number)) for number in (-1, 1, 2))
    driver.finish()
    assert [one.result() for one in good] == [4, 8] and bad.exception() is not None


@pytest.mark.parametrize("kind", [SystemExit, asyncio.CancelledError, GeneratorExit])
def test_what_would_end_the_program_ends_a_push_alone(kind: type[BaseException]) -> None:
    def raises() -> Steps[int]:
        yield Double(1, World())
        raise kind("odd")

    stream: Any = SimpleNamespace(push_steps=lambda *_: raises(), meter=Meter(), wait=lambda seconds: None)
    with closing(DriverThread()) as thread:
        with pytest.raises(RuntimeError, match=rf"the model raised {kind.__name__}\(odd\)"):
            thread.push(stream, np.zeros(1, np.float32))
        with pytest.raises(RuntimeError, match=kind.__name__):
            asyncio.run(thread.push_async(stream, np.zeros(1, np.float32)))


def test_a_cancelled_stream_that_fails_at_its_end() -> None:
    def stubborn() -> Steps[int]:
        try:
            yield Double(1, World())
        finally:
            raise ValueError("no")

    driver, owner = Driver(), object()
    bad, good = driver.run(stubborn(), owner=owner), driver.run(doubled(1, [0, 0], World()))
    driver._send(driver._begun.popleft(), next)
    driver.cancel(owner)
    driver.finish()
    assert str(bad.exception()) == CANCELLED and good.result() == 4


# ---- in a thread


def test_clients_in_threads() -> None:
    """Each gets what its stream writes alone; one with NaN audio gets an error, and so does one that is cancelled."""
    how = Decoding(Chunk(300), All())
    models = [FakeModel(seed=seed) for seed in range(4)]
    chance = random.Random(1)
    cuts = [sorted(chance.sample(range(3 * RATE), 5)) for _ in models]
    found: dict[int, str] = {}
    with closing(DriverThread()) as thread:

        def client(number: int) -> None:
            stream = thread.call(lambda: Stream(FakeSession(models[number], opening()), how))
            for part in np.split(np.zeros(3 * RATE, np.float32), cuts[number]):
                thread.push(stream, part)
                with pytest.raises(SimulstError, match="NaN"):
                    thread.push(stream, part[:1] * np.nan)
            thread.push(stream, np.zeros(0, np.float32), True)
            found[number] = stream.committed_text

        clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        with pytest.raises(ZeroDivisionError):
            thread.call(lambda: 1 / 0)
    for number, model in enumerate(models):
        alone = Stream(FakeSession(model, opening()), how)
        alone.push(np.zeros(3 * RATE, np.float32), True)
        assert found[number] == alone.committed_text != ""
    with pytest.raises(SimulstError, match="closed"):
        thread.push(alone, np.zeros(1, np.float32))


def test_a_driver_that_waits_for_threads_serves_others() -> None:
    """It takes new orders meanwhile, and the answer wakes it."""
    call, world, waits = Asked(), World(), list[float]()
    away: Any = SimpleNamespace(push_steps=lambda *_: asking(call, world), meter=Meter(), wait=waits.append)
    here: Any = SimpleNamespace(push_steps=lambda *_: doubled(1, [0], world), meter=Meter(), wait=waits.append)
    found: list[Any] = []
    with closing(DriverThread()) as thread:
        client = threading.Thread(target=lambda: found.append(thread.push(away, np.zeros(1, np.float32))))
        client.start()
        call.came.wait()
        assert thread.push(here, np.zeros(1, np.float32)) == 2  # type: ignore[comparison-overlap]
        assert not found
        call.may_answer.set()
        client.join()
    assert found == [42] and len(waits) == 2  # LATE is told


def test_who_waits_when_the_thread_ends_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, left = threading.Event(), threading.Event()

    class Slow:
        def answer(self) -> None:
            entered.set()
            left.wait()

    def endless() -> Steps[None]:
        while True:
            yield Slow()

    stream: Any = SimpleNamespace(push_steps=lambda *_: endless(), meter=Meter(), wait=lambda seconds: None)
    errors: list[str] = []

    def client(thread: DriverThread) -> None:
        with pytest.raises(SimulstError) as caught:
            thread.push(stream, np.zeros(1, np.float32))
        errors.append(str(caught.value))

    for how in ("cancel", "close", "fault"):
        thread = DriverThread()
        waits = threading.Thread(target=client, args=(thread,))
        entered.clear()
        left.clear()
        waits.start()
        entered.wait()
        if how == "cancel":
            thread.cancel(stream)
        elif how == "fault":
            monkeypatch.setattr(Driver, "_next_batch", lambda self: 1 / 0)
        closing = threading.Thread(target=thread.close)
        if how == "close":
            closing.start()
        left.set()
        waits.join()
        monkeypatch.undo()
        if how == "close":
            closing.join()
        else:
            thread.close()
    assert errors == [CANCELLED] * 3
