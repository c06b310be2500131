"""Which token stands for a language."""

from types import SimpleNamespace

import pytest

from simulst.errors import SimulstError
from simulst.models.huggingface.language_tokens import LanguageTokens

NLLB = ("zho_Hans", "zho_Hant", "nob_Latn", "nno_Latn", "srp_Cyrl", "eng_Latn", "yue_Hant")
DIALECTS = ("__por__", "__pt_PT__", "pt_PT", "pt_BR")


def tokens(*names: str) -> LanguageTokens:
    vocabulary = {name: number for number, name in enumerate(("the", *names))}
    return LanguageTokens(SimpleNamespace(get_vocab=lambda: vocabulary), "model")


@pytest.mark.parametrize(
    ("names", "language", "expected"),
    [
        (NLLB, "zh", "zho_Hans"),
        (NLLB, "zh-CN", "zho_Hans"),
        (NLLB, "zh-Hant", "zho_Hant"),
        (NLLB, "zh-TW", "zho_Hant"),
        (NLLB, "zho_Hant", "zho_Hant"),
        (NLLB[1::-1], "zh", "zho_Hans"),
        (NLLB, "yue", "yue_Hant"),
        (NLLB, "no", "nob_Latn"),
        (NLLB, "nb", "nob_Latn"),
        (NLLB, "nn", "nno_Latn"),
        (NLLB, "en-GB", "eng_Latn"),
        (("<|no|>", "<|nn|>"), "nb", "<|no|>"),
        (("zh_CN", "en_XX"), "zh-TW", "zh_CN"),
        (("<2zh_Latn>", "<2zh>"), "zh-TW", "<2zh>"),
        (("aka_Latn", "twi_Latn"), "tw", "twi_Latn"),
        (DIALECTS[2:], "pt-PT", "pt_PT"),
        (DIALECTS[2:], "pt", "pt_BR"),
    ],
)
def test_the_nearest_token(names: tuple[str, ...], language: str, expected: str) -> None:
    assert tokens(*names).find(language) == (names.index(expected) + 1, expected)


def test_no_token() -> None:
    assert not tokens() and tokens().prefix("de") == ()
    with pytest.raises(SimulstError, match="model: the model has no language 'no'; it has en, zh"):
        tokens("zh_CN", "en_XX").find("no")
