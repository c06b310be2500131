"""Tables of runs in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulst.measure.metric import Metric
from simulst.results.runs import Row, check_same_data, load_runs, metrics_of, warn_of_slow


def runs_table(folders: Sequence[Path]) -> str:
    """A table with one run per line: latencies in ms, qualities with their 95 % intervals.

    Warns of runs that can't keep up with speech. Raises SimulstError: as `load_runs` and `check_same_data`.
    """
    runs = load_runs(folders)
    check_same_data(runs)
    warn_of_slow(runs)
    return rows_table(runs)


def rows_table(rows: Sequence[Row]) -> str:
    """The same of rows that are loaded."""
    return scores_table(rows, shown_metrics(rows))


def shown_metrics(rows: Sequence[Row]) -> list[Metric]:
    """The metrics of which a table of these rows has columns: a row has them."""
    shown = {key for row in rows for key in row.scores}
    reads = {row.read for row in rows}
    return [
        metric
        for key, metric in metrics_of(rows).items()
        if key in shown and metric.column and (not metric.read or metric.read in reads)
    ]


def scores_table(rows: Sequence[Row], metrics: Sequence[Metric], what: str = "Configuration") -> str:
    """A table of these scores. what: heads the column of the names."""
    return markdown(score_cells(rows, metrics, what))


def score_cells(rows: Sequence[Row], metrics: Sequence[Metric], what: str = "Configuration") -> list[list[str]]:
    """The same table's cells, line by line, the head first."""
    head, *lines = [[what], *([row.name] for row in rows)]
    for metric in metrics:
        head += [metric.name, "95 %"] if metric.interval else [metric.name]
        for line, row in zip(lines, rows, strict=True):
            line.append(metric.text(row.scores.get(metric.key)))
            if metric.interval:
                low, high = (row.scores.get(f"{metric.key}_{end}") for end in ("low", "high"))
                line.append(metric.interval_text(low, high))
    return [head, *lines]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table. The first row is its head. All columns except the first hold numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = []
    for first, *others in [rows[0], rule, *rows[1:]]:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
