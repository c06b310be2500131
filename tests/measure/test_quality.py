"""BLEU and chrF as sacreBLEU gives them."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from simulst.errors import SimulstError
from simulst.measure.metric import KNOWN, Metric, Texts, tokenizer_for
from simulst.measure.quality import Difference, Quality, bleu, error_rates, judge, paired, sentence_chrf

RNG = random.Random(1)
WORDS_KNOWN = "the a cat dog house tree runs sees big small quickly and under over it was"
VOCABULARY = WORDS_KNOWN.split()
REFERENCES = [" ".join(RNG.choices(VOCABULARY, k=RNG.randint(6, 14))) + "." for _ in range(40)]


def damaged(share: float, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choice(VOCABULARY) if rng.random() < share else w for w in r.split()) for r in REFERENCES]


def texts(predictions: Sequence[str], references: Sequence[str]) -> Texts:
    return Texts(tuple(predictions), tuple(references), "en", "word")


def chrf(predictions: Sequence[str], references: Sequence[str], bootstrap: int = 0) -> Quality:
    return judge(KNOWN["chrF"], texts(predictions, references), bootstrap)


def paired_significance(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str], samples: int = 10_000
) -> dict[str, Difference]:
    one, other = texts(baseline, references), texts(system, references)
    return {name: paired(KNOWN[name], one, other, samples) for name in ("BLEU", "chrF")}


GOOD, BAD = damaged(0.1, 2), damaged(0.5, 3)


@pytest.mark.parametrize(
    ("language", "tokenizer", "predictions", "references"),
    [
        ("en", "13a", BAD, REFERENCES),
        ("zh", "zh", ["我今天去学校学习。"], ["我今天去学校上课。"]),
        ("ja-JP", "ja-mecab", ["今日は学校へ行きます。", "本を読む。"], ["今日は学校に行く。", "本を読みました。"]),
    ],
)
def test_scores_are_sacrebleus(language: str, tokenizer: str, predictions: list[str], references: list[str]) -> None:
    ours = bleu(predictions, references, language)
    theirs = sacrebleu.corpus_bleu(predictions, [references], tokenize=tokenizer)
    assert ours.score == pytest.approx(theirs.score, abs=1e-9) and f"tok:{tokenizer}" in ours.signature
    found = chrf(predictions, references)
    assert found.score == pytest.approx(sacrebleu.corpus_chrf(predictions, [references]).score, abs=1e-9)
    assert "nc:6" in found.signature


def test_tokenizers() -> None:
    tokenizers = {"de": "13a", "pt-BR": "13a", "zh": "zh", "zh-CN": "zh", "cmn": "zh", "yue": "zh", "th": "char"}
    tokenizers |= dict.fromkeys(("ja", "jpn", "ja-JP"), "ja-mecab")
    assert {language: tokenizer_for(language) for language in tokenizers} == tokenizers


def test_japanese_without_mecab_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    tokenizer_for.cache_clear()
    with pytest.raises(SimulstError, match=r"Japanese BLEU needs MeCab .* pip install 'sacrebleu\[ja\]'"):
        bleu(["本"], ["本"], "ja")


def test_interval_is_sacrebleus() -> None:
    quality = bleu(BAD, REFERENCES, bootstrap=200)
    printed = BLEU().corpus_score(BAD, [REFERENCES], n_bootstrap=200).format(width=2)
    half, mean = (quality.high - quality.low) / 2, (quality.high + quality.low) / 2
    assert f"({chr(0x3BC)} = {mean:.2f} ± {half:.2f})" in printed


def test_interval_where_some_resamples_score_zero() -> None:
    # sacreBLEU's own corpus_chrf(n_bootstrap=...) raises TypeError here.
    quality = chrf(["the cat", "", ""], ["the cat", "a dog", "a house"], bootstrap=100)
    assert quality.low is not None and 0 <= quality.low <= quality.score <= quality.high


def test_the_interval_of_a_difference_says_what_p_says() -> None:
    """0 lies outside if and only if p is below 0.05, whether all exchanges are tried or some are drawn."""
    verdicts = set()
    slices = [(first, last) for first in range(0, 15, 7) for last in (first + 5, first + 7, first + 12)]
    for system, (first, last) in itertools.product((GOOD, [*BAD[:3], *GOOD[3:5], *BAD[5:]]), slices):
        bad, good, references = (lines[first:last] for lines in (BAD, system, REFERENCES))
        found = paired_significance(bad, good, references, samples=200)
        turned = paired_significance(good, bad, references, samples=200)
        for name, one in found.items():
            assert ((one.low > 1e-9) or (one.high < -1e-9)) == (one.p < 0.05), (first, last, one)
            assert one.low - 1e-9 <= one.system - one.baseline <= one.high + 1e-9
            every = last - first <= 7
            if every:
                assert (turned[name].low, turned[name].high) == pytest.approx((-one.high, -one.low))
            verdicts.add((one.p < 0.05, every))
    assert len(verdicts) == 4


def test_p_is_the_share_of_exchanges_with_such_a_difference() -> None:
    """All exchanges of the texts of a few sentences, each scored by sacreBLEU's public functions."""
    for first, last in ((0, 5), (20, 26)):
        bad, good, references = (lines[first:last] for lines in (BAD, GOOD, REFERENCES))
        found = paired_significance(bad, good, references)
        for name, score in (("BLEU", bleu), ("chrF", chrf)):
            differences = []
            for exchanged in itertools.product((False, True), repeat=last - first):
                pairs = [(b, a) if swap else (a, b) for a, b, swap in zip(bad, good, exchanged, strict=True)]
                one, other = ([pair[k] for pair in pairs] for k in (0, 1))
                differences.append(score(other, references).score - score(one, references).score)
            share = np.mean(np.abs(differences) >= abs(differences[0]) - 1e-9)
            assert found[name].p == pytest.approx(share)
    assert paired_significance(bad, [*bad[:-1], good[-1]], references)["BLEU"].p == 1.0  # one text differs


@pytest.mark.parametrize("predictions, references", [([], []), (["a"], ["a", "b"])])
def test_lengths_must_match(predictions: list[str], references: list[str]) -> None:
    with pytest.raises(SimulstError, match="predictions"):
        bleu(predictions, references)
    with pytest.raises(SimulstError, match="predictions"):
        paired_significance(predictions, predictions, references)
    with pytest.raises(SimulstError, match="a paired test needs several sentences"):
        paired_significance(BAD[:1], GOOD[:1], REFERENCES[:1])


def edits(reference: str | list[str], text: str | list[str]) -> int:
    """The fewest substitutions, insertions and deletions, by trying all."""
    if not reference or not text:
        return len(reference) + len(text)
    if reference[0] == text[0]:
        return edits(reference[1:], text[1:])
    shorter = ((reference[1:], text[1:]), (reference[1:], text), (reference, text[1:]))
    return 1 + min(edits(*pair) for pair in shorter)


WORDS = st.lists(st.sampled_from(["a", "ab", "b"]), max_size=3).map(" ".join)


@settings(max_examples=30)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3))
def test_error_rates_are_edits_by_the_length_of_the_references(pairs: list[tuple[str, str]]) -> None:
    references, texts = zip(*pairs, strict=True)
    words = sum(len(reference.split()) for reference in references)
    if words == 0:
        assert error_rates(texts, references) == (None, None)
        return
    wer, cer = error_rates(texts, references)
    assert wer == pytest.approx(100 * sum(edits(r.split(), t.split()) for r, t in pairs) / words)
    assert cer == pytest.approx(100 * sum(map(edits, references, texts)) / sum(map(len, references)))


def test_case_and_punctuation_are_no_errors() -> None:
    assert error_rates(["¿Que tal? It\u2019s me"], ["que tal, it's me!"], "es") == (0, 0)
    assert error_rates(["adónde"], ["adonde"], "es") == (100, pytest.approx(100 / 6))
    # A language without spaces has no words to err in.
    assert error_rates(["我 去 学校。"], ["我去学 笑"], "zh") == (None, 25.0)


def test_error_rates_need_jiwer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with pytest.raises(SimulstError, match=r"WER and CER need jiwer .*; pip install jiwer, or run tools/install\.sh"):
        error_rates(["a"], ["a"])


@settings(max_examples=40)
@given(st.lists(st.tuples(st.text("ab c", max_size=9), st.text("ab c", max_size=9)), min_size=1, max_size=4))
def test_chrf_of_sentences(pairs: list[tuple[str, str]]) -> None:
    written, references = ([*side] for side in zip(*pairs, strict=True))
    each = [CHRF().sentence_score(text, [reference]).score for text, reference in pairs]
    assert sentence_chrf(written, references) == pytest.approx(each, abs=1e-9)


@pytest.mark.parametrize("key", ["BLEU", "chrF", "own"])
def test_strata_keep_their_sizes_in_resamples(key: str) -> None:
    """Two test sets of two and three sentences, against all resamples that keep their sizes, each as probable."""
    own = Metric("own", "higher", segments=lambda texts: [float(len(text)) for text in texts.predictions])
    metric = own if key == "own" else KNOWN[key]
    references = [REFERENCES[place] for place in range(5)]
    predictions = [references[0], damaged(0.4, 1)[1], damaged(0.7, 2)[2], references[3], damaged(0.2, 3)[4]]
    strata = ("es", "fr", "es", "fr", "fr")
    places = [[place for place in range(5) if strata[place] == name] for name in ("es", "fr")]

    def score(chosen: Sequence[int]) -> float:
        return judge(metric, texts([predictions[i] for i in chosen], [references[i] for i in chosen])).score

    draws = itertools.product(itertools.product(places[0], repeat=2), itertools.product(places[1], repeat=3))
    found = judge(metric, replace(texts(predictions, references), strata=strata), 20_000)
    expected = np.percentile([score(first + second) for first, second in draws], [2.5, 97.5])
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=0.6)
    assert found.score == score(range(5))
    apart = judge(metric, replace(texts(predictions, references), strata=tuple("abcde")), 50)
    assert apart.low == apart.high == pytest.approx(apart.score)
