"""Commands that answer texts: one that is run for each text, and one that stays open."""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from typing import IO

from simulst.calls import Turns
from simulst.errors import SimulstError

MOST_BYTES = 1 << 20
"""Of an answer, and of messages beside it. A program that writes more than that floods."""
PROBE_SECONDS = 1.0
"""How long a further answer is waited for, if a program answers one text in two ways."""


class _Gone(Exception):
    """The process has ended before its answer."""


class _Late(Exception):
    """There was no answer within the time limit."""


class _Flood(Exception):
    """The process writes without end."""


def run_once(words: list[str], text: str, timeout: float) -> str:
    """The answer of a command that is run for this text.

    Raises SimulstError: there is no such program; it fails, or answers with nothing, too late or without end.
    """
    name = shlex.join(words)
    with tempfile.TemporaryFile() as errors:
        process = _started(words, errors)
        try:
            answer = _exchange(process, text.encode() + b"\n", errors, time.monotonic() + timeout, None)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout)
        except _Late:
            raise SimulstError(
                f"'{name}' gave no translation within {timeout:g} s; give it a longer 'timeout'."
            ) from None
        except _Flood:
            raise _floods(name) from None
        finally:
            _end(process)
        if process.returncode or not answer.strip():
            raise SimulstError(
                f"'{name}' failed with status {process.returncode} ({_last_line(errors)}); try it in a shell."
            )
    return answer.decode("utf-8", errors="replace").strip()


class OpenCommand:
    """One process, which is started when the first text comes, and again if it has ended.

    words: the command. It answers each line with a line.
    timeout: the seconds that an answer may take.
    turn: inside it, a thread may ask: one after the other.
    """

    def __init__(self, words: list[str], timeout: float) -> None:
        self._words, self._timeout = words, timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._told = 0  # the bytes of `_errors` that earlier texts brought
        self.turn = Turns(1)
        self._lock = threading.Lock()  # who asks without a driver takes no turn

    def ask(self, text: str) -> str:
        """The answer to a text. A process that has ended is started again, once.

        Raises SimulstError: there is no such program; no answer; none within the time limit; more than one answer.
        """
        with self._lock:
            try:
                answer = self._answer(text)
            except _Gone:
                self._stop()
                try:
                    answer = self._answer(text)
                except _Gone:
                    status = self._stop()
                    raise SimulstError(
                        f"'{self._name}' ended with status {status} before it answered ({self._last_error()}); try it "
                        "in a shell."
                    ) from None
        if not answer.strip():
            raise SimulstError(f"'{self._name}' answered with nothing; try it in a shell, or check 'answers'.")
        return answer

    @property
    def _name(self) -> str:
        return shlex.join(self._words)

    def _answer(self, text: str) -> str:
        if self._process is not None:
            return self._said(text)
        self._errors, self._told = tempfile.TemporaryFile(), 0  # noqa: SIM115 - a pipe that nobody reads would fill up
        self._process = _started(self._words, self._errors)
        self._ending = weakref.finalize(self, _end, self._process)
        # A program that greets, or answers a text twice, would give each text the answer of another one. It then
        # answers the first text in two ways, and a further answer is left over.
        first = self._said(text)
        try:
            second = self._said(text)
        except _Gone:  # it is one that answers a single text
            self._stop()
            return first
        if first != second and self._is_left_over():
            raise self._several()
        return second

    def _said(self, text: str) -> str:
        """The answer of the process that runs."""
        process, errors = self._process, self._errors
        assert process is not None and errors is not None
        if _readable(process, 0.0):  # or it has ended, and is started again
            if os.read(_output(process), 1):
                raise self._several()
            raise _Gone
        try:
            until = time.monotonic() + self._timeout
            answer = _exchange(process, text.encode() + b"\n", errors, until, lambda read: b"\n" in read, self._told)
            self._told = _shortened(errors)
        except _Late:
            self._stop(gone=False)
            raise SimulstError(
                f"'{self._name}' gave no translation within {self._timeout:g} s; give it a longer 'timeout', "
                "or another value of 'answers'."
            ) from None
        except _Flood:
            self._stop(gone=False)
            raise _floods(self._name) from None
        answer, rest = answer.split(b"\n", 1)
        if rest.strip():
            raise self._several()
        return answer.decode("utf-8", errors="replace")

    def _is_left_over(self) -> bool:
        assert self._process is not None
        return _readable(self._process, PROBE_SECONDS) and bool(os.read(_output(self._process), 1))

    def _several(self) -> SimulstError:
        """End the process: whatever it writes next belongs to another text."""
        self._stop(gone=False)
        return SimulstError(
            f"'{self._name}' writes more answers than it gets texts, such as a greeting or a second line; make it "
            "write one answer for each text, or check 'answers'."
        )

    def _stop(self, gone: bool = True) -> int:
        """End the process, which is gone already or hangs; its status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5 if gone else 0)  # for its status: its output has ended, so it is about to end
        self._ending()
        return process.returncode

    def _last_error(self) -> str:
        assert self._errors is not None
        return _last_line(self._errors)


class _Running:
    """All processes that run. When Python exits, they end, and no thread can start another."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock, self._ended = threading.Lock(), False
        atexit.register(self._end_all)

    def start(self, words: list[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        with self._lock:
            if self._ended:
                raise SimulstError("Python exits.")
            process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=errors, bufsize=0, start_new_session=True)
            self._processes.add(process)
        return process

    def remove(self, process: subprocess.Popen[bytes]) -> None:
        """Without the lock, since `start` may collect an `OpenCommand` as garbage, which then ends its process."""
        self._processes.discard(process)

    def _end_all(self) -> None:
        with self._lock:
            self._ended = True
            processes = list(self._processes)
        for process in processes:
            _end(process)


def _started(words: list[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a command, in a group of its own, so that all of a pipeline ends with it."""
    try:
        process = RUNNING.start(words, errors)
    except OSError as error:
        raise SimulstError(f"'{shlex.join(words)}' cannot be run ({error.strerror}); check the command.") from error
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    return process


def _exchange(
    process: subprocess.Popen[bytes],
    data: bytes,
    errors: IO[bytes],
    until: float,
    is_whole: Callable[[bytes], bool] | None,
    told: int = 0,
) -> bytes:
    """Write to a process, and return what it writes until then.

    until: the end of the time limit, by time.monotonic.
    is_whole: whether the answer has come. None: it ends with the process, whose input ends with `data`.
    told: the bytes of `errors` that are of earlier texts.

    Raises _Late, _Flood, _Gone: the process has ended before its answer.
    """
    assert process.stdin is not None
    unsent, answer = memoryview(data), b""
    output = _output(process)
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdin, selectors.EVENT_WRITE)
        ready.register(output, selectors.EVENT_READ)
        while is_whole is None or not is_whole(answer):
            if len(answer) > MOST_BYTES or os.fstat(errors.fileno()).st_size - told > MOST_BYTES:
                raise _Flood
            left = until - time.monotonic()
            if left <= 0:
                raise _Late
            for key, _ in ready.select(min(left, 0.5)):
                if key.fileobj is process.stdin:
                    try:
                        unsent = unsent[os.write(key.fd, unsent) :]
                    except OSError as error:
                        if is_whole is not None:
                            raise _Gone from error
                        unsent = unsent[:0]  # a program may answer before it has read all
                    if not unsent:
                        ready.unregister(process.stdin)
                        if is_whole is None:
                            process.stdin.close()
                elif more := os.read(output, 1 << 16):
                    answer += more
                elif is_whole is None:
                    return answer
                else:
                    raise _Gone
    return answer


def _output(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    return process.stdout.fileno()


def _readable(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether there is something to read within so many seconds, be it the end."""
    with selectors.DefaultSelector() as ready:
        ready.register(_output(process), selectors.EVENT_READ)
        return bool(ready.select(seconds))


def _floods(name: str) -> SimulstError:
    return SimulstError(
        f"'{name}' wrote more than {MOST_BYTES >> 20} MiB for one text; try it in a shell, or check 'answers'."
    )


def _shortened(errors: IO[bytes]) -> int:
    """The bytes of a file of messages, which is emptied if they are many: a process may stay open for weeks."""
    size = os.fstat(errors.fileno()).st_size
    if size <= MOST_BYTES:
        return size
    os.lseek(errors.fileno(), 0, os.SEEK_SET)  # the process writes on from here, as it shares the position
    os.ftruncate(errors.fileno(), 0)
    return 0


def _last_line(errors: IO[bytes]) -> str:
    size = os.fstat(errors.fileno()).st_size
    errors.seek(max(0, size - MOST_BYTES))
    lines = errors.read(MOST_BYTES).decode("utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote nothing"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with its group. One that has ended by itself keeps its status."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    RUNNING.remove(process)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


RUNNING = _Running()
