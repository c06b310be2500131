"""Texts that repeat themselves without end, as models write them over noise and long pauses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from simulst.calls import Steps
from simulst.hypotheses import Beam, Tokens
from simulst.search import BeamSearch, JointBeamSearch
from simulst.words import CUT, is_letter

TIMES, LONGEST = 3, 8  # so many repetitions, of up to so many tokens, are a loop
LOOP_NGRAM = 3  # a text with a loop is searched again without repeating n-grams of this length

Options = TypeVar("Options", BeamSearch, JointBeamSearch)


def loops(tokens: Tokens, text: Callable[[Tokens], str] | None = None, given: int = 0) -> bool:
    """Whether a text repeats 1 to `LONGEST` tokens without need, at its end or with other words after that.

    At the end, `TIMES` times are a loop. People say a word three times and go on, so a single token that other words
    follow is one only if it comes once more.

    text: of tokens. With it, signs are those without a letter or digit. They do not count, since a loop may have commas
        between, and may be closed by a full stop. A sign alone is a loop if it comes once more: "..." is none.
    given: so many tokens were committed before. What they repeat alone can't be changed, so it does not count.
    """
    spoken = {token: text is None or any(is_letter(c) or c == CUT for c in text((token,))) for token in set(tokens)}
    places = [place for place, token in enumerate(tokens) if spoken[token]]
    signs = places[-1] + 1 if places else 0  # where those at the end begin
    words = tuple(tokens[place] for place in places)
    return _repeats(words, sum(place < given for place in places)) or _repeats(tokens[signs:], given - signs, True)


def _repeats(tokens: Tokens, given: int, signs: bool = False) -> bool:
    for size in range(1, min(LONGEST, len(tokens) // TIMES) + 1):
        same = 0  # so many tokens up to here are those of `size` tokens before
        for end in range(size, len(tokens)):
            same = same + 1 if tokens[end] == tokens[end - size] else 0
            more = size == 1 and (signs or end + 1 < len(tokens))
            if end >= given and same >= size * (TIMES - 1 + more):
                return True
    return False


def without_loops(
    options: Options,
    search: Callable[[Options], Steps[Beam]],
    text: Callable[[Tokens], str],
    given: int,
    wait: int | None = None,
) -> Steps[Beam]:
    """The result of a search; one with a loop is searched again with repeated n-grams forbidden.

    Two steps often agree on a loop, so it would be committed. text, given: see `loops`. wait: a token that ends a
    step's text, and may do so again and again.
    """
    beam = yield from search(options)
    best = beam[0].tokens if beam else ()
    found = best[:-1] if best[-1:] == (wait,) else best
    if not options.no_repeat_ngram and loops(found, text, given):
        beam = yield from search(replace(options, no_repeat_ngram=LOOP_NGRAM))
    return beam


def repeating(tokens: Tokens, size: int) -> set[int]:
    """The tokens after which the last n-gram of this size would have come before. size 0: none."""
    if not size or len(tokens) < size:
        return set()
    last = tokens[len(tokens) - size + 1 :]
    return {tokens[end - 1] for end in range(size, len(tokens) + 1) if tokens[end - size : end - 1] == last}
