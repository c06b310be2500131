"""YAML: what is valid but not meant is refused, at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulst.errors import SimulstError
from simulst.files.yaml import read_yaml


@pytest.mark.parametrize("levels", [5, 9, 30])
def test_aliases_that_repeat_without_measure(tmp_path: Path, levels: int) -> None:
    rows = ["&a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"&a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    path = tmp_path / "a.yaml"
    path.write_text(f"read: [{', '.join(rows)}]")
    with pytest.raises(SimulstError, match=r"a\.yaml: not valid YAML \(its aliases repeat their parts [\d,]+ times"):
        read_yaml(path)


def test_aliases_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("search: &search {type: ibwbs}\nother: [*search, *search]")
    assert read_yaml(path) == {"search": {"type": "ibwbs"}, "other": [{"type": "ibwbs"}] * 2}


def test_a_long_document_without_aliases(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("\n".join(f"- [{number}]" for number in range(11_000)))
    assert len(read_yaml(path)) == 11_000
