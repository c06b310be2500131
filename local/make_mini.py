#!/usr/bin/env python
"""Stage 1 of egs/mini: synthesise a speech translation corpus in MuST-C's layout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from simulst.data.mini import PAIRS, SIZES, make_mini, table
from simulst.errors import SimulstError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for <pair>/data/<split>/{txt,wav}")
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS[:1]), help=f"of {', '.join(PAIRS)} (default: en-de)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other sentences (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes; the result is the same (default: 1)")
    for split, size in SIZES.items():
        parser.add_argument(
            f"--{split.lower()}", type=int, default=size, dest=split, help=f"sentences (default: {size})"
        )
    args = parser.parse_args()
    try:
        sizes = {split: getattr(args, split) for split in SIZES}
        counts = make_mini(args.out, sizes, args.pairs, args.seed, args.jobs)
    except SimulstError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
