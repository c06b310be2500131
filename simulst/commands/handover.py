"""`simulst export` and `simulst simulstream`: write what SimulEval and simulstream read."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import PATH, text_option, unit_option


@click.command()
@click.option("--data", required=True, type=click.Path(), help="Data directory.")
@click.option("--target-lang", required=True, help="Language of the references.")
@text_option
@click.option("--out", required=True, type=PATH, help="Folder for wav/, source.txt, target.txt.")
@click.option("--limit", type=click.IntRange(1), help="Export only the first N utterances.")
def export(data: str, target_lang: str, text: str | None, out: Path, limit: int | None) -> None:
    """Export a data directory for SimulEval.

    OUT gets WAV files (16 kHz), a list of them, and the references.
    """
    from simulst.data.datadir import read_data_dir
    from simulst.data.simuleval_files import export_for_simuleval

    export_for_simuleval(read_data_dir(data, text or target_lang)[:limit], out)
    click.echo(f"simuleval --source {out / 'source.txt'} --target {out / 'target.txt'} ...")


@click.command()
@click.argument("log", type=PATH)
@click.option("--target-lang", default="en", show_default=True, help="Target language.")
@unit_option
def simulstream(log: Path, target_lang: str, unit: str | None) -> None:
    """Print a log in simulstream's form.

    It is for whole recordings, and in JSON lines. LOG is the file or the folder that holds it.
    """
    from simulst.languages import unit_of
    from simulst.log.simulstream import write_simulstream
    from simulst.runs import read_run_log

    unit = unit or unit_of(target_lang)
    click.echo(write_simulstream(read_run_log(log, unit), unit, log), nl=False)
