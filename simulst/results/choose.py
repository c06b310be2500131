"""The best configuration of each latency regime, and why: which run of a sweep to hand in to a shared task.

A regime is a range of lags, such as 0 to 2000 ms of LongYAAL. Of the runs that lie in it, the one with the highest
quality (BLEU, or what the shared task ranks by) is chosen. The choice belongs on a development set: the best of many
runs on a test set looks better than it is.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from simulst.errors import SimulstError
from simulst.files.folder import write_atomically
from simulst.results.difference import compare_runs
from simulst.results.regime import Regime
from simulst.results.runs import COLUMNS, ScoredRun, check_metric, check_quality, check_same_data, load_runs
from simulst.runs import LOG
from simulst.runs.comet import compare_by_comet

logger = logging.getLogger(__name__)

CHANCE = 0.05  # from this p-value on, a difference may be chance


@dataclass(frozen=True)
class Choice:
    """What was found for one regime.

    runs: those in the regime, best first. Empty: no run lies there.
    p: of the paired test between the first two; None if there is no second, or no test. why: why not.
    interval: the 95 % interval of their difference in quality.
    sentences: how many the test compared.
    """

    regime: Regime
    runs: tuple[ScoredRun, ...]
    p: float | None = None
    interval: tuple[float, float] | None = None
    why: str = ""
    sentences: int = 0


def choose(
    folders: Sequence[Path],
    metric: str,
    regimes: Sequence[Regime],
    segmentation: Path | None = None,
    references: Path | None = None,
    quality: str = "BLEU",
) -> list[Choice]:
    """The best run of each regime.

    folders: of scored runs. Offline runs are left out, as are runs without this quality or without a lag.
    metric: a lag in scores.json, in ms.
    segmentation, references: as in `score_recordings`, for the test between runs over whole recordings.
    quality: BLEU, chrF or COMET.

    Raises SimulstError: there is no such quality; the metric is not among the scores, or not in ms; no run can be
        compared; the runs are of different data.
    """
    check_quality(quality)
    if metric.startswith("AP"):
        raise SimulstError(f"--metric {metric}: a share, and a regime is in ms; choose another lag, such as LAAL.")
    runs = [run for run in load_runs(folders) if not run.offline]
    for run in runs:
        check_metric(run, metric)
    scored = [run for run in runs if run.scores.get(quality) is not None and run.scores[metric] is not None]
    for run in runs:
        if run not in scored:
            logger.warning("%s: has no %s or no %s; left out.", run.folder, quality, metric)
    if not scored:
        remedy = "score the runs with --comet" if quality == "COMET" else "decode a sweep"
        others = f" and {len(folders) - 1} more" if len(folders) > 1 else ""
        raise SimulstError(
            f"{folders[0]}{others}: no run has both {quality} and {metric}, apart from offline ones; {remedy}."
        )
    check_same_data(scored)
    if quality == "COMET" and len(models := {str(run.scores.get("COMET_model")) for run in scored}) > 1:
        raise SimulstError(
            f"{scored[0].folder} and others: have COMET by several models ({', '.join(sorted(models))}); score all "
            "runs with the same --comet."
        )
    if segmentation is not None and not any("recordings" in run.scores for run in scored):
        raise SimulstError(
            f"{segmentation}: the runs are not of whole recordings; leave out --segmentation and --references."
        )
    found = []
    for regime in regimes:
        inside = sorted(
            (run for run in scored if regime.holds(run.scores[metric])),
            key=lambda run: (-run.scores[quality], run.scores[metric], run.name),
        )
        choice = Choice(regime, tuple(inside))
        if len(inside) > 1:
            try:
                two = inside[1].folder, inside[0].folder
                test = compare_by_comet(*two) if quality == "COMET" else compare_runs(*two, segmentation, references)
                interval = float(test[f"{quality}_low"]), float(test[f"{quality}_high"])
                choice = replace(
                    choice, p=float(test[f"{quality}_p"]), interval=interval, sentences=int(test["sentences"])
                )
            except SimulstError as error:
                choice = replace(choice, why=str(error).rstrip("."))
        found.append(choice)
    return found


def report(choices: Sequence[Choice], metric: str, quality: str = "BLEU") -> str:
    """What `choose` found, to be read by a person."""
    blocks = []
    lower: ScoredRun | None = None  # the best of the regimes before
    for choice in choices:
        if not choice.runs:
            blocks.append(f"{metric} {choice.regime}: no configuration lies there.")
            continue
        best = choice.runs[0]
        count = f"best of {len(choice.runs)}" if len(choice.runs) > 1 else "the only one there"
        lines = [f"{metric} {choice.regime}: {best.name} ({count})", f"  {_figures(best, metric, quality)}"]
        if len(choice.runs) > 1:
            second = choice.runs[1]
            margin = best.scores[quality] - second.scores[quality]
            low, high = choice.interval or (math.nan, math.nan)
            digits = COLUMNS[quality][1]
            interval = "" if math.isnan(low) else f" [{low:+.{digits}f}, {high:+.{digits}f}]"
            shown = f"{margin:.{digits}f} {quality}{interval}"
            lines.append(f"  {shown} more than the next, {second.name}: {_figures(second, metric, quality)}")
            lines.append(f"  {_verdict(choice)}")
        if (best.scores.get("RTF") or 0) > 1:
            lines.append("  it can't keep up with speech on the machine that decoded it: its RTF is above 1")
        if lower is not None and lower.scores[quality] >= best.scores[quality]:
            lines.append(f"  {lower.name}, of a lower regime, has as much {quality} at a smaller lag")
        elif lower is None or best.scores[quality] > lower.scores[quality]:
            lower = best
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def write_choices(
    out: Path,
    choices: Sequence[Choice],
    metric: str,
    quality: str,
    segmentation: Path | None = None,
    references: Path | None = None,
) -> list[Path]:
    """Write what was chosen for each regime as `out/<low>-<high>.yaml`, to decode and hand in by it.

        regime, metric, quality             such as [0, 2000], LongYAAL, BLEU
        run, log                            the run's folder and its log
        model, model_options, weights       as in the run's config.yaml; source_lang, target_lang and unit, too
        decoding                            the decoding configuration
        scores                              as in the run's scores.json
        segmentation, references            that the test used; null without
        runs                                how many lie in the regime
        next                                the second best: run, scores, p, interval, sentences, why; null without

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
        best, *others = choice.runs
        config, task = best.config, best.config.task
        content = {
            "regime": [choice.regime.low, choice.regime.high],
            "metric": metric,
            "quality": quality,
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
            "segmentation": str(segmentation.resolve()) if segmentation else None,
            "references": str(references.resolve()) if references else None,
            "runs": len(choice.runs),
            "next": {
                "run": str(others[0].folder.resolve()),
                "scores": others[0].scores,
                "p": choice.p,
                "interval": list(choice.interval) if choice.interval else None,
                "sentences": choice.sentences,
                "why": choice.why,
            }
            if others
            else None,
        }
        write_atomically(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        written.append(path)
    return written


def _place_of(model: str, run: Path) -> str:
    """The absolute path of a run's model, or the import path. Raises SimulstError: it is not found from here."""
    if Path(model).exists():
        return str(Path(model).resolve())
    if ":" not in model:
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


def _figures(run: ScoredRun, metric: str, quality: str) -> str:
    low, high = run.scores.get(f"{quality}_low"), run.scores.get(f"{quality}_high")
    digits = COLUMNS[quality][1]
    interval = "" if low is None or high is None else f" [{low:.{digits}f}, {high:.{digits}f}]"
    aware = run.scores.get(f"{metric}_CA")
    computed = "" if aware is None else f", {aware:.0f} ms with computation"
    score = f"{quality} {run.scores[quality]:.{digits}f}"
    speed = run.scores.get("RTF")
    cost = "" if speed is None else f", RTF {speed:.3f}"
    return f"{score}{interval} at {run.scores[metric]:.0f} ms{computed}{cost}"
