"""The figures that OmniSTEval's and simulstream's own commands give to a log of whole recordings."""

from __future__ import annotations

import csv
import gc
import sys
from pathlib import Path
from typing import Any

import pytest
from omnisteval import cli as omnisteval
from simulstream.metrics import score_latency

NAMES = {
    "LongYAAL (CU)": "LongYAAL",
    "LongYAAL (CA)": "LongYAAL_CA",
    "LongLAAL (CU)": "LongLAAL",
    "LongLAAL (CA)": "LongLAAL_CA",
    "BLEU": "BLEU",
    "chrF": "chrF",
}


def omnisteval_scores(
    monkeypatch: pytest.MonkeyPatch, segmentation: Path, references: Path, *options: str
) -> dict[str, float]:
    """The scores of `omnisteval longform`, with our names."""
    out = segmentation.parent / "out"
    fixed = {"speech_segmentation": segmentation, "ref_sentences_file": references, "output_folder": out}
    arguments = [word for name, value in fixed.items() for word in (f"--{name}", str(value))]
    monkeypatch.setattr(sys, "argv", ["omnisteval", "longform", *arguments, *options])
    # OmniSTEval forks. A child that collects a CTranslate2 model waits for ever for threads that only the parent has.
    gc.freeze()
    try:
        omnisteval.main()
    finally:
        gc.unfreeze()
    with (out / "scores.tsv").open() as file:
        rows = {row["metric"]: row["value"] for row in csv.DictReader(file, delimiter="\t")}
    return {NAMES[name]: float(value) for name, value in rows.items() if name in NAMES}


def close(mine: dict[str, Any], theirs: dict[str, float]) -> None:
    """Our scores are OmniSTEval's."""
    assert theirs.keys() == set(NAMES.values())
    for name, value in theirs.items():
        assert mine[name] == pytest.approx(value, abs=2e-3), name


def simulstream_scores(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    config: Path,
    log: Path,
    segmentation: Path,
    references: Path,
    unit: str = "word",
) -> dict[str, float]:
    """StreamLAAL of `simulstream_score_latency`, in ms, with our names."""
    arguments = ["--eval-config", config, "--log-file", log, "--latency-unit", unit, "--audio-definition", segmentation]
    arguments += ["--scorer", "stream_laal", "--reference", references]
    monkeypatch.setattr(sys, "argv", ["score", *map(str, arguments)])
    capsys.readouterr()
    score_latency.cli_main()
    said = capsys.readouterr().out.split("LatencyScores(")[1]
    plain, aware = (1000 * float(part.split("=")[1].strip(" )\n")) for part in said.split(","))
    return {"StreamLAAL": plain, "StreamLAAL_CA": aware}
