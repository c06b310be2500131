"""What the page of a report shows, as plain data: report.js draws it and computes no figure itself.

The page is one file that needs nothing else: data, script and style.
"""

from __future__ import annotations

import html
import json
import string
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from simulst.files.folder import write_atomically
from simulst.measure.metric import Metric
from simulst.results.runs import ScoredRun, check_same_data, find_runs, load_runs, metrics_of, warn_of_slow
from simulst.show.report.utterances import Utterances, show_utterances
from simulst.show.table import score_cells

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Axis:
    """A score that can be drawn. name: with its unit. kind: as in `Metric`."""

    key: str
    name: str
    kind: str
    digits: int


@dataclass(frozen=True)
class Point:
    """A run: a point of its curve and a line of the table.

    kind: "online" or "offline". scores: the numbers in scores.json. about: more to say of it.
    """

    name: str
    curve: str
    value: float | None
    kind: str
    scores: dict[str, float]
    cells: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class Report:
    """A page.

    facts: sentences about the data, and when and where it was decoded. x, y: the axes at first.
    head: of the table. utterances: None if none is shown; utterances_note then says why.
    """

    title: str
    facts: tuple[str, ...]
    axes: tuple[Axis, ...]
    x: str
    y: str
    head: tuple[str, ...]
    points: tuple[Point, ...]
    utterances: Utterances | None
    utterances_note: str


def report_of(places: Sequence[Path], count: int = 2) -> Report:
    """What a report of the runs in these folders shows. count: as in `show_utterances`.

    Raises SimulstError: a folder is missing or broken; the runs are of different data; what `show_utterances` raises.
    """
    runs = load_runs(find_runs(places))
    check_same_data(runs)
    warn_of_slow(runs)
    head, *lines = score_cells(runs)
    metrics = list(metrics_of(runs).values())
    points = tuple(
        Point(
            run.name,
            run.curve,
            run.value,
            "offline" if run.offline else "online",
            _numbers(run, metrics),
            tuple(cells),
            _configuration(run),
        )
        for run, cells in zip(runs, lines, strict=True)
    )
    present = {key for point in points for key in point.scores}
    axes = tuple(Axis(m.key, m.axis, m.kind, m.digits) for m in metrics if m.key in present)
    title = ", ".join(place.resolve().name for place in places)
    return Report(
        title,
        tuple(_facts(runs)),
        axes,
        *_first_axes(axes),
        tuple(head),
        points,
        *show_utterances(runs, count),
    )


def _numbers(run: ScoredRun, metrics: Sequence[Metric]) -> dict[str, float]:
    """The scores that can be drawn, and the ends of their intervals."""
    keys = [f"{metric.key}{end}" for metric in metrics for end in ("", "_low", "_high")]
    return {key: run.scores[key] for key in keys if run.scores.get(key) is not None}


def _configuration(run: ScoredRun) -> str:
    """READ, STOP, COMMIT and what else a run was decoded by, a line for each; empty if it is unknown."""
    decoding = run.config.decoding
    return yaml.safe_dump(decoding, default_flow_style=None, sort_keys=False).strip() if decoding else ""


def _first_axes(axes: Sequence[Axis]) -> tuple[str, str]:
    """The lag that is usual for such data, and the first quality that there is."""
    keys = [axis.key for axis in axes]
    x = next((key for key in ("LongYAAL", "LAAL", *keys) if key in keys), "")
    qualities = [axis.key for axis in axes if axis.kind == "quality"]
    return x, next((key for key in (*qualities, *keys) if key != x), x)


def _facts(runs: Sequence[ScoredRun]) -> list[str]:
    facts = []
    if sentences := runs[0].scores.get("sentences"):
        unit = {"char": "character", "word": "word"}.get(str(runs[0].scores.get("unit")), "")
        facts.append(f"{sentences} sentences" + (f"; lags are counted by the {unit}." if unit else "."))
    tasks = [run.config.task for run in runs]
    pairs = dict.fromkeys((t.source_language, t.target_language) for t in tasks if t.source_language)
    models = dict.fromkeys("/".join(Path(task.model).parts[-2:]) for task in tasks if task.model)
    facts.append(", ".join([*("→".join(pair) for pair in pairs), *models]) + ".")
    facts.append(decoded(run.config for run in runs))
    return [fact for fact in facts if fact.strip(".")]


def decoded(runs: Iterable[Any], what: str = "Decoded") -> str:
    """When, by which commit and where runs were decoded, as far as it is known.

    runs: have `date`, `commit` and `processor`, as `RunConfig` has them.
    """
    made = list(runs)
    dates = sorted({run.date for run in made if run.date})
    commits = list(dict.fromkeys(run.commit[:12] for run in made if run.commit))
    processors = list(dict.fromkeys(run.processor for run in made if run.processor))
    parts = [
        f"on {dates[0]}" + (f" to {dates[-1]}" if len(dates) > 1 else "") if dates else "",
        f"by commit {', '.join(commits)}" if commits else "",
        f"on {', '.join(processors)}" if processors else "",
    ]
    return f"{what} {', '.join(part for part in parts if part)}." if any(parts) else ""


def write_report(out: Path, report: Report) -> None:
    """Write the page. A file that is there is replaced. Raises SimulstError: it can't be written."""
    page = string.Template((HERE / "report.html").read_text(encoding="utf-8"))
    text = page.substitute(
        title=html.escape(report.title),
        data=embedded(asdict(report)),
        script=(HERE / "report.js").read_text(encoding="utf-8"),
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text)


def embedded(value: object) -> str:
    """JSON that may stand in a script element: no text in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
