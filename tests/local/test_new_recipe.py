"""New recipes: what the templates become, and what is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from new_recipe import new_recipe
from simulst.errors import SimulstError

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "egs/TEMPLATE"


@pytest.mark.parametrize("template", sorted(path.name for path in TEMPLATES.iterdir()))
def test_a_recipe(tmp_path: Path, template: str) -> None:
    out = new_recipe(tmp_path, TEMPLATES, template, "covost_de", "de-en")
    assert out == tmp_path / "covost_de" and list(tmp_path.iterdir()) == [out]
    texts = {path.name: path.read_text() for path in out.rglob("*") if path.is_file()}
    assert {"run.sh", "README.md"} <= texts.keys()
    assert not any("{{" in text for text in texts.values())
    assert os.access(out / "run.sh", os.X_OK) and not os.access(out / "corpus.sh", os.X_OK)
    assert "pairs=de-en\n" in texts["corpus.sh"] and "<!-- results -->\n<!-- end results -->\n" in texts["README.md"]


@pytest.mark.parametrize(
    ("template", "name", "pair", "message"),
    [
        *((name, "new", "de-en", f"no template '{re.escape(name)}'") for name in ("kaldi", "..", "")),
        *(("tsv", name, "de-en", "cannot name a recipe") for name in ("TEMPLATE", "../new", "a b", "new\n", "")),
        *(("tsv", "new", pair, "is no language pair") for pair in ("deen", "de-en fr-en", "$(id)-en")),
        *(("tsv", name, "de-en", f"{name}: is there already") for name in ("taken", "a_file")),
    ],
)
def test_what_is_refused(tmp_path: Path, template: str, name: str, pair: str, message: str) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/run.sh").write_text("mine")
    (tmp_path / "a_file").write_text("mine")
    with pytest.raises(SimulstError, match=message):
        new_recipe(tmp_path, TEMPLATES, template, name, pair)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_file", "taken"]
    assert (tmp_path / "taken/run.sh").read_text() == (tmp_path / "a_file").read_text() == "mine"
