"""Find finished runs, and tables of their scores in Markdown."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from simulst.errors import SimulstError
from simulst.measure.latency import LONG_METRICS, METRICS
from simulst.options import option_names
from simulst.runs import LOG, SCORES, RunConfig, read_run_config, read_scores
from simulst.runs.scores import is_number, is_of_log

logger = logging.getLogger(__name__)

COLUMNS = {
    "BLEU": ("BLEU", 1),
    "chrF": ("chrF", 1),
    "COMET": ("COMET", 3),
    "WER": ("WER", 1),
    "CER": ("CER", 1),
    "AL": ("AL", 0),
    "AL_original": ("AL_original", 0),
    "AL_steps": ("AL_steps", 0),
    "LAAL": ("LAAL", 0),
    "AP": ("AP", 2),
    "DAL": ("DAL", 0),
    "AL_CA": ("AL_CA", 0),
    "LAAL_CA": ("LAAL_CA", 0),
    "LongYAAL": ("LongYAAL", 0),
    "LongLAAL": ("LongLAAL", 0),
    "StreamLAAL": ("StreamLAAL", 0),
    "LongYAAL_CA": ("LongYAAL_CA", 0),
    "term_recall": ("Terms", 3),
    "RTF": ("RTF", 3),
    "length_ratio": ("Length", 2),
    "missing": ("Missing", 1),
    "extra": ("Extra", 1),
    "invented": ("Invented", 1),
}
"""Key of scores.json → heading and decimals. Runs of sentences and runs of recordings have different lags. Recognition
alone has error rates (%). Recordings alone have the missing and extra units of their sentences (%), and the units a
minute that were written where nobody speaks."""
QUALITIES = ("BLEU", "chrF", "COMET")
"""Qualities that runs can be chosen and drawn by: higher is better."""
PAPER_B = ("AL_original", "AL_steps")
"""Lags of Nguyen et al. 2021 (equations 5 and 6). Only tables with runs of that paper's READ show them."""


Cell = str | int | float | None


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

    @property
    def place(self) -> str:
        """What messages call it."""
        return self.name


@dataclass(frozen=True)
class ScoredRun(Row):
    """A run that is decoded and scored, in its folder, and its config.yaml."""

    folder: Path
    config: RunConfig

    @property
    def place(self) -> str:
        """What messages call it."""
        return str(self.folder)


@dataclass(frozen=True)
class Table:
    """Figures that are not of runs, such as how many prefix pairs there are.

    rows: texts and numbers below `head`; None is shown as a dash.
    digits: decimals of numbers that are no integers.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    digits: int = 3

    def markdown(self) -> str:
        """The table in Markdown."""
        return markdown(self.cells())

    def cells(self) -> list[list[str]]:
        """Its cells, line by line, the head first."""
        return [list(self.head), *(list(map(self._cell, row)) for row in self.rows)]

    def _cell(self, value: Cell) -> str:
        return _number(value, self.digits) if value is None or isinstance(value, float) else str(value)


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
    scores = read_scores(folder / SCORES)
    if (folder / LOG).is_file() and not is_of_log(scores, folder):
        raise SimulstError(f"{folder}: its {SCORES} is of another {LOG}; score it again by simulst runs score.")
    return scores


def check_same_data(runs: Sequence[ScoredRun]) -> None:
    """Raise SimulstError if runs are of different test sets or target languages, so that no figures can be compared.

    What scores of older versions do not tell is not compared.
    """
    data = [_data_of(run) for run in runs]
    for values in zip(*data, strict=True):
        known = [(value, run) for value, run in zip(values, runs, strict=True) if value]
        for value, run in known:
            if value != known[0][0]:
                raise SimulstError(
                    f"{known[0][1].folder} and {run.folder}: the runs are of different sentences or target languages; "
                    "give runs over the same data."
                )


def _data_of(run: ScoredRun) -> tuple[Any, ...]:
    """What a run translates: how many sentences, digests of them and of utterances' names, and into which language.

    What is not known is empty.
    """
    return run.scores.get("sentences"), run.scores.get("test_set"), run.config.names, run.config.task.target_language


def _is_mixed(folders: Sequence[Path], configs: Sequence[RunConfig]) -> bool:
    """Whether one curve has runs of other systems in other folders.

    Several models in one folder may be meant to be a curve, such as those that were trained for wait-k.
    """
    first: dict[str, tuple[Path, tuple[Any, ...]]] = {}
    for folder, config in zip(folders, configs, strict=True):
        system = _system_of(config)
        place, other = first.setdefault(config.curve[0], (folder.parent, system))
        if folder.parent != place and system != other:
            return True
    return False


def _system_of(config: RunConfig) -> tuple[Any, ...]:
    """A run's model and languages."""
    task = config.task
    return config.weights or task.model, task.options, task.source_language, task.target_language


def check_quality(quality: str) -> None:
    """Raise SimulstError if there is no such quality. A run without it may have written nothing."""
    if quality not in QUALITIES:
        raise SimulstError(f"'{quality}' is no quality to compare runs by; choose from {', '.join(QUALITIES)}.")


def check_metric(run: ScoredRun, metric: str) -> None:
    """Raise SimulstError if a run's scores do not have this metric of latency. None is a score, too.

    A metric of whole recordings comes from another kind of run, or from another way to score it.
    """
    known = [name + computed for computed in ("", "_CA") for name in (*METRICS, *LONG_METRICS)]
    if metric not in known or metric not in run.scores or not is_number(run.scores[metric] or 0.0):
        have = [key for key in known if key in run.scores and not key.startswith(PAPER_B)]
        if metric.removesuffix("_CA") in LONG_METRICS and "recordings" not in run.scores:
            raise SimulstError(
                f"{run.folder}: its scores have no '{metric}', as they are of single sentences; decode whole "
                "recordings and score the run by 'simulst score RUN --segmentation S.yaml --references R', or choose "
                f"from {', '.join(have)}, ..."
            )
        raise SimulstError(f"{run.folder}: its scores have no '{metric}'; choose from {', '.join(have)}, ...")


def runs_table(folders: Sequence[Path]) -> str:
    """A Markdown table with one run per line: latencies in ms, BLEU and chrF with their 95 % intervals.

    Warns of runs that can't keep up with speech. Raises SimulstError: as `load_runs` and `check_same_data`.
    """
    runs = load_runs(folders)
    check_same_data(runs)
    warn_of_slow(runs)
    return rows_table(runs)


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


def rows_table(rows: Sequence[Row]) -> str:
    """The same of rows that are loaded."""
    return scores_table(rows, shown_scores(rows))


def shown_scores(rows: Sequence[Row]) -> list[str]:
    """The scores of which a table of these rows has columns: a row has them."""
    shown = {"BLEU", *(key for row in rows for key in row.scores)}
    if not any(row.read == "wait_stride" for row in rows):
        shown -= {*PAPER_B}
    return [key for key in COLUMNS if key in shown]


def scores_table(rows: Sequence[Row], keys: Sequence[str], what: str = "Configuration") -> str:
    """A Markdown table of these scores. keys: of `COLUMNS`. what: heads the column of the names."""
    return markdown(score_cells(rows, keys, what))


def score_cells(rows: Sequence[Row], keys: Sequence[str], what: str = "Configuration") -> list[list[str]]:
    """The same table's cells, line by line, the head first."""
    head, *lines = [[what], *([row.name] for row in rows)]
    for key in keys:
        heading, digits = COLUMNS[key]
        with_interval = key in ("BLEU", "chrF")
        head += [heading, "95 %"] if with_interval else [heading]
        for line, row in zip(lines, rows, strict=True):
            line.append(_number(row.scores.get(key), digits))
            if with_interval:
                low, high = row.scores.get(f"{key}_low"), row.scores.get(f"{key}_high")
                line.append("–" if low is None or high is None else f"[{low:.1f}, {high:.1f}]")
    return [head, *lines]


@dataclass(frozen=True)
class PairCounts:
    """How many prefix pairs there were, and what became of them (`simulst.prefix.pairs.write_pairs`)."""

    pairs: Annotated[int, Field(ge=1)]
    kept: int
    filtered: int = 0


@dataclass(frozen=True)
class Measures:
    """How well boundaries are found."""

    accuracy: float | None
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True)
class PredictorScores:
    """A boundary predictor's, of each output and of each piece by threshold (`simulst.prefix.training`)."""

    frames: Measures
    pieces: dict[str, Measures]


def pairs_table(counts: Mapping[str, PairCounts]) -> Table:
    """How many prefix pairs each maxratio leaves (NAIST at IWSLT 2022, Table 4). counts: by the filter's name."""
    rows = [(name, one.kept, one.filtered, round(100 * one.filtered / one.pairs)) for name, one in counts.items()]
    return Table(("Filter", "Pairs", "Left out", "%"), tuple(rows))


def predictor_table(scores: PredictorScores) -> Table:
    """A boundary predictor on held-out prefixes (NAIST at IWSLT 2022, Table 3), of each output and of each piece."""
    names = option_names(Measures)
    named = {"outputs, λ 0.5": scores.frames} | {f"pieces, λ {name}": row for name, row in scores.pieces.items()}
    rows = [(name, *(getattr(row, key) for key in names)) for name, row in named.items()]
    return Table(("Boundaries", *(name.capitalize() for name in names)), tuple(rows))


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table. The first row is its head. All columns except the first hold numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = []
    for first, *others in [rows[0], rule, *rows[1:]]:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _natural(text: str) -> list[tuple[int, float, str]]:
    """A sorting key that puts hold-2 before hold-10."""
    pieces = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(1, float(piece), "") if i % 2 else (0, 0.0, piece) for i, piece in enumerate(pieces)]
