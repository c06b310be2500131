"""True-casing: the games print whole lines, or stressed words, in capitals; write these words in their usual case.

The rule, for a word of two letters and more that has more capitals than small letters, and for single capitals beside
such words:

1. The form that the texts have most often in the middle of their sentences, where they are not in capitals.
2. The form of a list of words, of two forms the one in small letters, in German the one with a capital. Accents may be
   missing, as in capitals they often are.
3. A capital for a name: a word that other languages' texts write so (German not counted, whose nouns have capitals).
4. As it is, for a word of up to five letters that is only ever written in capitals, in several languages.
5. In German, what 1 and 2 say of its longest end of four letters and more (Notizbrett as Brett).
6. Small letters.

A first word of a sentence then gets its capital. What follows three points begins no sentence.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

import regex

NOUNS_HAVE_CAPITALS = ("de",)
SHORTEST_END = 4
LONGEST_ACRONYM = 5
SEVERAL = 3  # languages

_WORD = regex.compile(r"\p{L}+")
_JOINED = regex.compile(r"\p{L}+(?:['’-]\p{L}+)*")
_SENTENCE_END = re.compile(r"(?:(?<!\.)[.]|[!?:])[\"')\]]*\s+[¿¡\"'(]*$|^[\s¿¡\"'(-]*$")


class Truecaser:
    """The rule for one language. texts: its lines. words: a list of its words. names, acronyms: see `shared_words`."""

    def __init__(
        self,
        language: str,
        texts: Iterable[str],
        words: Collection[str] = (),
        names: Collection[str] = (),
        acronyms: Collection[str] = (),
    ) -> None:
        self._nouns = language in NOUNS_HAVE_CAPITALS
        self._names = frozenset(names)
        self._acronyms = frozenset(acronyms)
        self._forms = {word: _most_frequent(counts) for word, counts in usual_forms(texts).items()}
        self._capitals: dict[str, bool] = {}  # of listed words
        for word in words:
            capital = not word[:1].islower()
            for key in _keys(word.lower()):
                known = self._capitals.get(key, capital)
                self._capitals[key] = known or capital if self._nouns else known and capital

    def __call__(self, text: str) -> str:
        """The text with its words in their usual letters."""
        stressed = is_capitals(text)
        pieces: list[str] = []
        end = 0
        for joined in _JOINED.finditer(text):
            pieces.append(text[end : joined.start()])
            end = joined.end()
            before = text[: joined.start()]
            if not (is_capitals(joined[0]) or (stressed and _has_capitals_within(joined[0]))):
                pieces.append(joined[0])
                continue
            word = self._joined(joined[0])
            if begins_sentence(before):
                word = _with_capital(word)
            pieces.append(word)
        return "".join([*pieces, text[end:]])

    def _joined(self, text: str) -> str:
        """A word, or several with hyphens or apostrophes between."""
        parts = _WORD.findall(text)
        if any(part in self._acronyms for part in parts):  # D-LINC
            return _WORD.sub(lambda part: part[0] if len(part[0]) == 1 else self._word(part[0]), text)
        if len(parts) > 1 and text.lower() in self._capitals:
            return text.lower() if not self._capitals[text.lower()] else text[:1] + text[1:].lower()
        return _WORD.sub(lambda part: self._word(part[0]), text)

    def _word(self, word: str) -> str:
        small = word.lower()
        known = self._known(small)
        if known is not None:
            return known
        if word in self._acronyms:
            return word
        if small in self._names:
            return _with_capital(small)
        if self._nouns:
            for begin in range(1, len(small) - SHORTEST_END + 1):
                end = self._known(small[begin:])
                if end is not None:
                    return _with_capital(small) if end[:1].isupper() else small
        return small

    def _known(self, small: str) -> str | None:
        """By the texts, or by the list of words."""
        if small in self._forms:
            return self._forms[small]
        if small not in self._capitals:
            return None
        return _with_capital(small) if self._capitals[small] else small


def is_capitals(text: str) -> bool:
    """Whether of two letters or more most are capitals ("MoeCHTE" too)."""
    letters = _WORD.findall(text)
    joined = "".join(letters)
    capitals = sum(c.isupper() for c in joined)
    return len(joined) > 1 and capitals > len(joined) - capitals and any(len(word) > 1 for word in letters)


def _has_capitals_within(word: str) -> bool:
    """As of words in capitals whose accented letters are small ("çA"); and single capitals."""
    return word.isupper() or any(c.isupper() for c in word[1:])


def _with_capital(word: str) -> str:
    return word[:1].upper() + word[1:] if len(word[:1].upper()) == 1 else word  # ß has none


def begins_sentence(before: str) -> bool:
    """Whether what follows this text is the first word of a sentence."""
    return _SENTENCE_END.search(before) is not None


def usual_forms(texts: Iterable[str]) -> dict[str, Counter[str]]:
    """Word in small letters → how often it has which form within sentences that are not in capitals."""
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        if is_capitals(text):
            continue
        for joined in _JOINED.finditer(text):
            if is_capitals(joined[0]) or begins_sentence(text[: joined.start()]):
                continue
            for word in _WORD.findall(joined[0]):
                if not is_capitals(word):
                    forms[word.lower()][word] += 1
    return forms


def shared_words(
    texts: Mapping[str, Collection[str]], words: Mapping[str, Collection[str]]
) -> tuple[set[str], set[str]]:
    """Names in small letters, and acronyms, that several languages' texts show. words: language → list of words."""
    small: Counter[str] = Counter()
    capital: Counter[str] = Counter()
    capitals: dict[str, set[str]] = defaultdict(set)
    for language, lines in texts.items():
        for word, forms in usual_forms(lines).items():
            if language not in NOUNS_HAVE_CAPITALS:
                small[word] += sum(n for form, n in forms.items() if form.islower())
                capital[word] += sum(n for form, n in forms.items() if form.istitle())
        for line in lines:
            if not is_capitals(line):
                for word in _WORD.findall(line):
                    if len(word) > 1 and word.isupper():
                        capitals[word].add(language)
    names = {word for word, n in capital.items() if n > small[word]}
    listed = {word.lower() for each in words.values() for word in each}
    acronyms = {
        word
        for word, languages in capitals.items()
        if len(languages) >= SEVERAL
        and len(word) <= LONGEST_ACRONYM
        and word.lower() not in listed
        and not small[word.lower()]
        and not capital[word.lower()]
    }
    return names, acronyms


def fold(text: str) -> str:
    """Without accents; ß as ss."""
    plain = unicodedata.normalize("NFD", text.replace("ß", "ss").replace("œ", "oe"))
    return "".join(c for c in plain if not unicodedata.combining(c))


def _keys(word: str) -> set[str]:
    """How a word may be written: as it is, without accents, with ae for ä."""
    return {word, fold(word), fold(word.replace("ä", "ae").replace("ö", "oe").replace("ü", "ue"))}


def without_accents(texts: Iterable[str], words: Collection[str]) -> Counter[tuple[str, str]]:
    """Words that a list has only with accents or umlauts, as it has them: (word, listed word) → how often."""
    lower = {word.lower() for word in words}
    accented: dict[str, set[str]] = defaultdict(set)
    for word in lower:
        for plain in _keys(word) - lower:
            accented[plain].add(word)
    return Counter(
        (word, min(accented[word])) for text in texts for word in _WORD.findall(text.lower()) if word in accented
    )


def _most_frequent(forms: Counter[str]) -> str:
    """Of equals the one in small letters."""
    return max(forms, key=lambda form: (forms[form], form.islower()))
