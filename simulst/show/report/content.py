"""What the page of a report shows, as plain data: report.js draws it and computes no figure itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from simulst.errors import SimulstError
from simulst.measure.metric import Metric
from simulst.results.collect import Sources, collect
from simulst.results.runs import Row, ScoredRun, check_same_data, find_runs, load_runs, metrics_of, warn_of_slow
from simulst.results.section import Decided, Section, read_section
from simulst.show.findings import figures_text, sides_text
from simulst.show.pages import decoded
from simulst.show.report.utterances import Shown, Utterances, show_utterances
from simulst.show.table import comparisons_text, score_cells, shown_metrics


@dataclass(frozen=True)
class Axis:
    """A score that can be drawn. name: with its unit. kind: as in `Metric`."""

    key: str
    name: str
    kind: str
    digits: int


@dataclass(frozen=True)
class Point:
    """A run, or a published figure: a point of its curve and, if `cells` has any, a line of the table.

    kind: "online", "offline" or "published". scores: the numbers in scores.json. about: more to say of it.
    """

    name: str
    curve: str
    value: float | None
    kind: str
    scores: dict[str, float]
    cells: tuple[str, ...] = ()
    about: str = ""


@dataclass(frozen=True)
class Finding:
    """A finding with its verdict. place: where in the paper. figures, runs, reason: as on pages, maybe empty."""

    paper: str
    id: str
    verdict: str
    place: str
    sentence: str
    figures: str
    runs: str
    reason: str


@dataclass(frozen=True)
class Part:
    """One test set of an experiment.

    facts: sentences about the data, and when and where it was decoded. x, y: the axes at first.
    head: of the table. comparisons: what tests of two runs found.
    utterances: None without runs' folders; utterances_note then says so.
    tables: further ones, each with its head first.
    """

    title: str
    facts: tuple[str, ...]
    command: str
    axes: tuple[Axis, ...]
    x: str
    y: str
    head: tuple[str, ...]
    points: tuple[Point, ...]
    comparisons: tuple[str, ...]
    utterances: Utterances | None
    utterances_note: str
    findings: tuple[Finding, ...]
    tables: tuple[tuple[tuple[str, ...], ...], ...]
    text: str


@dataclass(frozen=True)
class Report:
    """A page. title: its heading. parts: one is shown at a time."""

    title: str
    parts: tuple[Part, ...]


def report_of(places: Sequence[Path], shown: Shown) -> Report:
    """What a report of these places shows.

    places: folders of scored runs, which are one part; files of results (results/<recipe>/<section>.json), each of
        which is one. With folders, one file may stand: it adds findings and tests to the runs, which must be the same.
    shown: which utterances to show.

    Raises SimulstError: a place is missing or broken; the runs are of different data, or not those of the file; what
        `show_utterances` raises.
    """
    files = [place for place in places if place.is_file()]
    folders = [place for place in places if not place.is_file()]
    sections = {file: read_section(file) for file in files}
    if folders:
        if len(files) > 1:
            raise SimulstError(f"{files[1]}: with folders of runs, give one file of results, that of the same runs.")
        parts = [_part_of_runs(folders, next(iter(sections.items()), None), shown)]
    else:
        parts = [_part(section, section.runs, ()) for section in sections.values()]
    recipes = dict.fromkeys(file.parent.name for file in files)
    title = parts[0].title if len(parts) == 1 else f"Results: {', '.join(recipes)}"
    return Report(title, tuple(parts))


def _part_of_runs(folders: Sequence[Path], named: tuple[Path, Section] | None, shown: Shown) -> Part:
    found = find_runs(folders)
    runs = load_runs(found)
    check_same_data(runs)
    warn_of_slow(runs)
    section = collect(Sources(tuple(folders)), ", ".join(folder.resolve().name for folder in folders), "")
    if named is not None:
        file, written = named
        _check_same_runs(section, written, f"{file}: has not the runs of {', '.join(map(str, folders))}")
        section = written
    return _part(section, runs, runs, shown)


def _check_same_runs(section: Section, written: Section, fault: str) -> None:
    """Raise SimulstError unless both are of the same runs: names, models, and scores, but for times of computation."""
    runs, others = ({run.name: run for run in each.runs} for each in (section, written))
    differ = [f"has no {name}" for name in runs.keys() ^ others.keys()]
    metrics = metrics_of(written.runs)
    keys = ["sentences", *(key for key, one in metrics.items() if one.kind != "other" and not one.plain)]
    for name in runs.keys() & others.keys():
        one, other = runs[name], others[name]
        if one.weights and other.weights and one.weights != other.weights:
            differ.append(f"{name} has another model's weights")
        for key in keys:
            known, found = other.scores.get(key), one.scores.get(key)
            digits = len(str(known).rstrip("0").partition(".")[2])  # the file's figures may be rounded
            if known is not None and found is not None and abs(known - found) > 0.501 * 10**-digits:
                differ.append(f"{key} of {name} is {known:g} there, and {found:g} in the run")
    if differ:
        raise SimulstError(
            f"{fault} ({min(differ)}); give the file that simulst results write made of them, or leave it out."
        )


def _part(section: Section, rows: Sequence[Row], runs: Sequence[ScoredRun], shown: Shown | None = None) -> Part:
    head, *lines = score_cells(rows, shown_metrics(rows)) if rows else [[]]
    metrics = list(metrics_of([*rows, *section.published]).values())
    points = [
        Point(
            row.name,
            row.curve,
            row.value,
            "offline" if row.offline else "online",
            _numbers(row, metrics),
            tuple(cells),
            _configuration(row),
        )
        for row, cells in zip(rows, lines, strict=True)
    ]
    points += [
        Point(p.name, p.curve, p.value, "published", _numbers(p, metrics), (), f"{p.about} ({p.source}), on {p.data}")
        for p in section.published
    ]
    present = {key for point in points for key in point.scores}
    axes = tuple(Axis(m.key, m.axis, m.kind, m.digits) for m in metrics if m.key in present)
    utterances, utterances_note = None, "Give the folders of the runs, too, to see their utterances."
    if runs and shown is not None:
        utterances, utterances_note = show_utterances(runs, shown)
    return Part(
        section.title,
        tuple(_facts(section, rows, runs)),
        section.command,
        axes,
        *_first_axes(axes, section),
        tuple(head),
        tuple(points),
        tuple(comparisons_text(section.comparisons).replace("`", "").split("\n\n")) if section.comparisons else (),
        utterances,
        utterances_note if rows else "",
        tuple(map(_finding, section.findings)),
        tuple(tuple(map(tuple, table.cells())) for table in section.tables),
        section.text,
    )


def _numbers(row: Row, metrics: Sequence[Metric]) -> dict[str, float]:
    """The scores that can be drawn, and the ends of their intervals."""
    keys = [f"{metric.key}{end}" for metric in metrics for end in ("", "_low", "_high")]
    return {key: row.scores[key] for key in keys if row.scores.get(key) is not None}


def _configuration(row: Row) -> str:
    """READ, STOP, COMMIT and what else a run was decoded by, a line for each; empty if it is unknown."""
    decoding = row.config.decoding if isinstance(row, ScoredRun) else getattr(row, "configuration", None)
    return yaml.safe_dump(decoding, default_flow_style=None, sort_keys=False).strip() if decoding else ""


def _first_axes(axes: Sequence[Axis], section: Section) -> tuple[str, str]:
    """The lag of the section's curve, or else what is usual, and the first quality that there is."""
    keys = [axis.key for axis in axes]
    x = next((key for key in (*section.curve[-1:], "LongYAAL", "LAAL", *keys) if key in keys), "")
    qualities = [axis.key for axis in axes if axis.kind == "quality"]
    return x, next((key for key in (*qualities, *keys) if key != x), x)


def _facts(section: Section, rows: Sequence[Row], runs: Sequence[ScoredRun]) -> list[str]:
    facts = []
    if rows and (sentences := rows[0].scores.get("sentences")):
        unit = {"char": "character", "word": "word"}.get(str(rows[0].scores.get("unit")), "")
        facts.append(f"{sentences} sentences" + (f"; lags are counted by the {unit}." if unit else "."))
    if runs:
        tasks = [run.config.task for run in runs]
        pairs = dict.fromkeys((t.source_language, t.target_language) for t in tasks if t.source_language)
        models = dict.fromkeys("/".join(Path(task.model).parts[-2:]) for task in tasks if task.model)
        facts.append(", ".join([*("→".join(pair) for pair in pairs), *models]) + ".")
    facts.append(decoded(section))
    return [fact for fact in facts if fact.strip(".")]


def _finding(one: Decided) -> Finding:
    missing = f"runs missing: {', '.join(one.missing)}" if one.missing else ""
    place = f"section {one.section}" if one.section[0].isdigit() else one.section
    runs = "" if one.verdict in ("runs missing", "for other languages") else sides_text(one).replace("`", "")
    return Finding(one.paper, one.id, one.shown, place, one.sentence, figures_text(one), runs, one.reason or missing)
