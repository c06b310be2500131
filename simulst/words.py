"""Convert committed tokens to words, or to characters for languages that are written without spaces."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence

from simulst.hypotheses import Tokens

CUT = "\N{REPLACEMENT CHARACTER}"  # stands for an incomplete character
CONTEXT = 8  # written tokens that are decoded again, to get the space before the next word
_SPACE = re.compile(r"\s")
_UNIT = {"word": re.compile(r"\s*\S+"), "char": re.compile(r"\s*\S")}


def is_letter(character: str) -> bool:
    """Whether it is a letter, a digit, or a mark that belongs to a letter, such as a vowel sign of Hindi."""
    return character.isalnum() or unicodedata.category(character).startswith("M")


def plain_spaces(text: str, unit: str) -> str:
    """Make all white space of a text in characters plain spaces: scorers count other white space as characters."""
    return _SPACE.sub(" ", text) if unit == "char" else text


def split(text: str, unit: str) -> list[str]:
    """The words (or characters) of a text, each with the space before it. unit: "word" or "char"."""
    return _UNIT[unit].findall(text)


def completed_by(pieces: Sequence[str], unit: str) -> list[int]:
    """For each word (character) of the text that the pieces make up, the number of the piece with which it is whole."""
    ends = enumerate(itertools.accumulate(map(len, pieces)))
    found, number, written = [], -1, -1
    for end in itertools.accumulate(map(len, split("".join(pieces), unit))):
        while written < end:
            number, written = next(ends)
        found.append(number)
    return found


class Words:
    """The words of one stream.

    text: converts tokens to plain text. An incomplete character at the end becomes U+FFFD.
    unit: "word" or "char".
    """

    def __init__(self, text: Callable[[Tokens], str], unit: str = "word") -> None:
        self.text, self.unit = text, unit
        self._written = 0  # tokens that have been written
        self._context: Tokens = ()  # the last of the written tokens
        self._space = ""  # space at the end of the written text, which belongs to the next word

    def plain(self, tokens: Tokens) -> str:
        """The text that `write` would write of these tokens if they were all: it begins with no space."""
        return plain_spaces(self.text(tokens), self.unit).lstrip()

    def count(self, tokens: Tokens) -> int:
        """The number of whole words. A word is whole if another one begins after it."""
        return self.count_all(tokens[: self.whole(tokens)])

    def count_all(self, tokens: Tokens) -> int:
        """The number of words, whole or not."""
        return len(split(self.text(tokens), self.unit))

    def whole(self, tokens: Tokens) -> int:
        """The number of tokens, from the first on, that form whole words."""
        return next((end for end in range(len(tokens), 0, -1) if self._is_boundary(tokens, end)), 0)

    def ends(self, tokens: Tokens, after: int = 0) -> list[int]:
        """All numbers of tokens above `after` that form whole words."""
        return [end for end in range(after + 1, len(tokens) + 1) if self._is_boundary(tokens, end)]

    def first(self, tokens: Tokens, most: int) -> int:
        """The number of tokens that form the first `most` words; all tokens if there are at most `most` words.

        If the first token holds more than `most` words, the answer is 1, as a token can't be divided.
        """
        if self.count_all(tokens) <= most:
            return len(tokens)
        bounds = self.ends(tokens)
        fitting = [end for end in bounds if self.count_all(tokens[:end]) <= most]
        return (fitting[-1:] or bounds[:1] or [len(tokens)])[0]

    def without_punctuation(self, tokens: Tokens) -> int:
        """The number of tokens without the punctuation at their end."""
        end = len(tokens)
        while end and not any(is_letter(c) or c == CUT for c in self.text(tokens[end - 1 : end])):
            end -= 1
        return end

    def whole_characters(self, tokens: Tokens) -> int:
        """The number of tokens, from the first on, that form whole characters."""
        end = len(tokens)
        while end and self.text(tokens[:end]).endswith(CUT):
            end -= 1
        return end

    def write(self, committed: Tokens, ends_word: bool = False, final: bool = False) -> list[str]:
        """The words that can be written now. Each has the space before it, so that they add up to the text.

        A written word never changes. If the model continues it later, the rest is written as a piece without a space.

        committed: all tokens committed so far.
        ends_word: the last token ends a word.
        final: no more tokens will be committed.
        """
        new = committed[self._written :]
        if not final and (self.unit == "char" or ends_word):
            new = new[: self.whole_characters(new)]
        elif not final and not ends_word:
            new = new[: self.whole(new)]
        if not new:
            return []
        text = plain_spaces(self._space + self._continued(new), self.unit)
        if not self._written:
            text = text.lstrip()
        self._written += len(new)
        units = split(text, self.unit)
        self._space = text[sum(map(len, units)) :]
        return units

    def _continued(self, new: Tokens) -> str:
        """The text that these tokens add to the written text."""
        known = self.text(self._context)
        both = self.text(self._context + new)
        tokens = self._context + new
        first = max(0, len(tokens) - CONTEXT)
        # Not within a character: some tokenisers then decode none of the characters that follow in single bytes. Nor
        # after it, if only tokens follow that are never written: the next word would lose its space.
        while first and (not (text := self.text(tokens[first:])) or text.startswith(CUT)):
            first -= 1
        self._context = tokens[first:]
        return both[len(known) :] if both.startswith(known) else self.text(new)

    def _is_boundary(self, tokens: Tokens, end: int) -> bool:
        """Whether tokens[:end] are whole words: the next token begins a word, or they end in a space."""
        text = self.text(tokens[:end])
        if self.unit == "word" and text[-1:].isspace():
            return True
        if end == len(tokens) or (self.unit == "char" and text.endswith(CUT)):
            return False
        return self.count_all(tokens[: end + 1]) > self.count_all(tokens[:end])
