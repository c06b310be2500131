"""How far the words lag behind the speech: AL in three forms, LAAL, AP, DAL and the real-time factor.

The functions on one utterance take plain numbers: times in ms (delays, or elapsed times for the computation-aware
form), the source's length in ms, lengths of texts in units (words or characters). Times and lengths are never empty
or zero here; `corpus_latency` sees to that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby
from statistics import fmean

from simulst.log import SAME_MS, Instance

METRICS = ("AL", "AL_original", "AL_steps", "LAAL", "AP", "DAL")
"""Keys of `instance_latency`; `corpus_latency` has each of them with the suffix _CA too, and RTF."""

LONG_METRICS = ("LongYAAL", "LongLAAL", "StreamLAAL")
"""Those of whole recordings (longform.py), each also with the suffix _CA."""


def average_lagging(times: Sequence[float], source_length: float, target_length: int) -> float:
    """AL in ms: mean lag behind a policy that spreads `target_length` units evenly over the source.

    Paper A, equations 4 and 5, where `target_length` is |Y*| (SimulEval's AL); paper B, equation 5, where it is |Y|
    (the original AL); LAAL (paper A, equation 6) where it is max(|Y|, |Y*|). The mean ends with the first unit
    written at or after the end of the source, or with the last unit if there is none.
    """
    ideal_step = source_length / target_length
    total = 0.0
    for i, time in enumerate(times):
        total += time - i * ideal_step
        if time >= source_length:
            break
    return total / (i + 1)


def length_adaptive_average_lagging(times: Sequence[float], source_length: float, reference_length: int) -> float:
    """LAAL in ms (paper A, equation 6): over-long hypotheses no longer earn a negative lag."""
    return average_lagging(times, source_length, max(len(times), reference_length))


def average_lagging_steps(
    times: Sequence[float],
    delays: Sequence[float],
    source_length: float,
    reference_length: int,
    reads: Sequence[float] = (),
) -> float:
    """AL weighted by the units that each decoding step wrote, in ms (paper B, equation 6, with γ = |Y*| / |X|).

        1/τ · Σ_{t=1..τ} (g(t) - (t - 1) / γ) · w_t,   τ = first step that has read the whole source

    The literal equation: it divides by steps, not by units, so writing N units a step scales it by about N.

    times:  per unit, what stands for g(t): the delays, or the elapsed times. τ comes from the reading alone.
    reads:  ms of source read at each step, rising, steps that wrote nothing included. A unit belongs to the first step
            that had read as much as its delay; units written after the last step in `reads` form one more step.
            Without `reads`, a run of equal delays is a step. Of steps with the same g(t) the first gets all units,
            since a log cannot tell them apart.
    """
    if reads:
        positions = [*reads, delays[-1]] if delays[-1] > reads[-1] + SAME_MS else list(reads)
        step_of_unit = [min(bisect_left(positions, delay - SAME_MS), len(positions) - 1) for delay in delays]
    else:
        runs = [(delay, len(list(run))) for delay, run in groupby(delays)]
        positions = [delay for delay, _ in runs]
        step_of_unit = [step for step, (_, size) in enumerate(runs) for _ in range(size)]
    tau = next((t for t, read in enumerate(positions, 1) if read >= source_length - SAME_MS), len(positions))
    ideal_step = source_length / reference_length
    # Summing over the units of a step is the same as weighting it by w_t; steps with w_t = 0 only count in τ.
    lags = (time - step * ideal_step for time, step in zip(times, step_of_unit, strict=True) if step < tau)
    return sum(lags) / tau


def average_proportion(times: Sequence[float], source_length: float, reference_length: int) -> float:
    """AP, no unit: the share of the source read before a unit, summed and divided by |Y*| (Cho and Esipova 2016).

    Above 1 where the hypothesis is longer than the reference, as in SimulEval.
    """
    return sum(times) / (source_length * reference_length)


def differentiable_average_lagging(times: Sequence[float], source_length: float) -> float:
    """DAL in ms (Cherry and Foster 2019; Arivazhagan et al. 2019): every unit costs at least the ideal step |X| / |Y|.

    All units count, those after the end of the source too, and |Y| is the hypothesis's length, as in SimulEval.
    """
    ideal_step = source_length / len(times)
    total = 0.0
    paced = float("-inf")
    for i, time in enumerate(times):
        paced = max(time, paced + ideal_step)
        total += paced - i * ideal_step
    return total / len(times)


def reference_length(instance: Instance, unit: str) -> int:
    """|Y*|, at least 1: SimulEval counts an empty reference as one word, and fails on one of no characters."""
    return max(1, instance.reference_length(unit))


def instance_latency(instance: Instance, unit: str, computation_aware: bool = False) -> dict[str, float] | None:
    """All of METRICS for one utterance; None where it wrote nothing, or has no elapsed times and they are asked for."""
    times = instance.elapsed if computation_aware else instance.delays
    if not times:
        return None
    source, target = instance.source_length, reference_length(instance, unit)
    return {
        "AL": average_lagging(times, source, target),
        "AL_original": average_lagging(times, source, len(times)),
        "AL_steps": average_lagging_steps(times, instance.delays, source, target, instance.reads),
        "LAAL": length_adaptive_average_lagging(times, source, target),
        "AP": average_proportion(times, source, target),
        "DAL": differentiable_average_lagging(times, source),
    }


def computation_ms(instance: Instance) -> float | None:
    """Computation time of an utterance, ms: `compute_ms`, else what the last unit's elapsed time has beyond its delay.

    None where it was not measured: no elapsed times, or ones below the delays (SimulEval's zeros for text input).
    """
    if instance.compute_ms is not None:
        return instance.compute_ms
    if not instance.elapsed or instance.elapsed[-1] < instance.delays[-1]:
        return None
    return instance.elapsed[-1] - instance.delays[-1]


def real_time_factor(instances: Sequence[Instance]) -> float | None:
    """RTF: computation time / audio duration, both summed over the utterances whose computation time is known.

    Not SimulEval's "RTF", which is the last delay / the source's length, per utterance, and measures no computation.
    None where no utterance has a computation time.
    """
    known = [(ms, i.source_length) for i in instances if (ms := computation_ms(i)) is not None]
    return sum(ms for ms, _ in known) / sum(length for _, length in known) if known else None


def corpus_latency(instances: Sequence[Instance], unit: str) -> dict[str, float | None]:
    """METRICS, each also with the suffix _CA (on elapsed times), as means over utterances, and RTF.

    AL, LAAL, AP and DAL equal SimulEval 1.1.4's scorers; the _CA ones those built with computation_aware=True (its
    command line then passes the flag to the plain ones as well: SimulEval issue 44). Utterances that wrote nothing
    are skipped; a mean over none is None.
    """
    means: dict[str, float | None] = {}
    for suffix, computation_aware in (("", False), ("_CA", True)):
        rows = [row for i in instances if (row := instance_latency(i, unit, computation_aware))]
        for metric in METRICS:
            means[metric + suffix] = fmean(row[metric] for row in rows) if rows else None
    means["RTF"] = real_time_factor(instances)
    return means
