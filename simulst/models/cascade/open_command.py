"""A command that stays open and answers text after text."""

from __future__ import annotations

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
from typing import IO, Literal

from simulst.errors import SimulstError

# After a text, and at the end of an answer. Apertium's programs flush a null byte only once something follows it.
ENDS = {"line": (b"\n", b"\n"), "null_byte": (b"\0\n", b"\0")}


class _Gone(Exception):
    """The process has ended before its answer."""


class OpenCommand:
    """One process, which is started when the first text comes, and again if it has ended.

    words: the command.
    answers: how a text and an answer end, see `simulst.models.cascade.command.Command`.
    timeout: the seconds that an answer may take.
    """

    def __init__(self, words: list[str], answers: Literal["line", "null_byte"], timeout: float) -> None:
        self._words, self._timeout = words, timeout
        self._after, self._end = ENDS[answers]
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._lock = threading.Lock()  # a server runs several streams at once

    def ask(self, text: str) -> str:
        """The answer to a text. A process that has ended is started again, once.

        Raises SimulstError: there is no such program; no answer; none within the time limit.
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
        until = time.monotonic() + self._timeout
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        # No answer to an earlier text is left: after a failure, the process is ended.
        unsent, answer = memoryview(text.encode() + self._after), b""
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdin, selectors.EVENT_WRITE)
            ready.register(process.stdout, selectors.EVENT_READ)
            while self._end not in answer:
                events = ready.select(max(0.0, until - time.monotonic()))
                if not events:
                    self._stop(gone=False)
                    raise SimulstError(
                        f"'{self._name}' gave no translation within {self._timeout:g} s; give it a longer 'timeout', "
                        "or another value of 'answers'."
                    )
                for key, _ in events:
                    if key.fileobj is process.stdin:
                        try:
                            unsent = unsent[os.write(key.fd, unsent) :]
                        except OSError as error:
                            raise _Gone from error
                        if not unsent:
                            ready.unregister(process.stdin)
                    else:
                        more = os.read(key.fd, 1 << 16)
                        if not more:
                            raise _Gone
                        answer += more
        return answer.split(self._end, 1)[0].decode("utf-8", errors="replace")

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads would fill up
        try:
            # In a group of its own, so that all of a pipeline ends with it.
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise SimulstError(f"'{self._name}' cannot be run ({error.strerror}); check the command.") from error
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._process, self._ending = process, weakref.finalize(self, _end, process)
        return process

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
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it wrote nothing"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with its group. One that has ended by itself keeps its status."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
