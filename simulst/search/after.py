"""STOP for texts that are whole already: a library's search, or a command, can't be ended between two tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulst.hypotheses import Tokens
from simulst.policy.context import TokensView
from simulst.policy.stop import Stopping


def stopped_at(
    stop: Stopping | None,
    new: Tokens,
    left: Callable[[], Sequence[float]] | None = None,
    ends: Callable[[], Sequence[float]] | None = None,
) -> int | None:
    """How many of the new tokens are kept, as if STOP could have ended the search. None: it would not have ended it.

    new: the tokens after the committed ones.
    left, ends: see `TokensView`. `left` has one more number, for the end of the text.
    """
    if stop is None:
        return None
    # A search asks before each token, also before <eos>.
    end = next((end for end in range(len(new) + 1) if stop.ends(TokensView(new[:end], left, ends))), None)
    return None if end is None else max(0, end - stop.discard)
