"""Finished runs: find them, and read their scores."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.log import LOG
from simulst.measure.file import SCORES, is_of_log, read_scores
from simulst.measure.metric import Metric, metrics_in
from simulst.runs.folder import RunConfig, read_run_config

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Row:
    """A line of a table of runs, and a point of a curve.

    name: the configuration's label; if labels repeat, the run's folder (see `load_runs`).
    curve: name of its curve: the strategy and the initial wait; if labels repeat, with the folder before it.
    value: what changes along the curve: READ's chunk in ms, k or threshold, or else the number of STOP or COMMIT; None
        if there is none.
    read: the type of READ.
    scores: content of scores.json.
    """

    name: str
    curve: str
    value: float | None
    read: str
    scores: dict[str, Any]

    @property
    def offline(self) -> bool:
        """Whether it waits for the whole sentence."""
        return self.read == "offline"


@dataclass(frozen=True)
class ScoredRun(Row):
    """A run that is decoded and scored, in its folder, and its config.yaml."""

    folder: Path
    config: RunConfig


def find_runs(paths: Iterable[str | Path]) -> list[Path]:
    """Find the scored runs in folders, at any depth. Each run is listed once, in the order of `paths`, then by name.

    Raises SimulstError: a path is not a folder; no run has a scores.json; runs side by side are of a model before and
        after it was trained again.
    """
    found: dict[Path, Path] = {}
    places = [Path(path) for path in paths]
    for path in places:
        if not path.is_dir():
            wrong = "a file" if path.is_file() else "no such folder"
            raise SimulstError(f"{path}: {wrong}; give a run's folder or one that holds runs.")
        folders = sorted(file.parent for file in path.rglob(SCORES))
        folders = [folder for folder in folders if not (folder / "predictor.pth").is_file()]  # it has other scores
        if not folders:
            logger.warning("%s: no run in it has a %s; the folder is left out.", path, SCORES)
        _check_one_version(folders)
        for folder in folders:
            found.setdefault(folder.resolve(), folder)
    if not found:
        raise SimulstError(f"{', '.join(map(str, places))}: no run in it has a {SCORES}; let simulst evaluate finish.")
    return list(found.values())


def _check_one_version(folders: Iterable[Path]) -> None:
    """Raise SimulstError if runs in one folder are of one model's path, but of different weights."""
    seen: dict[tuple[Path, str], tuple[str, Path]] = {}
    for folder in folders:
        try:
            config = read_run_config(folder)
        except SimulstError:
            continue  # who reads the run will say so
        task = config.task
        if not config.weights or not task.model:
            continue
        key = folder.parent, f"{task.model} {task.options}"
        first, other = seen.setdefault(key, (config.weights, folder))
        if config.weights != first:
            raise SimulstError(
                f"{other} and {folder} are runs of {task.model} with different weights, as it was trained again in "
                "between; move the older ones away, or decode them again with --force."
            )


def load_runs(folders: Sequence[Path]) -> list[ScoredRun]:
    """Read runs and sort them: offline runs first, then by strategy, initial wait and chunk.

    If two runs have the same label, or one curve has runs of other models or languages in other folders, all runs are
    named by their folders instead, without the part that all folders share.

    Raises SimulstError: a folder lacks config.yaml or scores.json, or they are broken; the scores are of another log.
    """
    if not folders:
        raise SimulstError("there is no run to report; give a run's folder or one that holds runs.")
    configs = [read_run_config(folder) for folder in folders]
    scores = [_scores_of(folder) for folder in folders]
    resolved = [folder.resolve() for folder in folders]
    repeated = max(Counter(config.label for config in configs).values()) > 1 or _is_mixed(resolved, configs)
    root = Path(os.path.commonpath(resolved))
    runs = []
    for folder, place, config, own in zip(folders, resolved, configs, scores, strict=True):
        read = config.read
        wait = float(read.get("initial_wait_ms", 0))
        line, value = config.curve
        line += f", wait {wait:g} ms" if wait else ""
        group = place.relative_to(root).parent
        runs.append(
            ScoredRun(
                folder=folder,
                config=config,
                name=str(place.relative_to(root)) if repeated else config.label,
                curve=f"{group}/{line}" if repeated and group.parts else line,
                value=value,
                read=read["type"],
                scores=own,
            )
        )
    return sorted(runs, key=lambda run: (not run.offline, _natural(run.curve), run.value or 0, _natural(run.name)))


def _scores_of(folder: Path) -> dict[str, Any]:
    scores = read_scores(folder)
    if (folder / LOG).is_file() and not is_of_log(scores, folder):
        raise SimulstError(f"{folder}: its {SCORES} is of another {LOG}; score it again by simulst runs score.")
    return scores


def check_same_data(runs: Sequence[ScoredRun]) -> None:
    """Raise SimulstError if runs are of different test sets or target languages, so that no figures can be compared.

    What scores of older versions do not tell is not compared.
    """
    data = [
        (run.scores.get("sentences"), run.scores.get("test_set"), run.config.names, run.config.task.target_language)
        for run in runs
    ]
    for values in zip(*data, strict=True):
        known = [(value, run) for value, run in zip(values, runs, strict=True) if value]
        for value, run in known:
            if value != known[0][0]:
                raise SimulstError(
                    f"{known[0][1].folder} and {run.folder}: the runs are of different sentences or target languages; "
                    "give runs over the same data."
                )


def _is_mixed(folders: Sequence[Path], configs: Sequence[RunConfig]) -> bool:
    """Whether one curve has runs of other systems in other folders.

    Several models in one folder may be meant to be a curve, such as those that were trained for wait-k.
    """
    first: dict[str, tuple[Path, tuple[Any, ...]]] = {}
    for folder, config in zip(folders, configs, strict=True):
        task = config.task
        system = config.weights or task.model, task.options, task.source_language, task.target_language
        place, other = first.setdefault(config.curve[0], (folder.parent, system))
        if folder.parent != place and system != other:
            return True
    return False


def metrics_of(rows: Iterable[Row]) -> dict[str, Metric]:
    """All metrics by their keys, in the order of tables, with those of one's own that these rows have."""
    return metrics_in(row.scores for row in rows)


def check_lag(run: ScoredRun, key: str) -> Metric:
    """The lag of this key, of which a run has a score (None is one, too). Raises SimulstError: it has not.

    A lag of whole recordings comes from another kind of run, or from another way to score it.
    """
    metrics = metrics_of([run])
    metric = metrics.get(key)
    if metric is None or metric.kind != "lag" or key not in run.scores:
        have = ", ".join(k for k, one in metrics.items() if one.kind == "lag" and not one.read and k in run.scores)
        if metric is not None and metric.of == "recordings" and "recordings" not in run.scores:
            raise SimulstError(
                f"{run.folder}: its scores have no '{key}', as they are of single sentences; decode whole "
                "recordings and score the run by 'simulst score RUN --segmentation S.yaml --references R', or choose "
                f"from {have}, ..."
            )
        raise SimulstError(f"{run.folder}: its scores have no '{key}'; choose from {have}, ...")
    return metric


def warn_of_slow(runs: Sequence[Row]) -> None:
    """Warn of runs that can't keep up with speech."""
    if slow := [run for run in runs if (run.scores.get("RTF") or 0) > 1]:
        first = slow[0]
        logger.warning(
            "%d of %d runs can't keep up with speech on the machine that decoded them (RTF above 1); first %s, %.2f.",
            len(slow),
            len(runs),
            first.name,
            first.scores["RTF"],
        )


def _natural(text: str) -> list[tuple[int, float, str]]:
    """A sorting key that puts hold-2 before hold-10."""
    pieces = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(1, float(piece), "") if i % 2 else (0, 0.0, piece) for i, piece in enumerate(pieces)]
