"""Which token tells a multilingual model to write a language, by the forms that models have for such tokens."""

from __future__ import annotations

import functools
import re
from typing import Any

from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.languages import code_of, distance

FORMS = (
    r"<\|([a-z]{2,3})\|>",  # Whisper
    r"([a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3}))",  # mBART-50, NLLB
    r"__([a-z]{2,3}(?:_[A-Z][a-z]{3})?)__",  # M2M-100, SeamlessM4T
    r"<lang:([a-z]{2,3}(?:_[A-Z]{2})?)>",  # Speech2Text
    r"<2([a-z]{2,3}(?:_[A-Z][a-z]{3})?)>",  # MADLAD
    r">>([a-z]{2,3}(?:_[A-Z][a-z]{3})?)<<",  # Marian
)
FORM = re.compile("|".join(FORMS))
TARGET_FIRST = (">>", "<2")  # how tokens begin that stand in the source text and name the target language


class LanguageTokens:
    """The language tokens of a vocabulary.

    path: of the model, for errors. Models for one language have no such tokens.
    """

    def __init__(self, tokenizer: Any, path: Any) -> None:
        self._path = path
        self._tokens: dict[str, list[tuple[str, int, str]]] = {}  # language code → (tag, id, token)
        for token, number in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
            found = FORM.fullmatch(token)
            if found is None:
                continue
            tag = found[found.lastindex or 0].removesuffix("_XX")
            try:
                self._tokens.setdefault(code_of(tag), []).append((tag, number, token))
            except SimulstError:  # it only looks like one
                continue

    def __bool__(self) -> bool:
        return bool(self._tokens)

    @functools.cached_property
    def numbers(self) -> dict[str, int]:
        """Language code → the id of its first token."""
        return {code: known[0][1] for code, known in self._tokens.items()}

    def find(self, language: str) -> tuple[int, str]:
        """The id and text of a language's token; of several (scripts, dialects) the nearest, or the first of these.

        Raises SimulstError: the model does not have the language.
        """
        known = self._tokens.get(code_of(language))
        if not known:
            languages = ", ".join(sorted(self._tokens))
            raise SimulstError(f"{self._path}: the model has no language '{language}'; it has {languages}.")
        _, number, token = min(known, key=lambda each: distance(language, each[0]))
        return number, token

    def prefix(self, language: str) -> Tokens:
        """What stands at the beginning of a text in this language: its token, if the model has such tokens."""
        return (self.find(language)[0],) if self else ()

    def around(self, source: str, target: str) -> tuple[Tokens, Tokens]:
        """For text-to-text models: what stands before a text in `source`, and before its translation."""
        if not self:
            return (), ()
        number, token = self.find(target)
        return ((number,), ()) if token.startswith(TARGET_FIRST) else (self.prefix(source), (number,))
