#!/usr/bin/env python
"""Stage 1 of egs/mini and egs/must_c: write data directories from a corpus in MuST-C's layout."""

from __future__ import annotations

from pathlib import Path

import click
from choice_options import choice_options

from simulst.command import run_command
from simulst.data.corpus import Choice, report
from simulst.data.must_c import SPLITS, check_version, prepare_must_c


@click.command(help=__doc__)
@click.option("--root", required=True, type=click.Path(path_type=Path), help="Folder that holds <pair>/data/<split>.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder for data directories <pair>/<split>."
)
@click.option("--pairs", default="en-de", show_default=True, help="Language pairs, separated by spaces.")
@click.option("--splits", default=" ".join(SPLITS), show_default=True, help="Splits, separated by spaces.")
@click.option("--version", type=click.Choice(["1", "2", "3"]), help="Stop if the files are of another version.")
@choice_options
def main(root: Path, out: Path, pairs: str, splits: str, version: str | None, choice: Choice) -> None:
    """Prepare one pair after the other."""
    for pair in pairs.split():
        found = check_version(root, pair, splits.split(), version or "")
        counts = prepare_must_c(root, out, pair, splits.split(), choice)
        print(f"{pair}, in the form of MuST-C version {found}, segments:\n{report(out, pair, counts)}")


if __name__ == "__main__":
    run_command(main)
