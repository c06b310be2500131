#!/usr/bin/env python
"""Stage 3: learn output units from text files."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.training.tokens import KINDS, train_tokens


@click.command(help=__doc__)
@click.argument("texts", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for bpe.model and tokens.txt.")
@click.option("--size", default=500, show_default=True, type=click.IntRange(1), help="Pieces.")
@click.option("--kind", default="unigram", show_default=True, type=click.Choice(KINDS))
@click.option("--symbol", "symbols", multiple=True, help="A token that is never split, such as <2de>.")
@click.option("--force", is_flag=True, help="Do it again.")
def main(texts: tuple[Path, ...], out: Path, size: int, kind: str, symbols: tuple[str, ...], force: bool) -> None:
    """Learn the tokens of one language side."""
    train_tokens(texts, out, size, kind, symbols, force)


if __name__ == "__main__":
    run_command(main)
