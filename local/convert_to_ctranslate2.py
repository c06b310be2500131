#!/usr/bin/env python
"""Turn a Whisper in Hugging Face's form, such as a fine-tuned one, into CTranslate2's form, by its own converter."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.models.huggingface.to_ctranslate2 import QUANTIZATIONS, to_ctranslate2


@click.command(help=__doc__)
@click.option("--model", required=True, type=click.Path(path_type=Path), help="Folder of Hugging Face's, or hub name.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the new model.")
@click.option("--quantization", default="float32", show_default=True, type=click.Choice(QUANTIZATIONS))
@click.option("--force", is_flag=True, help="Do it again.")
def main(model: Path, out: Path, quantization: str, force: bool) -> None:
    """Convert."""
    to_ctranslate2(model, out, quantization, force)


if __name__ == "__main__":
    run_command(main)
