"""The modules that a user's own code imports."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulst.files.code import files_of_modules

FILES = {
    "policy_x.py": "import os, numpy\nfrom simulst.errors import SimulstError\nfrom helper_x import cut\n",
    "helper_x.py": "import tools_x.deep.leaf as leaf\ndef cut(n):\n    import late_x\n    return late_x.n\n",
    "late_x.py": "import policy_x  # in a circle\nimport nowhere_x\nn = 1\n",
    "beside_x.py": "n = 1\n",
    "tools_x/__init__.py": "",
    "tools_x/deep/__init__.py": "from . import other\nfrom .. import shared\n",
    "tools_x/deep/leaf.py": "from .other import value\nfrom ..shared import *\n",
    "tools_x/deep/other.py": "value = 1\n",
    "tools_x/shared.py": "from . import value_x\n",
    "tools_x/unused.py": "",
}


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0].endswith("_x"):
            del sys.modules[name]


def test_what_is_imported_at_any_depth(code: Path) -> None:
    """In functions and from packages, too; not Python's, not simulst's, not installed packages."""
    found = files_of_modules(["policy_x"])
    assert set(found) == {
        *("policy_x", "helper_x", "late_x", "tools_x", "tools_x.deep", "tools_x.deep.leaf", "tools_x.deep.other"),
        "tools_x.shared",
    }
    assert found["tools_x.deep"] == code / "tools_x/deep/__init__.py" and found["late_x"] == code / "late_x.py"
    assert next(iter(found)) == "policy_x" and list(files_of_modules(["policy_x"])) == list(found)


def test_an_installed_package_of_policies(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own modules are followed, and those of other installed packages are not."""
    place = code / "site-packages"
    for name in ("one_x", "two_x"):
        (place / name).mkdir(parents=True)
        (place / name / "__init__.py").write_text("import two_x\nfrom one_x import part\n")
        (place / name / "part.py").write_text("")
    monkeypatch.syspath_prepend(place)
    assert set(files_of_modules(["one_x"])) == {"one_x", "one_x.part"}


def test_what_is_no_module(code: Path) -> None:
    (code / "broken_x.py").write_text("from helper_x import (")
    assert set(files_of_modules(["broken_x", "nowhere_x", "tools_x.nothing", "sys", "policy_x.Mine"])) == {"broken_x"}
