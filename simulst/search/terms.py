"""A bonus for terms: names and words that are known before the recording begins.

A token that begins a term or goes on with it gets a bonus. It is taken back if the text leaves the term before its end,
or if the last word goes on (`cat` is no part of `cats`). So in the end only whole terms have their bonus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from simulst.background import Background
from simulst.hypotheses import Tokens
from simulst.languages import unit_of
from simulst.search import JointOptions
from simulst.words import is_letter

END = -1  # in the trie: a term ends here; no token has this number


class Terms:
    """The terms of one stream.

    spellings: the tokens of each term, as they stand after another word.
    bonus: added to log p for each token of a term.
    continues: the tokens that go on with the word before them; it is asked for once, if at all.
    """

    def __init__(self, spellings: Iterable[Tokens], bonus: float, continues: Callable[[], Iterable[int]]) -> None:
        self.bonus = bonus
        self._continues_of = continues
        self._trie: dict[int, Any] = {}
        self._longest = 0
        for tokens in spellings:
            node = self._trie
            for token in tokens:
                node = node.setdefault(token, {})
            if tokens:
                node[END] = True
                self._longest = max(self._longest, len(tokens))
        self._firsts = sorted(self._trie)

    def __bool__(self) -> bool:
        return self._longest > 0

    @cached_property
    def _continues(self) -> frozenset[int]:
        return frozenset(self._continues_of())

    @cached_property
    def _continuing(self) -> Tensor:
        return torch.tensor(sorted(self._continues), dtype=torch.long)

    def _covered(self, tokens: Tokens, last_counts: bool, begun_counts: bool) -> tuple[int, list[dict[int, Any]]]:
        """The number of tokens of terms that stand in the text as whole words, and the places in the trie at its end.

        last_counts: whether a term at the very end counts as whole. begun_counts: whether the beginning of one counts.
        """
        covered: set[int] = set()
        reached: list[dict[int, Any]] = []
        for start in range(len(tokens)):
            node, end = self._trie, start
            while end < len(tokens) and tokens[end] in node:
                node, end = node[tokens[end]], end + 1
                whole = last_counts if end == len(tokens) else tokens[end] not in self._continues
                if END in node and whole:
                    covered.update(range(start, end))
            if end == len(tokens) and end > start:
                reached.append(node)
                if begun_counts:
                    covered.update(range(start, end))
        return len(covered), reached

    def adjust(self, tokens: Tokens, log_p: Tensor) -> None:
        """Add to log p of the next tokens, (V,), what the bonus of the text changes by; in place."""
        tokens = tokens[-2 * self._longest :]  # earlier ones change nothing
        now, reached = self._covered(tokens, False, True)
        if reached:
            left, _ = self._covered(tokens, True, False)  # after a token that begins another word, or the end
            goes_on, _ = self._covered(tokens, False, False)  # after one that goes on with the last word
            before = log_p.clone()
            log_p += self.bonus * (left - now)
            if goes_on != left:
                log_p[self._continuing.to(log_p.device)] += self.bonus * (goes_on - left)
        log_p[self._firsts] += self.bonus
        for token in {token for node in reached for token in node if token != END}:
            more, _ = self._covered((*tokens, token), False, True)
            log_p[token] = before[token] + self.bonus * (more - now)


def terms_of(
    background: Background,
    options: JointOptions,
    language: str,
    spell: Callable[[str], Tokens],
    text: Callable[[Tokens], str],
    size: int,
) -> Terms | None:
    """The terms of a recording in a model's tokens; None if there are none, or no bonus.

    language: of the text. Where words have no spaces between them, a term need not begin and end with a word.
    spell, text: from text to tokens and back. size: of the vocabulary.
    """
    if not (options.terms_bonus and background.target_terms):
        return None
    spaced = unit_of(language) == "word"
    before, gap = spell("a"), " " if spaced else ""
    start = len(text(before))
    spellings = []
    for term in background.target_terms:
        # Some tokenisers put the space before a text by themselves.
        forms = spell(gap + term), spell(term)
        spellings.append(next((form for form in forms if text(before + form)[start:] == gap + term), forms[-1]))

    return Terms(spellings, options.terms_bonus, lambda: _going_on(text, before, size) if spaced else ())


@lru_cache(maxsize=1)  # the streams of a model share it: a large vocabulary takes a second
def _going_on(text: Callable[[Tokens], str], before: Tokens, size: int) -> frozenset[int]:
    """The tokens that go on with the word in the tokens `before`."""
    start = len(text(before))
    return frozenset(token for token in range(size) if any(map(is_letter, text((*before, token))[start : start + 1])))
