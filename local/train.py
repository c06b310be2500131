#!/usr/bin/env python
"""Stages 4 to 6: run ESPnet's statistics or training. ESPnet gets the options after --; they override --config."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.errors import SimulstError
from simulst.models.espnet.network.lagging import WaitOptions
from simulst.training.espnet import Machines, Training, collect_stats, train

FOLDER = click.Path(path_type=Path)


@click.command(help=__doc__)
@click.argument("what", type=click.Choice(["stats", "train"]))
@click.option(
    "--task", type=click.Choice(["st", "asr"]), default="st", show_default=True, help="Translation or recognition."
)
@click.option("--config", required=True, type=FOLDER, help="ESPnet's training configuration.")
@click.option("--train", "train_dir", required=True, type=FOLDER, help="Training data (stage 2).")
@click.option("--valid", "valid_dir", required=True, type=FOLDER, help="Development data (stage 2).")
@click.option("--text", required=True, help="Language of the target's text file, such as tc.de.")
@click.option("--tokens", required=True, type=FOLDER, help="Target tokens (stage 3).")
@click.option("--source-text", help="Language of the source's text file, such as lc.rm.en.")
@click.option("--source-tokens", type=FOLDER, help="Source tokens (stage 3).")
@click.option("--stats", type=FOLDER, help="Folder of the statistics; 'train' needs it.")
@click.option("--encoder", type=FOLDER, help="Weights of an ASR model (stage 5) that initialise the encoder.")
@click.option("--model", type=FOLDER, help="Weights of an ST model that initialise the model (stage 13).")
@click.option("--wait-k", type=click.IntRange(1), help="Train for wait-k, to begin after so many units (stage 13).")
@click.option("--unit-ms", type=click.FloatRange(min=0, min_open=True), help="Length of wait-k's unit, in ms [280].")
@click.option("--writes", type=click.IntRange(1), help="Wait-k's tokens after each unit [1].")
@click.option("--unidirectional", is_flag=True, help="With --wait-k: frames attend only to earlier frames.")
@click.option("--out", required=True, type=FOLDER, help="Folder for the statistics or the training.")
@click.option("--ngpu", default=0, show_default=True, type=click.IntRange(0), help="GPUs per machine; 0: the CPU.")
@click.option("--num-nodes", default=1, show_default=True, type=click.IntRange(1), help="Machines of a Slurm cluster.")
@click.option("--hosts", metavar="A,B,...", help="Machines to train on through ssh (docs/clusters.md).")
@click.option("--force", is_flag=True, help="Delete what is in --out, and begin again.")
@click.argument("extra", nargs=-1)
def main(
    what: str,
    task: str,
    config: Path,
    train_dir: Path,
    valid_dir: Path,
    text: str,
    tokens: Path,
    source_text: str | None,
    source_tokens: Path | None,
    stats: Path | None,
    encoder: Path | None,
    model: Path | None,
    wait_k: int | None,
    unit_ms: float | None,
    writes: int | None,
    unidirectional: bool,
    out: Path,
    ngpu: int,
    num_nodes: int,
    hosts: str | None,
    force: bool,
    extra: tuple[str, ...],
) -> None:
    """Run the statistics or the training."""
    if wait_k is None and (unit_ms is not None or writes is not None or unidirectional):
        raise SimulstError("--unit-ms, --writes and --unidirectional belong to --wait-k; give it, too.")
    wait = WaitOptions(wait_k, unit_ms or 280.0, writes or 1, unidirectional) if wait_k is not None else None
    training = Training(task, config, train_dir, valid_dir, text, tokens, source_text, source_tokens, wait)
    if what == "stats":
        collect_stats(training, out, extra, force)
    elif stats is None:
        raise SimulstError("--stats is missing; name the folder of the statistics (stage 4).")
    else:
        train(training, out, stats, extra, encoder, force, Machines(ngpu, num_nodes, hosts), model)


if __name__ == "__main__":
    run_command(main)
