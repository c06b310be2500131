"""`simulst bench`: what decoding costs on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from simulst.commands.common import (
    Positive,
    context_options,
    jobs_option,
    model_folder_option,
    source_lang_option,
    target_lang_option,
    task_of,
    values_option,
)

if TYPE_CHECKING:
    from simulst.runs.bench import Cost


@click.command()
@click.option("--data", required=True, type=click.Path(), help="Data directory; a part of it is drawn.")
@model_folder_option
@click.option("--decoding", required=True, type=click.Path(), help="Decoding configuration, or a sweep (YAML).")
@values_option
@source_lang_option
@target_lang_option
@context_options
@jobs_option
@click.option("--seconds", default=60.0, type=Positive(), help="Audio to try.")
def bench(
    data: str, decoding: str, values: tuple[str, ...], context: str | None, jobs: int, seconds: float, **options: Any
) -> None:
    """Tell what decoding costs on this machine.

    Decodes a part of a data directory, and prints the real-time factor (RTF) of each part of the computation, how many
    streams one process keeps up with, a stream's memory, and how long all of the data would take in --jobs processes.
    """
    from simulst.config import load_sweep, parse_values
    from simulst.data.datadir import read_data_dir, with_backgrounds
    from simulst.machine.processor import processor
    from simulst.runs import model_of
    from simulst.runs.bench import bytes_of_stream, measure, sample_of
    from simulst.runs.decode import DISTURBED

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
    if len(decodings) == 1:
        longest = max(sample, key=lambda utterance: utterance.seconds)
        size = bytes_of_stream(loaded, task, longest, decodings[0])
        click.echo(f"A stream that has heard {longest.seconds:.0f} s holds about {size / 1e6:.1f} MB.")

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
    """A duration as h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
