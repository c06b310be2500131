"""`simulst export`, `pack` and `verify`: write what others read, and try what is handed in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simulst.commands.common import PATH, force_option, text_option


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
@click.argument("choices", nargs=-1, required=True, type=PATH)
@click.option("--out", required=True, type=PATH, help="Folder to make.")
@click.option("--contact", required=True, help="Who answers questions: name and address.")
@click.option("--device", default="cpu", type=click.Choice(["cpu", "cuda"]), help="Of the image.")
@click.option(
    "--base", default="", show_default=False, help="Image that the Dockerfile begins with [default: Python's slim one]."
)
@click.option("--debian", multiple=True, metavar="PACKAGE", help="Debian package that a system needs (repeatable).")
@click.option("--licence", "licences", multiple=True, type=PATH, help="Licence of a model (repeatable).")
@click.option("--context", type=PATH, help="What is known of the recordings (TSV).")
@click.option("--simuleval", is_flag=True, help="Add SimulEval's log, too.")
@force_option("Replace the folder.")
def pack(choices: tuple[Path, ...], out: Path, **options: Any) -> None:
    """Make a folder to hand in to a shared task.

    CHOICES are files of simulst choose --out, one for each direction and regime. The folder has the models, simulst,
    a Dockerfile, the logs of the development recordings, and their scores.
    """
    from simulst.handin.pack import Packing
    from simulst.handin.pack import pack as pack_systems

    pack_systems(choices, out, Packing(**options))


@click.command()
@click.argument("folder", type=PATH)
@click.argument("recordings", type=PATH)
@click.option("--system", help="Only this one.")
@click.option("--port", default=8080, type=click.IntRange(1, 65535), help="Of the server.")
def verify(folder: Path, recordings: Path, system: str | None, port: int) -> None:
    """Try a folder that simulst pack made.

    It runs FOLDER's verify.py: in an environment of its own, the server decodes the development RECORDINGS, and words,
    delays and scores are compared with the logs.
    """
    import subprocess
    import sys

    from simulst.errors import SimulstError

    program = folder / "verify.py"
    if not program.is_file():
        raise SimulstError(f"{program}: no such file; give a folder that simulst pack made.")
    only = ["--system", system] if system else []
    command = [sys.executable, str(program), str(recordings), "--port", str(port), *only]
    sys.exit(subprocess.run(command).returncode)
