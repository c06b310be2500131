"""Quality with its interval and its paired test, of corpora (by sacreBLEU) and of segments; WER and CER, by jiwer."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics import CHRF, TER
from sacrebleu.metrics.base import Metric as Corpus
from sacrebleu.significance import PairedTest

from simulst.errors import SimulstError, reason_of
from simulst.languages import unit_of
from simulst.measure.metric import Metric, Texts, bleu_for
from simulst.measure.spoken import lower_without_punctuation

SEED = 12345  # sacreBLEU's
BATCH = 100  # exchanges that are computed at once; bounds the memory


@dataclass(frozen=True)
class Quality:
    """The score of a corpus. signature: sacreBLEU's; empty for means of segments.

    low, high: the 95 % interval; None if it was not asked for.
    """

    score: float
    signature: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Difference:
    """Two systems' scores, and the p-value of the hypothesis that they are equally good.

    low, high: the 95 % interval of system - baseline.
    """

    baseline: float
    system: float
    low: float
    high: float
    p: float
    signature: str


def bleu(predictions: Sequence[str], references: Sequence[str], language: str = "en", bootstrap: int = 0) -> Quality:
    """Corpus BLEU. Arguments and errors are those of `corpus_score`; language: as `tokenizer_for` takes it."""
    return corpus_score(bleu_for(language), predictions, references, bootstrap)


def judge(metric: Metric, texts: Texts, bootstrap: int = 0) -> Quality:
    """The score of texts. bootstrap: how many resamples to draw for the 95 % interval; 0: no interval.

    Raises SimulstError: as `corpus_score`, `segment_scores`.
    """
    if metric.corpus is None:
        return mean_score(segment_scores(metric, texts), bootstrap, texts.strata)
    return corpus_score(metric.corpus(texts.language), texts.predictions, texts.references, bootstrap, texts.strata)


def paired(metric: Metric, baseline: Texts, system: Texts, samples: int = 10_000) -> Difference:
    """A paired randomisation test of two systems on the same sentences, and its interval.

    The test is two-sided (approximate randomisation; Riezler and Maxwell, 2005). The systems' texts of each sentence
    are exchanged at random; p is how often this makes a difference as large as the one observed. For few sentences all
    exchanges are tried. sacreBLEU's bootstrap test is not used: its p is that of a one-sided test. The 95 % interval is
    the observed difference minus those that exchanges make, without their extremes on either side. So it is of the same
    test: 0 lies outside if and only if p is below 0.05.

    samples: how many exchanges to try.

    Raises SimulstError: as `judge`; there is one sentence only.
    """
    if metric.corpus is None:
        return mean_difference(segment_scores(metric, baseline), segment_scores(metric, system), samples)
    for texts in (baseline, system):
        _check_lengths(texts.predictions, texts.references)
    _check_several(len(system.references))
    of_corpus = metric.corpus(system.language)
    return _difference(of_corpus, baseline.predictions, system.predictions, system.references, samples)


def segment_scores(metric: Metric, texts: Texts) -> list[float]:
    """The score of each sentence by a metric of one's own.

    Raises SimulstError: its code fails, or does not give a finite number for each sentence.
    """
    assert metric.segments is not None
    try:
        scores = [float(value) for value in metric.segments(texts)]
    except SimulstError:
        raise
    except Exception as error:  # of any kind, as it is the user's code that runs
        raise SimulstError(f"{metric.path or metric.key}: cannot score these texts ({reason_of(error)}).") from error
    if len(scores) != len(texts.predictions) or not all(map(math.isfinite, scores)):
        raise SimulstError(
            f"{metric.path or metric.key}: gives {len(scores)} scores of {len(texts.predictions)} sentences, or some "
            "that are no numbers; give one for each."
        )
    return scores


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


def _difference(
    metric: Corpus, baseline: Sequence[str], system: Sequence[str], references: Sequence[str], samples: int
) -> Difference:
    count = len(references)
    one, other = (_statistics(metric, texts, references) for texts in (baseline, system))
    score = functools.partial(_score_of, metric)

    def between(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Differences of corpora with these sums, (..., columns)."""
        return np.apply_along_axis(score, -1, second) - np.apply_along_axis(score, -1, first)

    def difference(first: np.ndarray, second: np.ndarray, axis: int = -1) -> np.ndarray:
        """first: (..., count), the texts of the first corpus: i is the baseline's i-th, count + i the system's."""
        exchanged = (first >= count).astype(np.float64) @ (other - one)
        return between(one.sum(0) + exchanged, other.sum(0) - exchanged)

    numbers = np.arange(count)
    test = _permuted((numbers, numbers + count), difference, samples)
    of_baseline, of_system = (float(metric.corpus_score(texts, [references]).score) for texts in (baseline, system))
    return Difference(of_baseline, of_system, *_interval(test, count), float(test.pvalue), str(metric.get_signature()))


def _statistics(metric: Corpus, predictions: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """What corpus scores need to know of each sentence: counts, (sentences, columns)."""
    return np.array(metric._extract_corpus_statistics(predictions, [references]), dtype=np.float64)


def _score_of(metric: Corpus, sums: np.ndarray) -> float:
    """The score of a corpus whose statistics have these sums, (columns,)."""
    return float(metric._compute_score_from_stats(sums.astype(int).tolist()).score)


def _resampled(count: int, bootstrap: int, strata: Sequence[str]) -> np.ndarray:
    """How often each of `count` segments is in each resample, (bootstrap, count). Strata keep their sizes."""
    rng, names = np.random.default_rng(SEED), np.array(strata or [""] * count)
    drawn = np.zeros((bootstrap, count))
    for stratum in np.unique(names):
        inside = names == stratum
        drawn[:, inside] = rng.multinomial(inside.sum(), np.full(inside.sum(), 1 / inside.sum()), bootstrap)
    return drawn


def mean_difference(baseline: Sequence[float], system: Sequence[float], samples: int = 10_000) -> Difference:
    """The test of `paired` for the mean of segments' scores. Raises SimulstError: there is one segment only."""
    one, other = np.array(baseline), np.array(system)
    _check_several(len(one))
    test = _permuted((one, other), lambda first, second, axis=-1: (second - first).mean(axis=axis), samples)
    return Difference(float(one.mean()), float(other.mean()), *_interval(test, len(one)), float(test.pvalue), "")


def _permuted(pairs: tuple[np.ndarray, np.ndarray], difference: Callable[..., np.ndarray], samples: int) -> Any:
    try:
        from scipy.stats import permutation_test  # here, as it takes half a second
    except ImportError as error:
        raise SimulstError(f"tests of significance need SciPy ({error}); pip install scipy.") from error

    return permutation_test(
        pairs,
        difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=samples,
        batch=BATCH,
        rng=np.random.default_rng(SEED),
    )


def _interval(test: Any, count: int) -> tuple[float, float]:
    """The 95 % interval of a difference that SciPy's permutation test of `count` pairs observed.

    0 lies outside of it if and only if p < 0.05.
    """
    made = np.sort(test.null_distribution)
    # So many exchanges may differ by as much as was observed, on one side, for a p below 0.05. SciPy adds the observed
    # texts to exchanges that are drawn.
    drawn = int(len(made) < 2**count)
    rare = max(0, math.ceil(0.025 * (len(made) + drawn)) - drawn - 1)
    return float(test.statistic - made[-1 - rare]), float(test.statistic - made[rare])


def sentence_chrf(predictions: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF2 of each sentence, 0 to 100. Raises SimulstError: as `bleu`."""
    _check_lengths(predictions, references)
    metric = CHRF()
    return [
        float(metric.corpus_score([prediction], [[reference]]).score)
        for prediction, reference in zip(predictions, references, strict=True)
    ]


def corpus_score(
    metric: Corpus,
    predictions: Sequence[str],
    references: Sequence[str],
    bootstrap: int = 0,
    strata: Sequence[str] = (),
) -> Quality:
    """A score of sacreBLEU's, with one reference for each prediction.

    bootstrap: how many resamples to draw for the 95 % interval; 0: no interval. A single sentence has no interval,
        because all resamples are the same.
    strata: the test set that each sentence is of. Of several, each keeps its number of sentences in all resamples.

    Raises SimulstError: no sentences; not as many predictions as references.
    """
    _check_lengths(predictions, references)
    if bootstrap <= 1 or len(references) == 1:
        score = metric.corpus_score(predictions, [references]).score
        return Quality(float(score), str(metric.get_signature()))
    if len(set(strata)) > 1:
        sums = _resampled(len(references), bootstrap, strata) @ _statistics(metric, predictions, references)
        low, high = np.percentile([_score_of(metric, row) for row in sums], [2.5, 97.5])
        score = metric.corpus_score(predictions, [references]).score
        return Quality(float(score), str(metric.get_signature()), float(low), float(high))
    # This uses PairedTest with one system, because corpus_score(n_bootstrap=...) of sacreBLEU 2.6 keeps the interval
    # private, and raises TypeError in chrF if a resample scores 0. The interval is mean ± ci.
    test: Any = PairedTest([("", predictions)], {"": metric}, [references], "bs", n_samples=bootstrap)
    signatures, results = test()
    [(name, signature)] = signatures.items()
    [result] = results[name]
    low, high = float(result.mean - result.ci), float(result.mean + result.ci)
    if not isinstance(metric, TER):  # which may be above 100
        high = min(100.0, high)
    return Quality(float(result.score), str(signature), max(0.0, low), high)


def _check_lengths(predictions: Sequence[str], references: Sequence[str]) -> None:
    if len(predictions) != len(references) or not references:
        raise SimulstError(
            f"{len(predictions)} predictions and {len(references)} references; give one reference for each prediction."
        )


def _check_several(count: int) -> None:
    if count == 1:
        raise SimulstError("a paired test needs several sentences, but there is one; compare longer logs.")


def mean_score(scores: Sequence[float], bootstrap: int = 1000, strata: Sequence[str] = ()) -> Quality:
    """The mean of segments' scores, with the 95 % interval of resampled segments (none if `bootstrap` is 0).

    strata: as in `corpus_score`.
    """
    values = np.array(scores)
    mean = float(values.mean())
    if bootstrap <= 1 or len(values) == 1:
        return Quality(mean, "")
    means = _resampled(len(values), bootstrap, strata) @ values / len(values)
    low, high = np.percentile(means, [2.5, 97.5])
    return Quality(mean, "", float(low), float(high))
