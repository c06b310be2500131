"""The utterances that a report shows: the best, the worst, and the most delayed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulst.log import LOG
from simulst.log.instance import Instance
from simulst.measure.latency import instance_latency
from simulst.measure.quality import sentence_chrf
from simulst.results.runs import ScoredRun
from simulst.runs.score import read_run_log
from simulst.words import split

LONGEST_MS = 120_000.0  # of an utterance that is shown
WRITTEN = ("Best", "Worst", "Most delayed")


@dataclass(frozen=True)
class Word:
    """A word, or character, with the space before it. written_ms: source read when it was written; computed_ms: that
    plus the time of computation, None if unknown.
    """

    text: str
    written_ms: float
    computed_ms: float | None


@dataclass(frozen=True)
class Utterance:
    """An utterance and what was written.

    kinds: of `WRITTEN`, why it is shown. seconds: its length. quality: chrF of this text alone, None without a
    reference. lag: LAAL in ms, None if nothing was written. offline: the text of the offline run, None without one.
    reads: ms of source at which READ had the text decoded.
    """

    name: str
    kinds: tuple[str, ...]
    seconds: float
    reference: str | None
    text: str
    offline: str | None
    quality: float | None
    lag: float | None
    words: tuple[Word, ...]
    reads: tuple[float, ...]


@dataclass(frozen=True)
class Utterances:
    """The utterances of one run. note: what holds for all of them."""

    run: str
    note: str
    shown: tuple[Utterance, ...]


def show_utterances(runs: Sequence[ScoredRun], count: int) -> tuple[Utterances | None, str]:
    """The utterances to show, or None and why there are none.

    count: of the best, of the worst and of the most delayed ones; 0: none.

    Raises SimulstError: the log is broken.
    """
    run = _run_of(runs)
    if run is None:
        return None, "There is no run that wrote before the end of its utterances."
    if not (run.folder / LOG).is_file():
        return None, f"{run.name} has no {LOG}, so none of its utterances is shown."
    unit = str(run.scores.get("unit") or run.config.task.unit or "word")
    log = sorted(read_run_log(run.folder, unit), key=lambda instance: instance.index)
    short = [instance for instance in log if instance.source_length <= LONGEST_MS]
    offline = next((other for other in runs if other.offline and (other.folder / LOG).is_file()), None)
    texts = {} if offline is None else {_name(i): i.prediction for i in read_run_log(offline.folder, unit)}
    qualities = sentence_chrf([i.prediction for i in short], [i.reference or "" for i in short]) if short else []
    found = [_utterance(i, unit, q, texts.get(_name(i))) for i, q in zip(short, qualities, strict=True)]
    if not (chosen := _chosen(found, count)):
        return None, "All recordings are longer than two minutes, so none is shown." if count else ""
    note = "There is no offline run to compare with." if offline is None else ""
    return Utterances(run.name, note, chosen), ""


def _run_of(runs: Sequence[ScoredRun]) -> ScoredRun | None:
    """The online run with the highest BLEU; of those that are as good, the fastest."""
    online = [run for run in runs if not run.offline]
    best = max((run.scores.get("BLEU") or 0.0 for run in online), default=0.0)
    good = [run for run in online if (run.scores.get("BLEU_high") or run.scores.get("BLEU") or 0.0) >= best]
    lag = "LongYAAL" if any("recordings" in run.scores for run in online) else "LAAL"
    return min(good, key=lambda run: run.scores.get(lag) or math.inf, default=None)


def _name(instance: Instance) -> str:
    return instance.name or str(instance.index)


def _chosen(found: Sequence[Utterance], count: int) -> tuple[Utterance, ...]:
    """The utterances to show, with the kinds of each."""
    scored = [(one.quality, one) for one in found if one.quality is not None]
    best = [one for _, one in sorted(scored, key=lambda pair: (-pair[0], pair[1].lag or 0.0))]
    lags = [(one.lag, one) for one in found if one.lag is not None]
    late = [one for _, one in sorted(lags, key=lambda pair: -pair[0])]
    kinds = dict[str, tuple[str, ...]]()
    for kind, some in zip(WRITTEN, (best[:count], best[::-1][:count], late[:count]), strict=True):
        for one in some:
            kinds[one.name] = (*kinds.get(one.name, ()), kind)
    return tuple(replace(one, kinds=kinds[one.name]) for one in found if one.name in kinds)


def _utterance(instance: Instance, unit: str, quality: float, offline: str | None) -> Utterance:
    """An utterance, which is not chosen yet."""
    pieces = split(instance.prediction, unit)
    if len(pieces) != len(instance.delays):  # of a program that counts words in another way
        pieces = [f" {piece}" if unit == "word" else piece for piece in instance.units(unit)]
    elapsed = instance.elapsed if len(instance.elapsed) == len(instance.delays) else [None] * len(instance.delays)
    words = [
        Word(text, round(delay, 1), None if computed is None else round(computed, 1))
        for text, delay, computed in zip(pieces, instance.delays, elapsed, strict=False)
    ]
    lags = (instance_latency(instance, unit) if instance.source_length else None) or {}
    lag = lags.get("LAAL")
    return Utterance(
        _name(instance),
        (),
        round(instance.source_length / 1000, 3),
        instance.reference,
        instance.prediction,
        offline,
        round(quality, 1) if instance.reference else None,
        None if lag is None else round(lag),
        tuple(words),
        tuple(round(ms, 1) for ms in instance.reads),
    )
