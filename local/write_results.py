#!/usr/bin/env python
"""Write a table of runs into a page, between its result markers. A missing page is created."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.report.table import find_runs, runs_table, write_results


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--page", required=True, type=click.Path(path_type=Path), help="Page to change, a Markdown file.")
@click.option("--section", required=True, help="Name of the markers.")
@click.option("--picture", default="", help="Path of the curve, relative to the page; a new section shows it.")
@click.option("--command", "made_by", required=True, help="The command that made the runs.")
def main(folders: tuple[Path, ...], page: Path, section: str, picture: str, made_by: str) -> None:
    """Replace the table of one section."""
    table = runs_table(find_runs(folders))
    stale = write_results(page, section, table, made_by, picture)
    if stale:
        print(f"{page}: the text has figures that {section} no longer has: {', '.join(stale)}; revise it")
    print(table)


if __name__ == "__main__":
    run_command(main)
