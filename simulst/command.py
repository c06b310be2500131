"""How commands end: bad input in one sentence and a status that is not 0."""

from __future__ import annotations

import sys

import click

from simulst.errors import SimulstError


def run_command(command: click.Command, name: str = "") -> None:
    """Run what the command line asks of a command, and leave the process. name: of the program, for its sentences."""
    start = f"{name}: " if name else ""
    try:
        command(standalone_mode=False)
    except SimulstError as error:
        click.echo(f"{start}error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        click.echo(f"{start}error: {error}; mend that.", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"{start}interrupted; run the same command again to go on.", err=True)
        sys.exit(130)
