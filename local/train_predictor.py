#!/usr/bin/env python
"""Stage 14: train the boundary predictor on prefix pairs; write predictor.pth and its scores on held-out pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from simulst.command import run_command
from simulst.policy.boundary_predictor import Sizes
from simulst.prefix.training import SCORES, Options, train

PATH = click.Path(path_type=Path)


@click.command(help=__doc__)
@click.option("--data", required=True, type=PATH, help="Data directory of the training utterances.")
@click.option("--prefixes", required=True, type=PATH, help="Their prefixes.jsonl (stage 12).")
@click.option("--valid-data", required=True, type=PATH, help="Data directory of held-out utterances.")
@click.option("--valid-prefixes", required=True, type=PATH, help="Their prefixes.jsonl.")
@click.option("--out", required=True, type=PATH, help="Folder for the training.")
@click.option("--mels", default=Sizes.mels, show_default=True, help="Log-mel features per frame.")
@click.option("--channels", default=Sizes.channels, show_default=True, help="Channels of the two convolutions.")
@click.option("--embedding", default=Sizes.embedding, show_default=True, help="Input size of the LSTM.")
@click.option("--hidden", default=Sizes.hidden, show_default=True, help="State size of the LSTM.")
@click.option("--learning-rate", default=Options.learning_rate, show_default=True, help="Adam's peak learning rate.")
@click.option("--warmup", default=Options.warmup, show_default=True, help="Updates until the peak learning rate.")
@click.option(
    "--patience", default=Options.patience, show_default=True, help="Stop after N epochs without a lower loss."
)
@click.option("--batch-frames", default=Options.batch_frames, show_default=True, help="Frames (10 ms) per batch.")
@click.option("--max-epochs", default=Options.max_epochs, show_default=True, help="Stop after N epochs.")
@click.option("--seed", default=Options.seed, show_default=True, type=click.IntRange(0), help="Random seed.")
@click.option("--force", is_flag=True, help="Delete the training in --out, and begin again.")
def main(
    data: Path,
    prefixes: Path,
    valid_data: Path,
    valid_prefixes: Path,
    out: Path,
    mels: int,
    channels: int,
    embedding: int,
    hidden: int,
    force: bool,
    **options: Any,
) -> None:
    """Train the predictor and print its scores."""
    sizes = Sizes(mels, channels, embedding, hidden)
    train(data, prefixes, valid_data, valid_prefixes, out, Options(sizes, **options), force)
    scores = json.loads((out / SCORES).read_text(encoding="utf-8"))
    rows = {"outputs": scores["frames"], **{f"pieces, {t}": row for t, row in scores["pieces"].items()}}
    print(f"{'':12}" + "".join(f"{name:>11}" for name in scores["frames"]))
    for name, row in rows.items():
        print(f"{name:12}" + "".join(f"{value:11.3f}" for value in row.values()))


if __name__ == "__main__":
    run_command(main)
