#!/usr/bin/env python
"""Stage 1 of egs/prompts: fetch Debian's Asterisk core sounds and write data directories."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import Words, run_command
from simulst.corpora.prompts import LANGUAGES, decision_table, prepare_prompts


@click.command(help=__doc__)
@click.option("--downloads", required=True, type=click.Path(path_type=Path), help="Folder for the Debian packages.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="For the data directories <language>-en.")
@click.option("--languages", type=Words(), default=" ".join(LANGUAGES), show_default=True, help="Source languages.")
@click.option(
    "--min-words", default=8, show_default=True, type=click.IntRange(1), help="Least words of an English reference."
)
def main(downloads: Path, out: Path, languages: tuple[str, ...], min_words: int) -> None:
    """Write them, and say how many there are."""
    print(decision_table(prepare_prompts(downloads, out, languages, min_words)))


if __name__ == "__main__":
    run_command(main)
