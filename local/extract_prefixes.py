#!/usr/bin/env python
"""Stage 12: extract the prefix pairs of a data directory with an offline model (NAIST at IWSLT 2022, section 2.1)."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.machine.cluster import Cluster
from simulst.models import parse_options
from simulst.prefix.extract import Options, extract
from simulst.prefix.pairs import PREFIXES
from simulst.runs import Task

FOLDER = click.Path(path_type=Path)


@click.command(help=__doc__)
@click.option("--data", required=True, type=FOLDER, help="Data directory (stage 1).")
@click.option("--model", required=True, help="The offline model's experiment folder.")
@click.option(
    "--model-option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of the model, such as checkpoint=chosen.pth (repeatable).",
)
@click.option("--source-lang", required=True, help="Source language.")
@click.option("--target-lang", required=True, help="Target language.")
@click.option("--out", required=True, type=FOLDER, help="Folder for the pairs.")
@click.option("--tau", default=100, show_default=True, help="Frames of 10 ms by which prefixes grow.")
@click.option("--beam", default=10, show_default=True, help="Beam size; the decoder searches without CTC.")
@click.option("--open-end", is_flag=True, help="Leave out the full stop after a prefix's translation.")
@click.option("--limit", default=0, help="Only the first N utterances.")
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Processes on this machine, or with --slurm in its queue.",
)
@click.option("--scheduler", help="Address of a running Dask scheduler.")
@click.option("--force", is_flag=True, help="Do it again.")
@click.option("--slurm", is_flag=True, help="Submit the work to Slurm (docs/clusters.md).")
def main(
    data: Path,
    model: str,
    options: tuple[str, ...],
    source_lang: str,
    target_lang: str,
    out: Path,
    tau: int,
    beam: int,
    open_end: bool,
    limit: int,
    jobs: int,
    scheduler: str | None,
    force: bool,
    slurm: bool,
) -> None:
    """Extract the pairs and print their number."""
    task = Task(model, source_lang, target_lang, tuple(sorted(parse_options(options).items())))
    counts = extract(task, data, out, Options(tau, beam, open_end, limit), Cluster(jobs, scheduler, slurm), force)
    print(f"{out / PREFIXES}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))


if __name__ == "__main__":
    run_command(main)
