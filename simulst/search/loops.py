"""Texts that repeat themselves without end, as models write them over noise and long pauses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from simulst.hypotheses import Beam, Tokens
from simulst.search import BeamSearch, JointBeamSearch
from simulst.search.calls import Steps

LOOP_NGRAM = 3  # if a text ends in a loop, it is searched again without repeating n-grams of this length

Options = TypeVar("Options", BeamSearch, JointBeamSearch)


def loops(tokens: Tokens, times: int = 3, longest: int = 8) -> bool:
    """Whether a text ends in `times` repetitions of the same 1 to `longest` tokens."""
    return any(
        len(tokens) >= size * times and tokens[-size:] * times == tokens[-size * times :]
        for size in range(1, longest + 1)
    )


def without_loops(options: Options, search: Callable[[Options], Steps[Beam]]) -> Steps[Beam]:
    """The result of a search; one that ends in a loop is searched again with repeated n-grams forbidden.

    Two steps often agree on a loop, so it would be committed.
    """
    beam = yield from search(options)
    if beam and loops(beam[0].tokens) and not options.no_repeat_ngram:
        beam = yield from search(replace(options, no_repeat_ngram=LOOP_NGRAM))
    return beam


def repeating(tokens: Tokens, size: int) -> set[int]:
    """The tokens after which the last n-gram of this size would have come before. size 0: none."""
    if not size or len(tokens) < size:
        return set()
    last = tokens[len(tokens) - size + 1 :]
    return {tokens[end - 1] for end in range(size, len(tokens) + 1) if tokens[end - size : end - 1] == last}
