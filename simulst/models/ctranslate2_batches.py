"""Which searches of CTranslate2 may share a batch, so that each finds what it finds alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from simulst.hypotheses import Tokens
from simulst.search import BeamSearch


def alike(options: BeamSearch, prefix: Tokens, bound: int) -> Hashable:
    """Searches for which this is equal may share a batch.

    If one text of a batch has a prefix, CTranslate2 lets only the best continuation of each text end in the first step.
    Alone, a text without a prefix may also end there by its second best.

    Without a length penalty, a search goes on after `beam` hypotheses have ended, until the best has. So its bound may
    decide although what is found is shorter.

    prefix: of the text, all that is forced. bound: the most tokens of the text, with its prefix.
    """
    return options, bool(prefix), bound if options.length_penalty == 0 else None


def reaches(bound: int, most: int, lengths: Iterable[int]) -> bool:
    """Whether a text must be searched again by itself: CTranslate2 has one bound, `most`, for all texts of a batch.

    At the bound, all hypotheses end in one step. One that is a token shorter may have ended in that step, too.

    bound: that of this text. lengths: of its hypotheses. Both count the prefix.
    """
    return bound < most and max(lengths) >= bound - 1
