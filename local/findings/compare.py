"""Differences between the two sides of a finding, on the whole test set and on every resample at once.

    quality, lag, cost, length   the mean over the runs of a, minus that over the runs of b: BLEU, ms, percent of b's
                                 RTF, ratio of lengths
    quality_range, lag_range     the largest figure minus the smallest one among the runs: of a, minus that of b
    quality_at_lag, cost_at_lag  a minus b at the same lag: BLEU, percent of b's RTF
    lag_at_quality               a minus b at the same BLEU: ms

For the last three, the runs of a side are the corners of a curve of straight lines. The difference is a mean over
levels that are evenly spread over the range that both curves cover. If they have no common range, the curves are
compared where the ranges come closest: the words of the faster runs could be held back, and a better translation is
also good enough where a worse one is asked for. `Difference.bound` says what may be concluded then. A finding may
leave out lags above a limit (`up_to`). If no common lag is below it, there is no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from findings.declared import Finding
from findings.figures import Figures

LEVELS = 11
AT = {"quality_at_lag": "lag", "cost_at_lag": "lag", "lag_at_quality": "BLEU"}
"""Kinds that compare curves, and what is equal there."""


@dataclass(frozen=True)
class Difference:
    """a minus b. values: (S,), S = 1 + resamples, the first one of the whole test set.

    levels: first and last level of the comparison on the whole test set: lags in ms, or BLEU.
    bound: if the curves have no common range, the only sign that may be concluded, +1 or -1, or 0 for none.
    """

    values: np.ndarray
    levels: tuple[float, float] | None = None
    bound: int | None = None


def difference(finding: Finding, a: Sequence[Figures], b: Sequence[Figures]) -> Difference:
    """The difference that a finding is about, a minus b. It is NaN where a figure is missing."""
    kind = finding.kind
    if kind in AT:
        return _at_equal(finding, a, b)
    of_a, of_b = (_stack(kind.removesuffix("_range"), finding.lag, side) for side in (a, b))
    if kind.endswith("_range"):
        return Difference(np.ptp(of_a, axis=1) - np.ptp(of_b, axis=1))
    means = of_a.mean(axis=1), of_b.mean(axis=1)
    return Difference(_percent(*means) if kind == "cost" else means[0] - means[1])


def _at_equal(finding: Finding, a: Sequence[Figures], b: Sequence[Figures]) -> Difference:
    """Of curves, at equal lag or at equal BLEU."""
    what = finding.kind.partition("_at_")[0]
    by_lag = AT[finding.kind] == "lag"
    curves = []
    for side in (a, b):
        lag = _stack("lag", finding.lag, side)
        curves.append(_rising(lag, _stack(what, finding.lag, side)) if by_lag else _cheapest(side, lag))
    (x_a, y_a), (x_b, y_b) = curves
    low, high = np.maximum(x_a[:, 0], x_b[:, 0]), np.minimum(x_a[:, -1], x_b[:, -1])
    overlap = not low[0] > high[0]
    if finding.up_to is not None:
        low, high = np.where(low > finding.up_to, np.nan, low), np.minimum(high, finding.up_to)
    # No common range: the first level of the slower curve, or the last level of the worse one.
    start, end = (low, np.maximum(low, high)) if by_lag else (np.minimum(low, high), high)
    levels = start[:, None] + (end - start)[:, None] * np.linspace(0, 1, LEVELS)
    at_a, at_b = interpolate(x_a, y_a, levels), interpolate(x_b, y_b, levels)
    values = _percent(at_a, at_b) if what == "cost" else at_a - at_b
    bound = None
    if not overlap:
        # At equal lag, the faster side may be told to be better; at equal BLEU, the better side to be faster.
        a_comes_first = x_a[0, -1] < x_b[0, 0]
        bound = {"quality": 1, "cost": 0, "lag": 1}[what] * (1 if a_comes_first else -1)
    means = np.where(np.isnan(levels[:, 0]), np.nan, values.mean(axis=1))
    return Difference(means, (float(start[0]), float(end[0])), bound)


def interpolate(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Many curves of straight lines at once, each constant before its first corner and after its last one.

    x: (S, k), rising. y: (S, k). at: (S, m). Returns: (S, m); NaN for a curve of which a corner is missing.
    """
    values = np.broadcast_to(y[:, :1], at.shape).astype(np.float64)
    for i in range(x.shape[1] - 1):
        step = x[:, i + 1] - x[:, i]
        rise = y[:, i + 1] - y[:, i]
        # Of two corners at the same place, the second one counts from there on.
        passed = (at - x[:, i, None]) / np.where(step > 0, step, 1.0)[:, None]
        share = np.where(step[:, None] > 0, np.clip(passed, 0, 1), at >= x[:, i, None])
        values += share * rise[:, None]
    missing = np.isnan(x).any(axis=1) | np.isnan(y).any(axis=1)
    return np.where(missing[:, None], np.nan, values)


def _rising(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners of curves by rising x. x, y: (S, k)."""
    order = np.argsort(x, axis=1, kind="stable")
    return np.take_along_axis(x, order, axis=1), np.take_along_axis(y, order, axis=1)


def _cheapest(side: Sequence[Figures], lag: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """BLEU and lag of the runs that are better than every faster run, by rising BLEU.

    Other runs become copies of the run before them. lag: (S, k). Returns: BLEU and lag, both (S, k); a curve is NaN if
    a lag of it is missing.
    """
    missing = np.isnan(lag).any(axis=1)
    lag, bleu = _rising(lag, _stack("quality", "", side))
    best = np.maximum.accumulate(bleu, axis=1)
    better = np.concatenate([np.ones_like(best[:, :1], dtype=bool), best[:, 1:] > best[:, :-1]], axis=1)
    kept = np.maximum.accumulate(np.where(better, np.arange(best.shape[1]), 0), axis=1)
    cheapest = np.take_along_axis(lag, kept, axis=1)
    return np.take_along_axis(bleu, kept, axis=1), np.where(missing[:, None], np.nan, cheapest)


def _stack(what: str, lag: str, side: Sequence[Figures]) -> np.ndarray:
    """A figure of all runs of a side: (S, k)."""
    columns = {
        "quality": lambda run: run.bleu,
        "lag": lambda run: run.lags[lag],
        "cost": lambda run: run.rtf,
        "length": lambda run: run.length,
    }
    return np.stack([columns[what](run) for run in side], axis=1)


def _percent(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How much a is more than b, in percent of b."""
    return 100 * np.divide(a, b, out=np.full_like(a, np.nan), where=b > 0) - 100
