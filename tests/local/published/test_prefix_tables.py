"""Tables of prefix pairs and of the boundary predictor, as `local/results.py write --table` takes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recipe_copy import call

from published.collect import Sources, collect
from simulst.errors import SimulstError
from simulst.show.table import markdown


def test_tables_of_prefix_alignment(tmp_path: Path) -> None:
    for name, kept in (("all", 40), ("maxratio20", 9)):
        (tmp_path / name / "train").mkdir(parents=True)
        counts = {"pairs": 40, "kept": kept, "filtered": 40 - kept}
        (tmp_path / name / "train/pairs.json").write_text(json.dumps(counts))
    row = {"accuracy": 0.75, "precision": 1 / 3, "recall": None, "f1": 1.0}
    (tmp_path / "predictor").mkdir()
    command = ["prefix-tables", "--predictor", tmp_path / "predictor", "--out", tmp_path / "tables.json"]
    command += [part for name in ("all", "maxratio20") for part in ("--pairs", tmp_path / name)]
    with pytest.raises(SimulstError, match="no such file; run the recipe's stage train first"):
        call(*command)
    (tmp_path / "predictor/scores.json").write_text(json.dumps({"frames": row, "pieces": {"0.5": {**row, "f1": 0.5}}}))
    call(*command)
    pairs, predictor = collect(Sources(tables=(tmp_path / "tables.json",)), "t", "c").tables
    assert markdown(pairs.cells()).splitlines()[2:] == [
        "| all        |    40 |        0 |  0 |",
        "| maxratio20 |     9 |       31 | 78 |",
    ]
    assert markdown(predictor.cells()).splitlines()[2:] == [
        "| outputs, λ 0.5 |    0.750 |     0.333 |      – | 1.000 |",
        "| pieces, λ 0.5  |    0.750 |     0.333 |      – | 0.500 |",
    ]
