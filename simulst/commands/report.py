"""`simulst table`, `plot`, `report` and `choose`: compare finished runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from simulst.commands.common import (
    PATH,
    Positive,
    Several,
    asked_by,
    comet_options,
    sentence_options,
)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option(
    "--out",
    "pictures",
    multiple=True,
    required=True,
    type=PATH,
    help="Picture to write (.png, .svg or .pdf; repeatable).",
)
@click.option("--x", "latencies", multiple=True, default=("AL", "LAAL"), help="Latency metric (repeatable).")
@click.option("--y", "quality", default="BLEU", help="Quality: BLEU, chrF, COMET, or your own.")
@click.option("--title", default="", show_default=False, help="Title of the picture.")
def plot(
    runs: tuple[Path, ...], pictures: tuple[Path, ...], latencies: tuple[str, ...], quality: str, title: str
) -> None:
    """Draw quality over latency.

    RUNS are finished runs, or folders of them. Each strategy is a line. Points are labelled with their chunk, or with
    the number that changes along the line.
    """
    from simulst.results.runs import find_runs
    from simulst.show.curve import draw_curve

    found = find_runs(runs)
    for picture in pictures:
        draw_curve(found, picture, list(latencies), title, quality)
        click.echo(f"wrote {picture}")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
def table(runs: tuple[Path, ...]) -> None:
    """Print a table of runs in Markdown.

    RUNS are finished runs, or folders of them. The figures are those of their scores.json.
    """
    from simulst.results.runs import find_runs
    from simulst.show.table import runs_table

    click.echo(runs_table(find_runs(runs)))


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option("--out", required=True, type=PATH, help="File to write (HTML); one that is there is replaced.")
@click.option(
    "--utterances",
    "count",
    default=2,
    type=click.IntRange(0),
    help="How many of the best, worst and most delayed utterances are shown.",
)
def report(runs: tuple[Path, ...], out: Path, count: int) -> None:
    """Write a page to look at: curves, table, utterances.

    RUNS are finished runs of one test set, or folders of them. The page is one file and fetches nothing. Utterances are
    those of the fastest run whose interval reaches the highest BLEU.
    """
    from simulst.show.report.content import report_of, write_report

    write_report(out, report_of(runs, count))
    click.echo(f"wrote {out} ({out.stat().st_size / 1e6:.1f} MB)")


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


@click.command(cls=_Choose)
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option("--metric", default="LAAL", help="Lag in scores.json, such as LongYAAL or LAAL_CA.")
@click.option("--quality", default="BLEU", help="What decides: BLEU, chrF, COMET, or your own.")
@click.option("--regimes", type=Several(str), default="0-2000 2000-4000", help="Lowest and highest lags, ms.")
@click.option("--most-rtf", type=Positive(), help="Runs with a higher RTF are left out.")
@sentence_options
@comet_options
@click.option("--out", type=PATH, help="Folder: gets what is chosen for each regime, as LOW-HIGH.yaml.")
def choose(
    runs: tuple[Path, ...],
    metric: str,
    quality: str,
    regimes: tuple[str, ...],
    most_rtf: float | None,
    out: Path | None,
    **asking: Any,
) -> None:
    """Name the best configuration of each latency regime.

    RUNS are finished runs over a dev set, or folders of them. The best has the highest quality. A paired test says
    whether the next one is worse. For runs over whole recordings the test needs --segmentation and --references.
    With --comet, COMET scores the runs first; with --quality COMET, the first such model decides.
    """
    from simulst.measure.metric import KNOWN
    from simulst.results.choose import choose as choose_runs
    from simulst.results.choose import parse_regime, report, write_choices
    from simulst.results.runs import find_runs
    from simulst.runs.score import add_comet

    wanted = [parse_regime(regime) for regime in regimes]
    asked = asked_by(**asking, own=quality not in KNOWN)
    folders = find_runs(runs)
    if asked.comet is not None:
        add_comet(folders, asked)
    found = choose_runs(folders, metric, wanted, quality, asked, most_rtf)
    click.echo(report(found))
    if out is not None:
        write_choices(out, found, asked)
