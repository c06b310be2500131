"""Tables of runs in Markdown, and the scores of one log as a list to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulst.measure.metric import Metric, metrics_in
from simulst.results.runs import Row, check_same_data, load_runs, metrics_of, warn_of_slow


def runs_table(folders: Sequence[Path]) -> str:
    """A table with one run per line: latencies in ms, qualities with their 95 % intervals.

    Warns of runs that can't keep up with speech. Raises SimulstError: as `load_runs` and `check_same_data`.
    """
    runs = load_runs(folders)
    check_same_data(runs)
    warn_of_slow(runs)
    return markdown(score_cells(runs))


def shown_metrics(rows: Sequence[Row]) -> list[Metric]:
    """The metrics of which a table of these rows has columns: a row has them."""
    shown = {key for row in rows for key in row.scores}
    reads = {row.read for row in rows}
    return [
        metric
        for key, metric in metrics_of(rows).items()
        if key in shown and metric.column and (not metric.read or metric.read in reads)
    ]


def score_cells(
    rows: Sequence[Row], metrics: Sequence[Metric] | None = None, what: str = "Configuration"
) -> list[list[str]]:
    """The cells of a table of these scores, line by line, the head first.

    metrics: None: as `shown_metrics`. what: heads the column of the names.
    """
    head, *lines = [[what], *([row.name] for row in rows)]
    for metric in shown_metrics(rows) if metrics is None else metrics:
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


def format_scores(scores: Mapping[str, Any]) -> str:
    """The result of `score`, line by line. It may hold that of `compare` as "against".

    A figure has a decimal more than in tables, as far as scores.json has it.
    """
    metrics = [metric for key, metric in metrics_in([scores]).items() if key in scores]
    lines = [line for metric in metrics if metric.kind == "quality" for line in _quality(metric, scores)]
    lines.append(f"{'':<12}{'plain':>10}{'with computation':>18}")
    aware = {metric.plain: scores[metric.key] for metric in metrics if metric.plain}
    for metric in metrics:
        if metric.kind == "lag" and not metric.plain:
            computed = f"{_cell(metric, aware[metric.key]):>18}" if metric.key in aware else ""
            lines.append(f"{metric.key:<12}{_cell(metric, scores[metric.key])}{computed}")
    notes = {
        "RTF": "  above 1: it can't keep up with speech on this machine" if (scores["RTF"] or 0) > 1 else "",
        "term_recall": f"  of {scores.get('terms')} terms in the references",
        "invented": " where nobody speaks",
    }
    for metric in metrics:
        if metric.kind == "other":
            unit = f" {metric.unit}" if metric.unit else ""
            name = metric.key.replace("_", " ")
            lines.append(f"{name:<12}{_cell(metric, scores[metric.key])}{unit}{notes.get(metric.key, '')}")
    recordings = f"{scores['recordings']} recordings, " if "recordings" in scores else ""
    lines.append(
        f"{recordings}{scores['sentences']} sentences, {scores['empty']} with an empty prediction; "
        f"lags in ms, counted by the {scores['unit']}."
    )
    for metric in metrics:
        if f"{metric.key}_p" in (against := scores.get("against", {})):
            keys = ("difference", "baseline", "low", "high", "p")
            difference, baseline, low, high, p = (against[f"{metric.key}_{key}"] for key in keys)
            digits = _digits(metric)
            lines.append(
                f"{metric.key}: {difference:+.{digits}f} against {baseline:.{digits}f} (95 %: {low:+.{digits}f} to "
                f"{high:+.{digits}f}, p = {p:.3f}, paired randomisation)"
            )
    signatures = {metric.key: scores.get(f"{metric.key}_signature") for metric in metrics}
    return "\n".join([*lines, *(f"{key}: {signature}" for key, signature in signatures.items() if signature)])


def _quality(metric: Metric, scores: Mapping[str, Any]) -> list[str]:
    """A line, or one for each model of COMET."""
    key, unit = metric.key, f" {metric.unit}" if metric.unit else ""
    ends = {name: scores.get(f"{key}_{name}") for name in ("low", "high", "model")}
    found = scores.get(f"{key}_models") or {ends["model"]: {"score": scores[key], **ends}}
    lines = []
    for model, one in found.items():
        low, high = one["low"], one["high"]
        digits = _digits(metric)
        interval = "" if low is None else f"  95 %: {low:.{digits}f} to {high:.{digits}f}"
        lines.append(f"{key:<12}{_cell(metric, one['score'])}{unit}{interval}{f'  {model}' if model else ''}")
    return lines


def _digits(metric: Metric) -> int:
    return min(metric.digits + 1, metric.kept)


def _cell(metric: Metric, value: float | None) -> str:
    return f"{'-' if value is None else f'{value:.{_digits(metric)}f}':>10}"
