"""Pooled runs of several test sets."""

import json
import shutil
from pathlib import Path

import pytest
from run_commands import COUNT, command, sentence, simulst

from simulst.log import read_log
from simulst.runs.folder import read_run_config
from simulst.runs.pool import pool
from simulst.runs.score import compare_runs


@pytest.fixture
def sets(data: Path) -> list[Path]:
    """Runs of Spanish and of French; some configurations of the French ones are missing."""
    assert simulst(*command(data, "runs/es", name="sweep"))[0] == 0
    french = [part if part != "es" else "fr" for part in command(data, "runs/fr", name="sweep")]
    assert simulst(*french)[0] == 0
    shutil.rmtree(data.parent / "runs/fr/hold-3_1000ms")
    return [data.parent / "runs/es", data.parent / "runs/fr"]


def test_pooled_runs_are_runs(sets: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    out = sets[0].parent / "pooled"
    assert simulst("runs", "pool", *sets, "--out", out)[0] == 0
    names = {"LA-2_500ms", "LA-2_1000ms", "hold-3_500ms", "offline"}
    assert {run.name for run in out.iterdir()} == names
    assert "hold-3_1000ms" in caplog.text
    parts = [read_log(folder / "LA-2_500ms") for folder in sets]
    whole = read_log(out / "LA-2_500ms")
    assert [i.index for i in whole] == list(range(2 * COUNT))
    assert [(i.stratum, i.prediction, i.delays) for i in whole] == [
        (name, i.prediction, i.delays) for name, part in zip(("es", "fr"), parts, strict=True) for i in part
    ]
    scores = [json.loads((folder / "LA-2_500ms/scores.json").read_text()) for folder in (*sets, out)]
    assert scores[2]["sentences"] == 2 * COUNT
    assert scores[2]["LAAL"] == pytest.approx((scores[0]["LAAL"] + scores[1]["LAAL"]) / 2, abs=0.01)
    assert read_run_config(out / "LA-2_500ms").task.source_language == ""
    assert compare_runs(out / "hold-3_500ms", out / "LA-2_500ms")["sentences"] == 2 * COUNT
    status, table, _ = simulst("table", out)
    assert status == 0 and all(name in table for name in names)
    pool(sets, out)
    assert not (out / "offline/scores.json").exists()  # scores are of one log


def test_runs_that_do_not_belong_together(sets: list[Path]) -> None:
    out = sets[0].parent / "pooled"
    for folders in (sets[:1], [sets[0], sets[0]]):
        status, _, error = simulst("runs", "pool", *folders, "--out", out)
        assert status == 1 and "two or more folders" in sentence(error)
    config = sets[1] / "LA-2_500ms/config.yaml"
    usual = config.read_text()
    for old, new, what in (
        ("target_language: en", "target_language: de", "target language"),
        ("ms: 500", "ms: 600", "configuration"),
        ("weights: ", "weights: 0", "model"),
    ):
        assert old in usual
        config.write_text(usual.replace(old, new))
        status, _, error = simulst("runs", "pool", *sets, "--out", out)
        assert status == 1 and f"another {what}" in sentence(error)
    for folder in sets[1].iterdir():
        shutil.rmtree(folder)
    status, _, error = simulst("runs", "pool", *sets, "--out", out)
    assert status == 1 and "no complete run of one name" in sentence(error)
