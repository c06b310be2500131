"""The best configuration of each latency regime, and why: which run of a sweep to hand in to a shared task.

A regime is a range of lags, such as 0 to 2000 ms of LongYAAL. Of the runs that lie in it, the one with the highest
quality (BLEU, or what the shared task ranks by) is chosen. The choice belongs on a development set: the best of many
runs on a test set looks better than it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from simulst.errors import SimulstError
from simulst.files.folder import write_atomically
from simulst.log import LOG
from simulst.measure.metric import Metric, check_quality
from simulst.measure.score import USUAL, Asked
from simulst.models.registry import is_name
from simulst.results.runs import ScoredRun, check_lag, check_same_data, load_runs, metrics_of
from simulst.runs.score import compare_runs

logger = logging.getLogger(__name__)

CHANCE = 0.05  # from this p-value on, a difference may be chance


@dataclass(frozen=True)
class Regime:
    """Lags above `low` and up to `high`, in ms: the limit between two regimes belongs to the lower one.

    From 0 on, lags of 0 and less (AL can be negative) are in it, too.
    """

    low: float
    high: float

    def holds(self, lag: float) -> bool:
        """Whether a lag, in ms, lies in the regime."""
        return (self.low == 0 or lag > self.low) and lag <= self.high

    def __str__(self) -> str:
        return f"above {self.low:g}, up to {self.high:g} ms" if self.low else f"up to {self.high:g} ms"


def parse_regime(text: str) -> Regime:
    """A regime that is written as LOW-HIGH, in ms. Raises SimulstError: it is written otherwise, or is empty."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)", text)
    if not found or not float(found[1]) < float(found[2]):
        raise SimulstError(f"'{text}' is no regime; write the lowest and the highest lag in ms, such as 0-2000.")
    return Regime(float(found[1]), float(found[2]))


@dataclass(frozen=True)
class Choice:
    """What was found for one regime.

    lag, quality: by which runs lie in it, and are better.
    runs: those in the regime, best first. Empty: no run lies there.
    p: of the paired test between the first two; None if there is no second, or no test. why: why not.
    interval: the 95 % interval of their difference in quality.
    sentences: how many the test compared.
    """

    regime: Regime
    lag: Metric
    quality: Metric
    runs: tuple[ScoredRun, ...]
    p: float | None = None
    interval: tuple[float, float] | None = None
    why: str = ""
    sentences: int = 0


def choose(
    folders: Sequence[Path],
    lag: str,
    regimes: Sequence[Regime],
    quality: str = "BLEU",
    asked: Asked = USUAL,
    most_rtf: float | None = None,
) -> list[Choice]:
    """The best run of each regime.

    folders: of scored runs. Offline runs are left out, as are runs without this quality or without a lag.
    lag: a key of scores.json, in ms. quality: the key of another one.
    asked: the sentences of whole recordings, and the transcript, for the test.
    most_rtf: runs with a higher real-time factor, or with none, are left out; None: all are compared.

    Raises SimulstError: there is no such quality; the lag is not among the scores, or not in ms; no run can be
        compared; the runs are of different data.
    """
    runs = [run for run in load_runs(folders) if not run.offline]
    of_quality = check_quality(metrics_of(runs), quality)
    lags = [check_lag(run, lag) for run in runs]
    scored = [run for run in runs if run.scores.get(quality) is not None and run.scores[lag] is not None]
    for run in runs:
        if run not in scored:
            logger.warning("%s: has no %s or no %s; left out.", run.folder, quality, lag)
    if not scored:
        if lag.endswith("_CA") and any(run.scores.get(quality) is not None for run in runs):
            remedy = "decode without --streams, with which no computation times are logged, or choose by another lag"
        else:
            remedy = "score the runs with --comet" if quality == "COMET" else "decode a sweep"
        others = f" and {len(folders) - 1} more" if len(folders) > 1 else ""
        raise SimulstError(
            f"{folders[0]}{others}: no run has both {quality} and {lag}, apart from offline ones; {remedy}."
        )
    if lags[0].unit != "ms":
        raise SimulstError(f"--metric {lag}: a share, and a regime is in ms; choose another lag, such as LAAL.")
    check_same_data(scored)
    if quality == "COMET" and len(models := {str(run.scores.get("COMET_model")) for run in scored}) > 1:
        raise SimulstError(
            f"{scored[0].folder} and others: have COMET by several models ({', '.join(sorted(models))}); score all "
            "runs with the same --comet."
        )
    if asked.sentences is not None and not any("recordings" in run.scores for run in scored):
        raise SimulstError(
            f"{asked.sentences.segmentation}: the runs are not of whole recordings; leave out --segmentation and "
            "--references."
        )
    if most_rtf is not None:
        slow = [run for run in scored if (rtf := run.scores.get("RTF")) is None or rtf > most_rtf]
        for run in slow:
            logger.warning("%s: has an RTF above %g, or none; left out.", run.folder, most_rtf)
        scored = [run for run in scored if run not in slow]
    found = []
    for regime in regimes:
        inside = sorted(
            (run for run in scored if regime.holds(run.scores[lag])),
            key=lambda run: (of_quality.rank(run.scores[quality]), run.scores[lag], run.name),
        )
        choice = Choice(regime, lags[0], of_quality, tuple(inside))
        if len(inside) > 1:
            try:
                test = compare_runs(inside[1].folder, inside[0].folder, quality, asked)
                interval = float(test[f"{quality}_low"]), float(test[f"{quality}_high"])
                choice = replace(
                    choice, p=float(test[f"{quality}_p"]), interval=interval, sentences=int(test["sentences"])
                )
            except SimulstError as error:
                choice = replace(choice, why=str(error).rstrip("."))
        found.append(choice)
    return found


def report(choices: Sequence[Choice]) -> str:
    """What `choose` found, to be read by a person."""
    blocks = []
    lower: ScoredRun | None = None  # the best of the regimes before
    for choice in choices:
        lag, quality = choice.lag.key, choice.quality
        if not choice.runs:
            blocks.append(f"{lag} {choice.regime}: no configuration lies there.")
            continue
        best = choice.runs[0]
        count = f"best of {len(choice.runs)}" if len(choice.runs) > 1 else "the only one there"
        lines = [f"{lag} {choice.regime}: {best.name} ({count})", f"  {_figures(best, choice)}"]
        if len(choice.runs) > 1:
            second = choice.runs[1]
            margin = abs(best.scores[quality.key] - second.scores[quality.key])
            interval = f" {quality.interval_text(*choice.interval, True)}" if choice.interval else ""
            more = "more" if quality.better == "higher" else "less"
            shown = f"{quality.text(margin)} {quality.key}{interval}"
            lines.append(f"  {shown} {more} than the next, {second.name}: {_figures(second, choice)}")
            lines.append(f"  {_verdict(choice)}")
        if (best.scores.get("RTF") or 0) > 1:
            lines.append("  it can't keep up with speech on the machine that decoded it: its RTF is above 1")
        if lower is not None and quality.rank(lower.scores[quality.key]) <= quality.rank(best.scores[quality.key]):
            good = f"as much {quality.key}" if quality.better == "higher" else f"as little {quality.key}"
            lines.append(f"  {lower.name}, of a lower regime, has {good} at a smaller lag")
        else:
            lower = best
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def write_choices(out: Path, choices: Sequence[Choice], asked: Asked = USUAL) -> list[Path]:
    """Write what was chosen for each regime as `out/<low>-<high>.yaml`, to decode and hand in by it.

        regime, metric, quality             such as [0, 2000], LongYAAL, BLEU
        run, log                            the run's folder and its log
        model, model_options, weights       as in the run's config.yaml; source_lang, target_lang and unit, too
        decoding                            the decoding configuration
        scores                              as in the run's scores.json
        segmentation, references            that the test used; null without
        runs                                how many lie in the regime

    Paths are absolute. A regime in which no run lies has no file; one of an earlier choice is removed.
    Raises SimulstError: they can't be written; a run's model is not found from here.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for choice in choices:
        path = out / f"{choice.regime.low:g}-{choice.regime.high:g}.yaml"
        if not choice.runs:
            path.unlink(missing_ok=True)
            continue
        best = choice.runs[0]
        config, task = best.config, best.config.task
        content = {
            "regime": [choice.regime.low, choice.regime.high],
            "metric": choice.lag.key,
            "quality": choice.quality.key,
            "run": str(best.folder.resolve()),
            "log": str((best.folder / LOG).resolve()),
            "model": _place_of(task.model, best.folder),
            "model_options": dict(task.options),
            "weights": config.weights,
            "source_lang": task.source_language,
            "target_lang": task.target_language,
            "unit": task.unit,
            "decoding": config.decoding,
            "scores": best.scores,
            "segmentation": str(asked.sentences.segmentation.resolve()) if asked.sentences else None,
            "references": str(asked.sentences.references.resolve()) if asked.sentences else None,
            "runs": len(choice.runs),
        }
        write_atomically(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        written.append(path)
    return written


def _place_of(model: str, run: Path) -> str:
    """The absolute path of a run's model, or the name of its class. Raises SimulstError: it is not found from here."""
    if Path(model).exists():
        return str(Path(model).resolve())
    if not is_name(model):
        raise SimulstError(
            f"{run}: its model {model} is not there, seen from this folder; choose where the run was decoded."
        )
    return model


def _verdict(choice: Choice) -> str:
    if choice.p is None:
        return f"no test of the difference: {choice.why}"
    test = f"p = {choice.p:.3f}, paired randomisation over {choice.sentences} sentences"
    if choice.p < CHANCE:
        return f"the difference is no chance ({test})"
    return f"the difference may be chance ({test}); prefer the one with the smaller lag or RTF, or test on more data"


def _figures(run: ScoredRun, choice: Choice) -> str:
    lag, quality, scores = choice.lag, choice.quality, run.scores
    metrics = metrics_of([run])
    low, high = scores.get(f"{quality.key}_low"), scores.get(f"{quality.key}_high")
    interval = "" if low is None or high is None else f" {quality.interval_text(low, high)}"
    aware = next((scores.get(key) for key, metric in metrics.items() if metric.plain == lag.key), None)
    computed = "" if aware is None else f", {lag.text(aware)} ms with computation"
    cost = "" if scores.get("RTF") is None else f", RTF {metrics['RTF'].text(scores['RTF'])}"
    figure = f"{quality.key} {quality.text(scores[quality.key])}"
    return f"{figure}{interval} at {lag.text(scores[lag.key])} ms{computed}{cost}"
