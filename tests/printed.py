"""Commands run in this process."""

from __future__ import annotations

import click
from click.testing import CliRunner

from simulst.commands.main import main


def printed(*arguments: object, command: click.Command = main) -> str:
    """What it prints to stdout. It must end well; its errors are raised."""
    done = CliRunner().invoke(command, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout
