#!/usr/bin/env python
"""Stage 16: write two tables into a page: the number of prefix pairs, and the boundary predictor's scores."""

from __future__ import annotations

import json
from pathlib import Path

import click

from simulst.command import run_command
from simulst.errors import SimulstError
from simulst.prefix.pairs import COUNTS
from simulst.report.table import pairs_table, predictor_table, write_results

SCORES = "scores.json"  # of simulst.prefix.training, whose import takes seconds
FILE = click.Path(path_type=Path)


@click.command(help=__doc__)
@click.option("--pairs", "folders", required=True, type=FILE, help="Folder of the pairs' data directories (stage 13).")
@click.option("--filters", required=True, help='Names of these data directories, such as "all maxratio80".')
@click.option("--predictor", required=True, type=FILE, help="Folder of the boundary predictor (stage 14).")
@click.option("--page", required=True, type=FILE, help="Page to change, a Markdown file.")
@click.option("--section", required=True, help="Names of the markers: SECTION-pairs and SECTION-predictor.")
@click.option("--command", "made_by", required=True, help="The command that made the results.")
def main(folders: Path, filters: str, predictor: Path, page: Path, section: str, made_by: str) -> None:
    """Replace the two tables."""
    counts = {name: _read(folders / name / "train" / COUNTS) for name in filters.split()}
    write_results(page, f"{section}-pairs", pairs_table(counts), made_by)
    write_results(page, f"{section}-predictor", predictor_table(_read(predictor / SCORES)), made_by)


def _read(path: Path) -> dict:
    if not path.is_file():
        raise SimulstError(f"{path}: no such file; run stages 13 and 14 first.")
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    run_command(main)
