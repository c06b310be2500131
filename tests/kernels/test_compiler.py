"""What is compiled, when, and what happens where it can't be."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba.core.caching
import pytest

import simulst
from simulst.errors import warn_once
from simulst.kernels import compiler

LOOPS = """
from simulst.kernels.compiler import compiled

@compiled("i8(i8)")
def one_more(number):
    return number + 1

@compiled("i8(i8)")
def two_more(number):
    return one_more(one_more(number))
"""


@pytest.fixture
def loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module with two functions that is not imported yet."""
    (tmp_path / "loops.py").write_text(LOOPS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "loops", raising=False)
    monkeypatch.delitem(compiler._built, "loops", raising=False)
    warn_once.cache_clear()
    return tmp_path / "loops.py"


def python(code: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_imports_compile_nothing_and_ask_nothing(tmp_path: Path) -> None:
    code = """
import ctypes, numba, torch
def refuse(*arguments, **options): raise AssertionError
ctypes.CDLL = numba.njit = refuse
import simulst.kernels.compiled_attention
import simulst.search.choice, simulst.search.ctc
"""
    python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()


def test_marked_functions_are_compiled_together(loops: Path) -> None:
    built: Any = compiler.build("loops")
    assert built.two_more(1) == 3 and built.two_more.signatures and built.one_more.signatures


def test_nowhere_to_keep_compiled_code(
    loops: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(numba.core.caching._CacheLocator, "ensure_cache_path", refuse)
    monkeypatch.setattr(numba.core.caching.config, "CACHE_DIR", "")
    with caplog.at_level(logging.WARNING):
        built: Any = compiler.build("loops")
        assert compiler.build("loops") is built and built.two_more(1) == 3 and built.two_more.signatures
    assert [record.message.partition(" (")[0] for record in caplog.records] == ["compiled code can't be kept"]
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_what_cannot_be_compiled_is_pythons(loops: Path, caplog: pytest.LogCaptureFixture) -> None:
    loops.write_text(LOOPS + '\n@compiled("i8(i8)")\ndef broken(number):\n    return str(number)\n')
    with caplog.at_level(logging.WARNING):
        assert compiler.build("loops") is None and compiler.build("loops") is None
    assert sys.modules["loops"].two_more(1) == 3 and not hasattr(sys.modules["loops"].two_more, "signatures")
    assert [record.message.partition(" (")[0] for record in caplog.records] == ["loops can't be compiled"]


def test_code_of_an_older_file_is_not_used(tmp_path: Path) -> None:
    """A function has constants of other files in it, whose time numba does not look at."""
    kernels = tmp_path / "package"
    kernels.mkdir()
    (kernels / "compiler.py").write_text(Path(compiler.__file__).read_text())
    (kernels / "loops.py").write_text(
        "from package.compiler import compiled\nfrom package.tiles import STEP\n"
        '@compiled("i8(i8)")\ndef more(number):\n    return number + STEP\n'
    )
    code = "from package.compiler import build; print(build('package.loops').more(1))"
    places = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    path = os.pathsep.join([str(tmp_path), str(Path(simulst.__file__).parents[1])])
    for step in (1, 5):
        (kernels / "tiles.py").write_text(f"STEP = {step}")
        assert python(code, PYTHONPATH=path, **places).strip() == str(1 + step)
