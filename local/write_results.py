#!/usr/bin/env python
"""Write a table of runs into a page, between its result markers. A missing page is created."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import run_command
from simulst.report.difference import compare_runs, differences_text, equal_texts_table
from simulst.report.table import find_runs, runs_table, write_results


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--page", required=True, type=click.Path(path_type=Path), help="Page to change, a Markdown file.")
@click.option("--section", required=True, help="Name of the markers.")
@click.option("--picture", default="", help="Path of the curve, relative to the page; a new section shows it.")
@click.option("--command", "made_by", required=True, help="The command that made the runs.")
@click.option(
    "--test",
    "tested",
    nargs=2,
    multiple=True,
    metavar="A B",
    help="Test the difference of run B to run A, too: their folders, whole or below one of FOLDERS (repeatable).",
)
@click.option(
    "--text", "more", type=click.Path(exists=True, path_type=Path), help="A file whose text is shown after the table."
)
@click.option("--equal-texts", is_flag=True, help="Also count the texts that are equal in two offline runs.")
def main(
    folders: tuple[Path, ...],
    page: Path,
    section: str,
    picture: str,
    made_by: str,
    tested: tuple[tuple[str, str], ...],
    more: Path | None,
    equal_texts: bool,
) -> None:
    """Replace the table of one section."""
    runs = find_runs(folders)
    text = runs_table(runs)
    if equal_texts:
        text += f"\n\n{equal_texts_table(runs)}"
    found = []
    for pair in tested:
        places = [next((path for path in (Path(n), *(f / n for f in folders)) if path.is_dir()), None) for n in pair]
        if places[0] and places[1]:
            found.append((*pair, compare_runs(places[0], places[1])))
        else:
            print(f"{folders[0]}: has not both runs, {pair[0]} and {pair[1]}, so their difference is not tested")
    if found:
        text += f"\n\n{differences_text(found)}"
    if more:
        text += f"\n\n```\n{more.read_text(encoding='utf-8').strip()}\n```"
    stale = write_results(page, section, text, made_by, picture)
    if stale:
        print(f"{page}: the text has figures that {section} no longer has: {', '.join(stale)}; revise it")
    print(text)


if __name__ == "__main__":
    run_command(main)
