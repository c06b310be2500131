#!/usr/bin/env python
"""Stage 1 for a corpus of tables and audio files (CoVoST, Common Voice, Fleurs and the like): data directories.

    prepare_tsv.py --pair de-en --out data --audio de/clips \\
        train=covost_v2.de_en.train.tsv dev=covost_v2.de_en.dev.tsv tst-COMMON=covost_v2.de_en.test.tsv
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path

import choice_options

from simulst.data.corpus import table
from simulst.data.tsv import Columns, prepare_tsv
from simulst.errors import SimulstError

HELP = {
    "audio": "audio file, relative to --audio",
    "source": "transcript",
    "target": "translation",
    "speaker": "speaker; without it each utterance is one's own",
    "start": "begin of the utterance in its file, in seconds; without it an utterance is a whole file",
    "end": "end, in seconds, or",
    "duration": "length, in seconds",
    "split": "name of the split; then the same table may serve several",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", metavar="SPLIT=TSV", help="the table of each split")
    parser.add_argument("--pair", required=True, help="languages, such as de-en")
    parser.add_argument("--out", type=Path, required=True, help="folder for the data directories <pair>/<split>")
    parser.add_argument("--audio", type=Path, help="folder of the audio files (default: that of the table)")
    for column in fields(Columns):
        default = f" (default: {column.default})" if column.default else ""
        help = f"column: {HELP[column.name]}{default}"
        parser.add_argument(f"--{column.name}-column", metavar="NAME", default=column.default, help=help)
    choice_options.add(parser)
    args = parser.parse_args()
    try:
        files = {}
        for value in args.tables:
            split, _, path = value.partition("=")
            if not (split and path) or split in files:
                raise SimulstError(f"'{value}': give SPLIT=TSV, each split once, such as train=train.tsv.")
            files[split] = Path(path)
        columns = Columns(**{column.name: getattr(args, f"{column.name}_column") for column in fields(Columns)})
        choice = choice_options.read(args)
        print(f"{args.pair}, segments:\n{table(prepare_tsv(files, args.out, args.pair, columns, args.audio, choice))}")
    except SimulstError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
