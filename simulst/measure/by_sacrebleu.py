"""sacreBLEU's metrics for a language."""

from __future__ import annotations

from functools import cache

from sacrebleu.metrics import BLEU, CHRF

from simulst.errors import SimulstError
from simulst.languages import CHINESE, code_of, unit_of


@cache
def tokenizer_for(language: str) -> str:
    """sacreBLEU's tokenizer for a target language: 13a, zh for Chinese, ja-mecab for Japanese.

    For other languages without spaces it is char.

    Raises SimulstError: there is no such language; MeCab or its IPA dictionary is missing for Japanese. (With char,
        BLEU would be about twice as high.)
    """
    if unit_of(language) == "word":
        return "13a"
    if code_of(language) in CHINESE:
        return "zh"
    if code_of(language) != "ja":
        return "char"
    try:
        BLEU(tokenize="ja-mecab")
    except (RuntimeError, AssertionError) as error:
        raise SimulstError(
            "Japanese BLEU needs MeCab with the IPA dictionary; pip install 'sacrebleu[ja]', or run tools/install.sh."
        ) from error
    return "ja-mecab"


def bleu_for(language: str) -> BLEU:
    """sacreBLEU's BLEU for a target language. Raises SimulstError: as `tokenizer_for`."""
    return BLEU(tokenize=tokenizer_for(language))


def chrf_for(language: str) -> CHRF:
    """sacreBLEU's chrF2, the same for all languages."""
    return CHRF()
