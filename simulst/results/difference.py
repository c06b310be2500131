"""How runs of the same data differ: a test of two of them, and how many of their texts are equal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.measure.quality import holm
from simulst.measure.score import compare
from simulst.results.runs import Table, load_runs
from simulst.runs import SCORES, read_run_config, read_run_log, read_scores


def compare_runs(
    baseline: Path, system: Path, segmentation: Path | None = None, references: Path | None = None
) -> dict[str, Any]:
    """Is the run `system` better than the run `baseline`? As `simulst.measure.score.compare`, from the runs' folders.

    segmentation, references: as in `score_recordings`, for runs over whole recordings.

    Raises SimulstError: a folder is not a scored run; it is of whole recordings, but there is no segmentation; what
        `compare` raises.
    """
    scores = read_scores(system / SCORES)
    language = read_run_config(system).task.target_language or "en"
    unit, paths = scores.get("unit"), (baseline, system)
    first, second = (read_run_log(folder, unit or "word") for folder in paths)
    if "recordings" not in scores:
        return compare(first, second, language, unit=unit, paths=paths)
    if segmentation is None or references is None:
        raise SimulstError("the runs are of whole recordings, so it needs --segmentation and --references.")
    from simulst.measure.longform import compare_recordings

    return compare_recordings(first, second, segmentation, references, language, unit, paths)


@dataclass(frozen=True)
class Comparison:
    """A paired test of two runs in one metric.

    baseline, system: their names. metric: BLEU or chrF.
    difference, low, high: the system minus the baseline, with its 95 % interval.
    p: two-sided, corrected for all tests of the section by Holm's method. sentences: how many were compared.
    """

    baseline: str
    system: str
    metric: str
    difference: float
    low: float
    high: float
    p: float
    sentences: int


def comparisons_of(found: Sequence[tuple[str, str, dict[str, Any]]]) -> list[Comparison]:
    """What `compare_runs` found, with corrected p. found: the baseline's name, the system's, and what was found."""
    metrics = ("BLEU", "chrF")
    corrected = iter(holm([one[f"{metric}_p"] for _, _, one in found for metric in metrics]))
    comparisons = []
    for baseline, system, one in found:
        for metric in metrics:
            difference, low, high = (one[f"{metric}_{key}"] for key in ("difference", "low", "high"))
            comparisons.append(
                Comparison(baseline, system, metric, difference, low, high, next(corrected), one["sentences"])
            )
    return comparisons


def comparisons_text(tests: Sequence[Comparison]) -> str:
    """What tests found, a sentence for each two runs in Markdown."""
    sentences = []
    for (baseline, system), group in itertools.groupby(tests, lambda test: (test.baseline, test.system)):
        of_two = list(group)
        figures = [
            f"{one.metric} {one.difference:+.1f} [{one.low:+.1f}, {one.high:+.1f}], {p_text(one.p)}" for one in of_two
        ]
        sentences.append(
            f"`{system}` against `{baseline}`: {'; '.join(figures)} (95 % intervals of each test alone, paired "
            f"randomisation over {of_two[0].sentences} sentences, p corrected for {len(tests)} tests)."
        )
    return "\n\n".join(sentences)


def p_text(p: float) -> str:
    """A p-value in a sentence."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def equal_texts_table(folders: Sequence[Path]) -> Table:
    """How many texts of each two offline runs are equal, case and spaces included.

    Raises SimulstError: fewer than two of the runs are offline; they are of different utterances; as `load_runs`.
    """
    runs = [run for run in load_runs(folders) if run.offline]
    if len(runs) < 2:
        raise SimulstError(f"{folders[0].parent}: has not two offline runs, so no texts can be compared.")
    texts = [{i.name or str(i.index): i.prediction for i in read_run_log(run.folder)} for run in runs]
    for run, those in zip(runs, texts, strict=True):
        if those.keys() != texts[0].keys():
            raise SimulstError(f"{run.folder}: is of other utterances than {runs[0].folder}; decode the same ones.")
    rows: list[tuple[str | int, ...]] = [
        (run.name, *(sum(others[name] == those[name] for name in those) for others in texts))
        for run, those in zip(runs, texts, strict=True)
    ]
    return Table((f"Equal texts of {len(texts[0])}", *(run.name for run in runs)), tuple(rows))
