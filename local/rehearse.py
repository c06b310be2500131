"""What a recipe's stages will call, checked before the first of them runs.

A recipe's script (local/options.sh) goes through its stages with a stand-in for `simulst` that only notes the calls.
Their options are read here as they will be read then, and files that no stage makes are opened: a mistyped option or
configuration of the last stage is told before hours of training.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simulst.commands.common import run_command
from simulst.commands.main import main as simulst
from simulst.errors import SimulstError

if TYPE_CHECKING:
    from simulst.training.espnet import Training

FIELD, CALL = "\x1f", "\x1e"
"""What ends each field and each call on stdin. The fields: the stage, `simulst` or `python`, and the arguments."""
SHARED = "../../local/"
"""Where recipes find the programs that they share, whose options are checked, too."""


@click.command()
def main() -> None:
    """Check the calls of a recipe's stages, which stdin lists."""
    checked: set[str] = set()
    for call in sys.stdin.read().split(CALL)[:-1]:
        stage, name, *arguments = call.split(FIELD)[:-1]
        try:
            if name == "simulst":
                check_call(simulst, arguments, checked)
            elif arguments[0].startswith(SHARED):
                check_call(_main_of(Path(arguments[0])), arguments[1:], checked, arguments[0])
            elif "--decodings" in arguments:  # a recipe's own program that reads a sweep
                check_files({"decodings": arguments[arguments.index("--decodings") + 1]}, checked)
        except SimulstError as error:
            raise SimulstError(f"stage {stage}: {error}") from None


def _main_of(script: Path) -> click.Command:
    """The command of a program beside this one, without running it."""
    return vars(importlib.import_module(script.stem))["main"]


def check_call(program: click.Command, arguments: Sequence[str], checked: set[str], name: str = "simulst") -> None:
    """Read a call of `program` as click will read it, and open its configurations.

    checked: those that were opened before; gets those of this call. name: of the program.
    Raises SimulstError: an option or a value that the command does not take; a configuration is missing or wrong.
    """
    command, context, left, names = program, click.Context(program), list(arguments), [name]
    try:
        while isinstance(command, click.Group):
            named, found, left = command.resolve_command(context, left)
            assert named is not None and found is not None
            command = found
            names.append(named)
        options = command.make_context(" ".join(names), left).params
    except click.ClickException as error:
        raise SimulstError(f"{' '.join(names)}: {error.format_message()}") from error
    check_files(options, checked)


def check_files(options: dict[str, Any], checked: set[str]) -> None:
    """Open the configurations among a command's options. `checked` and errors are those of `check_call`."""
    from simulst.config import load_sweep, parse_values

    names = ("decodings", "values", "config", "task", "extra")
    key = repr(
        [*(options.get(name) for name in names), *(options.get(name) is None for name in ("wait_k", "chunk_ms"))]
    )
    if key in checked:
        return
    checked.add(key)
    if options.get("decodings"):
        load_sweep(options["decodings"], parse_values(options.get("values", ())))
    if isinstance(config := options.get("config"), Path):
        if "train_dirs" in options:  # of a fine-tuning
            from simulst.training.configuration import read_options

            read_options(config)
        elif "task" not in options:  # on lag and quality
            from simulst.training.reinforce import read_training

            read_training(config)
        else:  # of ESPnet
            from simulst.commands.train import training_of
            from simulst.training.configuration import read_mapping

            read_mapping(config)
            check_options(training_of(**{name: options[name] for name in signature(training_of).parameters}), options)


def check_options(training: Training, options: dict[str, Any]) -> None:
    """Let ESPnet read a configuration and further options, before any data is there. That takes seconds.

    Raises SimulstError: ESPnet does not know one of them, or its value is no good.
    """
    from simulst.training.espnet import Machines

    out = Path("nowhere")
    command = Machines().command(training.command(out, [*options["extra"], "--print_config"]), out, {})
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    # Of the options; what else goes wrong, the training will tell.
    if said := re.search(r"^(?:\S+: error: |ValueError: (?=--))(.+)\s*\Z", done.stderr, re.MULTILINE):
        raise SimulstError(f"{training.config}: ESPnet says '{said[1]}'; correct the file, or the options for ESPnet.")


if __name__ == "__main__":
    run_command(main)
