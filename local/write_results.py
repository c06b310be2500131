#!/usr/bin/env python
"""Write the table of runs into a README, between its result markers."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.report.table import find_runs, runs_table, write_results


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--readme", required=True, type=click.Path(path_type=Path))
@click.option("--section", required=True, help="Name of the markers.")
@click.option("--command", "made_by", required=True, help="The command that made the runs.")
def main(folders: tuple[Path, ...], readme: Path, section: str, made_by: str) -> None:
    """Replace one section."""
    table = runs_table(find_runs(folders))
    write_results(readme, section, table, made_by)
    print(table)


if __name__ == "__main__":
    run_command(main)
