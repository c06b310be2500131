"""`simulst evaluate` and `simulst sweep`: decode a data directory with a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simulst.commands.common import (
    Positive,
    cluster_options,
    context_options,
    force_option,
    model_folder_option,
    source_lang_option,
    target_lang_option,
    task_of,
    text_option,
    together,
    values_option,
)

run_options = together(
    click.option("--data", required=True, type=click.Path(), help="Data directory (wav.scp, text.LANG, ...)."),
    model_folder_option,
    source_lang_option,
    target_lang_option,
    click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the results."),
    text_option,
    context_options,
    click.option("--max-seconds", type=Positive(), help="Leave out longer utterances."),
    click.option("--limit", type=click.IntRange(1), help="Only the first N utterances."),
    click.option("--draw", type=click.IntRange(1), help="Only N utterances, chosen by the hashes of their names."),
    cluster_options,
    click.option(
        "--streams",
        default=1,
        type=click.IntRange(1),
        help="Utterances that each process decodes together, in batches. The words are the same up to rounding "
        "(docs/decoding.md). With several, no computation times are logged, so there are no computation-aware figures.",
    ),
    force_option("Decode again what is there."),
)
"""The options of commands that decode a data directory, for `_decode`."""


@click.command()
@click.option("--decoding", required=True, type=click.Path(), help="Decoding configuration (YAML).")
@run_options
def evaluate(decoding: str, out: Path, **options: Any) -> None:
    """Decode a data directory under one configuration and score it.

    OUT gets instances.log (SimulEval's format), config.yaml and scores.json. The same command resumes a killed run.
    """
    from simulst.config import load_decoding
    from simulst.show.scores import format_scores

    [scores] = _decode([(out, load_decoding(decoding))], share=False, **options)
    click.echo(format_scores(scores))


@click.command()
@click.option("--decodings", required=True, type=click.Path(), help="Sweep (YAML): decoding configurations to try.")
@values_option
@click.option("--share/--no-share", default=True, help="Share encoder outputs and searches between configurations.")
@run_options
def sweep(decodings: str, values: tuple[str, ...], out: Path, share: bool, **options: Any) -> None:
    """Decode a data directory under many configurations.

    They share encoder outputs and searches. OUT gets a folder for each configuration. A table of scores is printed.
    """
    from simulst.config import load_sweep, parse_values
    from simulst.show.table import runs_table

    folders = [(out / decoding.label, decoding) for decoding in load_sweep(decodings, parse_values(values))]
    _decode(folders, share=share, **options)
    click.echo(runs_table([folder for folder, _ in folders]))


def _decode(
    folders: list[tuple[Path, Any]],
    share: bool,
    data: str,
    text: str | None,
    context: str | None,
    jobs: int,
    scheduler: str | None,
    slurm: bool,
    max_seconds: float | None,
    limit: int | None,
    draw: int | None,
    streams: int,
    force: bool,
    **options: Any,
) -> list[dict[str, Any]]:
    from simulst.data.datadir import drawn, read_data_dir, shorter_than, with_backgrounds
    from simulst.machine.cluster import Cluster
    from simulst.measure.file import recordings_scores
    from simulst.measure.metric import tokenizer_for
    from simulst.runs import run, score_run

    task = task_of(**options)
    target_lang = task.target_language
    tokenizer_for(target_lang)  # fails now, not after decoding, if scoring lacks a package
    utterances = read_data_dir(data, text or target_lang)
    if max_seconds is not None:
        short = shorter_than(utterances, max_seconds)
        click.echo(
            f"{data}: {len(utterances) - len(short)} of {len(utterances)} utterances are longer than "
            f"{max_seconds:g} s and are left out",
            err=True,
        )
        utterances = short
    utterances = utterances[:limit]
    if draw is not None:
        utterances = drawn(utterances, draw)
    if context is not None:
        utterances = with_backgrounds(utterances, context)
    run(task, utterances, folders, Cluster(jobs, scheduler, slurm), share, force, streams)
    return [recordings_scores(folder) or score_run(folder, target_lang, task.latency_unit) for folder, _ in folders]
