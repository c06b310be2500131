"""The wait token of a model that learnt one by `simulst train finetune`: its tokeniser and config.json tell of it."""

from __future__ import annotations

import re
from typing import Any

from simulst.errors import SimulstError
from simulst.hypotheses import WAIT, Tokens
from simulst.policy.context import WaitToken

CHUNKS = "simulst_chunks"
"""Of config.json: the lengths of the first chunk of speech in training and of the others, in ms."""


def learn_wait(model: Any) -> None:
    """Take over the wait token that a model learnt, if it learnt one. model: an `Architecture`, or a `Loaded`.

    The token may be written then, and those of lags may not.

    Raises SimulstError: the tokeniser or config.json lacks a part of it.
    """
    chunks, model.wait = getattr(model.model.config, CHUNKS, None), None
    if chunks is None:
        return
    known = model.tokenizer.get_added_vocab()
    found = ((re.fullmatch(r"<lag(\d+)>", token), number) for token, number in known.items())
    lags = {int(lag[1]): (number,) for lag, number in found if lag}
    if WAIT not in known or not lags or not (isinstance(chunks, list) and len(chunks) == 2):
        raise SimulstError(
            f"{model.path}: config.json names chunks of a training ({CHUNKS}: {chunks}), but the tokeniser has no "
            f"{WAIT} and lags, or these are no two lengths; copy the model's own files."
        )
    model.wait = WaitToken(known[WAIT], dict(sorted(lags.items())), *map(float, chunks))
    model.never = tuple({*model.never, *(number for lag in lags.values() for number in lag)} - {known[WAIT]})


def lags_of(wait: WaitToken | None) -> list[Tokens]:
    """What a text begins with, for each lag."""
    return [] if wait is None else list(wait.lags.values())


def without_marks(tokens: Tokens, wait: WaitToken | None) -> Tokens:
    """Tokens of text alone: without the wait token and those of lags."""
    return tuple(one for one in tokens if wait is None or (one != wait.token and (one,) not in lags_of(wait)))
