"""The difference between two runs of the same data, tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.log import read_log
from simulst.metrics.score import compare
from simulst.report.table import read_scores
from simulst.runs import SCORES, read_run_config


def compare_runs(
    baseline: Path, system: Path, segmentation: Path | None = None, references: Path | None = None
) -> dict[str, Any]:
    """Is the run `system` better than the run `baseline`? As `simulst.metrics.score.compare`, from the runs' folders.

    segmentation, references: as in `score_recordings`, for runs over whole recordings.

    Raises SimulstError: a folder is not a scored run; it is of whole recordings, but there is no segmentation; what
        `compare` raises.
    """
    scores = read_scores(system / SCORES)
    language = (read_run_config(system).get("task") or {}).get("target_language") or "en"
    unit, paths = scores.get("unit"), (baseline, system)
    first, second = (read_log(folder, unit or "word") for folder in paths)
    if "recordings" not in scores:
        return compare(first, second, language, unit=unit, paths=paths)
    if segmentation is None or references is None:
        raise SimulstError("the runs are of whole recordings, so it needs --segmentation and --references.")
    from simulst.metrics.longform import compare_recordings

    return compare_recordings(first, second, segmentation, references, language, unit, paths)


def difference_text(baseline: str, system: str, found: dict[str, Any]) -> str:
    """What `compare_runs` found, as a sentence in Markdown. baseline, system: names of the runs."""
    figures = []
    for name in ("BLEU", "chrF"):
        difference, low, high, p = (found[f"{name}_{key}"] for key in ("difference", "low", "high", "p"))
        chance = f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"
        figures.append(f"{name} {difference:+.1f} [{low:+.1f}, {high:+.1f}], {chance}")
    return (
        f"`{system}` against `{baseline}`: {'; '.join(figures)} (95 % intervals, paired bootstrap test over "
        f"{found['sentences']} sentences)."
    )
