"""The test of the difference between two runs, and its place below a table."""

from __future__ import annotations

import re
from pathlib import Path

import fake_runs
import pytest
import yaml

from published.collect import comparisons_of, equal_texts_table
from published.pages import comparisons_text
from simulst.errors import SimulstError
from simulst.results.runs import load_runs
from simulst.runs.score import compare_runs, score_run


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
    text = comparisons_text(comparisons_of([("base", "finetuned", {**found, "BLEU_p": 0.0004, "chrF_p": 0.0312})]))
    assert text.startswith(f"`finetuned` against `base`: BLEU {found['BLEU_difference']:+.1f} [+")
    assert "], p < 0.001; chrF +" in text and "], p = 0.031 (" in text and "40 sentences" in text


def test_p_is_corrected_for_all_tests_of_a_section(runs: Path) -> None:
    found = compare_runs(runs / "base/offline", runs / "finetuned/offline")
    first, second = {**found, "BLEU_p": 0.01, "chrF_p": 0.02}, {**found, "BLEU_p": 0.03, "chrF_p": 0.04}
    text = comparisons_text(comparisons_of([("base", "a", first), ("base", "b", second)]))
    assert re.findall(r"p = (\S+)[; ]", text) == ["0.040;", "0.060", "0.060;", "0.060"]
    assert text.count("p corrected for 4 tests") == 2 and "\n\n`b` against `base`" in text


def test_a_run_that_is_not_scored(runs: Path) -> None:
    (runs / "finetuned/offline/scores.json").unlink()
    with pytest.raises(SimulstError, match=r"scores\.json: no such file"):
        compare_runs(runs / "base/offline", runs / "finetuned/offline")


def offline_run(folder: Path, texts: list[str], read: str = "offline") -> Path:
    """A scored run with these texts."""
    place = fake_runs.write_run(folder, "run", texts, wrong=0.0)
    config = yaml.safe_load((place / "config.yaml").read_text())
    (place / "config.yaml").write_text(yaml.safe_dump({**config, "decoding": {"read": {"type": read}}}))
    return place


def test_equal_texts(tmp_path: Path) -> None:
    """Case and spaces count; runs that are not offline do not."""
    texts = {
        "a": ["der Hund", "die Katze", "ein Haus"],
        "b": ["der Hund", "die katze", "ein Haus"],
        "c": ["Der Hund", "die Katze", "ein Haus"],
    }
    folders = [offline_run(tmp_path / name, rows) for name, rows in texts.items()]
    folders.append(offline_run(tmp_path / "d", texts["a"], "chunk"))
    table = equal_texts_table(load_runs(folders))
    assert table.head == ("Equal texts of 3", "a/run", "b/run", "c/run")
    assert table.rows == (("a/run", 3, 2, 2), ("b/run", 2, 3, 1), ("c/run", 2, 1, 3))


def test_texts_that_cannot_be_compared(tmp_path: Path) -> None:
    one, two = offline_run(tmp_path / "a", ["der Hund"]), offline_run(tmp_path / "b", ["der Hund", "die Katze"])
    with pytest.raises(SimulstError, match=r"b/run: is of other utterances than .*a/run"):
        equal_texts_table(load_runs([one, two]))
    with pytest.raises(SimulstError, match="has not two offline runs"):
        equal_texts_table(load_runs([one, offline_run(tmp_path / "c", ["der Hund"], "chunk")]))
