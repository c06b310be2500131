"""Quality: BLEU and chrF with intervals and paired tests, computed by sacreBLEU; WER and CER, computed by jiwer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from simulst.data.text import lower_without_punctuation
from simulst.errors import SimulstError
from simulst.languages import CHINESE, code_of, unit_of

SEED = 12345  # sacreBLEU's
BATCH = 100  # exchanges that are computed at once; bounds the memory


@dataclass(frozen=True)
class Quality:
    """A corpus score, 0 to 100, with sacreBLEU's signature.

    low, high: the 95 % interval; None if it was not asked for.
    """

    score: float
    signature: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Difference:
    """Two systems' corpus scores, 0 to 100, and the p-value of the hypothesis that they are equally good.

    low, high: the 95 % interval of system - baseline.
    """

    baseline: float
    system: float
    low: float
    high: float
    p: float
    signature: str


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


def bleu(predictions: Sequence[str], references: Sequence[str], language: str = "en", bootstrap: int = 0) -> Quality:
    """Corpus BLEU, with one reference for each prediction.

    language: the target language, which determines the tokenizer.
    bootstrap: how many resamples to draw for the 95 % interval; 0: no interval. A single sentence has no interval,
        because all resamples are the same.

    Raises SimulstError: no sentences; not as many predictions as references; the errors of `tokenizer_for`.
    """
    return _score(BLEU(tokenize=tokenizer_for(language)), predictions, references, bootstrap)


def chrf(predictions: Sequence[str], references: Sequence[str], bootstrap: int = 0) -> Quality:
    """Corpus chrF2. Arguments and errors are those of `bleu`."""
    return _score(CHRF(), predictions, references, bootstrap)


def error_rates(
    predictions: Sequence[str], references: Sequence[str], language: str = "en"
) -> tuple[float | None, float | None]:
    """WER and CER of recognised speech, in %, over all sentences.

    Edits are summed over all sentences and divided by the words (characters) of all references. Both texts are
    lower-cased and without punctuation. A space between words is a character.

    language: of both texts. If it is written without spaces, there is no WER, and spaces do not count.
    Returns: None if no reference has a word.

    Raises SimulstError: jiwer is missing; what `bleu` raises.
    """
    try:
        import jiwer
    except ImportError as error:
        raise SimulstError(f"WER and CER need jiwer ({error}); pip install jiwer, or run tools/install.sh.") from error
    _check_lengths(predictions, references)
    by_word = unit_of(language) == "word"
    gap = " " if by_word else ""
    texts, right = (
        [lower_without_punctuation(text).replace(" ", gap) for text in each] for each in (predictions, references)
    )
    if not any(right):
        return None, None
    return 100 * float(jiwer.wer(right, texts)) if by_word else None, 100 * float(jiwer.cer(right, texts))


def paired_significance(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    language: str = "en",
    samples: int = 10_000,
) -> dict[str, Difference]:
    """BLEU and chrF of two systems on the same sentences: a paired randomisation test, and its interval.

    The test is two-sided (approximate randomisation; Riezler and Maxwell, 2005). The systems' texts of each sentence
    are exchanged at random; p is how often this makes a difference as large as the one observed. For few sentences all
    exchanges are tried. sacreBLEU's bootstrap test is not used: its p is that of a one-sided test. The 95 % interval is
    the observed difference minus those that exchanges make, without their extremes on either side. So it is of the same
    test: 0 lies outside if and only if p is below 0.05.

    baseline: predictions of the first system.
    system: predictions of the second system.
    references: one reference for each sentence.
    language: the target language, which determines BLEU's tokenizer.
    samples: how many exchanges to try.
    Returns: the difference for each of "BLEU" and "chrF".

    Raises SimulstError: no sentences or only one; not as many predictions as references; the errors of
        `tokenizer_for`.
    """
    _check_lengths(baseline, references)
    _check_lengths(system, references)
    if len(references) == 1:
        raise SimulstError("a paired test needs several sentences, but there is one; compare longer logs.")
    metrics: dict[str, Metric] = {"BLEU": BLEU(tokenize=tokenizer_for(language)), "chrF": CHRF()}
    return {name: _difference(metric, baseline, system, references, samples) for name, metric in metrics.items()}


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction (1979): p-values that may each be compared with the level of the whole family."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, k in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[k]))
        adjusted[k] = largest
    return adjusted


def _difference(
    metric: Metric, baseline: Sequence[str], system: Sequence[str], references: Sequence[str], samples: int
) -> Difference:
    from scipy.stats import permutation_test  # here, as it takes half a second

    count = len(references)
    one, other = (  # what corpus scores need to know of each sentence: counts, (count, columns)
        np.array(metric._extract_corpus_statistics(texts, [references]), dtype=np.float64)
        for texts in (baseline, system)
    )

    def score(statistics: np.ndarray) -> float:
        return float(metric._compute_score_from_stats(statistics.astype(int).tolist()).score)

    def between(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Differences of corpora with these sums, (..., columns)."""
        return np.apply_along_axis(score, -1, second) - np.apply_along_axis(score, -1, first)

    def difference(first: np.ndarray, second: np.ndarray, axis: int = -1) -> np.ndarray:
        """first: (..., count), the texts of the first corpus: i is the baseline's i-th, count + i the system's."""
        exchanged = (first >= count).astype(np.float64) @ (other - one)
        return between(one.sum(0) + exchanged, other.sum(0) - exchanged)

    numbers = np.arange(count)
    test = permutation_test(
        (numbers, numbers + count),
        difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=samples,
        batch=BATCH,
        rng=np.random.default_rng(SEED),
    )
    low, high = exchange_interval(test, count)
    of_baseline, of_system = (float(metric.corpus_score(texts, [references]).score) for texts in (baseline, system))
    return Difference(of_baseline, of_system, low, high, float(test.pvalue), str(metric.get_signature()))


def exchange_interval(test: Any, count: int) -> tuple[float, float]:
    """The 95 % interval of a difference that SciPy's permutation test of `count` pairs observed.

    0 lies outside of it if and only if p < 0.05.
    """
    made = np.sort(test.null_distribution)
    # So many exchanges may differ by as much as was observed, on one side, for a p below 0.05. SciPy adds the observed
    # texts to exchanges that are drawn.
    drawn = int(len(made) < 2**count)
    rare = max(0, math.ceil(0.025 * (len(made) + drawn)) - drawn - 1)
    return float(test.statistic - made[-1 - rare]), float(test.statistic - made[rare])


@dataclass(frozen=True)
class Pairwise:
    """Differences in one metric of each system to each of some systems, and the p-values of the paired test.

    chosen: the numbers of these systems. difference, p: (chosen, systems): the system's score minus the chosen one's.
    """

    chosen: tuple[int, ...]
    difference: np.ndarray
    p: np.ndarray


def pairwise_significance(
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    chosen: Sequence[int],
    language: str = "en",
    samples: int = 10_000,
) -> dict[str, Pairwise]:
    """The test of `paired_significance` for many pairs, which share their random exchanges.

    systems: the predictions of each. chosen: the numbers of those that all are compared with.
    Returns: "BLEU" and "chrF". An entry of p is NaN for a system and itself.

    Raises SimulstError: as `paired_significance`.
    """
    for texts in systems:
        _check_lengths(texts, references)
    count = len(references)
    if count == 1:
        raise SimulstError("a paired test needs several sentences, but there is one; compare longer logs.")
    drawn = count > math.log2(samples)
    if drawn:
        exchanges = np.random.default_rng(SEED).integers(0, 2, (samples, count)).astype(np.float32)
    else:  # all there are
        exchanges = (np.arange(2**count)[:, None] >> np.arange(count) & 1).astype(np.float32)
    found = {}
    metrics: tuple[tuple[str, Metric, Any], ...] = (
        ("BLEU", BLEU(tokenize=tokenizer_for(language)), bleu_of_statistics),
        ("chrF", CHRF(), chrf_of_statistics),
    )
    for name, metric, score in metrics:
        tables = [np.array(metric._extract_corpus_statistics(texts, [references]), np.float32) for texts in systems]
        sums = [table.sum(0, dtype=np.float64) for table in tables]
        parts = [(exchanges @ table).astype(np.float64) for table in tables]  # of the sentences that are exchanged
        difference = np.array([[float(score(sums[b]) - score(sums[a])) for b in range(len(sums))] for a in chosen])
        p = np.full(difference.shape, np.nan)
        for row, a in enumerate(chosen):
            for b in range(len(sums)):
                if b in chosen[:row]:  # the same pair, the other way round
                    p[row, b] = p[chosen.index(b), a]
                elif a != b:
                    moved = parts[b] - parts[a]
                    made = score(sums[b] - moved) - score(sums[a] + moved)
                    p[row, b] = _two_sided(made, difference[row, b], drawn)
        found[name] = Pairwise(tuple(chosen), difference, p)
    return found


def _two_sided(made: np.ndarray, observed: float, drawn: bool) -> float:
    """p of an observed difference among those that exchanges made, as SciPy's permutation test has it.

    drawn: whether the exchanges were drawn at random; then the observed texts count as one of them.
    """
    near = 1e-9 * max(1.0, abs(observed))  # equal but for rounding
    shares = [
        (np.sum(side) + drawn) / (len(made) + drawn) for side in (made >= observed - near, made <= observed + near)
    ]
    return float(min(1.0, 2 * min(shares)))


def chrf_of_statistics(sums: np.ndarray) -> np.ndarray:
    """chrF2 of many sets of sentences at once, as `chrf` gives it.

    sums: (..., 18), for each order of n-grams those of the prediction, of the reference, and matches.
    Returns: (...,), 0 to 100.
    """
    predicted, reference, matches = (sums[..., start::3] for start in range(3))
    known = (predicted > 0) & (reference > 0)
    orders = np.maximum(1, known.sum(axis=-1))
    precision, recall = (
        np.where(known, matches / np.maximum(1, total), 0.0).sum(axis=-1) / orders for total in (predicted, reference)
    )
    total = CHRF.BETA**2 * precision + recall
    return 100 * (1 + CHRF.BETA**2) * precision * recall / np.where(total > 0, total, 1.0)


def sentence_chrf(predictions: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """chrF2 of each sentence, 0 to 100. Raises SimulstError: as `bleu`."""
    _check_lengths(predictions, references)
    return chrf_of_statistics(np.array(CHRF()._extract_corpus_statistics(predictions, [references]), np.float64))


def sentence_statistics(predictions: Sequence[str], references: Sequence[str], language: str = "en") -> np.ndarray:
    """What corpus BLEU needs to know of each sentence, as sacreBLEU counts it.

    language: the target language, which determines the tokenizer.
    Returns: (sentences, 10), counts that can be summed over any sentences: tokens of the prediction and of the
        reference, matches of 1- to 4-grams, 1- to 4-grams of the prediction.

    Raises SimulstError: as `bleu`.
    """
    _check_lengths(predictions, references)
    metric = BLEU(tokenize=tokenizer_for(language))
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


def _score(metric: Metric, predictions: Sequence[str], references: Sequence[str], bootstrap: int) -> Quality:
    _check_lengths(predictions, references)
    if bootstrap <= 1 or len(references) == 1:
        score = metric.corpus_score(predictions, [references]).score
        return Quality(float(score), str(metric.get_signature()))
    # This uses PairedTest with one system, because corpus_score(n_bootstrap=...) of sacreBLEU 2.6 keeps the interval
    # private, and raises TypeError in chrF if a resample scores 0. The interval is mean ± ci.
    signatures, results = _run(PairedTest([("", predictions)], {"": metric}, [references], "bs", n_samples=bootstrap))
    [(name, signature)] = signatures.items()
    [result] = results[name]
    low, high = float(result.mean - result.ci), float(result.mean + result.ci)
    return Quality(float(result.score), str(signature), max(0.0, low), min(100.0, high))


def _run(test: PairedTest) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    # sacreBLEU's type hints say that any field could be missing, which is not so.
    return test()


def _check_lengths(predictions: Sequence[str], references: Sequence[str]) -> None:
    if len(predictions) != len(references) or not references:
        raise SimulstError(
            f"{len(predictions)} predictions and {len(references)} references; give one reference for each prediction."
        )
