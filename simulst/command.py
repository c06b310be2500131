"""Run a command; bad input ends in one sentence on stderr and a non-zero exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from simulst.errors import SimulstError


class Numbers(click.ParamType):
    """The value of an option that takes one or more numbers, separated by spaces. kind: int or float."""

    name = "numbers"

    def __init__(self, kind: Callable[[str], float]) -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Raises click.BadParameter: the value holds no number, or something else."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(self._kind(number) for number in value.split())
        except ValueError as error:
            self.fail(f"'{value}': {error}", param, ctx)
        return numbers or self.fail("give at least one number", param, ctx)


def run_command(command: click.Command, name: str = "") -> None:
    """Run a command with the arguments of the command line, and exit the process.

    name: of the program; begins its error messages.
    """
    start = f"{name}: " if name else ""
    try:
        command(standalone_mode=False)
    except SimulstError as error:
        click.echo(f"{start}error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        click.echo(f"{start}error: {error}; fix that.", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"{start}interrupted; run the same command again to go on.", err=True)
        sys.exit(130)
