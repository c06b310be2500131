#!/usr/bin/env python
"""Stage 1 of egs/mini and egs/must_c: data directories from a corpus in MuST-C's layout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from simulst.data.must_c import FILTERED, SECONDS, SPLITS, prepare_must_c, table
from simulst.errors import SimulstError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder that holds <pair>/data/<split>")
    parser.add_argument("--out", type=Path, required=True, help="folder for the data directories <pair>/<split>")
    parser.add_argument("--pairs", nargs="+", default=["en-de"], help="language pairs (default: en-de)")
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), help=f"default: {' '.join(SPLITS)}")
    parser.add_argument(
        "--on-error", default="drop", help="drop (and count) or stop at faulty segments (default: drop)"
    )
    parser.add_argument("--min-seconds", type=float, default=SECONDS[0], help=f"default: {SECONDS[0]:g}")
    parser.add_argument("--max-seconds", type=float, default=SECONDS[1], help=f"default: {SECONDS[1]:g}")
    parser.add_argument(
        "--filtered", nargs="*", default=list(FILTERED), help="splits with those limits (default: train)"
    )
    args = parser.parse_args()
    try:
        for pair in args.pairs:
            limits = (args.min_seconds, args.max_seconds)
            counts = prepare_must_c(args.root, args.out, pair, args.splits, args.on_error, limits, args.filtered)
            print(f"{pair}, segments:\n{table(counts)}")
    except SimulstError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
