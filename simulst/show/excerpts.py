"""What other pages show of results/: rows of a section, and the picture of the front page.

A page in docs/ shows some rows of a section between two lines, which name the recipe, the section and the runs:

    <!-- rows: prompts/es-en-tst LA-2w_500ms offline -->
    <!-- end rows -->

docs/front.svg is drawn from results/front.yaml, which names some curves of a section in plain words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simulst.errors import SimulstError
from simulst.files.yaml import read_yaml
from simulst.measure.metric import KNOWN
from simulst.options import build_options
from simulst.results.section import Run, read_section
from simulst.show.curve import draw_rows
from simulst.show.table import scores_table

COLUMNS = [KNOWN[key] for key in ("BLEU", "LAAL", "RTF")]
_ROWS = re.compile(r"(<!-- rows: (\S+) ([^>]+) -->\n).*?(<!-- end rows -->)", flags=re.DOTALL)


def pages_with_rows(root: Path) -> dict[Path, str]:
    """The pages in docs/ that show rows, with these rows. root: folder of simulst.

    Raises SimulstError: a page names a section or a run that there is not.
    """
    texts = {page: page.read_text(encoding="utf-8") for page in sorted((root / "docs").glob("*.md"))}
    return {page: _filled(root, page, text) for page, text in texts.items() if _ROWS.search(text)}


def _filled(root: Path, page: Path, text: str) -> str:
    def table(found: re.Match[str]) -> str:
        begin, section, names, end = found.groups()
        return f"{begin}\n{scores_table(_runs(root, section, names.split(), page), COLUMNS)}\n\n{end}"

    return _ROWS.sub(table, text)


def _runs(root: Path, section: str, names: Sequence[str], where: Path) -> list[Run]:
    path = root / "results" / f"{section}.json"
    if not path.is_file():
        raise SimulstError(f"{where}: there are no results {section}; name a file of results/ without its ending.")
    runs = {run.name: run for run in read_section(path).runs}
    if missing := [name for name in names if name not in runs]:
        raise SimulstError(f"{where}: {section} has no run '{missing[0]}'; name one of {', '.join(runs)}.")
    return [runs[name] for name in names]


@dataclass(frozen=True)
class Front:
    """results/front.yaml. section: as in a page's rows. lag: a key of scores.json. title: of the picture.

    lines: what the picture calls a curve of the section, in plain words, in their order. offline: the same for one run
        that is offline.
    """

    section: str
    lag: str
    title: str
    lines: dict[str, str]
    offline: dict[str, str]


def draw_front(root: Path) -> list[Path]:
    """Draw docs/front.svg. Returns: the picture; nothing if there is no results/front.yaml.

    Raises SimulstError: the file is broken, or names what the section does not have.
    """
    path = root / "results" / "front.yaml"
    if not path.is_file():
        return []
    front = build_options(Front, read_yaml(path), str(path), "the front picture")
    runs = read_section(root / "results" / f"{front.section}.json").runs
    if missing := {*front.lines} - {run.curve for run in runs} | {*front.offline} - {run.name for run in runs}:
        raise SimulstError(f"{path}: {front.section} has no '{sorted(missing)[0]}'; name its curves and runs.")
    rows = [
        replace(run, curve=name, value=None)  # a stranger would not know what the numbers are
        for curve, name in front.lines.items()
        for run in runs
        if run.curve == curve
    ]
    rows += [replace(run, name=front.offline[run.name]) for run in runs if run.name in front.offline]
    out = root / "docs" / "front.svg"
    draw_rows(rows, out, [front.lag], front.title)
    return [out]
