#!/usr/bin/env python
"""Turn a Whisper in CTranslate2 form (local/fetch_whisper.py brings one) into Hugging Face's form."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.models.huggingface.from_ctranslate2 import convert_whisper


@click.command(help=__doc__)
@click.option("--model", required=True, type=click.Path(path_type=Path), help="Folder with model.bin.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the new model.")
@click.option("--force", is_flag=True, help="Make it again.")
def main(model: Path, out: Path, force: bool) -> None:
    """Convert."""
    convert_whisper(model, out, force)


if __name__ == "__main__":
    run_command(main)
