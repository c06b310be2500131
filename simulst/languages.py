"""Languages: their codes, which of them are written without spaces, and target-language tokens."""

from __future__ import annotations

from functools import cache

from langcodes import Language, LanguageTagError

from simulst.errors import SimulstError

CHINESE = frozenset({"zh", "yue", "wuu", "gan", "hsn", "hak", "nan", "lzh"})
CHARACTER_LANGUAGES = CHINESE | {"ja", "th", "lo", "my", "km", "bo"}
"""Languages written without spaces. Their output and latency are counted in characters."""
AUTO = "auto"  # the source language is found by the model
MULTI = "multi"  # stands for several target languages in names of files


@cache
def code_of(language: str) -> str:
    """The shortest code of a language: `zh-CN`, `zho`, `cmn` → "zh"; `jpn`, `ja_JP` → "ja".

    language: a tag of BCP 47 or a code of ISO 639.

    Raises SimulstError: there is no such language.
    """
    code = str(_parse(language).prefer_macrolanguage().language)
    return "no" if code == "nb" else code  # models that have one of these codes mean Bokmål by it


@cache
def unit_of(language: str) -> str:
    """ "char" for languages written without spaces, else "word". Raises SimulstError: there is no such language."""
    romanised = _parse(language).script == "Latn"  # such as zh-Latn for Pinyin
    return "char" if code_of(language) in CHARACTER_LANGUAGES and not romanised else "word"


def distance(asked: str, found: str) -> tuple[bool, ...]:
    """How a tag differs from the one asked for: in itself, its language, its script, its country.

    A tag that does not name script or country has the usual ones: `zh-TW` is nearer to `zho_Hant` than to `zho_Hans`.
    """
    one, other = _parse(asked), _parse(found)
    usual, others = one.maximize(), other.maximize()
    return (
        asked.replace("-", "_") != found.replace("-", "_"),
        one.language != other.language,
        usual.script != others.script,
        usual.script != others.script and other.script is not None,  # `zh` may be any script, `zh_Latn` is Pinyin
        usual.territory != others.territory,
    )


def language_token(language: str) -> str:
    """The token that tells a multilingual ESPnet model which language to write, such as `<2de>`."""
    return f"<2{language}>"


def _parse(language: str) -> Language:
    try:
        found = Language.get(language)
    except LanguageTagError:
        found = Language.make()
    if not (found.language and Language.make(found.language).is_valid()):
        raise SimulstError(f"'{language}' is not the code of a language; give one such as de, ja or zh-CN (ISO 639).")
    return found
