"""Write the tables of the corpus for `local/results.py write --table`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from prepare_voices import counts_tables
from simulst.commands.common import PATH, run_command
from simulst.files.folder import write_atomically


@click.command(help=__doc__)
@click.argument("corpus", type=PATH)
@click.option("--out", required=True, type=PATH, help="File to write (JSON).")
def main(corpus: Path, out: Path) -> None:
    """Write the file."""
    write_atomically(out, json.dumps(counts_tables(corpus), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    run_command(main)
