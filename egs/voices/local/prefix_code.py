"""Prefix codes: bits to symbols, with a symbol that ends a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from simulst.errors import SimulstError

END = ""
"""The symbol that ends a message."""


@dataclass(frozen=True)
class Decoded:
    """A message's symbols, and the number of bits up to and including its end."""

    symbols: tuple[str, ...]
    bits: int


class PrefixCode:
    """A code: words of "0" and "1" → symbols. Raises SimulstError: a word begins another one; there is no END."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self.words = dict(words)
        beginnings = {word[:n] for word in words for n in range(len(word))}
        if both := sorted(beginnings & words.keys()):
            raise SimulstError(f"the code word {both[0]} begins another one; fix the table.")
        if END not in words.values():
            raise SimulstError("the code has no word for the end of a message; fix the table.")
        self._beginnings = beginnings

    @property
    def space(self) -> Fraction:
        """The part of all bit strings that begin with a word of the code (Kraft's sum); 1 for a complete code."""
        return sum((Fraction(1, 1 << len(word)) for word in self.words), Fraction(0))

    def decode(self, bits: str, where: str) -> Decoded:
        """The symbols up to END. where: begins error messages.

        Raises SimulstError: the code has no such word; the message has no end.
        """
        symbols: list[str] = []
        start = 0
        for at in range(1, len(bits) + 1):
            word = bits[start:at]
            symbol = self.words.get(word)
            if symbol == END:
                return Decoded(tuple(symbols), at)
            if symbol is not None:
                symbols.append(symbol)
                start = at
            elif word not in self._beginnings:
                raise SimulstError(f"{where}: {word} is no word of the code; it is of another version of the game.")
        raise SimulstError(f"{where}: the message never ends; it is of another version of the game.")
