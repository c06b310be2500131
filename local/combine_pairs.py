#!/usr/bin/env python
"""Stage 2 for several language pairs: one data directory for a multilingual model."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from simulst.data.combine import combine_pairs
from simulst.errors import SimulstError


@click.command(help=__doc__)
@click.argument("pairs", nargs=-1, required=True)
@click.option("--data", required=True, type=click.Path(path_type=Path), help="Folder of <pair>/<split>.")
@click.option("--split", required=True)
@click.option("--out", required=True, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Do it again.")
def main(pairs: tuple[str, ...], data: Path, split: str, out: Path, force: bool) -> None:
    """One split."""
    if out.is_dir() and not force:
        print(f"{out}: complete; --force does it again")
        return
    try:
        print(f"{out}: {combine_pairs(data, pairs, split, out)} utterances")
    except SimulstError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
