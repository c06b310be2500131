"""Collect a section of results from the folders of finished runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from findings.statistics import holm
from published.others import read_published
from published.section import Comparison, Run, Section, Table
from simulst.errors import SimulstError
from simulst.options import read_fields
from simulst.results.runs import ScoredRun, check_lag, check_same_data, find_runs, load_runs
from simulst.runs.score import compare_runs, read_run_log

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sources:
    """Where the figures of a section come from.

    folders: hold scored runs, at any depth.
    tests: two runs each, whose difference is tested: their folders, whole or below one of `folders`.
    equal_texts: whether to count the equal texts of each two offline runs.
    tables: files of tables in JSON. text: a file whose text is shown.
    published: files of what others have published, to draw beside the runs.
    """

    folders: tuple[Path, ...] = ()
    tests: tuple[tuple[str, str], ...] = ()
    equal_texts: bool = False
    tables: tuple[Path, ...] = ()
    text: Path | None = None
    published: tuple[Path, ...] = ()


def collect(sources: Sources, title: str, command: str, curve: Sequence[str] = ()) -> Section:
    """A section, without findings. title, command, curve: as in `Section`.

    Raises SimulstError: a run or a table is missing or broken; runs of one curve, or in one folder, are of different
        test sets or target languages; a run has not the lags of the curve.
    """
    folders = find_runs(sources.folders) if sources.folders else []
    runs = load_runs(folders) if folders else []
    # A table of several languages or test sets has a folder for each of them.
    for group in [runs] if curve else _by_folder(runs):
        check_same_data(group)
    for run in runs:
        for metric in curve:
            check_lag(run, metric)
    tables = []
    if sources.equal_texts:
        tables.append(equal_texts_table(runs))
    for file in sources.tables:
        tables += _read_tables(file)
    return Section(
        title,
        command.strip(),
        tuple(curve) if runs else (),
        runs=tuple(map(_run_of, runs)),
        comparisons=tuple(_comparisons(sources)),
        tables=tuple(tables),
        text=sources.text.read_text(encoding="utf-8").strip() if sources.text else "",
        published=tuple(point for file in sources.published for point in read_published(file)),
    )


def _by_folder(runs: Sequence[ScoredRun]) -> Iterable[list[ScoredRun]]:
    """The runs that lie beside each other."""
    found: dict[Path, list[ScoredRun]] = {}
    for run in runs:
        found.setdefault(run.folder.resolve().parent, []).append(run)
    return found.values()


def _run_of(run: ScoredRun) -> Run:
    config = run.config
    return Run(
        run.name,
        run.curve,
        run.value,
        run.read,
        {key: value for key, value in run.scores.items() if key not in ("log", "test_set")},
        _portable(config.decoding),
        config.weights or None,
        config.date or None,
        config.commit or None,
        config.processor or None,
    )


def _portable(value: Any) -> Any:
    """A configuration without the folders of this machine: of an absolute path only the name stays."""
    if isinstance(value, dict):
        return {key: _portable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_portable(part) for part in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def _comparisons(sources: Sources) -> list[Comparison]:
    found = []
    for names in sources.tests:
        places = [next(filter(Path.is_dir, (Path(n), *(f / n for f in sources.folders))), None) for n in names]
        if places[0] and places[1]:
            found.append((*names, compare_runs(places[0], places[1])))
        else:
            logger.warning(
                "%s: has not both runs, %s and %s, so their difference is not tested.",
                ", ".join(map(str, sources.folders)),
                *names,
            )
    return comparisons_of(found)


def comparisons_of(found: Sequence[tuple[str, str, dict[str, Any]]]) -> list[Comparison]:
    """What `compare_runs` found, with corrected p. found: the baseline's name, the system's, and what was found."""
    metrics = ("BLEU", "chrF")
    corrected = iter(holm([one[f"{metric}_p"] for _, _, one in found for metric in metrics]))
    comparisons = []
    for baseline, system, one in found:
        for metric in metrics:
            difference, low, high = (one[f"{metric}_{key}"] for key in ("difference", "low", "high"))
            comparisons.append(
                Comparison(baseline, system, metric, difference, low, high, next(corrected), one["sentences"])
            )
    return comparisons


def equal_texts_table(scored: Sequence[ScoredRun]) -> Table:
    """How many texts of each two offline runs are equal, case and spaces included.

    Raises SimulstError: fewer than two of the runs are offline; they are of different utterances.
    """
    runs = [run for run in scored if run.offline]
    if len(runs) < 2:
        raise SimulstError(f"{scored[0].folder.parent}: has not two offline runs, so no texts can be compared.")
    texts = [{i.name or str(i.index): i.prediction for i in read_run_log(run.folder)} for run in runs]
    for run, those in zip(runs, texts, strict=True):
        if those.keys() != texts[0].keys():
            raise SimulstError(f"{run.folder}: is of other utterances than {runs[0].folder}; decode the same ones.")
    rows: list[tuple[str | int, ...]] = [
        (run.name, *(sum(others[name] == those[name] for name in those) for others in texts))
        for run, those in zip(runs, texts, strict=True)
    ]
    return Table((f"Equal texts of {len(texts[0])}", *(run.name for run in runs)), tuple(rows))


def _read_tables(file: Path) -> list[Table]:
    """The tables of a file: a list of them in JSON. Raises SimulstError: it is missing or broken."""
    remedy = 'give a list of tables in JSON, such as [{"head": ["Pair", "Lines"], "rows": [["en-de", 600]]}]'
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SimulstError(f"{file}: no such file; {remedy}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise SimulstError(f"{file}: not valid JSON ({error}); {remedy}.") from error
    tables = read_fields(list[Table], content, str(file), remedy)
    if wrong := next((table for table in tables if any(len(row) != len(table.head) for row in table.rows)), None):
        raise SimulstError(f"{file}: below {', '.join(wrong.head)}, a row has another number of cells; {remedy}.")
    return tables
