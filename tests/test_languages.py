"""Language tags and what depends on them."""

from __future__ import annotations

import pytest

from simulst.errors import SimulstError
from simulst.languages import code_of, unit_of


@pytest.mark.parametrize(
    ("language", "code", "unit"),
    [
        *((tag, "zh", "char") for tag in ("zh", "zh-CN", "zh_TW", "ZH-hant", "cmn", "cmn-Hans-CN", "zho", "chi")),
        *((tag, "ja", "char") for tag in ("ja", "jpn", "ja-JP", "ja_JP", "JA")),
        *((tag, "yue", "char") for tag in ("yue", "zh-yue")),
        *((tag, "th", "char") for tag in ("th", "tha")),
        *((tag, "de", "word") for tag in ("de", "deu", "ger", "de-AT")),
        *((tag, "pt", "word") for tag in ("pt", "por", "pt-BR")),
        *((tag, tag, "word") for tag in ("en", "ko", "qaa")),
        ("zh-Latn-pinyin", "zh", "word"),
    ],
)
def test_code_and_unit(language: str, code: str, unit: str) -> None:
    assert (code_of(language), unit_of(language)) == (code, unit)


@pytest.mark.parametrize("language", ["jp", "Chinese", "tc.de", "", "xx"])
def test_no_language(language: str) -> None:
    with pytest.raises(SimulstError, match=f"'{language}' is not the code of a language; give one such as de, ja or"):
        unit_of(language)
