"""No circle of imports, of files or of packages; and the core does without the rooms around it.

All imports count, also those in functions and under TYPE_CHECKING. `from a.b import c` is an import of a/b/c.py if
there is such a file, or else of a/b.py or a/b/__init__.py: a package's __init__ is its face, and stands in the graph
like any file. Python runs it also for `import a.b.c`, which does not count: whoever imports a file means that file.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import tracked

ROOT = Path(__file__).resolve().parents[1] / "simulst"
CORE = {"audio", "files", "kernels", "log", "machine", "measure", "models", "policy", "search", "serve", "streams"}
AROUND = {"commands", "data", "handin", "prefix", "results", "runs", "show", "training"}
Graph = Mapping[str, set[str]]


def module_of(file: Path) -> str:
    """The import path of a file; that of a package stands for its __init__."""
    parts = file.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, known: Iterable[str]) -> set[str]:
    """The modules that a file imports, out of `known`. `from a import b` is a.b if that is a module, or else a."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{name.name}" for name in node.names}
    whole = set()
    for name in found:
        while name and name not in known:
            name = name.rpartition(".")[0]
        whole.add(name)
    return whole - {""}


@functools.cache
def imports_of_files() -> dict[str, set[str]]:
    """Module → the modules that it imports."""
    files = {module_of(file): file for file in tracked.files("simulst/**/*.py")}
    return {
        module: imported(ast.parse(file.read_text(encoding="utf-8")), files) - {module}
        for module, file in files.items()
    }


def imports_of_packages(files: Graph, depth: int) -> dict[str, set[str]]:
    """Package → the packages that its files import. A file that is in no package of that depth stands for itself."""

    def package(module: str) -> str:
        return ".".join(module.split(".")[: depth + 1])

    found: dict[str, set[str]] = {}
    for module, others in files.items():
        found.setdefault(package(module), set()).update(package(other) for other in others)
    return {name: others - {name} for name, others in found.items()}


def circle(graph: Graph) -> str:
    """A circle, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " <- ".join(error.args[1])
    return ""


def test_no_circle_of_files() -> None:
    assert circle(imports_of_files()) == ""


def test_no_circle_of_packages() -> None:
    assert circle(imports_of_packages(imports_of_files(), 1)) == ""


def room(module: str) -> str:
    """The folder of a module below simulst; empty: a file beside the folders."""
    return module.split(".")[1] if module.count(".") > 1 or (ROOT / module.split(".")[-1]).is_dir() else ""


def test_the_core_imports_nothing_of_the_rooms_around_it() -> None:
    files = imports_of_files()
    rooms = {room(module) for module in files} - {"", "simulst"}
    assert rooms == CORE | AROUND, "a new room is of the core, or around it"
    crossing = [
        f"{module} -> {other}"
        for module, others in sorted(files.items())
        for other in sorted(others)
        if room(module) not in AROUND and room(other) in AROUND and module != "simulst.__main__"
    ]
    assert crossing == []
