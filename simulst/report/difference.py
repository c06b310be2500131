"""How runs of the same data differ: a test of two of them, and how many of their texts are equal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.metrics.quality import holm
from simulst.metrics.score import compare
from simulst.report.table import load_runs, markdown
from simulst.runs import SCORES, read_run_config, read_run_log, read_scores


def compare_runs(
    baseline: Path, system: Path, segmentation: Path | None = None, references: Path | None = None
) -> dict[str, Any]:
    """Is the run `system` better than the run `baseline`? As `simulst.metrics.score.compare`, from the runs' folders.

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
    from simulst.metrics.longform import compare_recordings

    return compare_recordings(first, second, segmentation, references, language, unit, paths)


def differences_text(tests: Sequence[tuple[str, str, dict[str, Any]]]) -> str:
    """What `compare_runs` found, a sentence for each test in Markdown. p is corrected for the tests by Holm's method.

    tests: the baseline's name, the system's, and what was found.
    """
    metrics = ("BLEU", "chrF")
    corrected = iter(holm([found[f"{name}_p"] for _, _, found in tests for name in metrics]))
    sentences = []
    for baseline, system, found in tests:
        figures = []
        for name in metrics:
            difference, low, high = (found[f"{name}_{key}"] for key in ("difference", "low", "high"))
            p = next(corrected)
            chance = f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"
            figures.append(f"{name} {difference:+.1f} [{low:+.1f}, {high:+.1f}], {chance}")
        sentences.append(
            f"`{system}` against `{baseline}`: {'; '.join(figures)} (95 % intervals, paired randomisation over "
            f"{found['sentences']} sentences, p corrected for {len(metrics) * len(tests)} tests)."
        )
    return "\n\n".join(sentences)


def equal_texts_table(folders: Sequence[Path]) -> str:
    """How many texts of each two offline runs are equal, case and spaces included, as a Markdown table.

    Raises SimulstError: fewer than two of the runs are offline; they are of different utterances; as `load_runs`.
    """
    runs = [run for run in load_runs(folders) if run.offline]
    if len(runs) < 2:
        raise SimulstError(f"{folders[0].parent}: has not two offline runs, so no texts can be compared.")
    texts = [{i.name or str(i.index): i.prediction for i in read_run_log(run.folder)} for run in runs]
    for run, those in zip(runs, texts, strict=True):
        if those.keys() != texts[0].keys():
            raise SimulstError(f"{run.folder}: is of other utterances than {runs[0].folder}; decode the same ones.")
    rows = [[f"Equal texts of {len(texts[0])}", *(run.name for run in runs)]]
    for run, those in zip(runs, texts, strict=True):
        rows.append([run.name, *(str(sum(others[name] == those[name] for name in those)) for others in texts)])
    return markdown(rows)
