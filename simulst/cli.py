"""The command line: `simulst COMMAND --help`. Heavy imports happen inside the commands, so that help is instant."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from simulst import __version__
from simulst.command import Positive, Words, run_command
from simulst.commands.results import results

F = TypeVar("F", bound=Callable[..., Any])


def model_options(command: F) -> F:
    """The options that name a model and a language pair."""
    for option in (
        click.option("--model", required=True, type=click.Path(), help="Model folder, or your package.module:Class."),
        click.option("--source-lang", required=True, help="Source language (speech), such as es."),
        click.option("--target-lang", required=True, help="Target language (text), such as en."),
        click.option(
            "--model-option",
            "model_option",
            multiple=True,
            metavar="NAME=VALUE",
            help="Option of the model family, such as compute_type=float32 (repeatable).",
        ),
        click.option(
            "--unit", type=click.Choice(["word", "char"]), help="Unit of latency [default: by target language]."
        ),
        click.option("--context", type=click.Path(), help="Table (TSV) of what is known of the recordings."),
    ):
        command = option(command)
    return command


text_option = click.option(
    "--text",
    help="File of the references: text.TEXT or text.tc.TEXT in the data directory [default: the target language].",
)


segmentation_option = click.option(
    "--segmentation", type=click.Path(path_type=Path), help="For whole recordings: times of their sentences (YAML)."
)
references_option = click.option(
    "--references", type=click.Path(path_type=Path), help="References, a line for each sentence of --segmentation."
)


def run_options(command: F) -> F:
    """The options of commands that decode a data directory."""
    for option in (
        click.option("--data", required=True, type=click.Path(), help="Data directory (wav.scp, text.LANG, ...)."),
        text_option,
        click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the results."),
        click.option(
            "--jobs",
            default=1,
            show_default=True,
            type=click.IntRange(1),
            help="Processes on this machine or on Slurm.",
        ),
        click.option(
            "--scheduler",
            metavar="ADDRESS",
            help="Address of a running Dask scheduler to use instead of --jobs; its workers must see the same paths.",
        ),
        click.option(
            "--slurm",
            is_flag=True,
            help="Run the --jobs processes on a Slurm cluster; jobqueue.yaml in Dask's configuration describes it.",
        ),
        click.option("--max-seconds", type=Positive(), help="Leave out longer utterances."),
        click.option("--limit", type=click.IntRange(1), help="Only the first N utterances."),
        click.option("--draw", type=click.IntRange(1), help="Only N utterances, chosen by the hashes of their names."),
        click.option("--force", is_flag=True, help="Decode again what is there."),
    ):
        command = option(command)
    return model_options(command)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
@click.option("-v", "--verbose", is_flag=True, help="Log more to stderr.")
def main(verbose: bool) -> None:
    """Simultaneous speech translation: decode, sweep, score and plot."""
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")


main.add_command(results)


@main.command()
@run_options
@click.option("--decoding", required=True, type=click.Path(), help="Decoding configuration (YAML).")
def evaluate(decoding: str, out: Path, **options: Any) -> None:
    """Decode a data directory under one configuration and score it.

    OUT gets instances.log (SimulEval's format), config.yaml and scores.json. The same command resumes a killed run.
    """
    from simulst.config import load_decoding

    [scores] = _decode([(out, load_decoding(decoding))], share=False, **options)
    _print_scores(scores)


@main.command()
@run_options
@click.option("--decodings", required=True, type=click.Path(), help="Sweep (YAML): decoding configurations to try.")
@click.option("--share/--no-share", default=True, help="Share encoder outputs and searches between configurations.")
def sweep(decodings: str, out: Path, share: bool, **options: Any) -> None:
    """Decode a data directory under many configurations, which share encoder outputs and searches.

    OUT gets a folder for each configuration. A table of scores is printed.
    """
    from simulst.config import load_sweep
    from simulst.report.table import runs_table

    folders = [(out / decoding.label, decoding) for decoding in load_sweep(decodings)]
    _decode(folders, share=share, **options)
    click.echo(runs_table([folder for folder, _ in folders]))


@main.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--target-lang", default="en", show_default=True, help="Target language: sets BLEU's tokenizer.")
@click.option("--source-lang", default="", help="Source language; if it is the target language, adds WER and CER.")
@click.option("--unit", type=click.Choice(["word", "char"]), help="Unit of latency [default: by target language].")
@click.option(
    "--bootstrap",
    default=1000,
    show_default=True,
    type=click.IntRange(0),
    help="Resamples for confidence intervals; 0: none.",
)
@click.option("--against", type=click.Path(path_type=Path), help="Another log: a paired test of the difference.")
@segmentation_option
@references_option
@click.option("--comet", metavar="MODEL", help="With --segmentation: a COMET model, such as Unbabel/XCOMET-XL.")
@click.option("--sources", type=click.Path(path_type=Path), help="For --comet: transcript, a line for each sentence.")
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
    comet: str | None,
    sources: Path | None,
    as_json: bool,
) -> None:
    """Score a log of simulst, SimulEval or simulstream.

    LOG is the file or the folder that holds it. The file may be a pipe, or compressed with gzip.

    OmniSTEval scores whole recordings, with --segmentation and --references. In a run's folder, these scores replace
    those of scores.json.
    """
    from simulst.errors import SimulstError
    from simulst.languages import unit_of
    from simulst.log.instances import read_log
    from simulst.metrics.score import compare, format_scores, score_instances
    from simulst.runs import CONFIG, write_scores

    unit = unit or unit_of(target_lang)
    _check_together(segmentation, references)
    if (comet is None) != (sources is None) or (comet is not None and segmentation is None):
        raise SimulstError("give --comet and --sources together, with --segmentation and --references.")
    instances = read_log(log, unit)
    baseline = None if against is None else read_log(against, unit)
    if segmentation is not None and references is not None:
        from simulst.metrics.longform import Comet, compare_recordings, score_recordings

        neural = Comet(comet, sources) if comet is not None and sources is not None else None
        whole = segmentation, references, target_lang, unit
        scores = score_recordings(instances, *whole, bootstrap, log, neural, source_lang)
        if (log / CONFIG).is_file():
            scores = write_scores(log, scores)
        if baseline is not None and against is not None:
            scores["against"] = compare_recordings(baseline, instances, *whole, (against, log))
    else:
        scores = score_instances(instances, target_lang, unit, bootstrap, log, source_lang)
        if baseline is not None and against is not None:
            scores["against"] = compare(baseline, instances, language=target_lang, unit=unit, paths=(against, log))
    click.echo(json.dumps(scores, ensure_ascii=False) if as_json else format_scores(scores))


@main.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--target-lang", default="en", show_default=True, help="Target language.")
@click.option("--unit", type=click.Choice(["word", "char"]), help="Unit of latency [default: by target language].")
def simulstream(log: Path, target_lang: str, unit: str | None) -> None:
    """Print a log of whole recordings in simulstream's form (JSON lines).

    LOG is the file or the folder that holds it.
    """
    from simulst.languages import unit_of
    from simulst.log.instances import read_log
    from simulst.log.simulstream import write_simulstream

    unit = unit or unit_of(target_lang)
    click.echo(write_simulstream(read_log(log, unit), unit, log), nl=False)


@main.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    "pictures",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="Picture to write (.png, .svg or .pdf; repeatable).",
)
@click.option(
    "--x", "latencies", multiple=True, default=("AL", "LAAL"), show_default=True, help="Latency metric (repeatable)."
)
@click.option("--y", "quality", default="BLEU", show_default=True, help="Quality: BLEU, chrF or COMET.")
@click.option("--title", default="", help="Title of the picture.")
def plot(
    runs: tuple[Path, ...], pictures: tuple[Path, ...], latencies: tuple[str, ...], quality: str, title: str
) -> None:
    """Draw quality over latency for runs (or folders of runs).

    Each strategy is a line. Points are labelled with their chunk, or with the number that changes along the line.
    """
    from simulst.report.curve import draw_curve
    from simulst.report.table import find_runs

    found = find_runs(runs)
    for picture in pictures:
        draw_curve(found, picture, list(latencies), title, quality)
        click.echo(f"wrote {picture}")


@main.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
def table(runs: tuple[Path, ...]) -> None:
    """Print a Markdown table of runs (or folders of runs), from their scores.json."""
    from simulst.report.table import find_runs, runs_table

    click.echo(runs_table(find_runs(runs)))


class _Choose(click.Command):
    """Takes several values after --regimes, as people type them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        joined: list[str] = []
        regime = re.compile(r"[\d.]+-[\d.]+")
        for argument in (part for given in args for part in re.split(r"(?<=^--regimes)=", given)):
            if joined[-2:-1] == ["--regimes"] and regime.fullmatch(argument):
                joined[-1] += f" {argument}"
            else:
                joined.append(argument)
        return super().parse_args(ctx, joined)


@main.command(cls=_Choose)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--metric", default="LAAL", show_default=True, help="Lag in scores.json, such as LongYAAL or LAAL_CA.")
@click.option("--quality", default="BLEU", show_default=True, help="What the best has most of: BLEU, chrF or COMET.")
@click.option(
    "--regimes",
    type=Words(),
    default="0-2000 2000-4000",
    show_default=True,
    help="Lowest and highest lags, ms.",
)
@segmentation_option
@references_option
def choose(
    runs: tuple[Path, ...],
    metric: str,
    quality: str,
    regimes: tuple[str, ...],
    segmentation: Path | None,
    references: Path | None,
) -> None:
    """Name the best configuration of each latency regime, for runs (or folders of runs) over a dev set.

    The best has the highest quality. A paired test says whether the next one is worse. For runs over whole
    recordings the test needs --segmentation and --references.
    """
    from simulst.report.choose import choose as choose_runs
    from simulst.report.choose import parse_regime, report
    from simulst.report.table import find_runs

    wanted = [parse_regime(regime) for regime in regimes]
    _check_together(segmentation, references)
    found = choose_runs(find_runs(runs), metric, wanted, segmentation, references, quality)
    click.echo(report(found, metric, quality))


@main.command()
@click.option(
    "--findings", "files", multiple=True, required=True, type=click.Path(), help="File of findings (YAML; repeatable)."
)
@click.option(
    "--runs",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="Folder with the runs of one training, or several by wildcards; repeat it for trainings with other seeds.",
)
@click.option("--samples", default=10_000, show_default=True, type=click.IntRange(100), help="Resamples to draw.")
def findings(files: tuple[str, ...], runs: tuple[Path, ...], samples: int) -> None:
    """Test findings on finished runs: which hold, which do not, which are not decided.

    The runs must be of one test set. docs/papers.md says how a finding is declared and by what rule it is decided.
    """
    from simulst.findings import decide, decided, findings_page, load_findings

    papers = load_findings(files)
    outcomes = iter(decide([finding for of_paper in papers.values() for finding in of_paper], runs, samples))
    by_paper = {paper: [next(outcomes) for _ in of_paper] for paper, of_paper in papers.items()}
    click.echo(findings_page(list(decided(by_paper))))


@main.command()
@click.argument("audio", type=click.Path())
@model_options
@click.option(
    "--decoding", type=click.Path(), help="Decoding configuration (YAML) [default: that of conf/decode/live.yaml]."
)
@click.option("--realtime", is_flag=True, help="Feed the audio in real time.")
def translate(
    audio: str,
    model: str,
    source_lang: str,
    target_lang: str,
    model_option: tuple[str, ...],
    unit: str | None,
    context: str | None,
    decoding: str | None,
    realtime: bool,
) -> None:
    """Translate one audio file of any length.

    Words are printed when they are committed. Each line begins with the seconds of audio read so far.
    """
    from simulst.audio.read import load_audio
    from simulst.audio.units import SAMPLE_RATE
    from simulst.background import NOTHING, known_of, read_backgrounds
    from simulst.config import LIVE, load_decoding
    from simulst.errors import SimulstError
    from simulst.models import load_model, parse_options
    from simulst.policy.late import Wait
    from simulst.streams.open import open_stream, skipped_steps

    if decoding is not None:
        configuration = load_decoding(decoding)
    else:  # a file can wait
        configuration = LIVE if realtime else dataclasses.replace(LIVE, late=Wait())
    known = known_of(read_backgrounds(context), [Path(audio).stem]) if context else None
    if context and known is None:
        raise SimulstError(f"{context}: has no line for the recording '{Path(audio).stem}'; add it.")
    samples = load_audio(audio)
    loaded = load_model(model, **parse_options(model_option))
    stream = open_stream(loaded, configuration, source_lang, target_lang, unit or "", background=known or NOTHING)
    piece = SAMPLE_RATE // 10
    started = time.monotonic()
    for start in range(0, max(len(samples), 1), piece):
        end = min(start + piece, len(samples))
        if realtime:
            time.sleep(max(0.0, end / SAMPLE_RATE - (time.monotonic() - started)))
        words = stream.push(samples[start:end], finished=end == len(samples))
        if words:
            text = "".join(word.text for word in words).strip()
            click.echo(f"{words[0].delay_ms / 1000:7.2f} s  {text}")
    if not stream.emissions:
        click.echo(f"{audio}: no words were written.", err=True)
    if slow := skipped_steps(stream):
        click.echo(slow, err=True)


@main.command()
@click.option("--data", required=True, type=click.Path(), help="Data directory.")
@click.option("--target-lang", required=True, help="Language of the references.")
@text_option
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for wav/, source.txt, target.txt.")
@click.option("--limit", type=click.IntRange(1), help="Export only the first N utterances.")
def export(data: str, target_lang: str, text: str | None, out: Path, limit: int | None) -> None:
    """Export a data directory for SimulEval: WAV files (16 kHz, 16 bits), a list of them, and the references."""
    from simulst.data.datadir import read_data_dir
    from simulst.data.simuleval_files import export_for_simuleval

    export_for_simuleval(read_data_dir(data, text or target_lang)[:limit], out)
    click.echo(f"simuleval --source {out / 'source.txt'} --target {out / 'target.txt'} ...")


def _check_together(segmentation: Path | None, references: Path | None) -> None:
    from simulst.errors import SimulstError

    if (segmentation is None) != (references is None):
        raise SimulstError("give --segmentation and --references together.")


def _decode(
    folders: list[tuple[Path, Any]],
    share: bool,
    data: str,
    text: str | None,
    model: str,
    source_lang: str,
    target_lang: str,
    model_option: tuple[str, ...],
    unit: str | None,
    context: str | None,
    jobs: int,
    scheduler: str | None,
    slurm: bool,
    max_seconds: float | None,
    limit: int | None,
    draw: int | None,
    force: bool,
) -> list[dict[str, Any]]:
    from simulst.background import with_backgrounds
    from simulst.data.datadir import drawn, read_data_dir, shorter_than
    from simulst.languages import code_of
    from simulst.machine.cluster import Cluster
    from simulst.metrics.quality import tokenizer_for
    from simulst.models import parse_options
    from simulst.runs import Task, recordings_scores, run, score_run

    # Both fail now, not after decoding, if scoring lacks a package or a language has no such code.
    tokenizer_for(target_lang)
    code_of(source_lang)
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
    options = tuple(sorted(parse_options(model_option).items()))
    task = Task(model, source_lang, target_lang, options, unit or "")
    run(task, utterances, folders, Cluster(jobs, scheduler, slurm), share, force)
    return [recordings_scores(folder) or score_run(folder, target_lang, task.latency_unit) for folder, _ in folders]


def _print_scores(scores: dict[str, Any]) -> None:
    from simulst.metrics.score import format_scores

    click.echo(format_scores(scores))


def entry() -> None:
    """The entry point of the program `simulst`."""
    run_command(main, "simulst")


if __name__ == "__main__":
    entry()
