"""The options that prepare_must_c.py and prepare_tsv.py share: which segments are kept, and in what form."""

from __future__ import annotations

import functools
from collections.abc import Callable

import click

from simulst.data.corpus import Choice
from simulst.data.text import PUNCTUATION

DEFAULT = Choice()


def choice_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command. It gets them as the argument `choice`."""

    @functools.wraps(command)
    def with_choice(
        on_error: str,
        training: str,
        min_seconds: float,
        max_seconds: float,
        max_ratio: float,
        punctuation: str,
        **others: object,
    ) -> None:
        seconds = (min_seconds, max_seconds)
        command(choice=Choice(on_error, seconds, max_ratio, punctuation, tuple(training.split())), **others)

    for name, default, text in (
        ("--punctuation", DEFAULT.punctuation, f"Punctuation of training text: {' or '.join(PUNCTUATION)}."),
        ("--max-ratio", DEFAULT.max_ratio, "Limit of target to source length, relative to the median; inf: no limit."),
        ("--max-seconds", DEFAULT.seconds[1], "Longest training segment."),
        ("--min-seconds", DEFAULT.seconds[0], "Shortest training segment."),
        ("--training", " ".join(DEFAULT.training), "Training splits, which are normalised and filtered."),
        ("--on-error", DEFAULT.on_error, "At a faulty segment: drop (and count) it, or stop."),
    ):
        with_choice = click.option(name, default=default, show_default=True, help=text)(with_choice)
    return with_choice
