"""What translates text inside a cascade."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simulst.background import NOTHING, Background
from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.languages import unit_of
from simulst.needs import Need
from simulst.options import build_options
from simulst.policy.context import TokensView
from simulst.policy.stop import Stopping
from simulst.search import BeamSearch, SearchOptions
from simulst.words import split

Past = tuple[tuple[str, str], ...]
"""Sentences before the one to translate, each with its translation."""


class Translation(ABC):
    """One language pair of a translator. The attributes are those of `simulst.models.base.Session`, and:

    history: how many sentences before the one to translate it is shown.
    between: the tokens between two sentences.
    background: what is known of the recording; the session sets it.
    """

    gives: frozenset[Need] = frozenset({Need.LIBRARY_SEARCH})
    default_search: SearchOptions = BeamSearch(beam=1)
    layers: int = 0
    heads: int = 0
    history: int = 0
    between: Tokens = ()
    background: Background = NOTHING

    @abstractmethod
    def continued(
        self, sentence: str, prefix: Tokens, options: SearchOptions, stop: Stopping | None, past: Past = ()
    ) -> Beam:
        """Translations of a sentence, or of its beginning, that begin with the prefix; at least one, best first.

        stop: ends the search; None: it runs to the end of the sentence.
        past: the last `history` sentences.
        Raises SimulstError: no translation came.
        """

    @abstractmethod
    def text(self, tokens: Tokens) -> str:
        """Plain text of the tokens of one or several sentences."""


Opener = Callable[[str, str], Translation]
"""From two languages to their translation. Raises SimulstError: a language that the translator does not have."""


class Translator(ABC):
    """Options of a translator: a frozen dataclass."""

    @abstractmethod
    def load(self, path: Path, cores: int) -> Opener:
        """Load what is heavy. path: of the cascade's file, for errors. cores: processors that may be used."""


class PlainTranslation(Translation):
    """Of a translator that gives one text at a time: its words (characters for zh, ja, ...) are the tokens."""

    vocabulary: dict[str, int] = {}  # noqa: RUF012 - of this process: streams that share results share tokens
    words: list[str] = []  # noqa: RUF012

    def __init__(self, target: str) -> None:
        self._unit = unit_of(target)

    @abstractmethod
    def translate(self, sentence: str, begin: str, past: Past = ()) -> tuple[str, bool]:
        """A translation, and whether it is only what follows `begin`, the text of the prefix.

        What follows must begin with whitespace where it begins a new word.
        """

    def continued(
        self, sentence: str, prefix: Tokens, options: SearchOptions, stop: Stopping | None, past: Past = ()
    ) -> Beam:
        text, follows = self.translate(sentence, self.text(prefix).strip(), past)
        tokens = self._tokens(text, joined=follows and bool(prefix) and not text[:1].isspace())
        return [Hypothesis(prefix + stopped(tokens if follows else tokens[place_of(prefix, tokens) :], stop))]

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


def stopped(new: Tokens, stop: Stopping | None) -> Tokens:
    """The new tokens up to the place where STOP would have ended a search that it could not end.

    A search asks before each token, also before `<eos>`.
    """
    if stop is None:
        return new
    end = next((end for end in range(len(new) + 1) if stop.ends(TokensView(new[:end]))), None)
    return new if end is None else new[: max(0, end - stop.discard)]


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


def load_translator(path: Path, raw: dict[str, Any], cores: int) -> Opener:
    """From what a cascade's file says. Raises SimulstError: no such type, wrong options, what `load` raises."""
    from simulst.models.cascade.command import Command
    from simulst.models.cascade.ctranslate2 import CTranslate2Text
    from simulst.models.cascade.huggingface import HuggingFaceText
    from simulst.models.cascade.llm import LLM
    from simulst.models.cascade.server import Server

    types: dict[str, type[Any]] = {
        "command": Command,
        "ctranslate2": CTranslate2Text,
        "huggingface": HuggingFaceText,
        "llm": LLM,
        "server": Server,
    }
    kind = raw.get("type")
    if kind not in types:
        raise SimulstError(f"{path}: 'translator' has no type '{kind}'; choose from {', '.join(types)}.")
    values = {name: value for name, value in raw.items() if name != "type"}
    translator: Translator = build_options(types[kind], values, str(path), f"'translator' of type '{kind}'")
    return translator.load(path, cores)
