"""BLEU of many sets of sentences from counts, against sacreBLEU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from simulst.errors import SimulstError
from simulst.measure.quality import bleu_of_statistics, sentence_statistics

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
    with pytest.raises(SimulstError, match="one reference for each"):
        sentence_statistics(["a"], [])
