#!/usr/bin/env python
"""Stage 1 of egs/mini and egs/must_c: write data directories from a corpus in MuST-C's layout."""

from __future__ import annotations

from pathlib import Path

import click
from choice_options import choice_options

from simulst.command import Words, run_command
from simulst.data.corpus import Choice, report
from simulst.data.must_c import SPLITS, check_version, prepare_must_c


@click.command(help=__doc__)
@click.option("--root", required=True, type=click.Path(path_type=Path), help="Folder that holds <pair>/data/<split>.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="For the data directories <pair>/<split>.")
@click.option("--pairs", type=Words(), default="en-de", show_default=True, help="Language pairs, with spaces between.")
@click.option("--splits", type=Words(), default=" ".join(SPLITS), show_default=True)
@click.option("--version", type=click.Choice(["1", "2", "3"]), help="Stop if the files are of another.")
@choice_options
def main(
    root: Path, out: Path, pairs: tuple[str, ...], splits: tuple[str, ...], version: str | None, choice: Choice
) -> None:
    """One pair after the other."""
    for pair in pairs:
        found = check_version(root, pair, splits, version or "")
        counts = prepare_must_c(root, out, pair, splits, choice)
        print(f"{pair}, in the form of MuST-C version {found}, segments:\n{report(out, pair, counts)}")


if __name__ == "__main__":
    run_command(main)
