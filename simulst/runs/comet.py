"""COMET of runs: the segments of a log, their scores, and the test of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulst.data.datadir import read_table
from simulst.errors import SimulstError
from simulst.log.instance import Instance
from simulst.measure.comet import (
    Known,
    Segment,
    comet_summary,
    keep,
    kept_scores,
    mean_difference,
    read_kept,
    score_segments,
    segments_of,
)
from simulst.runs.config import read_run_config
from simulst.runs.scores import LOG, SCORES, read_run_log, read_scores, write_scores


@dataclass(frozen=True)
class Judged:
    """What COMET's models are given besides a log.

    models: their names or checkpoints; the first one's score is COMET in scores.json.
    sources: the transcript: a line for each sentence in the order of the log, or a data directory's text.LANG. For
        whole recordings, a line for each segment.
    segmentation, references: of whole recordings, as `score_recordings` takes them.
    """

    models: tuple[str, ...]
    sources: Path
    segmentation: Path | None = None
    references: Path | None = None

    def segments(self, instances: Sequence[Instance], language: str, unit: str, path: Path) -> list[Segment]:
        """The segments of a log. Raises SimulstError: the transcript or the segmentation does not fit the log."""
        if self.segmentation is not None and self.references is not None:
            from simulst.measure.longform import sentences_of_recordings

            pairs = sentences_of_recordings(instances, self.segmentation, self.references, language, unit, path)
            return segments_of(pairs, self.sources)
        ordered = sorted(instances, key=lambda instance: instance.index)
        pairs = [(instance.prediction, instance.reference) for instance in ordered]
        if not self.sources.name.startswith("text."):
            return segments_of(pairs, self.sources)
        lines = read_table(self.sources, allow_empty=True)
        if lacking := [instance.name for instance in ordered if instance.name not in lines]:
            raise SimulstError(
                f"{self.sources}: has no line of {lacking[0]}, which {path} has; give these sentences' transcript."
            )
        return [
            Segment(lines[instance.name], prediction, reference)
            for instance, (prediction, reference) in zip(ordered, pairs, strict=True)
        ]

    def scores(self, segments: Sequence[Segment], known: Known) -> dict[str, list[float]]:
        """Model → a score for each segment. Each model is loaded once, if at all. known, errors: `score_segments`."""
        return {model: score_segments(model, segments, known) for model in self.models}


def score_by_comet(folders: Sequence[Path], judged: Judged, bootstrap: int = 1000) -> None:
    """Add COMET to the scores of runs, each of which keeps the scores of its segments in comet.json.

    Each model is loaded once. A segment that several runs have, or that was scored before, is scored once.

    Raises SimulstError: a folder is not a scored run; what `Judged.segments` and `score_segments` raise.
    """
    known = read_kept(folders)
    found = {}
    for folder in folders:
        unit = str(read_scores(folder / SCORES).get("unit") or "word")
        language = read_run_config(folder).task.target_language
        found[folder] = judged.segments(read_run_log(folder, unit), language or "en", unit, folder)
    together = [segment for segments in found.values() for segment in segments]
    judged.scores(together, known)
    for folder, segments in found.items():
        scores = judged.scores(segments, known)
        keep(folder, folder / LOG, segments, scores)
        write_scores(folder, {**read_scores(folder / SCORES), **comet_summary(scores, bootstrap)})


def compare_by_comet(baseline: Path, system: Path) -> dict[str, Any]:
    """The paired test of two runs' COMET, with the keys of `simulst.measure.score.compare`.

    Raises SimulstError: the runs have no scores of segments by the same model, or they are of other sentences.
    """
    model = str(read_scores(system / SCORES).get("COMET_model"))
    rows = []
    for folder in (baseline, system):
        kept = kept_scores(folder, folder / LOG, model)
        if kept is None:
            raise SimulstError(f"{folder}: has no scores of single segments by {model}; score it with --comet {model}.")
        rows.append(kept)
    (first, one), (second, other) = rows
    if [(s.source, s.reference) for s in first] != [(s.source, s.reference) for s in second]:
        raise SimulstError(f"{baseline} and {system} are of different sentences; compare runs over the same data.")
    return {**comet_difference(one, other), "sentences": len(one)}


def comet_difference(baseline: Sequence[float], system: Sequence[float]) -> dict[str, Any]:
    """The paired test of segments' scores, with the keys of `simulst.measure.score.compare_texts`."""
    found = mean_difference(baseline, system)
    return {
        "COMET_baseline": round(found.baseline, 4),
        "COMET_system": round(found.system, 4),
        "COMET_difference": round(found.system - found.baseline, 4),
        "COMET_low": round(found.low, 4),
        "COMET_high": round(found.high, 4),
        "COMET_p": round(found.p, 4),
    }
