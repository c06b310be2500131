"""The one exception that users see, and warnings. A message is a sentence: what is wrong, and how to fix it."""

from __future__ import annotations

import functools
import logging
import sys
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

_NOT_BROUGHT = tuple({str(Path(__file__).parent), *(sysconfig.get_path(name) for name in ("stdlib", "purelib"))})
_PACKAGES = {"espnet2": "espnet", "omnisteval": "OmniSTEval", "dask_jobqueue": "dask-jobqueue"}


class SimulstError(Exception):
    """The input is wrong. The command line prints the message and exits with status 1."""


@functools.cache
def warn_once(sentence: str) -> None:
    """Warn of something, once in a process."""
    logging.getLogger("simulst").warning("%s", sentence)


def one_sentence(start: str = "") -> None:
    """What is wrong ends another project's program, which runs our code, in one sentence from here on. start: of it."""

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, SimulstError):
            print(f"{start}error: {error}", file=sys.stderr)
        else:
            sys.__excepthook__(kind, error, trace)

    sys.excepthook = tell


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without its full stop, to be quoted in a message of ours."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".:")


def not_installed(error: ModuleNotFoundError) -> str:
    """What to say if a package is not installed that only some tasks need."""
    name = (error.name or "").partition(".")[0]
    package = _PACKAGES.get(name, name)
    return f"this needs the package {package}, which is not installed; pip install {package}."


def reason_of(error: BaseException) -> str:
    """What is wrong in code that a user brought, in one line: kind, message, and the last line of that code."""
    said = " ".join(f"{type(error).__name__}: {error}".rstrip(": ").split())
    frames = traceback.extract_tb(error.__traceback__)
    own = isinstance(error, ImportError | SyntaxError) or not frames
    brought = [frame for frame in frames if not frame.filename.startswith((*_NOT_BROUGHT, "<"))]
    if own:
        return said
    last = (brought or frames)[-1]
    return f"{said}, {last.filename}, line {last.lineno}"


def sentence_of(error: Exception) -> str:
    """What users are told of an error of any kind, as a sentence."""
    return str(error) if isinstance(error, SimulstError) else f"{reason_of(error)}."
