"""What was measured as data in results/, the pages that are rendered from it, and the findings of papers.

python local/results.py write RUNS... --recipe mini --section en-de --out egs/mini/exp --command "./run.sh"
python local/results.py render
python local/results.py findings --findings conf/findings/paper_c.yaml --runs RUNS
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from simulst.commands.common import PATH, Group, run_command


def _declared(context: click.Context, option: click.Parameter, files: tuple[Path, ...]) -> tuple[Path, ...]:
    """Files of findings, which are read at once: a mistake in them is told before runs are."""
    from findings import load_findings

    if files:
        load_findings(files)
    return files


@click.group(cls=Group)
def main() -> None:
    """Keep results as data, render pages from them, and test the findings of papers."""


@main.command()
@click.argument("runs", nargs=-1, type=PATH)
@click.option("--recipe", required=True, help="Its folder in egs/ and results/, such as mini.")
@click.option("--section", required=True, help="Name of the file, such as en-de-tst-COMMON.")
@click.option("--out", required=True, type=PATH, help="Folder of the experiments: gets results/ and RESULTS.md.")
@click.option("--command", "made_by", required=True, help="The command that made the runs.")
@click.option("--publish", "root", type=PATH, help="Folder of simulst: change its results/ and pages, too.")
@click.option("--title", help="Heading, and title of the curve [default: the section's name].")
@click.option("--curve", is_flag=True, help="Draw a curve.")
@click.option(
    "--x", "latencies", multiple=True, default=("AL", "LAAL"), show_default=True, help="Lag of the curve (repeatable)."
)
@click.option(
    "--test",
    "tests",
    nargs=2,
    multiple=True,
    metavar="A B",
    help="Test the difference of run B to run A: their folders, whole or below one of RUNS (repeatable).",
)
@click.option("--equal-texts", is_flag=True, help="Count the texts that are equal in two offline runs.")
@click.option(
    "--findings", multiple=True, type=PATH, callback=_declared, help="File of findings to test (YAML; repeatable)."
)
@click.option(
    "--training",
    "trainings",
    multiple=True,
    type=PATH,
    help="Runs of one training to test findings on, a folder or a pattern; repeat it for other seeds [default: RUNS].",
)
@click.option("--table", "tables", multiple=True, type=PATH, help="File with more tables (JSON; repeatable).")
@click.option("--published", multiple=True, type=PATH, help="File of others' figures for the curve (YAML; repeatable).")
@click.option("--text", type=PATH, help="File to show as it is.")
def write(
    runs: tuple[Path, ...],
    recipe: str,
    section: str,
    out: Path,
    made_by: str,
    root: Path | None,
    title: str | None,
    curve: bool,
    latencies: tuple[str, ...],
    tests: tuple[tuple[str, str], ...],
    equal_texts: bool,
    findings: tuple[Path, ...],
    trainings: tuple[Path, ...],
    tables: tuple[Path, ...],
    published: tuple[Path, ...],
    text: Path | None,
) -> None:
    """Collect finished runs into one section of results.

    RUNS are scored runs, or folders of them. The section goes to OUT/results/SECTION.json with its curve, and all
    sections there are rendered as OUT/RESULTS.md. With --publish, the same is done in the folder of simulst.
    """
    from findings import tested
    from published.collect import Sources, collect
    from published.pages import keep, publish
    from published.section import check_name
    from simulst.errors import SimulstError

    check_name(recipe, "recipe")
    check_name(section, "section")
    sources = Sources(runs, tests, equal_texts, tables, text, published)
    found = collect(sources, title or section, made_by, latencies if curve else ())
    if findings:
        if len(runs) > 1 and not trainings:
            raise SimulstError(
                f"{runs[0]} and other folders: say which runs are one training, by --training for each of them."
            )
        found = replace(found, findings=tuple(tested(findings, trainings or runs)))
    if found.is_empty:
        raise SimulstError(
            f"{found.title}: there is nothing to write; give folders of runs, findings with --training, or --table."
        )
    written = keep(out, recipe, section, found)
    if root is not None:
        written += publish(root, recipe, section, found)
    for path in written:
        click.echo(f"wrote {path}")


@main.command()
@click.argument("recipes", nargs=-1)
@click.option("--root", default=Path(), type=PATH, help="Folder of simulst [default: the current one].")
def render(recipes: tuple[str, ...], root: Path) -> None:
    """Render the pages and curves of RECIPES (or of all) from results/. Nothing is decoded."""
    from published.pages import render as render_pages

    for path in render_pages(root, recipes):
        click.echo(f"rendered {path}")


@main.command()
@click.option(
    "--findings",
    "files",
    multiple=True,
    required=True,
    type=PATH,
    callback=_declared,
    help="File of findings (YAML; repeatable).",
)
@click.option(
    "--runs",
    multiple=True,
    required=True,
    type=PATH,
    help="Folder with the runs of one training, or several by wildcards; repeat it for trainings with other seeds.",
)
@click.option("--samples", default=10_000, show_default=True, type=click.IntRange(100), help="Resamples to draw.")
def findings(files: tuple[Path, ...], runs: tuple[Path, ...], samples: int) -> None:
    """Test the findings of papers on finished runs.

    Each holds or does not hold, is inconclusive, or can't be tested. The runs must be of one test set.
    local/findings/README.md says how a finding is declared and by what rule it is decided.
    """
    from findings import tested
    from findings.text import findings_page

    click.echo(findings_page(tested(files, runs, samples)))


@main.command()
@click.option("--pairs", multiple=True, type=PATH, help="Folder of one filter's prefix pairs (repeatable).")
@click.option("--predictor", required=True, type=PATH, help="Folder with the boundary predictor's scores.")
@click.option("--out", required=True, type=PATH, help="File for 'write --table' (JSON).")
def prefix_tables(pairs: tuple[Path, ...], predictor: Path, out: Path) -> None:
    """Write tables of prefix pairs and of their boundary predictor."""
    from published.prefix_tables import write_tables

    write_tables(pairs, predictor, out)


if __name__ == "__main__":
    run_command(main)
