"""Labels, curves and swept numbers: they name folders of runs and rows of published tables, so they never change."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from simulst.config import parse_decoding

ROWS = [line.split("\t") for line in (Path(__file__).parent / "labels.tsv").read_text().splitlines()[1:]]


@pytest.mark.parametrize(("text", "label", "strategy", "curve", "swept"), ROWS)
def test_names_stay_as_they_are(text: str, label: str, strategy: str, curve: str, swept: str) -> None:
    decoding = parse_decoding(yaml.safe_load(text), "labels.tsv")
    assert (decoding.label, decoding.strategy) == (label, strategy)
    assert decoding.curve == (curve, float(swept) if swept else None)
