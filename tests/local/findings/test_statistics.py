"""BLEU of many sets of sentences from counts, against sacreBLEU; Holm's correction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from findings.statistics import bleu_of_statistics, holm, sentence_statistics

sentences = st.lists(
    st.tuples(*[st.lists(st.sampled_from("abcd."), max_size=7).map(" ".join)] * 2), min_size=1, max_size=4
)


@given(sentences)
@settings(max_examples=60)
def test_it_is_sacrebleus_own_corpus_bleu(pairs: list[tuple[str, str]]) -> None:
    predictions, references = zip(*pairs, strict=True)
    sums = sentence_statistics(predictions, references).sum(axis=0)
    expected = BLEU().corpus_score(predictions, [references]).score
    assert bleu_of_statistics(sums) == pytest.approx(expected, abs=1e-9)


def test_many_resamples_at_once() -> None:
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(list("abcdef"), size=8)) for _ in range(20)]
    predictions = [text.replace("a", "b") for text in texts]
    table = sentence_statistics(predictions, texts, "de")
    drawn = random.integers(20, size=(7, 20))
    found = bleu_of_statistics(table[drawn].sum(axis=1))
    for value, rows in zip(found, drawn, strict=True):
        assert value == pytest.approx(
            BLEU().corpus_score([predictions[i] for i in rows], [[texts[i] for i in rows]]).score
        )


def test_other_tokenizers_and_errors() -> None:
    chinese = ["我们今天去北京。"], ["我们明天去北京。"]
    assert bleu_of_statistics(sentence_statistics(*chinese, "zh").sum(axis=0)) == pytest.approx(
        BLEU(tokenize="zh").corpus_score(chinese[0], [chinese[1]]).score
    )
    with pytest.raises(ValueError):
        sentence_statistics(["a"], [])


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.3, 0.01, 0.4]) == pytest.approx([0.6, 0.03, 0.6])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
@settings(max_examples=30)
def test_holm_keeps_the_order_and_never_lowers(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    assert [adjusted[k] for k in np.argsort(p_values)] == sorted(adjusted)
