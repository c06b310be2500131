"""Write a cascade's file for each decoding configuration of a recogniser, and print their names."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import click
import yaml

from simulst.commands.common import run_command
from simulst.config import load_sweep
from simulst.errors import SimulstError
from simulst.files.folder import write_atomically


@click.command(help=__doc__)
@click.option("--model", required=True, type=click.Path(path_type=Path), help="The recogniser's model.")
@click.option("--decodings", required=True, help="Sweep (YAML): the recogniser's decoding configurations.")
@click.option("--command", required=True, help="The translator: a command that answers each line with a line.")
@click.option("--unstable", is_flag=True, help="Also translate the words that the recogniser may still change.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the files.")
def main(model: Path, decodings: str, command: str, unstable: bool, out: Path) -> None:
    """Write them."""
    try:
        program, *options = shlex.split(command)
    except ValueError:  # nothing, or a quotation mark without its partner
        raise SimulstError(f"--command '{command}': not a command; give a program and its options.") from None
    place = shutil.which(program)
    words = [os.path.abspath(place) if place else program, *options]  # workers may run in another folder
    translator = {"type": "command", "command": shlex.join(words), "answers": "line"}
    for decoding in load_sweep(decodings):
        recogniser = {"model": str(model.resolve()), "decoding": decoding.raw}
        cascade = {"recogniser": recogniser, "translator": translator, "unstable": unstable}
        name = decoding.label + ("-unstable" if unstable else "")
        write_atomically(out / f"{name}.yaml", yaml.safe_dump(cascade, sort_keys=False))
        print(name)


if __name__ == "__main__":
    run_command(main)
