#!/usr/bin/env python
"""Stage 1 of egs/voices: write the tables of the corpus into a page, between its markers for the section `corpus`."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import run_command
from simulst.corpora.voices.corpus import counts_table
from simulst.report.table import write_results


@click.command(help=__doc__)
@click.argument("corpus", type=click.Path(path_type=Path))
@click.option("--page", required=True, type=click.Path(path_type=Path), help="Page to change, a Markdown file.")
@click.option("--command", "made_by", required=True, help="The command that made the corpus.")
def main(corpus: Path, page: Path, made_by: str) -> None:
    """Replace the tables."""
    write_results(page, "corpus", counts_table(corpus), made_by)


if __name__ == "__main__":
    run_command(main)
