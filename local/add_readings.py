#!/usr/bin/env python
"""Stage 1 of egs/voices: add synthetic readings of each line to the training data, in many voices of eSpeak NG."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import run_command
from simulst.corpora.voices.readings import add_readings


@click.command(help=__doc__)
@click.option("--data", required=True, type=click.Path(path_type=Path), help="Data directory with segments.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Data directory to write.")
@click.option("--source-lang", default="en", show_default=True, help="Language that is spoken.")
@click.option("--readings", default=1, show_default=True, type=click.IntRange(1, 100), help="Of each line.")
@click.option("--seed", default="", help="Another seed, other voices.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes; the result is the same.")
@click.option("--force", is_flag=True, help="Write the data directory again.")
def main(data: Path, out: Path, source_lang: str, readings: int, seed: str, jobs: int, force: bool) -> None:
    """Write one data directory."""
    add_readings(data, out, source_lang, readings, seed, jobs, force)


if __name__ == "__main__":
    run_command(main)
