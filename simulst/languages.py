"""What is known of languages: their codes, which are written without spaces, and how a model is told which to write."""

from __future__ import annotations

from functools import cache

from langcodes import Language, LanguageTagError

from simulst.errors import SimulstError

CHINESE = frozenset({"zh", "yue", "wuu", "gan", "hsn", "hak", "nan", "lzh"})
CHARACTER_LANGUAGES = CHINESE | {"ja", "th", "lo", "my", "km", "bo"}
"""Languages written without spaces: output and latency are counted in characters."""


@cache
def code_of(language: str) -> str:
    """The shortest code of a tag's language (BCP 47, ISO 639): `zh-CN`, `zho`, `cmn` → "zh"; `jpn`, `ja_JP` → "ja".

    Raises SimulstError: there is no such language.
    """
    return str(_parse(language).prefer_macrolanguage().language)


@cache
def unit_of(language: str) -> str:
    """ "char" for languages written without spaces, else "word". Raises SimulstError: there is no such language."""
    romanised = _parse(language).script == "Latn"  # such as zh-Latn for Pinyin
    return "char" if code_of(language) in CHARACTER_LANGUAGES and not romanised else "word"


def language_token(language: str) -> str:
    """What tells a multilingual ESPnet model to write this language: `<2de>`."""
    return f"<2{language}>"


def _parse(language: str) -> Language:
    try:
        found = Language.get(language)
    except LanguageTagError:
        found = Language.make()
    if not (found.language and Language.make(found.language).is_valid()):
        raise SimulstError(f"'{language}' is not the code of a language; give one such as de, ja or zh-CN (ISO 639).")
    return found
