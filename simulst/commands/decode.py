"""`simulst evaluate` and `sweep`: decode a data directory with a model; `bench`: what that costs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simulst.commands.common import (
    Positive,
    cluster_options,
    context_options,
    force_option,
    jobs_option,
    language_options,
    model_folder_option,
    task_of,
    text_option,
    together,
    values_option,
)
from simulst.languages import AUTO

if TYPE_CHECKING:
    from simulst.runs.bench import Cost

run_options = together(
    click.option("--data", required=True, type=click.Path(), help="Data directory (wav.scp, text.LANG, ...)."),
    model_folder_option,
    language_options,
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
    from simulst.show.table import format_scores

    [scores] = _decode([(out, load_decoding(decoding))], share=False, **options)
    click.echo(format_scores(scores))
    if options["source_lang"] == AUTO:
        _print_languages([out])


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
    if options["source_lang"] == AUTO:
        _print_languages([folder for folder, _ in folders])


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
    from simulst.data.datadir import drawn, read_data_dir, with_backgrounds
    from simulst.machine.cluster import Cluster
    from simulst.measure.file import recordings_scores
    from simulst.measure.metric import tokenizer_for
    from simulst.runs.decode import run
    from simulst.runs.score import score_run

    task = task_of(**options)
    target_lang = task.target_language
    tokenizer_for(target_lang)  # fails now, not after decoding, if scoring lacks a package
    utterances = read_data_dir(data, text or target_lang)
    if max_seconds is not None:
        short = [utterance for utterance in utterances if utterance.seconds <= max_seconds]
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


def _print_languages(folders: list[Path]) -> None:
    """How often which language was found to be spoken."""
    from collections import Counter

    from simulst.log import read_log

    found = Counter(language for folder in folders for one in read_log(folder) for language in one.languages)
    if found:
        click.echo("languages found: " + ", ".join(f"{name} {times}" for name, times in found.most_common()))


@click.command()
@click.option("--data", required=True, type=click.Path(), help="Data directory; a part of it is drawn.")
@model_folder_option
@click.option("--decoding", required=True, type=click.Path(), help="Decoding configuration, or a sweep (YAML).")
@values_option
@language_options
@context_options
@jobs_option
@click.option("--seconds", default=60.0, type=Positive(), help="Audio to try.")
def bench(
    data: str, decoding: str, values: tuple[str, ...], context: str | None, jobs: int, seconds: float, **options: Any
) -> None:
    """Tell what decoding costs on this machine.

    Decodes a part of a data directory, and prints the real-time factor (RTF) of each part of the computation, how many
    streams one process keeps up with, and how long all of the data would take in --jobs processes.
    """
    from simulst.config import load_sweep, parse_values
    from simulst.data.datadir import read_data_dir, with_backgrounds
    from simulst.machine.processor import processor
    from simulst.runs.bench import measure, sample_of
    from simulst.runs.decode import DISTURBED
    from simulst.runs.folder import model_of

    task = task_of(**options)
    task.check()
    decodings = load_sweep(decoding, parse_values(values))
    utterances = read_data_dir(data, task.target_language)
    if context is not None:
        utterances = with_backgrounds(utterances, context)
    sample = sample_of(utterances, seconds)
    loaded = model_of(task, jobs)
    measure(loaded, task, sample[:1], decodings)  # what is compiled or filled once
    cost = measure(loaded, task, sample, decodings)
    named = "one configuration" if len(decodings) == 1 else f"{len(decodings)} configurations"
    click.echo(f"{processor()}\n{len(sample)} utterances, {cost.audio:.0f} s of audio, {named}\n")
    _print_parts(cost, len(decodings))

    audio = sum(utterance.seconds for utterance in utterances)
    taken = _hours(cost.seconds / cost.audio * audio / jobs)
    click.echo(f"All {_hours(audio)} of audio take about {taken} with --jobs {jobs}.")
    if cost.waited > DISTURBED * cost.seconds:
        waited = f"threads waited for a processor for {cost.waited / cost.seconds:.0%} of the time"
        click.echo(
            f"Other work was in the way: {waited}, and all of this is too high; use a quiet machine, or fewer --jobs.",
            err=True,
        )


def _print_parts(cost: Cost, configurations: int) -> None:
    """A table of the parts, and how many streams one process keeps up with."""
    rows = [(name, taken / cost.audio, taken / cost.seconds) for name, taken in cost.rows()]
    rows.append(("all", cost.seconds / cost.audio, 1.0))
    width = max(len(name) for name, _, _ in rows)
    click.echo(f"{'':{width}}     RTF  share")
    for name, factor, share in rows:
        click.echo(f"{name:{width}}  {factor:6.4f}  {share:4.0%}")
    if configurations == 1:
        click.echo(f"\nOne process keeps up with {cost.audio / cost.seconds:.0f} such streams, one after the other.")
    else:
        click.echo(f"\nRTF is that of all {configurations} configurations together, which share work.")


def _hours(seconds: float) -> str:
    """A duration as h:mm:ss, of days, too."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
