"""Write a cascade's file for each decoding configuration of a recogniser, and print their names."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from simulst.commands.common import run_command
from simulst.config import load_sweep
from simulst.errors import SimulstError
from simulst.files.folder import write_atomically
from simulst.files.yaml import load_yaml


@click.command(help=__doc__)
@click.option("--model", required=True, type=click.Path(path_type=Path), help="The recogniser's model.")
@click.option("--decodings", required=True, help="Sweep (YAML): the recogniser's decoding configurations.")
@click.option("--translator", required=True, help="The translator, as a cascade's file has it.")
@click.option("--unstable", is_flag=True, help="Also translate the words that the recogniser may still change.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the files.")
def main(model: Path, decodings: str, translator: str, unstable: bool, out: Path) -> None:
    """Write them."""
    try:
        described = load_yaml(translator)
    except yaml.YAMLError:
        described = None
    if not (isinstance(described, dict) and "type" in described):
        raise SimulstError(
            f"--translator '{translator}': not such as {{type: apertium:Apertium}}; see docs/huggingface.md."
        )
    for decoding in load_sweep(decodings):
        recogniser = {"model": str(model.resolve()), "decoding": decoding.raw}
        cascade = {"recogniser": recogniser, "translator": described, "unstable": unstable}
        name = decoding.label + ("-unstable" if unstable else "")
        write_atomically(out / f"{name}.yaml", yaml.safe_dump(cascade, sort_keys=False))
        print(name)


if __name__ == "__main__":
    run_command(main)
