#!/usr/bin/env python
"""Stage 1 of egs/prompts: fetch Debian's Asterisk core sounds and write data directories."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from simulst.data.prompts import LANGUAGES, prepare_prompts, table
from simulst.errors import SimulstError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--downloads", type=Path, required=True, help="folder for the Debian packages")
    parser.add_argument("--out", type=Path, required=True, help="folder for the data directories <language>-en")
    parser.add_argument("--languages", nargs="+", default=list(LANGUAGES), help="source languages (default: all)")
    parser.add_argument("--min-words", type=int, default=8, help="least words of an English reference (default: 8)")
    args = parser.parse_args()
    try:
        counts = prepare_prompts(args.downloads, args.out, tuple(args.languages), args.min_words)
    except SimulstError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
