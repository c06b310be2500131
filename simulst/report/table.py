"""Find finished runs, write a table of their scores, and keep the table in a README."""

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
from simulst.files.folder import write_atomically
from simulst.files.lock import locked
from simulst.metrics.latency import LONG_METRICS, METRICS
from simulst.options import option_names
from simulst.runs import SCORES, RunConfig, read_run_config, read_scores
from simulst.runs.scores import is_number

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


@dataclass(frozen=True)
class ScoredRun:
    """A run that is decoded and scored.

    name: the configuration's label; if labels repeat, the run's folder (see `load_runs`).
    line: name of its curve: the strategy and the initial wait; if labels repeat, with the folder before it.
    value: what changes along the curve: READ's chunk in ms, k or threshold, or else the number of STOP or COMMIT; None
        if there is none.
    wait_ms: READ's initial wait.
    read: the type of READ.
    scores: content of scores.json.
    """

    folder: Path
    name: str
    line: str
    value: float | None
    wait_ms: float
    read: str
    scores: dict[str, Any]

    @property
    def offline(self) -> bool:
        """Whether it waits for the whole sentence."""
        return self.read == "offline"


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

    Raises SimulstError: a folder lacks config.yaml or scores.json, or they are broken.
    """
    if not folders:
        raise SimulstError("there is no run to report; give a run's folder or one that holds runs.")
    configs = [read_run_config(folder) for folder in folders]
    resolved = [folder.resolve() for folder in folders]
    repeated = max(Counter(config.label for config in configs).values()) > 1 or _is_mixed(resolved, configs)
    root = Path(os.path.commonpath(resolved))
    runs = []
    for folder, place, config in zip(folders, resolved, configs, strict=True):
        read = config.read
        wait = float(read.get("initial_wait_ms", 0))
        line, value = config.curve
        line += f", wait {wait:g} ms" if wait else ""
        group = place.relative_to(root).parent
        runs.append(
            ScoredRun(
                folder=folder,
                name=str(place.relative_to(root)) if repeated else config.label,
                line=f"{group}/{line}" if repeated and group.parts else line,
                value=value,
                wait_ms=wait,
                read=read["type"],
                scores=read_scores(folder / SCORES),
            )
        )
    return sorted(runs, key=lambda run: (not run.offline, _natural(run.line), run.value or 0, _natural(run.name)))


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
    """Raise SimulstError if a run's scores do not have this metric of latency. None is a score, too."""
    known = [name + computed for computed in ("", "_CA") for name in (*METRICS, *LONG_METRICS)]
    if metric not in known or metric not in run.scores or not is_number(run.scores[metric] or 0.0):
        have = [key for key in known if key in run.scores and not key.startswith(PAPER_B)]
        raise SimulstError(f"{run.folder}: its scores have no '{metric}'; choose from {', '.join(have)}, ...")


def runs_table(folders: Sequence[Path]) -> str:
    """A Markdown table with one run per line: latencies in ms, BLEU and chrF with their 95 % intervals.

    Raises SimulstError: as `load_runs`.
    """
    runs = load_runs(folders)
    shown = {"BLEU", *(key for run in runs for key in run.scores)}
    if not any(run.read == "wait_stride" for run in runs):
        shown -= {*PAPER_B}
    columns = {key: column for key, column in COLUMNS.items() if key in shown}
    head, *rows = [["Configuration"], *([run.name] for run in runs)]
    for key, (heading, digits) in columns.items():
        with_interval = key in ("BLEU", "chrF")
        head += [heading, "95 %"] if with_interval else [heading]
        for row, run in zip(rows, runs, strict=True):
            row.append(_number(run.scores.get(key), digits))
            if with_interval:
                low, high = run.scores.get(f"{key}_low"), run.scores.get(f"{key}_high")
                row.append("–" if low is None or high is None else f"[{low:.1f}, {high:.1f}]")
    return markdown([head, *rows])


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


def pairs_table(counts: Mapping[str, PairCounts]) -> str:
    """How many prefix pairs each maxratio leaves (NAIST at IWSLT 2022, Table 4). counts: by the filter's name."""
    rows = [["Filter", "Pairs", "Left out", "%"]]
    for name, found in counts.items():
        rows.append([name, str(found.kept), str(found.filtered), f"{100 * found.filtered / found.pairs:.0f}"])
    return markdown(rows)


def predictor_table(scores: PredictorScores) -> str:
    """A boundary predictor on held-out prefixes (NAIST at IWSLT 2022, Table 3), of each output and of each piece."""
    names = option_names(Measures)
    named = {"outputs, λ 0.5": scores.frames} | {f"pieces, λ {name}": row for name, row in scores.pieces.items()}
    rows = [[name, *(_number(getattr(row, key), 3) for key in names)] for name, row in named.items()]
    return markdown([["Boundaries", *(name.capitalize() for name in names)], *rows])


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table. The first row is its head. All columns except the first hold numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = []
    for first, *others in [rows[0], rule, *rows[1:]]:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_results(page: Path, section: str, table: str, command: str, picture: str = "") -> list[str]:
    """Put a table, and the command that made it, between a page's markers for `section`.

        <!-- results: SECTION -->
        <!-- end results: SECTION -->

    The text between the markers is replaced. If both markers are missing, they are added at the end, under a
    heading and the picture. A missing page is created.

    page: Markdown file.
    section: name of the markers.
    picture: a picture's file name, relative to the page; "" for none.

    Returns: the figures in the page's prose that were in the old table but are in none of the page's tables now. The
        author has to revise these sentences.
    Raises SimulstError: a marker is repeated or lacks its partner; the markers are in the wrong order.
    """
    with locked(page, page.with_name(f".{page.name}.lock"), wait=True):  # another run may write another section
        return _write_section(page, section, table, command, picture)


def _write_section(page: Path, section: str, table: str, command: str, picture: str) -> list[str]:
    try:
        text = page.read_text(encoding="utf-8") if page.is_file() else "# Results\n"
    except UnicodeDecodeError as error:
        raise SimulstError(f"{page}: not UTF-8 (byte {error.start}); convert it.") from error
    begin, end = f"<!-- results: {section} -->", f"<!-- end results: {section} -->"
    if begin not in text and end not in text:
        curve = f"![BLEU over latency]({picture})\n\n" if picture else ""
        text = f"{text.rstrip()}\n\n## {section}\n\n{curve}{begin}\n{end}\n"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise SimulstError(f"{page}: needs the markers '{begin}' and '{end}', each once, in this order; fix that.")
    before, _, rest = text.partition(begin)
    old, _, after = rest.partition(end)
    body = f"{begin}\n\n{table.strip()}\n\nMade by:\n\n```sh\n{command.strip()}\n```\n\n{end}"
    write_atomically(page, before + body + after)
    tables, prose = _figures(table), set()
    for place, part in enumerate(re.split(r"<!-- (?:end )?results: .* -->", before + after)):
        if place % 2:
            tables |= _figures(part)
        else:
            prose |= _figures(part)
    return sorted((prose & _figures(old)) - tables, key=float)


def _figures(text: str) -> set[str]:
    """The numbers in a text that look like a result: with decimals, or of three digits and more."""
    return set(re.findall(r"(?<![\w.-])(?:\d+\.\d+|\d{3,})(?![\w.]*\w)", text))


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _natural(text: str) -> list[tuple[int, float, str]]:
    """A sorting key that puts hold-2 before hold-10."""
    pieces = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(1, float(piece), "") if i % 2 else (0, 0.0, piece) for i, piece in enumerate(pieces)]
