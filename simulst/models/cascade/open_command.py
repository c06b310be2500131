"""Commands that answer texts: one that is run for each text, and one that stays open."""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import signal
import subprocess
import tempfile
import threading
import weakref
from typing import IO, Any

from simulst.calls import Turns
from simulst.errors import SimulstError

MOST_BYTES = 1 << 20
"""Of a line of an answer, and of messages that are kept."""
PROBE_SECONDS = 1.0
"""How long a further answer is waited for, if a program answers one text in two ways."""


def run_once(words: list[str], text: str, timeout: float) -> str:
    """The answer of a command that is run for this text.

    Raises SimulstError: there is no such program; it fails, or answers with nothing or too late.
    """
    name = shlex.join(words)
    with tempfile.TemporaryFile() as errors:
        process, end = _started(words, errors)
        with process:
            try:
                answer, _ = process.communicate(text.encode() + b"\n", timeout)
            except subprocess.TimeoutExpired:
                raise SimulstError(
                    f"'{name}' gave no translation within {timeout:g} s; give it a longer 'timeout'."
                ) from None
            finally:
                end()
        if process.returncode or not answer.strip():
            raise SimulstError(
                f"'{name}' failed with status {process.returncode} ({_last_line(errors)}); try it in a shell."
            )
    return str(answer, "utf-8", "replace").strip()


class OpenCommand:
    """One process, which is started when the first text comes, and again if it has ended.

    words: the command. It answers each line with a line.
    timeout: the seconds that an answer may take.
    turn: inside it, a thread may ask: one after the other.
    """

    def __init__(self, words: list[str], timeout: float) -> None:
        self._words, self._timeout, self._name = words, timeout, shlex.join(words)
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._status: int | None = None  # of the last one that ended
        self.turn = Turns(1)
        self._lock = threading.Lock()  # who asks without a driver takes no turn

    def ask(self, text: str) -> str:
        """The answer to a text. A process that has ended is started again, once.

        Raises SimulstError: there is no such program; no answer; none within the time limit; more than one answer.
        """
        with self._lock:
            answer = self._answer(text)
            if answer is None and self._status != -signal.SIGKILL:  # by which it ends with Python, too
                answer = self._answer(text)
            if answer is None:
                assert self._errors is not None
                raise SimulstError(
                    f"'{self._name}' ended with status {self._status} before it answered ({_last_line(self._errors)}); "
                    "try it in a shell."
                )
        if not answer.strip():
            raise SimulstError(f"'{self._name}' answered with nothing; try it in a shell, or check 'answers'.")
        return str(answer, "utf-8", "replace").rstrip("\n")

    def _answer(self, text: str) -> bytes | None:
        """A line. None: the process has ended before it."""
        if self._process is not None:
            return self._said(text)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads would fill up
        self._process, self._end = _started(self._words, self._errors, self)
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=_read, args=(self._process.stdout, self._lines), daemon=True).start()
        # A program that greets, or answers a text twice, would give each text the answer of another one. It then
        # answers the first text in two ways, and a further answer is left over.
        first = self._said(text)
        second = self._said(text) if first is not None else None
        if second is None:  # it is one that answers a single text
            return first
        if first != second:
            with contextlib.suppress(queue.Empty):
                if self._lines.get(timeout=PROBE_SECONDS) is not None:
                    raise self._several()
        return second

    def _said(self, text: str) -> bytes | None:
        """The answer of the process that runs."""
        assert self._process is not None and self._process.stdin is not None and self._errors is not None
        answer = None
        if self._lines.empty():
            if self._errors.seek(0, os.SEEK_END) > MOST_BYTES:  # a process may stay open for weeks
                self._errors.seek(0)
                self._errors.truncate()
            try:
                self._process.stdin.write(text.encode() + b"\n")
                self._process.stdin.flush()
                answer = self._lines.get(timeout=self._timeout)
            except OSError:  # it has ended
                pass
            except queue.Empty:
                self._stop()
                raise SimulstError(
                    f"'{self._name}' gave no translation within {self._timeout:g} s; give it a longer 'timeout', or "
                    "another value of 'answers'."
                ) from None
        elif self._lines.get() is not None:
            raise self._several()
        if answer is None:
            self._stop()
        elif not answer.endswith(b"\n"):
            raise self._several()
        return answer

    def _several(self) -> SimulstError:
        """End the process: whatever it writes next belongs to another text."""
        self._stop()
        return SimulstError(
            f"'{self._name}' writes more answers than it gets texts, such as a greeting or a second line; make it "
            "write one answer for each text, or check 'answers'."
        )

    def _stop(self) -> None:
        """End the process, which is gone already or hangs."""
        process, self._process = self._process, None
        assert process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)  # for its status: where its output has ended, it is about to end
        self._end()
        self._status = process.returncode


def _started(words: list[str], errors: IO[bytes], owner: Any = None) -> tuple[subprocess.Popen[bytes], Any]:
    """A command, in a group of its own, so that all of a pipeline ends with it; and what ends it.

    It ends with its owner, too, and with Python.
    """
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=errors, start_new_session=True)
    except OSError as error:
        raise SimulstError(f"'{shlex.join(words)}' cannot be run ({error.strerror}); check the command.") from error
    return process, weakref.finalize(owner or process, _end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with its group. One that has ended by itself keeps its status."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _read(output: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    """Put the lines into the queue, and None at their end."""
    with output:
        for line in iter(lambda: output.readline(MOST_BYTES), b""):
            lines.put(line)
    lines.put(None)


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - MOST_BYTES))
    lines = errors.read().decode("utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote nothing"
