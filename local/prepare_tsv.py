#!/usr/bin/env python
"""Stage 1 for a corpus of tables and audio files, such as CoVoST or Common Voice: write data directories.

\b
    prepare_tsv.py --pair de-en --out data --audio de/clips \\
        train=covost_v2.de_en.train.tsv dev=covost_v2.de_en.dev.tsv tst-COMMON=covost_v2.de_en.test.tsv
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import click
from choice_options import choice_options

from simulst.command import run_command
from simulst.data.corpus import Choice, report
from simulst.data.tsv import Columns, prepare_tsv
from simulst.errors import SimulstError

HELP = {
    "audio": "audio file, relative to --audio",
    "source": "transcript",
    "target": "translation",
    "speaker": "speaker; without it, each utterance has its own speaker",
    "start": "where the utterance begins in its file, in seconds; without it, an utterance is a whole file",
    "end": "where the utterance ends, in seconds; with --start-column, give this or --duration-column",
    "duration": "length of the utterance, in seconds",
    "split": "name of the split; with it, one table may hold several splits",
}


@click.command(help=__doc__)
@click.argument("tables", nargs=-1, required=True, metavar="SPLIT=TSV...")
@click.option("--pair", required=True, help="Language pair as source-target, such as de-en.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder for data directories <pair>/<split>."
)
@click.option("--audio", type=click.Path(path_type=Path), help="Folder of the audio files [default: the table's].")
@choice_options
def main(
    tables: tuple[str, ...], pair: str, out: Path, audio: Path | None, choice: Choice, **columns: str | None
) -> None:
    """Prepare all splits."""
    files = {}
    for value in tables:
        split, _, path = value.partition("=")
        if not (split and path) or split in files:
            raise SimulstError(f"'{value}': give SPLIT=TSV, each split once, such as train=train.tsv.")
        files[split] = Path(path)
    names = Columns(**{column.name: columns[f"{column.name}_column"] for column in fields(Columns)})
    print(f"{pair}, segments:\n{report(out, pair, prepare_tsv(files, out, pair, names, audio, choice))}")


for column in fields(Columns):
    option = click.option(
        f"--{column.name}-column",
        metavar="NAME",
        default=column.default,
        show_default=bool(column.default),
        help=f"Column: {HELP[column.name]}.",
    )
    main = option(main)

if __name__ == "__main__":
    run_command(main)
