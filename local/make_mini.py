#!/usr/bin/env python
"""Stage 1 of egs/mini: synthesise a speech translation corpus in MuST-C's layout."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import Words, run_command
from simulst.corpora.mini.corpus import PAIRS, SIZES, make_mini, size_table
from simulst.corpora.mini.segments import STYLES, Style

SENTENCES = click.IntRange(1, 1_000_000)


@click.command(help=__doc__)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for <pair>/data/<split>/{txt,wav}.")
@click.option(
    "--pairs",
    type=Words(),
    default=PAIRS[0],
    show_default=True,
    help=f"Of {', '.join(PAIRS)}; several with spaces between.",
)
@click.option(
    "--style",
    type=click.Choice(STYLES),
    default=STYLES[0],
    show_default=True,
    help="A segment is a sentence, or one to three clauses with pauses and fillers.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Another seed, other sentences.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes; the result is the same.")
@click.option("--force", is_flag=True, help="Replace what was made with other options.")
def main(out: Path, pairs: tuple[str, ...], style: Style, seed: int, jobs: int, force: bool, **sizes: int) -> None:
    """Synthesise what is missing."""
    print(size_table(make_mini(out, {split: sizes[_name(split)] for split in SIZES}, pairs, seed, jobs, style, force)))


def _name(split: str) -> str:
    return split.lower().replace("-", "_")


for split, size in SIZES.items():
    main = click.option(f"--{split.lower()}", default=size, show_default=True, type=SENTENCES, help="Sentences.")(main)

if __name__ == "__main__":
    run_command(main)
