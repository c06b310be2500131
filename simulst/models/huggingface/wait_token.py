"""The wait token of a model that learnt one by `simulst train finetune`: its tokeniser and config.json tell of it."""

from __future__ import annotations

import re
from typing import Any

from simulst.errors import SimulstError
from simulst.hypotheses import WAIT, Tokens
from simulst.policy.context import WaitToken

CHUNKS = "simulst_chunks"
"""Of config.json: the lengths of the first chunk of speech in training and of the others, in ms."""


def wait_of(path: Any, config: Any, tokenizer: Any) -> WaitToken | None:
    """The wait token; None: the model learnt none. path: of the model, for errors.

    Raises SimulstError: the tokeniser or config.json lacks a part of it.
    """
    chunks = getattr(config, CHUNKS, None)
    if chunks is None:
        return None
    known = tokenizer.get_added_vocab()
    found = ((re.fullmatch(r"<lag(\d+)>", token), number) for token, number in known.items())
    lags = {int(lag[1]): (number,) for lag, number in found if lag}
    if WAIT not in known or not lags or not (isinstance(chunks, list) and len(chunks) == 2):
        raise SimulstError(
            f"{path}: config.json names chunks of a training ({CHUNKS}: {chunks}), but the tokeniser has no {WAIT} and "
            "lags, or these are no two lengths; copy the model's own files."
        )
    return WaitToken(known[WAIT], dict(sorted(lags.items())), *map(float, chunks))


def without_wait(never: Tokens, wait: WaitToken | None) -> Tokens:
    """Tokens that must not be written, with those of lags, and without the wait token."""
    if wait is None:
        return never
    return tuple({*never, *(token for tokens in lags_of(wait) for token in tokens)} - {wait.token})


def lags_of(wait: WaitToken | None) -> list[Tokens]:
    """What a text begins with, for each lag."""
    return [] if wait is None else list(wait.lags.values())


def without_marks(tokens: Tokens, wait: WaitToken | None) -> Tokens:
    """Tokens of text alone: without the wait token and those of lags."""
    return tuple(one for one in tokens if wait is None or (one != wait.token and (one,) not in lags_of(wait)))
