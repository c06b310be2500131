#!/usr/bin/env python
"""Write a table of context whose terms are the rare words of the references, hidden among those of other recordings."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.data.datadir import read_data_dir
from simulst.data.rare_words import write_rare_words
from simulst.errors import SimulstError, first_line
from simulst.languages import unit_of


@click.command(help=__doc__)
@click.option("--data", required=True, help="Data directory of the recordings.")
@click.option("--target-lang", required=True, help="Language of the references.")
@click.option("--counted", required=True, type=click.Path(path_type=Path), help="Text that says what is frequent.")
@click.option(
    "--share",
    default=0.8,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="The most frequent words make up this share of it.",
)
@click.option(
    "--others",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="Terms of other recordings that each recording gets.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Table to write.")
def main(data: str, target_lang: str, counted: Path, share: float, others: int, out: Path) -> None:
    """Write the table."""
    if unit_of(target_lang) != "word":
        raise SimulstError(f"'{target_lang}' has no spaces between words, so its rare words are not known.")
    try:
        lines = [line.partition(" ")[2] for line in counted.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise SimulstError(f"{counted}: cannot be read ({first_line(error)}); give a text in UTF-8.") from None
    count = write_rare_words(out, read_data_dir(data, target_lang), lines, share, others)
    print(f"{out}: {count} rare words.")


if __name__ == "__main__":
    run_command(main)
