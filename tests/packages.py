"""Installed packages: modules in a folder of their own, with the metadata by which Python knows them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    folder: Path, name: str, modules: Mapping[str, str], offers: Mapping[str, str], patch: pytest.MonkeyPatch
) -> Path:
    """Write the package `name`, version 1.0, and let Python find it. offers: name → value of its entry points."""
    place = folder / name
    describe(place, name, offers)
    for module, text in modules.items():
        (place / f"{module}.py").write_text(textwrap.dedent(text))
    patch.syspath_prepend(place)
    return place


def describe(place: Path, name: str, offers: Mapping[str, str]) -> None:
    """Write the metadata by which Python knows a package whose modules are in a folder."""
    known = place / f"{name.replace('-', '_')}-1.0.dist-info"
    known.mkdir(parents=True)
    (known / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{entry} = {value}\n" for entry, value in offers.items()]
    (known / "entry_points.txt").write_text("".join(["[simulst]\n", *lines]))
