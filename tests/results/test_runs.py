"""Finished runs: found, named, sorted, refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from fake_runs import SCORES, chunk, offline

from simulst.errors import SimulstError
from simulst.results.runs import find_runs, load_runs
from simulst.show.curve import draw_curve
from simulst.show.table import runs_table


def test_equal_labels_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    runs = load_runs([chunk(tmp_path / f"{pair}/LA-2_{ms}ms", ms) for pair in ("fr-en", "es-en") for ms in (2000, 500)])
    assert [run.name for run in runs] == [f"{p}/LA-2_{ms}ms" for p in ("es-en", "fr-en") for ms in (500, 2000)]
    assert [run.curve for run in runs] == ["es-en/LA-2"] * 2 + ["fr-en/LA-2"] * 2


def test_one_curve_has_one_model(tmp_path: Path) -> None:
    """Two models that were decoded with other chunks. A model for each k, in one folder, may be a curve."""
    for place, weights in (("a/500", "x"), ("a/700", "y"), ("b/1000", "z")):
        config = chunk(tmp_path / place, float(place[2:])) / "config.yaml"
        config.write_text(config.read_text() + f"weights: {weights}\n")
    assert {run.curve for run in load_runs(find_runs([tmp_path / "a"]))} == {"LA-2"}
    runs = load_runs(find_runs([tmp_path]))
    assert [(run.name, run.curve) for run in runs] == [(p, f"{p[0]}/LA-2") for p in ("a/500", "a/700", "b/1000")]


def test_runs_of_a_model_that_was_trained_again_are_not_mixed(tmp_path: Path) -> None:
    """--force decodes only what is in the present sweep again."""
    for number, (name, weights) in enumerate([("a", "old"), ("b", "new"), ("other/c", "old")]):
        folder = chunk(tmp_path / name, 500 + number)
        config = yaml.safe_load((folder / "config.yaml").read_text())
        config |= {"weights": weights, "task": {**(config.get("task") or {}), "model": "exp/st", "options": {}}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert len(find_runs([tmp_path / "a", tmp_path / "other"])) == 2
    with pytest.raises(SimulstError, match=r"a and .*b are runs of exp/st with different weights"):
        find_runs([tmp_path])


def test_find_runs(tmp_path: Path) -> None:
    above = offline(tmp_path / "sweeps")  # evaluated into a folder that holds a sweep
    first = chunk(tmp_path / "sweeps/es/a", 500)
    second = chunk(tmp_path / "sweeps/es/b", 1000)
    alone = offline(tmp_path / "alone")
    (tmp_path / "sweeps/es/unfinished").mkdir()
    (tmp_path / "sweeps/predictor").mkdir()
    for name in ("predictor.pth", "scores.json"):
        (tmp_path / "sweeps/predictor" / name).touch()
    assert find_runs([alone, tmp_path / "sweeps", str(first), first / ".." / "b"]) == [alone, above, first, second]
    with pytest.raises(SimulstError, match="nowhere: no such folder"):
        find_runs([alone, tmp_path / "nowhere"])
    with pytest.raises(SimulstError, match=r"no run in it has a scores\.json"):
        find_runs([tmp_path / "sweeps/es/unfinished"])


def test_runs_that_do_not_belong_together(tmp_path: Path) -> None:
    """Not over the same test set, or with scores of another log: tables and curves refuse them."""
    runs = [chunk(tmp_path / "a", 500, sentences=3), chunk(tmp_path / "b", 1000, sentences=3)]
    assert runs_table(runs)
    different = r"a and .*b: the runs are of different sentences or target languages; give runs over the same data"
    for scores in ({"sentences": 4}, {"sentences": 3, "test_set": "2"}):
        for folder, more in zip(runs, ({"sentences": 3, "test_set": "1"}, scores), strict=True):
            (folder / "scores.json").write_text(json.dumps({**SCORES, **more}))
        with pytest.raises(SimulstError, match=different):
            runs_table(runs)
        with pytest.raises(SimulstError, match=different):
            draw_curve(runs, tmp_path / "x.svg")
    assert load_runs(runs)
    (runs[0] / "instances.log").write_text("{}")
    (runs[0] / "scores.json").write_text(json.dumps({**SCORES, "log": "0123456789abcdef"}))
    with pytest.raises(SimulstError, match=r"a: its scores\.json is of another instances\.log; score it again"):
        load_runs(runs)
