"""Compile loops for this processor at their first use, by numba, if it is installed.

`compiled` marks a function, and `build` compiles the marked functions of a module. Before that, and if they can't be
compiled, they are what Python makes of them.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from simulst.errors import first_line, warn_once

F = TypeVar("F", bound=Callable[..., Any])
_built: dict[str, ModuleType | None] = {}
_lock = threading.RLock()


def compiled(signature: Any = None, **options: Any) -> Callable[[F], F]:
    """Mark a function for `build`.

    signature: numba's; None: that of the first call.
    options: numba's, such as `parallel`.
    """

    def mark(function: F) -> F:
        vars(function)["to_compile"] = signature, options
        return function

    return mark


def build(name: str) -> Any:
    """Import a module and compile its marked functions, once; those that others call must come first in it.

    Returns the module. None: it can't be compiled, which is told.
    """
    if name not in _built:  # without waiting, as searches ask at each step
        with _lock:
            if name not in _built:
                _built[name] = _build(name)
    return _built[name]


def _build(name: str) -> ModuleType | None:
    try:
        import numba  # noqa: F401

        module = importlib.import_module(name)
    except ImportError as error:
        warn_once(f"nothing is compiled here ({error}), so decoding is slower; pip install 'simulst[fast]'.")
        return None
    marked = {key: value for key, value in vars(module).items() if hasattr(value, "to_compile")}
    try:
        try:
            _compile(module, marked, True)
        except Exception as error:
            _compile(module, marked, False)
            warn_once(
                f"compiled code can't be kept ({first_line(error)}), so each start takes some seconds longer; set "
                "NUMBA_CACHE_DIR to a folder where you may write."
            )
    except Exception as error:  # of any kind, since numba and LLVM have many
        vars(module).update(marked)
        warn_once(f"{name} can't be compiled ({type(error).__name__}: {first_line(error)}); decoding does without it.")
        return None
    return module


def _compile(module: ModuleType, marked: dict[str, Any], keep: bool) -> None:
    """Put compiled functions in the place of those that are marked. keep: whether to use numba's cache."""
    from numba import njit

    version = _version(module)
    for key, function in marked.items():
        if function.__module__ != module.__name__:  # of another module, which has been built
            setattr(module, key, vars(sys.modules[function.__module__])[key])
            continue
        signature, options = function.to_compile
        function.__qualname__ = f"{function.__name__}_{version}"  # a part of the file's name in the cache
        compile_: Any = njit(signature, cache=keep, nogil=True, **options)
        setattr(module, key, compile_(function))


def _version(module: ModuleType) -> str:
    """Of all that may be in a function's code. numba looks only at the time of the function's own file."""
    files = {*Path(__file__).parent.glob("*.py"), Path(str(module.__file__))}
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:8]
