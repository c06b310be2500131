#!/usr/bin/env python
"""Stage 1 of egs/prompts: fetch Debian's Asterisk core sounds and write data directories."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.corpora.prompts import LANGUAGES, decision_table, prepare_prompts


@click.command(help=__doc__)
@click.option("--downloads", required=True, type=click.Path(path_type=Path), help="Folder for the Debian packages.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder for data directories <language>-en."
)
@click.option("--languages", default=" ".join(LANGUAGES), show_default=True, help="Source languages.")
@click.option("--min-words", default=8, show_default=True, help="Drop pairs with fewer English words than this.")
def main(downloads: Path, out: Path, languages: str, min_words: int) -> None:
    """Write the data directories, and print how many prompts were kept and dropped."""
    print(decision_table(prepare_prompts(downloads, out, tuple(languages.split()), min_words)))


if __name__ == "__main__":
    run_command(main)
