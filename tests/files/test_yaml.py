"""YAML: what is valid but not meant is refused, at once."""

from __future__ import annotations

from pathlib import Path

from simulst.files.yaml import read_yaml


def test_aliases_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("search: &search {type: ibwbs}\nother: [*search, *search]")
    assert read_yaml(path) == {"search": {"type": "ibwbs"}, "other": [{"type": "ibwbs"}] * 2}
