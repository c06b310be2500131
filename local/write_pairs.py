#!/usr/bin/env python
"""Stage 13: write prefix pairs as a data directory for training."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import Positive, run_command
from simulst.prefix.pairs import write_pairs

FOLDER = click.Path(path_type=Path)


@click.command(help=__doc__)
@click.option("--data", required=True, type=FOLDER, help="Data directory that the pairs were extracted from.")
@click.option("--prefixes", required=True, type=FOLDER, help="prefixes.jsonl of stage 12.")
@click.option("--target-lang", required=True)
@click.option("--out", required=True, type=FOLDER)
@click.option(
    "--max-ratio", type=Positive(), help="Leave out pairs of more frames per word (80, 40 and 20 in the paper)."
)
@click.option("--tokens", type=FOLDER, help="The model's tokens, which --max-ratio counts for zh and ja (stage 3).")
@click.option("--whole", is_flag=True, help="Put the whole utterances beside the pairs.")
@click.option("--force", is_flag=True, help="Do it again.")
def main(
    data: Path,
    prefixes: Path,
    target_lang: str,
    out: Path,
    max_ratio: float | None,
    tokens: Path | None,
    whole: bool,
    force: bool,
) -> None:
    """Write the pairs."""
    write_pairs(data, prefixes, out, target_lang, max_ratio, whole, force, tokens)


if __name__ == "__main__":
    run_command(main)
