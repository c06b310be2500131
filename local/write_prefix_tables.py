#!/usr/bin/env python
"""Stage 16: write two tables into a page: the number of prefix pairs, and the boundary predictor's scores."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import Words, run_command
from simulst.options import read_json_fields
from simulst.prefix.pairs import COUNTS
from simulst.report.table import PairCounts, PredictorScores, pairs_table, predictor_table, write_results

SCORES = "scores.json"  # of simulst.prefix.training, whose import takes seconds
FILE = click.Path(path_type=Path)
REMEDY = "run stages 13 and 14 first"


@click.command(help=__doc__)
@click.option("--pairs", "folders", required=True, type=FILE, help="Folder of the pairs' data directories (stage 13).")
@click.option("--filters", required=True, type=Words(), help='Their names, as in "all maxratio80".')
@click.option("--predictor", required=True, type=FILE, help="Folder of the boundary predictor (stage 14).")
@click.option("--page", required=True, type=FILE, help="Page to change, a Markdown file.")
@click.option("--section", required=True, help="Names of the markers: SECTION-pairs and SECTION-predictor.")
@click.option("--command", "made_by", required=True, help="The command that made it all.")
def main(folders: Path, filters: tuple[str, ...], predictor: Path, page: Path, section: str, made_by: str) -> None:
    """Replace two sections."""
    files = {name: folders / name / "train" / COUNTS for name in filters}
    counts = {name: read_json_fields(PairCounts, file, REMEDY) for name, file in files.items()}
    scores = read_json_fields(PredictorScores, predictor / SCORES, REMEDY)
    write_results(page, f"{section}-pairs", pairs_table(counts), made_by)
    write_results(page, f"{section}-predictor", predictor_table(scores), made_by)


if __name__ == "__main__":
    run_command(main)
