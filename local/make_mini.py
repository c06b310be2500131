#!/usr/bin/env python
"""Stage 1 of egs/mini: synthesise a speech translation corpus in MuST-C's layout."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.corpora.mini.speech import PAIRS, SIZES, make_mini, size_table


@click.command(help=__doc__)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for <pair>/data/<split>/{txt,wav}.")
@click.option(
    "--pairs",
    default=PAIRS[0],
    show_default=True,
    help=f"Language pairs, separated by spaces; choose from {', '.join(PAIRS)}.",
)
@click.option("--seed", default=0, show_default=True, help="Random seed; it determines the sentences.")
@click.option("--jobs", default=1, show_default=True, help="Processes; they do not change the result.")
def main(out: Path, pairs: str, seed: int, jobs: int, **sizes: int) -> None:
    """Synthesise the missing splits."""
    print(size_table(make_mini(out, {split: sizes[_name(split)] for split in SIZES}, pairs.split(), seed, jobs)))


def _name(split: str) -> str:
    return split.lower().replace("-", "_")


for split, size in SIZES.items():
    main = click.option(f"--{split.lower()}", default=size, show_default=True, help="Sentences of this split.")(main)

if __name__ == "__main__":
    run_command(main)
