"""Latency metrics, which say how far the words lag behind the speech: AL in three forms, LAAL, AP, DAL, and RTF.

The functions on one utterance take plain numbers: times in ms (delays, or elapsed times for the computation-aware
form), the length of the source in ms, and the lengths of texts in units (words or characters). Times must not be empty,
and lengths must not be 0; `corpus_latency` ensures this.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from simulst.log.instance import SAME_MS, Instance
from simulst.measure.metric import lags_of


def average_lagging(times: Sequence[float], source_length: float, target_length: int) -> float:
    """AL in ms: the mean lag behind a policy that spreads `target_length` units evenly over the source.

    With `target_length` |Y*| it is SimulEval's AL (paper A, equations 4 and 5). With |Y| it is the original AL (paper
    B, equation 5). With max(|Y|, |Y*|) it is LAAL (paper A, equation 6). The mean ends with the first unit that was
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
    """LAAL in ms (paper A, equation 6): hypotheses that are too long do not get a negative lag."""
    return average_lagging(times, source_length, max(len(times), reference_length))


def average_lagging_steps(
    reads: Sequence[float], writes: Sequence[int], source_length: float, reference_length: int
) -> float:
    """AL in ms, weighted by the number of tokens that each step wrote (paper B, equation 6, with γ = |Y*| / |X|).

        1/τ · Σ_{t=1..τ} (g(t) - (t - 1) / γ) · w_t,   τ = first step that has read the whole source

    The equation is taken literally. It divides by steps, not by tokens, so a policy that writes N tokens per step gets
    about N times the value. What is written in later steps at the end of the source does not count.

    reads: g(t), ms of source read at each step, rising, including steps that wrote nothing; not empty.
    writes: w_t, tokens that each step wrote, at most N.
    source_length: |X| in ms.
    reference_length: |Y*| in tokens.
    """
    steps = list(zip(reads, writes, strict=True))
    tau = next((t for t, (read, _) in enumerate(steps, 1) if read >= source_length - SAME_MS), len(steps))
    ideal_step = source_length / reference_length
    return sum((read - t * ideal_step) * written for t, (read, written) in enumerate(steps[:tau])) / tau


def average_proportion(times: Sequence[float], source_length: float, reference_length: int) -> float:
    """AP: the share of the source read before each unit, summed and divided by |Y*| (Cho and Esipova 2016).

    As in SimulEval, it can exceed 1 if the hypothesis is longer than the reference.
    """
    return sum(times) / (source_length * reference_length)


def differentiable_average_lagging(times: Sequence[float], source_length: float) -> float:
    """DAL in ms (Cherry and Foster 2019; Arivazhagan et al. 2019): every unit costs at least the ideal step |X| / |Y|.

    As in SimulEval, units after the end of the source count too, and |Y| is the length of the hypothesis.
    """
    ideal_step = source_length / len(times)
    total = 0.0
    paced = float("-inf")
    for i, time in enumerate(times):
        paced = max(time, paced + ideal_step)
        total += paced - i * ideal_step
    return total / len(times)


def instance_latency(instance: Instance, unit: str, computation_aware: bool = False) -> dict[str, float | None] | None:
    """All lags of one utterance, by their keys.

    None if it wrote nothing, or if elapsed times are needed but were not logged.
    AL_steps is None if the log does not count the tokens of steps and reference, and with `computation_aware`.
    """
    times = instance.elapsed if computation_aware else instance.delays
    if not times:
        return None
    # |Y*|, at least 1. (SimulEval counts an empty reference as one word. It fails on one without characters.)
    source, target = instance.source_length, max(1, instance.reference_length(unit))
    steps, tokens = (instance.reads, instance.writes), instance.reference_tokens
    counted = instance.writes and tokens and not computation_aware
    return {
        "AL": average_lagging(times, source, target),
        "AL_original": average_lagging(times, source, len(times)),
        "AL_steps": average_lagging_steps(*steps, source, tokens) if counted else None,
        "LAAL": length_adaptive_average_lagging(times, source, target),
        "AP": average_proportion(times, source, target),
        "DAL": differentiable_average_lagging(times, source),
    }


def computation_ms(instance: Instance) -> float | None:
    """Computation time of an utterance in ms: `compute_ms`, or else the last unit's elapsed time minus its delay.

    None if it was not measured: there are no elapsed times, or they are below the delays (SimulEval logs zeros for text
    input).
    """
    if instance.compute_ms is not None:
        return instance.compute_ms
    if not instance.elapsed or instance.elapsed[-1] < instance.delays[-1]:
        return None
    return instance.elapsed[-1] - instance.delays[-1]


def real_time_factor(instances: Sequence[Instance]) -> float | None:
    """RTF: computation time / audio duration, both summed over the utterances whose computation time is known.

    SimulEval's "RTF" is something else: the last delay / the length of the source, per utterance, without computation.
    None if no utterance has a computation time.
    """
    known = [(ms, i.source_length) for i in instances if (ms := computation_ms(i)) is not None]
    return sum(ms for ms, _ in known) / sum(length for _, length in known) if known else None


def corpus_latency(instances: Sequence[Instance], unit: str) -> dict[str, float | None]:
    """The mean of each lag over utterances, plain and with the elapsed times (_CA), and RTF.

    AL, LAAL, AP and DAL equal those of SimulEval 1.1.4's scorers, and the _CA ones those of its scorers with
    computation_aware=True. (With that flag, SimulEval's command line also changes the plain ones: SimulEval issue 44.)
    Utterances that wrote nothing are skipped. A mean over no utterances is None; AL_steps_CA is None.
    """
    rows = {aware: [row for i in instances if (row := instance_latency(i, unit, aware))] for aware in (False, True)}
    means: dict[str, float | None] = {}
    for metric in lags_of("sentences"):
        values = [row[metric.plain or metric.key] for row in rows[bool(metric.plain)]]
        known = [value for value in values if value is not None]
        means[metric.key] = fmean(known) if known else None
    return {**means, "RTF": real_time_factor(instances)}
