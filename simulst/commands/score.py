"""`simulst score` and `simulst runs`: quality and latency of logs, also of pooled ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from simulst.commands.common import (
    PATH,
    Group,
    asked_by,
    comet_options,
    metric_option,
    sentence_options,
    target_lang_option,
    unit_option,
)


@click.command()
@click.argument("log", type=PATH)
@click.option("--target-lang", default="en", help="Target language: sets BLEU's tokenizer.")
@click.option(
    "--source-lang",
    default="",
    show_default=False,
    help="Source language; if it is the target language, adds WER and CER.",
)
@unit_option
@click.option("--bootstrap", default=1000, type=click.IntRange(0), help="Resamples for confidence intervals; 0: none.")
@click.option("--against", type=PATH, help="Another log: a paired test of the difference.")
@sentence_options
@metric_option
@comet_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def score(
    log: Path,
    target_lang: str,
    source_lang: str,
    unit: str | None,
    bootstrap: int,
    against: Path | None,
    as_json: bool,
    **asking: Any,
) -> None:
    """Score a log of simulst, SimulEval or simulstream.

    LOG is the file or the folder that holds it. The file may be a pipe, or compressed with gzip.

    OmniSTEval scores whole recordings, with --segmentation and --references. These scores, COMET and metrics of your
    own go to scores.json if LOG is a run's folder.
    """
    from simulst.languages import unit_of
    from simulst.measure import compare
    from simulst.measure import score as score_log
    from simulst.measure.comet import read_kept
    from simulst.measure.file import write_scores
    from simulst.runs.folder import CONFIG
    from simulst.runs.score import read_run_log
    from simulst.show.table import format_scores

    unit = unit or unit_of(target_lang)
    asked = asked_by(**asking)
    instances = read_run_log(log, unit)
    is_run = (log / CONFIG).is_file()
    if asked.comet is not None and is_run:
        asked = replace(asked, comet=replace(asked.comet, known=read_kept([log]), folder=log))
    scores = score_log(instances, target_lang, unit, bootstrap, log, source_lang, asked)
    if is_run and (asked.sentences or asked.comet or asked.metrics):
        scores = write_scores(log, scores)
    if against is not None:
        baseline = read_run_log(against, unit)
        scores["against"] = compare(baseline, instances, target_lang, unit=unit, paths=(against, log), asked=asked)
    click.echo(json.dumps(scores, ensure_ascii=False) if as_json else format_scores(scores))


@click.group(cls=Group)
def runs() -> None:
    """Score many runs from their logs."""


@runs.command("score")
@click.argument("folders", nargs=-1, required=True, type=PATH)
@target_lang_option
@sentence_options
@metric_option
@click.option("--sources", type=PATH, help="Transcript, for metrics that want it.")
@click.option("--context", type=PATH, help="Table of terms whose recall is scored.")
def score_runs(folders: tuple[Path, ...], target_lang: str, **asking: Any) -> None:
    """Score runs, and write each one's scores.json.

    FOLDERS are runs, or folders of runs. Nothing is decoded: their logs are read.
    """
    from tqdm import tqdm

    from simulst.errors import SimulstError
    from simulst.log import LOG
    from simulst.runs.folder import read_run_config
    from simulst.runs.score import score_run

    asked = asked_by(**asking)
    logs = sorted({log for folder in folders for log in folder.rglob(LOG)})
    if not logs:
        raise SimulstError(f"no {LOG} below {', '.join(map(str, folders))}; run the decoding stage first.")
    for log in tqdm(logs, unit="run"):
        score_run(log.parent, target_lang, read_run_config(log.parent).task.unit or None, asked=asked)


@runs.command("pool")
@click.argument("folders", nargs=-1, required=True, type=PATH)
@click.option("--out", required=True, type=PATH, help="Gets a run's folder for each configuration that all have.")
def pool_runs(folders: tuple[Path, ...], out: Path) -> None:
    """Pool the runs of several test sets, and score them.

    FOLDERS hold the runs of one test set each, by one model into one language. Tables, tests and choices take the
    pooled runs as any others. In 95 % intervals of quality, each test set keeps its number of sentences.
    """
    from tqdm import tqdm

    from simulst.runs.folder import read_run_config
    from simulst.runs.pool import pool
    from simulst.runs.score import score_run

    for run in tqdm(pool(folders, out), unit="run"):
        task = read_run_config(run).task
        score_run(run, task.target_language, task.unit or None)
