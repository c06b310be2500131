#!/usr/bin/env python
"""Write talks to measure long streams on: a data directory's recordings, or recordings that its utterances make."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.data.talks import PAUSES, Pauses, join, whole_recordings

FOLDER = click.Path(path_type=Path)


@click.command(help=__doc__)
@click.option("--data", required=True, type=FOLDER, help="Data directory.")
@click.option("--out", required=True, type=FOLDER, help="Folder for the talks.")
@click.option("--source-lang", required=True)
@click.option("--target-lang", required=True)
@click.option(
    "--join",
    "pauses",
    type=click.Choice(PAUSES),
    help="Join the utterances, with natural pauses or also with 30 s of silence, noise and music.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of pauses, noise and music.")
@click.option("--force", is_flag=True, help="Do it again.")
def main(
    data: Path, out: Path, source_lang: str, target_lang: str, pauses: Pauses | None, seed: int, force: bool
) -> None:
    """Write the talks."""
    if pauses is None:
        whole_recordings(data, out, source_lang, target_lang, force)
    else:
        join(data, out, source_lang, target_lang, pauses, seed, force)


if __name__ == "__main__":
    run_command(main)
