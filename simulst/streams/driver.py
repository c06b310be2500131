"""One driver of many streams: it answers the calls of all of them, those of a kind as one batch.

A stream is a computation in steps (simulst/calls.py). Streams join and leave at any time and need not be at the
same step. Each `step` of the driver answers one batch: the calls that most streams wait for, or those of which one has
waited too long. Then these streams go on to their next calls. What a stream finds is what it finds alone, up to
rounding. Some calls share no batch, but are answered in threads of their own, such as requests to a server.

`Driver` belongs to one thread. `DriverThread` runs one in a thread of its own, for servers.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import itertools
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import numpy as np

from simulst.calls import Call, Steps
from simulst.errors import SimulstError
from simulst.meter import Meter
from simulst.stream import Emission, OpenStream

T = TypeVar("T")

logger = logging.getLogger(__name__)

MOST_CALLS = 64  # of a batch; more take more memory and hardly less time each
LONGEST_WAIT = 0.05  # seconds; people do not notice so much
CANCELLED = "this stream was cancelled."
SHORT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc")  # torch's, CTranslate2's


@dataclass(eq=False)
class _Run:
    """A computation that is under way.

    owner: the stream that it belongs to. The computations of an owner run one after the other.
    meter: tells on which clock answers count now.
    call: what it waits for, since the time `since`, among those of the group `key`; or from the thread `thread`.
    """

    owner: object
    steps: Steps[Any]
    meter: Callable[[], Meter] | None
    future: Future[Any] = field(default_factory=Future)
    call: Call | None = None
    since: float = 0.0
    key: Hashable = None
    thread: int = 0


class _Answer(NamedTuple):
    """What a thread has found, and the seconds that it took."""

    thread: int
    seconds: float
    go_on: Callable[[Steps[Any]], Call]


class Driver:
    """Runs computations in steps, and answers their calls in batches.

    An error of a call ends its own computation alone, whatever its kind; a KeyboardInterrupt alone is nobody's. If a
    batch fails, its calls are answered one by one. A batch that memory does not hold is split in two.

    Each stream is charged its share of a batch's time, by the sizes of the calls, so the charges of all streams add up
    to the time of the computation. They are not what the stream would cost alone. A stream that a thread answers is
    charged the time of that, even if others were answered meanwhile.

    longest_wait: seconds. A call that has waited for longer is answered next, the oldest first. So no call waits for
        longer than that, the batch that is under way, and the batches of calls that are older.
    most_calls: the most calls of a batch.

    `on_answer` is called in a thread that has answered a call. The next step takes the answer.
    """

    def __init__(self, longest_wait: float = LONGEST_WAIT, most_calls: int = MOST_CALLS) -> None:
        self._longest_wait, self._most_calls = longest_wait, most_calls
        self._runs: dict[int, deque[_Run]] = {}  # by owner; the first one of each is under way
        self._begun: deque[_Run] = deque()  # those whose first step is not taken
        self._waiting: dict[Hashable, dict[_Run, None]] = {}  # those that may share a batch, the oldest first
        self._threads = itertools.count(1)
        self._threaded: dict[int, _Run] = {}  # by the number of the thread that answers
        self._answers: SimpleQueue[_Answer] = SimpleQueue()  # of threads
        self.on_answer: Callable[[], None] = lambda: None

    @property
    def busy(self) -> bool:
        """Whether a computation is left."""
        return bool(self._runs)

    @property
    def ready(self) -> bool:
        """Whether there is something to do now. If not, but it is busy, all computations wait for threads."""
        return bool(self._begun or self._waiting or not self._answers.empty())

    def push(self, stream: OpenStream, samples: np.ndarray, finished: bool = False) -> Future[list[Emission]]:
        """As the stream's own `push`. Its result is known after some calls of `step`. Pushes keep their order."""
        return self.run(stream.push_steps(samples, finished), lambda: stream.meter, stream)

    def run(self, steps: Steps[T], meter: Callable[[], Meter] | None = None, owner: object | None = None) -> Future[T]:
        """Run any computation. Its result is known after some calls of `step`.

        meter: tells on which clock the answers count at the moment; None: on none.
        owner: what `cancel` cancels; computations of an owner run one after the other. None: the computation itself.
        """
        owner = steps if owner is None else owner
        run = _Run(owner, steps, meter)
        queue = self._runs.setdefault(id(owner), deque())
        queue.append(run)
        if len(queue) == 1:
            self._begun.append(run)
        return run.future

    def cancel(self, owner: object) -> None:
        """End all computations of a stream now, and forget them. Their results raise SimulstError."""
        queue = self._runs.pop(id(owner), None) or ()
        for number, run in enumerate(queue):
            if not number:
                self._forget(run)
            try:
                run.steps.close()
            except Exception:  # nobody waits for what it does at its end
                logger.exception("a stream that was cancelled failed at its end; the others go on")
            run.future.set_exception(SimulstError(CANCELLED))

    def cancel_all(self) -> None:
        for queue in list(self._runs.values()):
            self.cancel(queue[0].owner)

    def step(self) -> None:
        """Take the answers of threads and the first steps of new computations, then answer one batch and go on with it.

        If all wait for threads, so does this. It does nothing if no computation is left.
        """
        wait = bool(self._threaded) and not self.ready
        while wait or not self._answers.empty():
            self._take_answer(self._answers.get())
            wait = False
        while self._begun:
            self._send(self._begun.popleft(), next)
        if self._waiting:
            runs = self._next_batch()
            for run in runs:
                self._forget(run)
            self._answer(runs)

    def finish(self) -> None:
        """Take steps until no computation is left."""
        while self.busy:
            self.step()

    def _next_batch(self) -> list[_Run]:
        """Those that have waited longest if that is too long, or else the most that wait for the same.

        A call that can't share a batch goes before these: it gains nothing by waiting, and its stream may join them.
        """
        groups = self._waiting.values()
        oldest = min(groups, key=lambda group: next(iter(group)).since)
        late = time.perf_counter() - next(iter(oldest)).since > self._longest_wait
        alone = [group for key, group in self._waiting.items() if isinstance(key, int)]
        chosen = oldest if late else max(alone or groups, key=lambda group: len(group))
        most = getattr(next(iter(chosen)).call, "most", None)
        return list(chosen)[: min(most or self._most_calls, self._most_calls)]

    def _answer(self, runs: Sequence[_Run]) -> None:
        if len(runs) == 1:
            self._answer_alone(runs[0])
            return
        calls: list[Any] = [run.call for run in runs]
        answers: Sequence[Any] | None = None
        short = False
        sizes = [1.0] * len(runs)
        begin = time.perf_counter()
        try:
            sizes = [call.size for call in calls]
            found = calls[0].answer_together(calls)
            answers = found if len(found) == len(calls) else None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            short = _is_short_of_memory(error)
        seconds = time.perf_counter() - begin
        del calls
        for run, size in zip(runs, sizes, strict=True):
            if run.meter is not None:
                run.meter().charge(seconds * size / max(sum(sizes), 1e-9))
        if answers is not None:
            for run, answer in zip(runs, answers, strict=True):
                self._send(run, functools.partial(_take, answer))
        elif short:
            half = len(runs) // 2
            self._answer(runs[:half])
            self._answer(runs[half:])
        else:  # one by one, so that only those end that have an error
            for run in runs:
                self._answer_alone(run)

    def _answer_alone(self, run: _Run) -> None:
        assert run.call is not None
        meter = Meter() if run.meter is None else run.meter()
        try:
            with meter.running():  # time that the call counts itself is counted once
                answer = run.call.answer()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._send(run, functools.partial(_throw, errors=[error]))
        else:
            self._send(run, functools.partial(_take, answer))

    def _ask_a_thread(self, run: _Run, call: Call, turn: AbstractContextManager[Any]) -> None:
        run.thread = next(self._threads)
        self._threaded[run.thread] = run
        thread = threading.Thread(target=self._answer_in_thread, args=[run.thread, call, turn], daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # there are too many
            self._answers.put(_Answer(run.thread, 0.0, functools.partial(_throw, errors=[error])))

    def _answer_in_thread(self, thread: int, call: Call, turn: AbstractContextManager[Any]) -> None:
        """Runs in that thread. It does not know the stream, which may be cancelled and freed meanwhile."""
        begin = time.perf_counter()
        try:
            with turn:
                if thread not in self._threaded:  # cancelled
                    return
                begin = time.perf_counter()
                go_on = functools.partial(_take, call.answer())
        except BaseException as error:
            go_on = functools.partial(_throw, errors=[error])
        self._answers.put(_Answer(thread, time.perf_counter() - begin, go_on))
        self.on_answer()

    def _take_answer(self, answer: _Answer) -> None:
        run = self._threaded.pop(answer.thread, None)
        if run is None:  # it was cancelled
            return
        if run.meter is not None:
            run.meter().charge(answer.seconds)
        self._send(run, answer.go_on)

    def _send(self, run: _Run, go_on: Callable[[Steps[Any]], Call]) -> None:
        """Let a computation go on to its next call, or to its end."""
        run.call = None
        try:
            call = run.call = go_on(run.steps)
            if (turn := getattr(call, "turn", None)) is not None:
                self._ask_a_thread(run, call, turn)
                return
            together = getattr(call, "together", None)
            # A number: it shares a batch with no other.
            run.since, run.key = time.perf_counter(), id(run) if together is None else (type(call), together)
            self._waiting.setdefault(run.key, {})[run] = None
        except StopIteration as end:
            self._end(run).set_result(end.value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._end(run).set_exception(error)

    def _end(self, run: _Run) -> Future[Any]:
        """Begin the next computation of the owner. Returns what gets the result.

        An error's traceback knows the run by its frames. If the run knew the error, too, all would stay in memory.
        """
        future, run.future = run.future, Future()
        queue = self._runs[id(run.owner)]
        queue.popleft()
        if queue:
            self._begun.append(queue[0])
        else:
            del self._runs[id(run.owner)]
        return future

    def _forget(self, run: _Run) -> None:
        """Take a computation out of those that wait. After a fault of ours it may be nowhere."""
        if run in self._begun:
            self._begun.remove(run)
        elif self._threaded.get(run.thread) is run:
            del self._threaded[run.thread]
        elif run in self._waiting.get(run.key, ()):
            del self._waiting[run.key][run]
            if not self._waiting[run.key]:
                del self._waiting[run.key]


def _take(answer: Any, steps: Steps[Any]) -> Call:
    return steps.send(answer)


def _throw(steps: Steps[Any], errors: list[BaseException]) -> Call:
    return steps.throw(errors.pop())


def _is_short_of_memory(error: BaseException) -> bool:
    torch = sys.modules.get("torch")
    if isinstance(error, MemoryError) or (torch and isinstance(error, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in SHORT_OF_MEMORY)


class DriverThread:
    """A driver in a thread of its own. Its methods may be called from any thread; each stream from one at a time."""

    def __init__(self) -> None:
        self._driver = Driver()
        self._orders: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._driver.on_answer = self._wake
        self._thread = threading.Thread(target=self._work, name="simulst driver", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # Python may abort if a thread comes back from CTranslate2 while it exits

    def push(self, stream: OpenStream, samples: np.ndarray, finished: bool = False) -> list[Emission]:
        """As the stream's own `push`: it waits for the result, while other streams are served, too.

        LATE is told how long the stream has waited for the computation of others.

        Raises SimulstError: what `push` raises; the stream was cancelled; the driver was closed.
        """
        asked, before = time.perf_counter(), stream.meter.seconds
        words = self._begin(lambda: self._driver.push(stream, samples, finished)).result()
        stream.wait(max(0.0, time.perf_counter() - asked - (stream.meter.seconds - before)))
        return words

    async def push_async(self, stream: OpenStream, samples: np.ndarray, finished: bool = False) -> float:
        """Like `push`, for a server of asyncio. The words are in `emissions`.

        Returns: seconds for which the stream has waited for the computation of others.
        """
        asked, before = time.perf_counter(), stream.meter.seconds
        await asyncio.wrap_future(self._begin(lambda: self._driver.push(stream, samples, finished)))
        waited = max(0.0, time.perf_counter() - asked - (stream.meter.seconds - before))
        stream.wait(waited)
        return waited

    def call(self, function: Callable[[], T]) -> T:
        """Call a function between two steps, such as one that opens a stream: models know of one thread only."""
        return self._begin(lambda: _called(function)).result()

    async def call_async(self, function: Callable[[], T]) -> T:
        """Like `call`, for a server of asyncio."""
        return await asyncio.wrap_future(self._begin(lambda: _called(function)))

    def cancel(self, stream: OpenStream) -> None:
        """End a stream's pushes, once the batch that is under way is answered. Whoever waits gets SimulstError."""
        with contextlib.suppress(SimulstError):  # closed: there is nothing left
            self._order(lambda: self._driver.cancel(stream))

    def close(self, seconds: float | None = None) -> None:
        """Cancel all streams and end the thread. Nothing may be pushed after that.

        seconds: how long to wait for the batch that is under way; None: until it is answered.
        """
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)
        if self.closed:
            atexit.unregister(self.close)

    @property
    def closed(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def _begin(self, order: Callable[[], Future[T]]) -> Future[T]:
        """Give an order, whose result will be known."""
        result = Future[T]()
        result.set_running_or_notify_cancel()  # whoever waits may give up, but the order stands

        def given() -> None:
            order().add_done_callback(lambda done: _pass_on(done, result))

        self._order(given)
        return result

    def _order(self, order: Callable[[], None]) -> None:
        with self._changed:
            if self._closed:
                raise SimulstError("the driver of the streams was closed.")
            self._orders.append(order)
            self._changed.notify()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._orders or self._closed or self._driver.ready)
                orders, closed = list(self._orders), self._closed
                self._orders.clear()
            try:
                for order in orders:
                    order()
                if closed:
                    self._driver.cancel_all()
                    return
                if self._driver.ready:
                    self._driver.step()
            except BaseException:  # a fault of ours, or somebody's SystemExit: nobody may wait for ever
                logger.exception("the driver of the streams failed; all streams that are being served end.")
                self._driver.cancel_all()


def _called(function: Callable[[], T]) -> Future[T]:
    future = Future[T]()
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
    return future


def _pass_on(done: Future[Any], to: Future[Any]) -> None:
    error = done.exception()
    if error is None:
        to.set_result(done.result())
    elif isinstance(error, Exception):
        to.set_exception(error)
    else:  # such as SystemExit: it would end the server, or the task, of whoever waits
        odd = RuntimeError(f"the model raised {type(error).__name__}({error})")
        odd.__cause__ = error
        to.set_exception(odd)
