#!/usr/bin/env python
"""Stage 2 for several language pairs: combine them into one data directory for a multilingual model."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.data.combine import combine_pairs


@click.command(help=__doc__)
@click.argument("pairs", nargs=-1, required=True)
@click.option("--data", required=True, type=click.Path(path_type=Path), help="Folder that holds <pair>/<split>.")
@click.option("--split", required=True, help="Split to combine, such as train.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Data directory to write.")
@click.option("--force", is_flag=True, help="Write the data directory again.")
def main(pairs: tuple[str, ...], data: Path, split: str, out: Path, force: bool) -> None:
    """Combine one split."""
    combine_pairs(data, pairs, split, out, force)


if __name__ == "__main__":
    run_command(main)
