"""The options that prepare_must_c.py and prepare_tsv.py share: which segments are kept, and how."""

from __future__ import annotations

import argparse

from simulst.data.corpus import Choice
from simulst.data.text import PUNCTUATION

DEFAULT = Choice()


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    option = parser.add_argument
    option("--on-error", default=DEFAULT.on_error, help="drop (and count) or stop at faulty segments (default: drop)")
    training = " ".join(DEFAULT.training)
    option("--training", nargs="*", default=list(DEFAULT.training), help=f"splits to filter (default: {training})")
    seconds = DEFAULT.seconds
    option("--min-seconds", type=float, default=seconds[0], help=f"of a training segment (default: {seconds[0]:g})")
    option("--max-seconds", type=float, default=seconds[1], help=f"of a training segment (default: {seconds[1]:g})")
    ratio = f"of target and source length, against the median's (default: {DEFAULT.max_ratio:g}; inf: any)"
    option("--max-ratio", type=float, default=DEFAULT.max_ratio, help=ratio)
    kinds = f"of training text: {' or '.join(PUNCTUATION)} (default: {DEFAULT.punctuation})"
    option("--punctuation", default=DEFAULT.punctuation, help=kinds)


def read(args: argparse.Namespace) -> Choice:
    """What was chosen. Raises SimulstError: what cannot be."""
    seconds = (args.min_seconds, args.max_seconds)
    return Choice(args.on_error, seconds, args.max_ratio, args.punctuation, tuple(args.training))
