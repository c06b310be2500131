"""The program `simulst`: its commands in sections, and its entry point."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from simulst import __version__
from simulst.commands import (
    decode,
    handover,
    models,
    prefix,
    report,
    score,
    serve,
    train,
    translate,
)
from simulst.commands.common import run_command

SECTIONS = {
    "Decode": (translate.translate, serve.serve, decode.evaluate, decode.sweep, decode.bench),
    "Score and compare": (
        score.score,
        score.runs,
        report.table,
        report.plot,
        report.report,
        report.choose,
    ),
    "Prepare and train": (train.train, prefix.prefix, models.models),
    "Hand over to other programs": (handover.export, handover.pack, handover.verify),
}


class Sections(click.Group):
    """A group whose help lists its commands by section."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for name in self.commands)
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                room = formatter.width - width - 6  # indent and gaps
                formatter.write_dl(
                    [(f"{command.name:{width}}", command.get_short_help_str(room)) for command in commands]
                )


@click.group(
    cls=Sections,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
)
@click.version_option(__version__)
def main() -> None:
    """Simultaneous speech translation: train, decode, score and compare.

    `simulst COMMAND --help` describes a command.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")


for section in SECTIONS.values():
    for command in section:
        main.add_command(command)


def _refuse_another_environment() -> None:
    """End the program of a copied environment, which would run the code of the one that it was copied from."""
    own = Path(sys.argv[0]).absolute().parent.parent
    if (own / "pyvenv.cfg").is_file() and not own.samefile(sys.prefix):
        click.echo(
            f"simulst: error: {own}: a copy of {sys.prefix}, whose code its programs run; delete the copy, and make an "
            "environment there by tools/install.sh.",
            err=True,
        )
        sys.exit(1)


def entry() -> None:
    """The entry point of the program `simulst`."""
    _refuse_another_environment()
    run_command(main, "simulst")
