"""Runs, and their figures on the whole test set and on resamples of it.

A resample draws as many sentences as there are, with replacement. All runs get the same resamples, so that differences
between runs are paired. Every figure of a resample is computed again from the sentences: BLEU from the summed counts of
n-grams, lags as means, the real-time factor as a ratio of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path

import numpy as np

from findings.statistics import bleu_of_statistics, sentence_statistics
from simulst.errors import SimulstError
from simulst.log import LOG
from simulst.log.instance import Instance, check_units
from simulst.measure.latency import computation_ms, instance_latency
from simulst.measure.metric import KNOWN
from simulst.measure.score import warn_of_recordings
from simulst.results.runs import find_runs
from simulst.runs.folder import CONFIG, read_run_config
from simulst.runs.score import read_run_log

SEED = 12345
BLOCK = 1000  # resamples at once, which bounds memory: 21 MB for 2641 sentences


@dataclass(frozen=True)
class Run:
    """A finished run. path: its folder from the root on, with the label as the last part."""

    folder: Path
    path: str
    label: str
    language: str = ""
    unit: str = ""
    weights: str = ""


@dataclass(frozen=True)
class Figures:
    """Figures of a run, each of shape (1 + resamples,): first on the whole test set, then on each resample.

    lags: by name, ms. NaN: nothing was written, or no times were logged.
    length: the prediction's units over the reference's.
    sentences: how many there are.
    """

    bleu: np.ndarray
    lags: dict[str, np.ndarray]
    rtf: np.ndarray
    length: np.ndarray
    sentences: int


def find_training(folder: Path) -> list[Run]:
    """The finished runs of one training, at any depth below a folder.

    folder: a path with shell wildcards names several folders.
    Raises SimulstError: there is none; a config.yaml is broken, or names no language.
    """
    runs = []
    for place in find_runs([folder] if folder.exists() else sorted(glob(str(folder))) or [folder]):
        if not (place / LOG).is_file():  # other scores, such as a boundary predictor's
            continue
        config = read_run_config(place)
        try:
            unit = config.task.latency_unit
        except SimulstError as error:
            raise SimulstError(f"{place / CONFIG}: {error}") from None
        path = (place.resolve().parent / config.label).as_posix()
        runs.append(Run(place, path, config.label, config.task.target_language, unit, config.weights))
    if not runs:
        raise SimulstError(
            f"{folder}: has no finished run; give a folder in which simulst evaluate or sweep has finished a run."
        )
    return runs


def figures_of(runs: Sequence[Run], lags: Sequence[str], samples: int) -> list[Figures]:
    """Figures of runs of the same test set, in order. lags: names of latency metrics; samples: number of resamples.

    Raises SimulstError: a log is broken; the runs are of different test sets; there are no references.
    """
    logs = [_read(run) for run in runs]
    for run, log in zip(runs, logs, strict=True):
        _check_same(runs[0], logs[0], run, log)
    tables = [_table(run, log, lags) for run, log in zip(runs, logs, strict=True)]
    if not tables:
        return []
    width = tables[0].shape[1]
    sums = _resampled(np.concatenate(tables, axis=1), samples)
    return [_figures(sums[:, start : start + width], lags, len(logs[0])) for start in range(0, sums.shape[1], width)]


def _read(run: Run) -> list[Instance]:
    instances = read_run_log(run.folder, run.unit)
    check_units(instances, run.unit, run.folder / LOG)
    warn_of_recordings(instances, run.folder / LOG)
    if any(instance.reference is None for instance in instances):
        raise SimulstError(f"{run.folder}: has no references; findings need BLEU, so decode with --text.")
    return instances


def _check_same(first: Run, one: Sequence[Instance], second: Run, other: Sequence[Instance]) -> None:
    """Raise SimulstError unless both runs have the same sentences."""
    wrong = ""
    if [i.index for i in one] != [i.index for i in other]:
        wrong = f"one has {len(one)} sentences, the other {len(other)}, or other ones"
    elif differing := [a.index for a, b in zip(one, other, strict=True) if a.reference != b.reference]:
        wrong = f"the references of index {differing[0]} differ"
    elif heard := [a.index for a, b in zip(one, other, strict=True) if a.audio and b.audio and a.audio != b.audio]:
        wrong = f"the audio of index {heard[0]} differs"
    elif first.language != second.language or first.unit != second.unit:
        wrong = "other target languages, or units of latency"
    if wrong:
        raise SimulstError(
            f"{first.folder} and {second.folder} are of different test sets ({wrong}); give runs of one test set."
        )


def _table(run: Run, log: Sequence[Instance], lags: Sequence[str]) -> np.ndarray:
    """(sentences, columns): what is summed. BLEU's ten counts, two sums each for length, RTF and each lag."""
    references = [instance.reference or "" for instance in log]
    columns = [*sentence_statistics([instance.prediction for instance in log], references, run.language).T]
    columns.append([len(instance.units(run.unit)) for instance in log])
    columns.append([len(replace(instance, prediction=instance.reference or "").units(run.unit)) for instance in log])
    computed = [computation_ms(instance) for instance in log]
    columns.append([ms or 0.0 for ms in computed])
    columns.append([0.0 if ms is None else i.source_length for ms, i in zip(computed, log, strict=True)])
    for name in lags:
        plain = KNOWN[name].plain
        rows = [instance_latency(instance, run.unit, bool(plain)) for instance in log]
        columns.append([row[plain or name] if row else 0.0 for row in rows])
        columns.append([1.0 if row else 0.0 for row in rows])
    return np.array(columns, dtype=np.float64).T


def _resampled(table: np.ndarray, samples: int) -> np.ndarray:
    """Column sums over all rows, and over each resample of the rows. table: (n, c); returns (1 + samples, c)."""
    random = np.random.default_rng(SEED)
    count = len(table)
    parts = [table.sum(axis=0, keepdims=True)]
    for start in range(0, samples, BLOCK):
        drawn = random.multinomial(count, np.full(count, 1 / count), size=min(BLOCK, samples - start))
        parts.append(drawn.astype(np.float64) @ table)
    return np.concatenate(parts)


def _figures(sums: np.ndarray, lags: Sequence[str], sentences: int) -> Figures:
    def ratio(column: int) -> np.ndarray:
        above, below = sums[:, column], sums[:, column + 1]
        return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)

    named = {name: ratio(14 + 2 * number) for number, name in enumerate(lags)}
    return Figures(bleu_of_statistics(sums[:, :10]), named, rtf=ratio(12), length=ratio(10), sentences=sentences)
