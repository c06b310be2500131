"""BLEU of resamples from counts of sentences, and Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulst.measure.metric import bleu_for


def sentence_statistics(predictions: Sequence[str], references: Sequence[str], language: str = "en") -> np.ndarray:
    """What corpus BLEU needs to know of each sentence, as sacreBLEU counts it.

    language: the target language, which determines the tokenizer.
    Returns: (sentences, 10), counts that can be summed over any sentences: tokens of the prediction and of the
        reference, matches of 1- to 4-grams, 1- to 4-grams of the prediction.

    Raises ValueError: not as many predictions as references.
    """
    metric = bleu_for(language)
    rows = []
    for prediction, reference in zip(predictions, references, strict=True):
        score = metric.corpus_score([prediction], [[reference]])
        rows.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
    return np.array(rows, dtype=np.float64)


def bleu_of_statistics(sums: np.ndarray) -> np.ndarray:
    """Corpus BLEU of many sets of sentences at once, with the smoothing of `bleu` (sacreBLEU's "exp").

    sums: (..., 10), the sentences' statistics, summed.
    Returns: (...,), 0 to 100.
    """
    predicted, reference, correct, total = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:]
    # Each order without a match counts as half as many matches as the one before it: 1/2, 1/4, ...
    halvings = np.cumsum((correct == 0) & (total > 0), axis=-1)
    matches = np.where(correct > 0, correct, 0.5**halvings)
    scored = (correct > 0).any(axis=-1) & (total > 0).all(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.log(matches / total).mean(axis=-1)
        brevity = np.minimum(0.0, 1 - reference / predicted)
        return np.where(scored, 100 * np.exp(precision + brevity), 0.0)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction (1979): p-values that may each be compared with the level of the whole family."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, k in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[k]))
        adjusted[k] = largest
    return adjusted
