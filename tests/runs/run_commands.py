"""Commands on a small data directory, with the fake model."""

import contextlib
import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from simulst.commands.main import entry
from simulst.log import read_log
from simulst.log.instance import Instance

MODEL = "fake:FakeModel"
COUNT = 6
DURATIONS = [1000 + 370 * i for i in range(COUNT)]  # ms
LA2 = "read: {type: chunk, ms: 500}\ncommit: {type: local_agreement, n: 2}\nsearch: {type: beam, beam: 2}\n"
SWEEP = """
- read: [{type: chunk, ms: 500}, {type: chunk, ms: 1000}]
  commit: [{type: local_agreement}, {type: hold, n: 3}]
- read: {type: offline}
  commit: {type: all}
"""


def simulst(*args: object) -> tuple[int, str, str]:
    """Exit status, stdout, and stderr without progress bars."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["simulst", *map(str, args)])
        try:
            entry()
        except SystemExit as exit:
            status = exit.code if isinstance(exit.code, int) else 1
    errors = [line for line in err.getvalue().replace("\r", "\n").split("\n") if line.strip() and "utt/s" not in line]
    return status, out.getvalue(), "\n".join(line for line in errors if "?utt" not in line and "s/utt" not in line)


def command(data: Path, out: str = "out", *more: object, name: str = "evaluate", model: str = MODEL) -> list[object]:
    folder = data.parent
    files = {"evaluate": ["--decoding", folder / "la2.yaml"], "sweep": ["--decodings", folder / "sweep.yaml"]}
    languages = ["--source-lang", "es", "--target-lang", "en"]
    return [name, "--data", data, "--out", folder / out, "--model", model, *languages, *files[name], *more]


def options(**values: object) -> list[object]:
    return [part for name, value in values.items() for part in ("--model-option", f"{name}={value}")]


def timeless(folder: Path) -> list[Instance]:
    """A log without what differs from run to run."""
    return [replace(instance, elapsed=[], compute_ms=None, waited_ms=None) for instance in read_log(folder)]


def sentence(error: str) -> str:
    """The one line on stderr, less its mark."""
    assert error.count("\n") == 0, error
    assert error.startswith("simulst: error: "), error
    return error.removeprefix("simulst: error: ")


def told(error: str) -> str:
    """The sentence, beside what Dask logs."""
    [line] = [line for line in error.split("\n") if line.startswith("simulst: error: ")]
    return line
