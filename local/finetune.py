#!/usr/bin/env python
"""Fine-tune a speech-to-text model of Hugging Face's on data directories, or train one from scratch.

Give --pair, --train and --valid once for each data directory; a pair may stand several times. The result is the folder
model/ in --out, which --model of the other commands takes. The same command goes on after an interruption.
"""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.errors import SimulstError
from simulst.training.finetune import finetune
from simulst.training.speech_text import Part

FOLDER = click.Path(path_type=Path)


@click.command(help=__doc__)
@click.option("--config", required=True, type=FOLDER, help="Such as conf/train/whisper_finetune.yaml.")
@click.option("--model", type=FOLDER, help="Model to begin with: a folder, or a name on the hub.")
@click.option("--pair", "pairs", required=True, multiple=True, help="Languages spoken and written, such as en-de.")
@click.option("--train", "train_dirs", required=True, multiple=True, type=FOLDER, help="Training data directory.")
@click.option("--valid", "valid_dirs", required=True, multiple=True, type=FOLDER, help="Development data directory.")
@click.option("--out", required=True, type=FOLDER, help="Folder of the training.")
@click.option("--force", is_flag=True, help="Delete the training in --out, and begin again.")
def main(
    config: Path,
    model: Path | None,
    pairs: tuple[str, ...],
    train_dirs: tuple[Path, ...],
    valid_dirs: tuple[Path, ...],
    out: Path,
    force: bool,
) -> None:
    """Fine-tune."""
    if not len(pairs) == len(train_dirs) == len(valid_dirs):
        raise SimulstError("--pair, --train, --valid: give them equally often, once for each data directory.")
    train = [Part(pair, data) for pair, data in zip(pairs, train_dirs, strict=True)]
    valid = [Part(pair, data) for pair, data in zip(pairs, valid_dirs, strict=True)]
    finetune(config, model, train, list(dict.fromkeys(valid)), out, force)


if __name__ == "__main__":
    run_command(main)
