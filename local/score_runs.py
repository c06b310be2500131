#!/usr/bin/env python
"""Score runs (or folders of runs) from their logs alone, and write each run's scores.json."""

from __future__ import annotations

from pathlib import Path

import click
from tqdm import tqdm

from simulst.command import run_command
from simulst.errors import SimulstError
from simulst.runs import LOG, read_run_config, score_run


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--target-lang", required=True, help="Target language.")
@click.option(
    "--segmentation",
    type=click.Path(path_type=Path),
    help="For whole recordings: times of their sentences (YAML).",
)
@click.option(
    "--references", type=click.Path(path_type=Path), help="References, a line for each sentence of --segmentation."
)
@click.option("--context", type=click.Path(path_type=Path), help="Table of terms whose recall is scored.")
def main(
    folders: tuple[Path, ...],
    target_lang: str,
    segmentation: Path | None,
    references: Path | None,
    context: Path | None,
) -> None:
    """Score all runs."""
    if (segmentation is None) != (references is None):
        raise SimulstError("give --segmentation and --references together.")
    logs = sorted({log for folder in folders for log in folder.rglob(LOG)})
    if not logs:
        raise SimulstError(f"no {LOG} below {', '.join(map(str, folders))}; run the decoding stage first.")
    for log in tqdm(logs, unit="run"):
        unit = read_run_config(log.parent).task.unit or None
        score_run(log.parent, target_lang, unit, segmentation=segmentation, references=references, context=context)


if __name__ == "__main__":
    run_command(main)
