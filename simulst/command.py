"""Run a command; bad input ends in one sentence on stderr and a non-zero exit status."""

from __future__ import annotations

import atexit
import gc
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from simulst.errors import SimulstError


class Numbers(click.ParamType):
    """An option's value of one or more numbers, above 0, with spaces between. kind: int or float."""

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
        if not all(0 < number < math.inf for number in numbers):
            self.fail(f"'{value}': give numbers above 0", param, ctx)
        return numbers or self.fail("give at least one number", param, ctx)


class Words(click.ParamType):
    """An option's value of one or more words with spaces between."""

    name = "words"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Raises what click tells as a wrong use."""
        words = value if isinstance(value, tuple) else tuple(value.split())
        return words or self.fail("give at least one word", param, ctx)


class Positive(click.FloatRange):
    """An option's value of one number above 0; unlike click's own, without NaN and infinity."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Raises what click tells as a wrong use."""
        number = float(super().convert(value, param, ctx))
        return number if math.isfinite(number) else self.fail(f"{number:g} is no finite number.", param, ctx)


def _file_instead(error: OSError) -> Path | None:
    """The file that is in the way of a folder, if that is what the error is about."""
    if not isinstance(error, FileExistsError | NotADirectoryError) or error.filename is None:
        return None
    path = Path(os.fsdecode(error.filename))
    return next((place for place in (path, *path.parents) if place.is_file()), None)


def run_command(command: click.Command, name: str = "") -> None:
    """Run a command with the arguments of the command line, and exit the process.

    name: of the program; begins its error messages.
    """
    start = f"{name}: " if name else ""
    atexit.register(gc.freeze)  # Python looks for garbage once more, and would go through all of torch
    try:
        command(standalone_mode=False)
    except SimulstError as error:
        click.echo(f"{start}error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        said = f"{place}cannot be used ({error.strerror or error}); correct that and run the same command again."
        if (file := _file_instead(error)) is not None:
            said = f"{file}: a file, but a folder is needed there; give another path, or move the file away."
        click.echo(f"{start}error: {said}", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"{start}interrupted; run the same command again to go on.", err=True)
        sys.exit(130)
