#!/usr/bin/env python
"""Stage 2 for several language pairs: one data directory for a multilingual model."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.data.combine import combine_pairs


@click.command(help=__doc__)
@click.argument("pairs", nargs=-1, required=True)
@click.option("--data", required=True, type=click.Path(path_type=Path), help="Folder of <pair>/<split>.")
@click.option("--split", required=True)
@click.option("--out", required=True, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Do it again.")
def main(pairs: tuple[str, ...], data: Path, split: str, out: Path, force: bool) -> None:
    """One split."""
    combine_pairs(data, pairs, split, out, force)


if __name__ == "__main__":
    run_command(main)
