#!/usr/bin/env python
"""Stage 1 of egs/mini and egs/must_c: data directories from a corpus in MuST-C's layout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import choice_options

from simulst.data.corpus import table
from simulst.data.must_c import SPLITS, prepare_must_c
from simulst.errors import SimulstError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder that holds <pair>/data/<split>")
    parser.add_argument("--out", type=Path, required=True, help="folder for the data directories <pair>/<split>")
    parser.add_argument("--pairs", nargs="+", default=["en-de"], help="language pairs (default: en-de)")
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), help=f"default: {' '.join(SPLITS)}")
    choice_options.add(parser)
    args = parser.parse_args()
    try:
        choice = choice_options.read(args)
        for pair in args.pairs:
            counts = prepare_must_c(args.root, args.out, pair, args.splits, choice)
            print(f"{pair}, segments:\n{table(counts)}")
    except SimulstError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
