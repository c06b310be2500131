"""Apertium as a translator, with its own programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apertium import MODES, Apertium
from simulst.errors import SimulstError
from simulst.opening import Opening


@pytest.mark.skipif(not (MODES / "eng-spa.mode").is_file(), reason="apertium-eng-spa is not installed")
def test_apertium() -> None:
    """Its programs stay open; what they take for signs of their own is escaped."""
    asked: Any = Apertium().load(Path("cascade.yaml"), 1)(Opening("en", "es"))
    assert "gato" in asked.translate("the cat is on the table", "")[0]
    assert "perros" in asked.translate("two dogs sleep well.", "")[0]
    assert "3 $ / 2" in asked.translate("two [cats] cost 3 $ / 2 ^", "")[0]


def test_languages_that_are_not_installed() -> None:
    with pytest.raises(SimulstError, match=r"cascade\.yaml: Apertium lacks eng-tlh; install the language pair"):
        Apertium("eng-tlh").load(Path("cascade.yaml"), 1)


def test_programs_that_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "eng-spa.mode").touch()
    (tmp_path / "program.sh").write_text("read line; echo $line\n")
    monkeypatch.setattr("apertium.MODES", tmp_path)
    monkeypatch.setattr("apertium.PROGRAM", tmp_path / "program.sh")
    asked: Any = Apertium().load(Path("cascade.yaml"), 1)(Opening("en", "es"))
    assert asked.translate("a  b", "") == ("a b", False)
    with pytest.raises(SimulstError, match=r"Apertium gave no translation; try .*program\.sh eng-spa in a shell"):
        asked.translate("c", "")
