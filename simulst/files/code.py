"""The files of the user's own Python code: modules, and the modules that they import."""

from __future__ import annotations

import ast
import functools
import importlib.util
import itertools
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

INSTALLED = {"site-packages", "dist-packages"}


def files_of_modules(names: Iterable[str]) -> dict[str, Path]:
    """Module → its file, of these modules and of the user's own modules that they import, at any depth.

    Not followed are Python's own modules, simulst's, and installed packages, unless one of `names` is of the package.
    What code imports by a computed name is not known. A module without a file is left out.
    """
    waiting = list(names)
    packages = {name.partition(".")[0] for name in waiting}
    found: dict[str, Path | None] = {}
    for name in waiting:
        if name in found:
            continue
        file = found[name] = _file_of(name)
        if file is None or file.suffix != ".py":
            continue
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        waiting += [other for other in _imported(_text(file), package) if _is_own(other, packages)]
    return {name: file for name, file in found.items() if file is not None}


def _is_own(name: str, packages: set[str]) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top == "simulst":
        return False
    file = _file_of(name)
    return file is not None and (top in packages or not INSTALLED & set(file.parts))


def _file_of(name: str) -> Path | None:
    """The file of a module, loaded or not; None: it has none, or there is no such module. Imports nothing."""
    if loaded := getattr(sys.modules.get(name), "__file__", None):
        return Path(loaded)
    spec = _spec_of(name)
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _spec_of(name: str) -> ModuleSpec | None:
    if spec := getattr(sys.modules.get(name), "__spec__", None):
        return spec
    package = name.rpartition(".")[0]
    try:
        if not package:
            return importlib.util.find_spec(name)
        around = _spec_of(package)  # importlib's own function imports it
        places = around.submodule_search_locations if around is not None else None
        return PathFinder.find_spec(name, list(places)) if places else None
    except (ImportError, ValueError):
        return None


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


@functools.lru_cache(maxsize=256)
def _imported(text: bytes, package: str) -> tuple[str, ...]:
    """The names that may be modules in a file's imports, with the packages around them, in the order of the file."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    names = (name for node in ast.walk(tree) for name in _named(node, package))
    packages = (itertools.accumulate(name.split("."), "{}.{}".format) for name in names)  # a, a.b, a.b.c
    return tuple(dict.fromkeys(itertools.chain.from_iterable(packages)))


def _named(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        start = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        whole = ".".join(filter(None, [*start, node.module]))
        yield whole
        yield from (f"{whole}.{alias.name}" for alias in node.names)
