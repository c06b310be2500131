"""What translates text inside a cascade."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import numpy as np

from simulst.calls import Alone, Steps, Turns
from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.languages import unit_of
from simulst.models.heads import Seen
from simulst.opening import Opening
from simulst.policy.stop import Stopping, end_of
from simulst.search import BeamSearch, SearchOptions
from simulst.session import Traits
from simulst.words import split

Past = tuple[tuple[str, str], ...]
"""Sentences before the one to translate, each with its translation."""

TOKENS_PER_TOKEN = 3.0  # the most that a translation may have of each of the source
MORE_TOKENS = 10  # ... and so many for short ones


class Translation(ABC):
    """The translation of one utterance.

    traits: what it can do.
    history: how many sentences before the one to translate it is shown.
    between: the tokens between two sentences.
    """

    traits: Traits = Traits(default_search=BeamSearch(beam=1))
    history: int = 0
    between: Tokens = ()

    @abstractmethod
    def search(
        self, sentence: str, prefix: Tokens, options: SearchOptions, stop: Stopping | None, past: Past = ()
    ) -> Steps[Beam]:
        """Translations of a sentence, or of its beginning, that begin with the prefix; at least one, best first.

        stop: ends the search; None: it runs to the end of the sentence.
        past: the last `history` sentences.
        Raises SimulstError: no translation came.
        """

    @abstractmethod
    def text(self, tokens: Tokens) -> str:
        """Plain text of the tokens of one or several sentences."""

    def seen(self, source: str, target: str) -> Seen:
        """Attention to a sentence while a given translation is written.

        Raises SimulstError: it is not shown; the texts are too long.
        """
        raise SimulstError("this translator shows no attention; give one of type llm or huggingface.")


Opener = Callable[[Opening], Translation]
"""Opens the translation of an utterance. Raises SimulstError: a language that the translator does not have."""


class Translator(ABC):
    """Options of a translator: a frozen dataclass."""

    @abstractmethod
    def load(self, path: Path, cores: int) -> Opener:
        """Load what is heavy. path: of the cascade's file, for errors. cores: processors that may be used."""

    def files(self, path: Path) -> tuple[Path, ...]:
        """The files that it is made of, in a fixed order. Raises SimulstError: one is missing."""
        return ()


class PlainTranslation(Translation):
    """Of a translator that gives one text at a time: its words (characters for zh, ja, ...) are the tokens.

    target: the language.
    turn: `translate` is called in a thread, inside this context. So it must not need what other threads may change.
    """

    vocabulary: dict[str, int] = {}  # noqa: RUF012 - of this process: streams that share results share tokens
    words: list[str] = []  # noqa: RUF012

    def __init__(self, target: str, turn: Turns) -> None:
        self._unit, self._turn = unit_of(target), turn

    @abstractmethod
    def translate(self, sentence: str, begin: str, past: Past = ()) -> tuple[str, bool]:
        """A translation, and whether it is only what follows `begin`, the text of the prefix.

        What follows must begin with whitespace where it begins a new word.
        """

    def search(
        self, sentence: str, prefix: Tokens, options: SearchOptions, stop: Stopping | None, past: Past = ()
    ) -> Steps[Beam]:
        text, follows = yield Alone(self.translate, (sentence, self.text(prefix).strip(), past), self._turn)
        tokens = self._tokens(text, joined=follows and bool(prefix) and not text[:1].isspace())
        new = tokens if follows else tokens[place_of(prefix, tokens) :]
        return [Hypothesis(prefix + new[: end_of(stop, new) if stop else None])]

    def text(self, tokens: Tokens) -> str:
        return "".join(self.words[token] for token in tokens)

    def _tokens(self, text: str, joined: bool) -> Tokens:
        """joined: the first word stands next to what is before it, without a space."""
        found: list[int] = []
        for word in split(text, self._unit):
            spaced = self._unit == "word" or word[0].isspace()
            word = ("" if joined and not found else " " * spaced) + word.strip()
            if word not in self.vocabulary:
                self.vocabulary[word] = len(self.words)
                self.words.append(word)
            found.append(self.vocabulary[word])
        return tuple(found)


def place_of(prefix: Tokens, tokens: Tokens) -> int:
    """The length of the beginning of `tokens` that is nearest to `prefix`, in edits.

    A translator that can't be told how to begin may write another beginning once it sees more words. The tokens after
    this place are the new ones.
    """
    costs = np.arange(len(tokens) + 1)  # of the prefix so far against each beginning of the tokens
    for token in prefix:
        replaced = costs[:-1] + (np.array(tokens) != token) if tokens else costs[:-1]
        row = np.minimum(costs + 1, np.concatenate([[costs[0] + 1], replaced]))
        steps = np.arange(len(row))
        costs = np.minimum.accumulate(row - steps) + steps  # insertions
    best = np.flatnonzero(costs == costs.min())
    return int(best[np.abs(best - len(prefix)).argmin()])
