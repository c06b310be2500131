"""`simulst score` and `simulst runs`: quality and latency of logs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from simulst.commands.common import (
    PATH,
    Group,
    check_together,
    comet_option,
    judged_by,
    references_option,
    segmentation_option,
    sources_option,
    target_lang_option,
    unit_option,
)


@click.command()
@click.argument("log", type=PATH)
@click.option("--target-lang", default="en", show_default=True, help="Target language: sets BLEU's tokenizer.")
@click.option("--source-lang", default="", help="Source language; if it is the target language, adds WER and CER.")
@unit_option
@click.option(
    "--bootstrap",
    default=1000,
    show_default=True,
    type=click.IntRange(0),
    help="Resamples for confidence intervals; 0: none.",
)
@click.option("--against", type=PATH, help="Another log: a paired test of the difference.")
@segmentation_option
@references_option
@comet_option
@sources_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def score(
    log: Path,
    target_lang: str,
    source_lang: str,
    unit: str | None,
    bootstrap: int,
    against: Path | None,
    segmentation: Path | None,
    references: Path | None,
    comet: tuple[str, ...],
    sources: Path | None,
    as_json: bool,
) -> None:
    """Score a log of simulst, SimulEval or simulstream.

    LOG is the file or the folder that holds it. The file may be a pipe, or compressed with gzip.

    OmniSTEval scores whole recordings, with --segmentation and --references. In a run's folder, these scores replace
    those of scores.json.
    """
    from simulst.languages import unit_of
    from simulst.measure.comet import comet_summary, keep, read_kept, score_segments
    from simulst.measure.score import compare, format_scores, score_instances
    from simulst.runs import CONFIG, LOG, read_run_log, write_scores
    from simulst.runs.comet import comet_difference

    unit = unit or unit_of(target_lang)
    check_together(segmentation, references)
    judged = judged_by(comet, sources, segmentation, references)
    instances = read_run_log(log, unit)
    baseline = None if against is None else read_run_log(against, unit)
    if segmentation is not None and references is not None:
        from simulst.measure.longform import compare_recordings, score_recordings

        whole = segmentation, references, target_lang, unit
        scores = score_recordings(instances, *whole, bootstrap, log, source_lang)
        if (log / CONFIG).is_file():
            scores = write_scores(log, scores)
        if baseline is not None and against is not None:
            scores["against"] = compare_recordings(baseline, instances, *whole, (against, log))
    else:
        scores = score_instances(instances, target_lang, unit, bootstrap, log, source_lang)
        if baseline is not None and against is not None:
            scores["against"] = compare(baseline, instances, language=target_lang, unit=unit, paths=(against, log))
    if judged is not None:
        segments = judged.segments(instances, target_lang, unit, log)
        folder = log if (log / CONFIG).is_file() else None
        known = read_kept([folder] if folder else [])
        found = judged.scores(segments, known)
        scores.update(comet_summary(found, bootstrap))
        if folder:
            keep(folder, folder / LOG, segments, found)
            scores = {**scores, **write_scores(folder, {k: v for k, v in scores.items() if k != "against"})}
        if baseline is not None and against is not None:
            others = judged.segments(baseline, target_lang, unit, against)
            scores["against"] |= comet_difference(score_segments(comet[0], others, known), found[comet[0]])
    click.echo(json.dumps(scores, ensure_ascii=False) if as_json else format_scores(scores))


@click.group(cls=Group)
def runs() -> None:
    """Score many runs from their logs."""


@runs.command("score")
@click.argument("folders", nargs=-1, required=True, type=PATH)
@target_lang_option
@segmentation_option
@references_option
@click.option("--context", type=PATH, help="Table of terms whose recall is scored.")
def score_runs(
    folders: tuple[Path, ...],
    target_lang: str,
    segmentation: Path | None,
    references: Path | None,
    context: Path | None,
) -> None:
    """Score runs, and write each one's scores.json.

    FOLDERS are runs, or folders of runs. Nothing is decoded: their logs are read.
    """
    from tqdm import tqdm

    from simulst.errors import SimulstError
    from simulst.runs import LOG, read_run_config, score_run

    check_together(segmentation, references)
    logs = sorted({log for folder in folders for log in folder.rglob(LOG)})
    if not logs:
        raise SimulstError(f"no {LOG} below {', '.join(map(str, folders))}; run the decoding stage first.")
    for log in tqdm(logs, unit="run"):
        unit = read_run_config(log.parent).task.unit or None
        score_run(log.parent, target_lang, unit, segmentation=segmentation, references=references, context=context)
