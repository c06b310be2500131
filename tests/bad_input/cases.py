"""A case of bad input: a command line, what is broken before it runs, and the one sentence that it ends in."""

from __future__ import annotations

import functools
import importlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import pytest
import soundfile

from simulst.commands.common import run_command
from simulst.errors import SimulstError

ROOT = Path(__file__).parents[2]
SECONDS = 300  # that a command may take
Change = Callable[[], None]
"""Breaks something in the current folder."""


@dataclass(frozen=True)
class Case:
    """One bad input.

    command: as in a shell, but without one. words: what its sentence must hold, in this order, parts with " ... "
    between. broken: what is changed before. status: of the command; 2 is wrong usage, 0 is good input after all, then
    the words are those of a warning (or there is none).
    """

    command: str
    words: str
    broken: Change = lambda: None
    status: int = 1

    def __str__(self) -> str:
        program, *more = self.command.split()
        names = more[:2] if program == "simulst" else [program.split("/")[-1]]
        return re.sub(r"[^\w=.-]+", " ", " ".join([*names, self.words]))[:70]

    def check(self, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
        """Run it in the current folder."""
        self.broken()
        program = self.command.split()[0]
        if program.endswith(".py"):
            _script(program)  # its imports are not what may hang
        with time_limit():
            status = run(self.command)
        out, err = capfd.readouterr()
        said = out + err + caplog.text
        assert "Traceback" not in said, said
        assert status == self.status, f"status {status}, not {self.status}: {said}"
        if status:
            lines = [line for line in re.split(r"[\r\n]+", err) if re.match(r"(\w+: )?[eE]rror: ", line)]
            assert len(lines) == 1, f"one sentence is wanted: {said}"
            assert lines[0] == re.split(r"[\r\n]+", err.strip())[-1], f"it is not the last line: {said}"
            whole = self.status == 2 or ".sh" in self.command or lines[0].endswith(".")
            assert whole, f"no whole sentence: {said}"
            said = lines[0]
        at = 0
        for part in self.words.split(" ... "):
            assert part in said[at:], f"'{part}' is missing: {said}"
            at = said.index(part, at) + len(part)


Check = Callable[[Case], None]
"""The fixture that runs a case."""


def table(command: str, *rows: tuple[Any, ...]) -> list[Case]:
    """Cases that begin with the same command. A row: further arguments, words, and what else a Case has."""
    return [Case(f"{command} {more}".strip(), *rest) for more, *rest in rows]


# ---- running ----


def run(command: str) -> int:
    """The exit status. Python's commands run in this process, to save their imports; recipes are shell scripts."""
    program, *arguments = shlex.split(command)
    if program.endswith(".sh") or program == sys.executable:
        path = ROOT / program  # the interpreter's own is whole
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run([path, *arguments], env=environment, capture_output=True, text=True, timeout=SECONDS)
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        return done.returncode
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [program, *arguments])
        patch.setattr(sys, "excepthook", sys.excepthook)  # which our agent of SimulEval replaces
        try:
            _start(program)
        except SimulstError as error:
            assert sys.excepthook is not sys.__excepthook__, "it ends in a stack trace"
            sys.excepthook(type(error), error, None)
            return 1
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        return 0


def _start(program: str) -> None:
    if program == "simulst":
        from simulst.commands.main import entry

        entry()
    elif program == "simuleval":
        cli = pytest.importorskip("simuleval.cli")
        from simuleval.utils import EVALUATION_SYSTEM_LIST

        EVALUATION_SYSTEM_LIST.clear()
        cli.main()
    else:
        main = _script(program).main
        run_command(main) if hasattr(main, "make_context") else main()


@functools.cache
def _script(program: str) -> ModuleType:
    """A script of the repository as a module, imported once."""
    path = ROOT / program
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    return importlib.import_module(path.stem)


@contextmanager
def time_limit() -> Any:
    def late(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"it hangs: more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---- breaking ----


def all_of(*changes: Change) -> Change:
    return lambda: [change() for change in changes] and None  # type: ignore[func-returns-value]


def removed(*names: str) -> Change:
    def change() -> None:
        for name in names:
            path = own(name)
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def emptied(*names: str) -> Change:
    return all_of(*(written(name, "") for name in names))


def written(name: str, content: str | bytes) -> Change:
    """The file, with its folder if need be, has this content."""

    def change() -> None:
        path = own(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


def replaced(name: str, old: str, new: str) -> Change:
    """The first `old` in a text file becomes `new`."""

    def change() -> None:
        path = own(name)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


def cut(name: str, size: int) -> Change:
    """Only the first bytes of a file are left; size < 0: all but the last ones."""

    def change() -> None:
        path = own(name)
        path.write_bytes(path.read_bytes()[:size])

    return change


def folder(name: str) -> Change:
    return lambda: Path(name).mkdir(parents=True)


def audio(name: str, samples: Iterable[Any], rate: int = 16000, subtype: str = "FLOAT") -> Change:
    return lambda: soundfile.write(own(name), np.asarray(list(samples), np.float32), rate, subtype=subtype)


def own(name: str) -> Path:
    """A path of the scene that may be changed: a shared folder on the way becomes a copy."""
    path = Path(name)
    top = Path(path.parts[0])
    if top.is_symlink() and top.parts != path.parts:
        target = top.resolve()
        top.unlink()
        shutil.copytree(target, top)
    return path
