"""What was measured, as plain data: `results/<recipe>/<section>.json`.

A section is what one stage decodes on one test set. `local/results.py write` writes the file, and git keeps it:

    {
      "title": "mini en-de, tst-COMMON",                 heading on the page, and title of the curve
      "command": "./run.sh --recipe mini",               makes the runs
      "curve": ["AL", "LAAL"],                           lags over which the curve is drawn; [] for no curve
      "rounded": false,                                  true: figures were taken over from a page of an earlier version
      "runs": [
        {
          "name": "LA-2_640ms",                          in the order of the table
          "curve": "LA-2", "value": 640, "read": "block",    its place on the curve, and the type of READ
          "scores": {"BLEU": 73.6, "BLEU_low": 71.5, …}, as in the run's scores.json, but for digests
          "configuration": {"read": {…}, …} or null,     as in conf/decode/
          "weights": "…",                                digest of the model's weights
          "date": "2026-11-26", "commit": "…", "processor": "…"    of the decoding; null if unknown
        }, …
      ],
      "comparisons": […],                                paired tests of two runs: `Comparison`
      "findings": […],                                   verdicts, effects, intervals, p: `Decided`
      "tables": […],                                     figures that are not of runs: `Table`
      "text": "",                                        shown as it is
      "published": […]                                   points of others' curves: `Published`
    }

Figures of a page that was taken over are rounded as the page had them, and its "p < 0.001" is 0 here. Their dates and
commits are those of the page.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from simulst.errors import SimulstError
from simulst.files.folder import write_atomically
from simulst.measure.file import check_numbers
from simulst.options import read_json_fields
from simulst.results.runs import Row

Kind = Literal[
    "quality",
    "lag",
    "cost",
    "length",
    "quality_range",
    "lag_range",
    "quality_at_lag",
    "lag_at_quality",
    "cost_at_lag",
]
"""What a finding compares (`findings.compare`)."""
Verdict = Literal["holds", "does not hold", "not decided", "runs missing", "for other languages"]

Cell = str | int | float | None

REMEDY = "write it again by local/results.py write, or take it back from git"


@dataclass(frozen=True)
class Run(Row):
    """A run in a section. configuration: as in conf/decode/; None if unknown. weights: digest of the model's weights.

    date, commit, processor: when, by which commit of simulst and where it was decoded; None if unknown.
    """

    configuration: dict[str, Any] | None = None
    weights: str | None = None
    date: str | None = None
    commit: str | None = None
    processor: str | None = None


@dataclass(frozen=True)
class Table:
    """Figures that are not of runs, such as how many prefix pairs there are.

    rows: texts and numbers below `head`; None is shown as a dash.
    digits: decimals of numbers that are no integers.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    digits: int = 3

    def cells(self) -> list[list[str]]:
        """Its cells, line by line, the head first."""
        return [list(self.head), *(list(map(self._cell, row)) for row in self.rows)]

    def _cell(self, value: Cell) -> str:
        if value is None:
            return "–"
        return f"{value:.{self.digits}f}" if isinstance(value, float) else str(value)


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


@dataclass(frozen=True)
class Published(Row):
    """A point of a published curve. about, source, data: as in the file."""

    about: str = ""
    source: str = ""
    data: str = ""


@dataclass(frozen=True)
class Decided:
    """A finding and what was found, as results keep it.

    paper: its name. id, section, sentence, kind, a, b, direction, margin, lag, command: as in `Finding`.
    verdict, reason, missing, trainings, p: as in `Outcome`. a_runs, b_runs: labels of the runs.
    difference, low, high, each, levels: as in `Measured`; None or empty if there is no difference.
    apart: whether the two sides' curves have no common range.
    """

    paper: str
    id: str
    section: str
    sentence: str
    verdict: Verdict
    kind: Kind
    direction: str
    margin: float
    lag: str
    a: tuple[str, ...]
    b: tuple[str, ...]
    a_runs: tuple[str, ...]
    b_runs: tuple[str, ...]
    trainings: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    each: tuple[float, ...] = ()
    levels: tuple[float, float] | None = None
    apart: bool = False
    reason: str = ""
    missing: tuple[str, ...] = ()
    command: str = ""

    @property
    def shown(self) -> str:
        """The verdict as pages call it. What is not decided was tested, or could not be, for a reason."""
        if self.verdict != "not decided":
            return self.verdict
        return "can't be tested" if self.reason else "inconclusive"


@dataclass(frozen=True)
class Section:
    """The content of a file; see above."""

    title: str
    command: str
    curve: tuple[str, ...] = ()
    rounded: bool = False
    runs: tuple[Run, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    findings: tuple[Decided, ...] = ()
    tables: tuple[Table, ...] = ()
    text: str = ""
    published: tuple[Published, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return self == replace(Section(self.title, self.command), curve=self.curve)

    def figures(self) -> Section:
        """The section without when and where it was decoded."""
        return replace(self, runs=tuple(replace(run, date=None, commit=None, processor=None) for run in self.runs))


def check_name(name: str, what: str) -> None:
    """Raise SimulstError if a section or recipe can't be the name of a file. what: which of them."""
    if not re.fullmatch(r"\w[\w+.-]*", name):
        raise SimulstError(f"{what} '{name}': give a name of letters, digits, +, -, _ and dots.")


def read_section(path: Path) -> Section:
    """Read a section. Raises SimulstError: the file is missing, broken, or lacks a field."""
    section = read_json_fields(Section, path, REMEDY)
    names = [run.name for run in section.runs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SimulstError(f"{path}: two runs are called {twice}; {REMEDY}.")
    for run in section.runs:
        check_numbers(run.scores, f"{path}, {run.name}", REMEDY)
    return section


def read_sections(folder: Path) -> dict[str, Section]:
    """The sections of a folder by their names, in the order of the names. Raises SimulstError: as `read_section`."""
    return {path.stem: read_section(path) for path in sorted(folder.glob("*.json"))}


def write_section(path: Path, section: Section) -> bool:
    """Write a section, and return whether the file has changed.

    If its figures stay, so do the dates, commits and processors of the file: the runs are the same, or repeat them.
    Raises SimulstError: the file can't be written.
    """
    text = to_json(section)
    if path.is_file():
        try:
            old = read_section(path)
        except SimulstError:
            old = None  # a broken one is replaced
        if old and to_json(old.figures()) == to_json(section.figures()):
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)
    return True


def to_json(section: Section) -> str:
    """A section's file: a line for each value, so that git shows what has changed."""
    return _lines(asdict(section), "", 3) + "\n"


def _lines(value: Any, indent: str, depth: int) -> str:
    """JSON of a value, with a line for each part down to `depth`; a list of plain values stays on one line."""
    deeper = indent + "  "
    if depth and value and isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_lines(part, deeper, depth - 1)}" for key, part in value.items()]
    elif depth and isinstance(value, list | tuple) and any(isinstance(part, dict | list | tuple) for part in value):
        parts = [_lines(part, deeper, depth - 1) for part in value]
    else:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{end}"
