"""What the page of a report shows, as plain data: report.js draws it and computes no figure itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simulst.errors import SimulstError
from simulst.measure.latency import LONG_METRICS, METRICS
from simulst.measure.quality import holm, pairwise_significance
from simulst.results.collect import Sources, collect
from simulst.results.difference import comparisons_text
from simulst.results.published import Published
from simulst.results.runs import (
    COLUMNS,
    QUALITIES,
    Row,
    ScoredRun,
    check_same_data,
    find_runs,
    load_runs,
    score_cells,
    shown_scores,
    warn_of_slow,
)
from simulst.results.section import Decided, Section, read_section
from simulst.runs import read_run_log
from simulst.show.findings import figures_text, sides_text
from simulst.show.pages import decoded
from simulst.show.report.utterances import Shown, Utterances, show_utterances

logger = logging.getLogger(__name__)

EACH_WITH_EACH = 30  # runs of which each is compared with each; of more, only with the best, which takes less time
BEST = 5
EXCHANGES = 10_000  # of each test; fewer can't make p so small that it passes the correction for a hundred rows
LAGS = tuple(name + end for name in (*METRICS, *LONG_METRICS) for end in ("", "_CA"))


@dataclass(frozen=True)
class Axis:
    """A score that can be drawn. name: with its unit. kind: "quality", "lag" or "other"."""

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
class Tests:
    """Paired tests in one metric. rows: the numbers of the rows that all are compared with.

    difference, p: (rows, all rows): each row's score minus that of the row it is compared with; p is corrected for all
        comparisons with that row, by Holm's method, and None for a row and itself.
    """

    metric: str
    rows: tuple[int, ...]
    difference: tuple[tuple[float, ...], ...]
    p: tuple[tuple[float | None, ...], ...]


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
    head: of the table. tests: none for results without texts; tests_note then says why.
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
    tests: tuple[Tests, ...]
    tests_note: str
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
    for name in runs.keys() & others.keys():
        one, other = runs[name], others[name]
        if one.weights and other.weights and one.weights != other.weights:
            differ.append(f"{name} has another model's weights")
        for key in ("sentences", "BLEU", "chrF", *METRICS, *LONG_METRICS):
            known, found = other.scores.get(key), one.scores.get(key)
            digits = len(str(known).rstrip("0").partition(".")[2])  # the file's figures may be rounded
            if known is not None and found is not None and abs(known - found) > 0.501 * 10**-digits:
                differ.append(f"{key} of {name} is {known:g} there, and {found:g} in the run")
    if differ:
        raise SimulstError(
            f"{fault} ({min(differ)}); give the file that simulst results write made of them, or leave it out."
        )


def _part(section: Section, rows: Sequence[Row], runs: Sequence[ScoredRun], shown: Shown | None = None) -> Part:
    keys = shown_scores(rows)
    head, *lines = score_cells(rows, keys) if rows else [[]]
    points = [
        Point(
            row.name,
            row.curve,
            row.value,
            "offline" if row.offline else "online",
            _numbers(row),
            tuple(cells),
        )
        for row, cells in zip(rows, lines, strict=True)
    ]
    points += [
        Point(p.name, p.curve, p.value, "published", _numbers(p), (), f"{p.about} ({p.source}), on {p.data}")
        for p in section.published
    ]
    axes = _axes(points)
    tests, tests_note = _tests(runs) if runs else ((), "Results keep no texts, so rows can't be tested here.")
    utterances, utterances_note = None, "Give the folders of the runs, too, to see their utterances."
    if runs and shown is not None:
        utterances, utterances_note = show_utterances(runs, shown)
    return Part(
        section.title,
        tuple(_facts(section, rows, runs)),
        section.command,
        axes,
        *_first_axes(axes, section, points),
        tuple(head),
        tuple(points),
        tests,
        tests_note if rows else "",
        tuple(comparisons_text(section.comparisons).replace("`", "").split("\n\n")) if section.comparisons else (),
        utterances,
        utterances_note if rows else "",
        tuple(map(_finding, section.findings)),
        tuple(tuple(map(tuple, table.cells())) for table in section.tables),
        section.text,
    )


def _numbers(row: Row | Published) -> dict[str, float]:
    """The scores that can be drawn, and the ends of their intervals."""
    keys = [*COLUMNS, *LAGS, *(f"{name}_{end}" for name in QUALITIES for end in ("low", "high"))]
    return {key: row.scores[key] for key in dict.fromkeys(keys) if row.scores.get(key) is not None}


def _axes(points: Sequence[Point]) -> tuple[Axis, ...]:
    present = {key for point in points for key in point.scores}
    axes = []
    for key in dict.fromkeys([*COLUMNS, *LAGS]):
        if key not in present:
            continue
        name, digits = COLUMNS.get(key, (key, 2 if key.startswith("AP") else 0))
        kind = "quality" if key in QUALITIES else "lag" if key in LAGS else "other"
        in_ms = kind == "lag" and not key.startswith("AP")
        percent = key in ("WER", "CER", "missing", "extra")
        axes.append(Axis(key, f"{name} (ms)" if in_ms else f"{name} (%)" if percent else name, kind, digits))
    return tuple(axes)


def _first_axes(axes: Sequence[Axis], section: Section, points: Sequence[Point]) -> tuple[str, str]:
    """The lag of the section's curve, or else what is usual, and the first quality that there is."""
    keys = [axis.key for axis in axes]
    lags = [*section.curve[-1:], "LongYAAL", "LAAL", *keys]
    x = next((key for key in lags if key in keys), "")
    return x, next((key for key in (*QUALITIES, *keys) if key in keys and key != x), x)


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


def _tests(runs: Sequence[ScoredRun]) -> tuple[tuple[Tests, ...], str]:
    """Tests of the rows with each other, or why there are none."""
    if any("recordings" in run.scores for run in runs):
        return (), "These are whole recordings; simulst choose tests them, with their segmentation."
    if len(runs) < 2:
        return (), ""
    note = f"Paired randomisation, {EXCHANGES} exchanges; p is corrected for all comparisons with the row (Holm)."
    chosen = list(range(len(runs)))
    if len(runs) > EACH_WITH_EACH:
        chosen = sorted(sorted(chosen, key=lambda n: -(runs[n].scores.get("BLEU") or 0))[:BEST])
        note += f" With so many rows, all are compared with the {BEST} of highest BLEU only."
    unit, language = str(runs[0].scores.get("unit") or "word"), runs[0].config.task.target_language
    try:
        logs = [sorted(read_run_log(run.folder, unit), key=lambda i: i.index) for run in runs]
        references = [instance.reference or "" for instance in logs[0]]
        if not any(references):
            return (), "There are no references, so rows can't be tested."
        if any([i.reference or "" for i in log] != references for log in logs):
            return (), "The logs have not the same sentences, so rows can't be tested."
        found = pairwise_significance(
            [[i.prediction for i in log] for log in logs], references, chosen, language or "en", EXCHANGES
        )
    except SimulstError as error:
        return (), f"Rows can't be tested: {error}"
    tests = []
    for metric, one in found.items():
        rows_of_p = []
        for number, row in zip(one.chosen, one.p.tolist(), strict=True):
            others = [k for k in range(len(runs)) if k != number]
            corrected = dict(zip(others, holm([row[k] for k in others]), strict=True))
            rows_of_p.append(tuple(round(corrected[k], 4) if k in corrected else None for k in range(len(runs))))
        difference = tuple(tuple(round(value, 3) for value in row) for row in one.difference.tolist())
        tests.append(Tests(metric, one.chosen, difference, tuple(rows_of_p)))
    return tuple(tests), note


def _finding(one: Decided) -> Finding:
    missing = f"runs missing: {', '.join(one.missing)}" if one.missing else ""
    place = f"section {one.section}" if one.section[0].isdigit() else one.section
    runs = "" if one.verdict in ("runs missing", "for other languages") else sides_text(one).replace("`", "")
    return Finding(one.paper, one.id, one.shown, place, one.sentence, figures_text(one), runs, one.reason or missing)
