#!/usr/bin/env python
"""Stage 2: cut the segments out of the recordings, and change their speed."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import Numbers, Words, run_command
from simulst.training.dump import dump_audio


@click.command(help=__doc__)
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--texts", required=True, type=Words(), help="Languages of the text files, such as 'tc.de lc.rm.en'.")
@click.option("--speeds", type=Numbers(float), default="1.0", show_default=True, help="Factors of speed perturbation.")
@click.option("--force", is_flag=True, help="Do it again.")
def main(data: Path, out: Path, texts: tuple[str, ...], speeds: tuple[float, ...], force: bool) -> None:
    """One split."""
    dump_audio(data, out, texts, speeds, force)


if __name__ == "__main__":
    run_command(main)
