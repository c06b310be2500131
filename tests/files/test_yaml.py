"""YAML: what is valid but not meant is refused, at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from simulst.errors import SimulstError
from simulst.files.yaml import load_yaml, read_yaml


@pytest.mark.parametrize("levels", [5, 9, 30])
def test_aliases_that_repeat_without_measure(tmp_path: Path, levels: int) -> None:
    rows = ["&a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"&a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    path = tmp_path / "a.yaml"
    path.write_text(f"read: [{', '.join(rows)}]")
    with pytest.raises(SimulstError, match=r"a\.yaml: not valid YAML \(its aliases repeat their parts [\d,]+ times"):
        read_yaml(path)
    with pytest.raises(yaml.YAMLError, match="its aliases repeat"):
        load_yaml(path.read_text(), fast=True)


def test_aliases_within_pairs() -> None:
    rows = ["&a0 !!pairs [x: x]", *(f"&a{n} !!pairs [{', '.join([f'x: *a{n - 1}'] * 10)}]" for n in range(1, 9))]
    with pytest.raises(yaml.YAMLError, match="its aliases repeat"):
        load_yaml(f"[{', '.join(rows)}]")


@pytest.mark.parametrize("fast", [False, True])
def test_long_texts_count_as_many_parts(fast: bool) -> None:
    with pytest.raises(yaml.YAMLError, match="its aliases repeat"):
        load_yaml(f"a: &a {'word ' * 2000}\nb: [{'*a, ' * 500}]", fast)


def test_aliases_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("search: &search {type: ibwbs}\nother: [*search, *search]")
    assert read_yaml(path) == {"search": {"type": "ibwbs"}, "other": [{"type": "ibwbs"}] * 2}


def test_a_long_document_without_aliases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulst.files.yaml.MOST_REPEATED", 100)
    path = tmp_path / "a.yaml"
    rows = range(110)
    for part in ("- [{}]", "- {}", "{}: x", "- {{a: {}, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1, j: 1, k: 1}}"):
        path.write_text("\n".join(part.format(number) for number in rows))
        assert len(read_yaml(path)) == len(load_yaml(path.read_text(), fast=True)) == 110
    path.write_text(f"{'word ' * 110}")
    assert len(read_yaml(path)) == 5 * 110 - 1
