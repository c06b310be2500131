"""Pages and curves, rendered from results/ alone.

    results/<recipe>/page.yaml      by hand: order, headings, remarks, and the rows of the README's table
    egs/<recipe>/RESULTS.md         wholly rendered
    egs/<recipe>/README.md          by hand, but for one block
    docs/papers.md                  the same; its block has the verdicts of all recipes

The blocks stand between `<!-- results -->` and `<!-- end results -->`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from findings import load_findings
from findings.text import findings_page, p_text
from published.overview import Column, overview
from published.section import Comparison, Published, Section, check_name, read_sections, write_section
from simulst.errors import SimulstError
from simulst.files.folder import locked, write_atomically
from simulst.files.yaml import read_yaml
from simulst.measure.metric import KNOWN, Metric
from simulst.options import build_options
from simulst.results.runs import Row, metrics_of
from simulst.show.curve import draw_rows
from simulst.show.report.content import decoded
from simulst.show.table import markdown, score_cells

T = TypeVar("T")

RESULTS, PAGE, README = "RESULTS.md", "page.yaml", "README.md"
BEGIN, END = "<!-- results -->", "<!-- end results -->"


@dataclass(frozen=True)
class Entry:
    """A section on the page. section: its name. title: heading [the name]. notes: Markdown below the heading.

    column: the name of its column in the table of all verdicts [recipe and section].
    """

    section: str
    title: str = ""
    notes: str = ""
    column: str = ""


@dataclass(frozen=True)
class Shown:
    """A row of the README's table. name: in plain words."""

    section: str
    run: str
    name: str


@dataclass(frozen=True)
class Readme:
    """The README's block. curve: the section whose curve is shown. columns: scores, as scores.json calls them."""

    curve: str
    columns: tuple[str, ...]
    rows: tuple[Any, ...]


@dataclass(frozen=True)
class Page:
    """page.yaml. intro: Markdown below the title. sections: in order; those that it does not name follow by name."""

    title: str = ""
    intro: str = ""
    sections: tuple[Any, ...] = ()
    readme: dict[str, Any] | None = None


@dataclass(frozen=True)
class Recipe:
    """What is known of a recipe: its sections in the order of the page, with their entries, and the README's block."""

    name: str
    title: str
    intro: str
    sections: Mapping[str, tuple[Entry, Section]]
    readme: Readme | None = None
    rows: tuple[Row, ...] = ()
    columns: tuple[Metric, ...] = ()


def read_recipe(root: Path, name: str) -> Recipe:
    """Read results/<name>. root: folder of simulst.

    Raises SimulstError: there is no such recipe; a file is broken; page.yaml names what there is not, or a section
        twice.
    """
    folder = root / "results" / name
    sections = read_sections(folder)
    if not sections:
        raise SimulstError(
            f"{folder}: has no results; recipes with results are {', '.join(recipes(root)) or 'none yet'}."
        )
    path = folder / PAGE
    raw = read_yaml(path) if path.is_file() else {}
    if not isinstance(raw, dict):
        raise SimulstError(f"{path}: not a mapping; give the keys title, intro, sections and readme.")
    page = build_options(Page, raw, str(path), "the page")
    entries: dict[str, Entry] = {}
    for entry in (_part(Entry, one, path, "a section") for one in page.sections):
        if entry.section in entries:
            raise SimulstError(f"{path}: names the section {entry.section} twice; keep one of them.")
        entries[entry.section] = entry
        _named(sections, entry.section, path)
    entries |= {section: Entry(section) for section in sections if section not in entries}
    found = {
        section: (replace(entry, title=entry.title or section), sections[section]) for section, entry in entries.items()
    }
    titles = [entry.title for entry, _ in found.values()]
    if twice := next((title for title in titles if titles.count(title) > 1), None):
        raise SimulstError(f"{path}: two sections have the heading '{twice}'; give one of them another title.")
    recipe = Recipe(name, page.title or f"{name}: all results", page.intro, found)
    if page.readme is None:
        return recipe
    readme = _part(Readme, page.readme, path, "readme")
    _named(sections, readme.curve, path)
    rows = []
    for shown in (_part(Shown, one, path, "a row of readme") for one in readme.rows):
        runs = {run.name: run for run in _named(sections, shown.section, path).runs}
        if shown.run not in runs:
            raise SimulstError(f"{path}: {shown.section} has no run '{shown.run}'; name one of {', '.join(runs)}.")
        rows.append(replace(runs[shown.run], name=shown.name))
    metrics = metrics_of(rows)
    if wrong := [column for column in readme.columns if column not in metrics]:
        raise SimulstError(f"{path}: there is no score '{wrong[0]}'; choose columns from {', '.join(metrics)}.")
    return replace(recipe, readme=readme, rows=tuple(rows), columns=tuple(metrics[column] for column in readme.columns))


def _part(cls: type[T], values: Any, path: Path, what: str) -> T:
    if not isinstance(values, dict):
        raise SimulstError(f"{path}: {what} is not a mapping; found {values!r}.")
    return build_options(cls, values, str(path), what)


def _named(sections: Mapping[str, Section], name: str, path: Path) -> Section:
    if name not in sections:
        raise SimulstError(f"{path}: there is no section {name}; name one of {', '.join(sections)}, or publish it.")
    return sections[name]


def recipes(root: Path) -> list[str]:
    """The recipes that have results."""
    return sorted({path.parent.name for path in (root / "results").glob("*/*.json")})


def results_page(recipe: Recipe, pictures: str, about: str) -> str:
    """RESULTS.md. pictures: the folder of the curves, relative to the page. about: how the page was made."""
    parts = [f"# {recipe.title}", about]
    if recipe.intro:
        parts.append(recipe.intro.strip())
    parts.append("\n".join(f"* [{entry.title}](#{anchor(entry.title)})" for entry, _ in recipe.sections.values()))
    for name, (entry, section) in recipe.sections.items():
        parts += [f"## {entry.title}", *section_parts(section, f"{pictures}/{name}.svg", entry.notes)]
    return "\n\n".join(parts) + "\n"


def section_parts(section: Section, picture: str, notes: str = "") -> list[str]:
    """A section as paragraphs in Markdown, without its heading."""
    parts = [notes.strip()]
    if section.curve:
        parts.append(f"![{section.title}: quality over latency]({picture})")
    if section.runs:
        parts.append(markdown(score_cells(section.runs)))
    parts += published_parts(section.published)
    parts += [markdown(table.cells()) for table in section.tables]
    if section.comparisons:
        parts.append(comparisons_text(section.comparisons))
    if section.findings:
        parts.append(findings_page(section.findings))
    if section.text:
        parts.append(f"```\n{section.text}\n```")
    parts.append(f"Made by:\n\n```sh\n{section.command}\n```")
    parts.append(decoded(section.runs, "Published" if section.rounded else "Decoded"))
    return [part for part in parts if part]


def comparisons_text(tests: Sequence[Comparison]) -> str:
    """What tests found, a sentence for each two runs in Markdown."""
    sentences = []
    for (baseline, system), group in itertools.groupby(tests, lambda test: (test.baseline, test.system)):
        of_two = list(group)
        figures = [
            f"{one.metric} {m.text(one.difference, True)} {m.interval_text(one.low, one.high, True)}, {p_text(one.p)}"
            for one in of_two
            for m in [KNOWN[one.metric]]
        ]
        sentences.append(
            f"`{system}` against `{baseline}`: {'; '.join(figures)} (95 % intervals of each test alone, paired "
            f"randomisation over {of_two[0].sentences} sentences, p corrected for {len(tests)} tests)."
        )
    return "\n\n".join(sentences)


def published_parts(points: Sequence[Published]) -> list[str]:
    """A table of published points, and where they come from, as paragraphs in Markdown."""
    if not points:
        return []
    systems = dict.fromkeys((point.curve.removesuffix(" (published)"), point.about, point.source) for point in points)
    data = ", ".join(dict.fromkeys(point.data for point in points))
    lines = [f"* {name}: {about} ({source})" for name, about, source in systems]
    table = markdown(score_cells(points, what="Published"))
    return [f"Published figures of others, on {data}:", table, "\n".join(lines)]


def anchor(title: str) -> str:
    """A heading as links name it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def readme_block(recipe: Recipe) -> str:
    """The curve and the table of README.md. The recipe has rows for it."""
    assert recipe.readme is not None
    return "\n\n".join(
        [
            f"![Quality over latency](../../results/{recipe.name}/{recipe.readme.curve}.svg)",
            markdown(score_cells(recipe.rows, recipe.columns, "System")),
            f"[All results]({RESULTS}), with their commands; [what the columns mean](../../docs/metrics.md).",
        ]
    )


def replace_block(page: Path, text: str) -> str:
    """The page with this text in its block.

    Raises SimulstError: the page is missing; a marker is missing or repeated, or they are swapped.
    """
    try:
        old = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SimulstError(
            f"{page}: cannot be read ({error}); write the page, with the lines '{BEGIN}' and '{END}'."
        ) from error
    before, begin, rest = old.partition(BEGIN)
    block, end, after = rest.partition(END)
    if not begin or not end or any(mark in part for mark in (BEGIN, END) for part in (before, block, after)):
        raise SimulstError(f"{page}: needs the lines '{BEGIN}' and '{END}', each once, in this order; fix that.")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def rendered(root: Path, names: Sequence[str]) -> dict[Path, str]:
    """The pages of these recipes, and docs/papers.md if there is one, by their paths. Nothing is written.

    Raises SimulstError: as `read_recipe` and `replace_block`; conf/findings has no findings.
    """
    pages = {}
    for name in names:
        recipe, folder = read_recipe(root, name), root / "egs" / name
        about = (
            f"`python local/results.py render {name}` writes this page from `results/{name}/`. "
            "[Labels](../../docs/configurations.md#labels) explains the names of the rows, "
            "[metrics](../../docs/metrics.md) the columns."
        )
        pages[folder / RESULTS] = results_page(recipe, f"../../results/{name}", about)
        if recipe.readme:
            pages[folder / README] = replace_block(folder / README, readme_block(recipe))
    papers = root / "docs" / "papers.md"
    if papers.is_file():  # a copy of the recipes may have no docs/
        pages[papers] = replace_block(papers, verdicts(root))
    return pages


def verdicts(root: Path) -> str:
    """The verdicts of all recipes. Raises SimulstError: as `read_recipe`; conf/findings has no findings."""
    files = sorted((root / "conf" / "findings").glob("*.yaml"))
    if not files:
        raise SimulstError(f"{root / 'conf' / 'findings'}: no files of findings; give the folder of simulst as --root.")
    columns = []
    for name in recipes(root):
        for section, (entry, content) in read_recipe(root, name).sections.items():
            link = f"../egs/{name}/{RESULTS}#{anchor(entry.title)}"
            columns.append(Column(entry.column or f"{name} {section}", link, content.findings))
    return overview(load_findings(files), columns)


def draw(folder: Path, sections: Mapping[str, Section]) -> list[Path]:
    """Draw the curves of sections into a folder, and return their files."""
    drawn = []
    for name, section in sections.items():
        if section.curve:
            drawn.append(folder / f"{name}.svg")
            draw_rows([*section.runs, *section.published], drawn[-1], section.curve, section.title)
    return drawn


def render(root: Path, names: Sequence[str] = ()) -> list[Path]:
    """Render the pages and curves of recipes. names: empty for all.

    Returns: the files that were rendered.
    Raises SimulstError: as `rendered`.
    """
    names = names or recipes(root)
    if not names:
        raise SimulstError(f"{root / 'results'}: has no results; give the folder of simulst as --root.")
    for name in names:
        check_name(name, "recipe")
    pages = rendered(root, names)
    files = [*pages]
    for name in names:
        files += draw(root / "results" / name, read_sections(root / "results" / name))
    for page, text in pages.items():
        _write(page, text)
    return files


def publish(root: Path, recipe: str, name: str, section: Section) -> list[Path]:
    """Write a section into results/, and render what it changes.

    Returns: the files that were written. Raises SimulstError: as `rendered`; `root` has no such recipe.
    """
    if not (root / "egs" / recipe).is_dir():
        raise SimulstError(f"{root}: not the folder of simulst, as it has no egs/{recipe}; give that to --publish.")
    folder = root / "results" / recipe
    with locked(folder, root / "results" / ".lock", wait=True):  # another run may publish another section
        write_section(folder / f"{name}.json", section)
        drawn = draw(folder, {name: section})
        pages = rendered(root, [recipe])
        for page, text in pages.items():
            _write(page, text)
    return [folder / f"{name}.json", *drawn, *pages]


def keep(out: Path, recipe: str, name: str, section: Section) -> list[Path]:
    """Write a section into the folder of the experiments, with its curve, and a page of all sections there.

    Returns: the files that were written.
    """
    folder = out / "results"
    with locked(folder, folder / ".lock", wait=True):
        write_section(folder / f"{name}.json", section)
        drawn = draw(folder, {name: section})
        sections = {key: (Entry(key, key), one) for key, one in read_sections(folder).items()}
        about = "`local/results.py write` writes this page from `results/` beside it."
        _write(out / RESULTS, results_page(Recipe(recipe, f"{recipe}: results", "", sections), "results", about))
    return [folder / f"{name}.json", *drawn, out / RESULTS]


def _write(page: Path, text: str) -> None:
    if not page.is_file() or page.read_text(encoding="utf-8") != text:
        write_atomically(page, text)
