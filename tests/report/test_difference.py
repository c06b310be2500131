"""The test of the difference between two runs, and its place below a table."""

from __future__ import annotations

from pathlib import Path

import fake_runs
import pytest

from simulst.errors import SimulstError
from simulst.report.difference import compare_runs, difference_text
from simulst.runs import score_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two scored runs: one much better than the other."""
    references = fake_runs.references()
    for name, wrong in (("base", 0.6), ("finetuned", 0.1)):
        score_run(fake_runs.write_run(tmp_path / name, "offline", references, wrong), "de", bootstrap=0)
    return tmp_path


def test_a_better_run(runs: Path) -> None:
    base, tuned = runs / "base/offline", runs / "finetuned/offline"
    found, turned = compare_runs(base, tuned), compare_runs(tuned, base)
    for name in ("BLEU", "chrF"):
        assert 0 < found[f"{name}_low"] < found[f"{name}_difference"] < found[f"{name}_high"]
        assert found[f"{name}_p"] < 0.05 and turned[f"{name}_high"] == -found[f"{name}_low"]
    text = difference_text("base", "finetuned", {**found, "BLEU_p": 0.0004, "chrF_p": 0.0312})
    assert text.startswith(f"`finetuned` against `base`: BLEU {found['BLEU_difference']:+.1f} [+")
    assert "], p < 0.001; chrF +" in text and "], p = 0.031 (" in text and "40 sentences" in text


def test_a_run_that_is_not_scored(runs: Path) -> None:
    (runs / "finetuned/offline/scores.json").unlink()
    with pytest.raises(SimulstError, match=r"scores\.json: no such file"):
        compare_runs(runs / "base/offline", runs / "finetuned/offline")
