"""Score runs: what `simulst.measure` is told of a run, and where its scores go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.log import LOG, read_log
from simulst.log.instance import Instance
from simulst.measure.comet import kept_scores, read_kept, segments_of
from simulst.measure.file import read_scores, write_scores
from simulst.measure.metric import KNOWN, find_metrics, metrics_in
from simulst.measure.score import USUAL, Asked, compare, difference_scores, score, texts_of
from simulst.runs.folder import read_run_config


def read_run_log(place: Path, unit: str = "word") -> list[Instance]:
    """As `read_log`, of a run's folder or of any log. In a run's folder, it also warns if the last ones are missing."""
    try:
        utterances = read_run_config(place if place.is_dir() else place.parent).utterances
    except (SimulstError, OSError):  # it is another program's
        utterances = 0
    return read_log(place, unit, utterances)


def score_run(
    folder: Path, language: str, unit: str | None = None, bootstrap: int = 1000, asked: Asked = USUAL
) -> dict[str, Any]:
    """Score a run from its log, and write scores.json next to the log. A run of recognition also has error rates.

    Arguments and errors: those of `score`. Returns: content of scores.json.
    """
    config = read_run_config(folder)
    instances = read_log(folder / LOG, unit or "word", config.utterances)
    if asked.comet is not None:
        asked = replace(asked, comet=replace(asked.comet, folder=folder))
    return write_scores(
        folder, score(instances, language, unit, bootstrap, folder / LOG, config.task.source_language, asked)
    )


def add_comet(folders: Sequence[Path], asked: Asked) -> None:
    """Add COMET to the scores of runs. A segment that several runs have, or that was scored before, is scored once.

    Raises SimulstError: a folder is not a scored run; the transcript or the segmentation does not fit a log; COMET
        can't be computed.
    """
    assert asked.comet is not None
    asked.comet.known.update(read_kept(folders))
    texts = {}
    for folder in folders:
        unit = str(read_scores(folder).get("unit") or "word")
        language = read_run_config(folder).task.target_language or "en"
        texts[folder] = texts_of(read_run_log(folder, unit), language, unit, folder, asked)
    asked.comet.scores([segment for one in texts.values() for segment in segments_of(one)])
    for folder, one in texts.items():
        summary = replace(asked.comet, folder=folder).summary(one)
        write_scores(folder, {**read_scores(folder), **summary})


def compare_runs(baseline: Path, system: Path, quality: str = "BLEU", asked: Asked = USUAL) -> dict[str, Any]:
    """Is the run `system` better than the run `baseline`? As `compare`, from the runs' folders.

    quality: by COMET, the scores that the runs have kept of their segments are compared, and nothing else; by a metric
        of one's own, it is computed again.

    Raises SimulstError: a folder is not a scored run; it is of whole recordings, but there are no sentences; the
        quality has no test; the runs have no scores of segments by one model; what `compare` raises.
    """
    scores = read_scores(system)
    metric = metrics_in([scores]).get(quality)
    if quality == "COMET":
        return _compare_by_comet(baseline, system, str(scores.get("COMET_model")))
    if metric is None or not (metric.corpus or metric.path):
        raise SimulstError(f"there is no paired test of {quality}.")
    if "recordings" in scores and asked.sentences is None:
        raise SimulstError("the runs are of whole recordings, so it needs --segmentation and --references.")
    own = find_metrics([metric.path]) if metric.path else ()
    unit, language = scores.get("unit"), read_run_config(system).task.target_language or "en"
    first, second = (read_run_log(folder, unit or "word") for folder in (baseline, system))
    asked = replace(asked, metrics=own, comet=None)
    return compare(first, second, language, unit=unit, paths=(baseline, system), asked=asked)


def _compare_by_comet(baseline: Path, system: Path, model: str) -> dict[str, Any]:
    from simulst.measure.quality import mean_difference

    kept = []
    for folder in (baseline, system):
        found = kept_scores(folder, model)
        if found is None:
            raise SimulstError(f"{folder}: has no scores of single segments by {model}; score it with --comet {model}.")
        kept.append(found)
    (first, one), (second, other) = kept
    if [(s.source, s.reference) for s in first] != [(s.source, s.reference) for s in second]:
        raise SimulstError(f"{baseline} and {system} are of different sentences; compare runs over the same data.")
    return {**difference_scores(KNOWN["COMET"], mean_difference(one, other)), "sentences": len(one)}
