"""What commands share: kinds of values, options, and `run_command`, by which all our programs start."""

from __future__ import annotations

import atexit
import gc
import io
import math
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from simulst.errors import SimulstError, not_installed

if TYPE_CHECKING:
    from simulst.measure import Asked
    from simulst.runs.folder import Task

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)

# ---- kinds of values ----


class Several(click.ParamType):
    """An option's value of one or more words, or numbers above 0, with spaces between.

    kind: str, int or float. zero: whether 0 is good, too.
    """

    def __init__(self, kind: Callable[[str], Any], zero: bool = False) -> None:
        self._kind, self._zero = kind, zero
        self.name = "words" if kind is str else "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """Raises click.BadParameter: the value holds none, or something else."""
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(self._kind(part) for part in value.split())
        except ValueError as error:
            self.fail(f"'{value}': {error}", param, ctx)
        if self._kind is not str and not all(0 < n < math.inf or (self._zero and n == 0) for n in found):
            self.fail(f"'{value}': give numbers {'of 0 or more' if self._zero else 'above 0'}", param, ctx)
        return found or self.fail(f"give at least one {self.name[:-1]}", param, ctx)


class Positive(click.FloatRange):
    """An option's value of one number above 0; unlike click's own, without NaN and infinity."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Raises what click tells as a wrong use."""
        number = float(super().convert(value, param, ctx))
        return number if math.isfinite(number) else self.fail(f"{number:g} is no finite number.", param, ctx)


# ---- options ----


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator. Help has them in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


target_lang_option = click.option("--target-lang", required=True, help="Target language (text), such as en.")
language_options = together(
    click.option("--source-lang", required=True, help="Source language (speech), such as es."), target_lang_option
)
model_option = click.option(
    "--model-option",
    "model_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of the model family, such as compute_type=float32 (repeatable).",
)
unit_option = click.option(
    "--unit", type=click.Choice(["word", "char"]), help="Unit of latency [default: by target language]."
)
text_option = click.option(
    "--text",
    help="File of the references: text.TEXT or text.tc.TEXT in the data directory [default: the target language].",
)
sentence_options = together(
    click.option("--segmentation", type=PATH, help="For whole recordings: times of their sentences (YAML)."),
    click.option("--references", type=PATH, help="References, a line for each sentence of --segmentation."),
)
comet_options = together(
    click.option(
        "--comet",
        multiple=True,
        metavar="MODEL",
        help="A COMET model, such as Unbabel/XCOMET-XL, or its checkpoint (repeatable); it needs --sources.",
    ),
    click.option(
        "--sources",
        type=PATH,
        help="Transcript, for COMET and metrics of your own: a line a sentence, or a data directory's text.LANG.",
    ),
)
metric_option = click.option(
    "--metric", "metrics", multiple=True, metavar="MODULE:NAME", help="A metric of your own (repeatable)."
)
values_option = click.option(
    "--set", "values", multiple=True, metavar="NAME=VALUE", help="Stands for $NAME in the sweep (repeatable)."
)
jobs_option = click.option(
    "--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes; the result is the same."
)


model_folder_option = click.option(
    "--model", required=True, type=click.Path(), help="Model folder or file, or the name of a class (module:Name)."
)
context_options = together(
    model_option,
    unit_option,
    click.option("--context", type=click.Path(), help="Table (TSV) of what is known of the recordings."),
)


def force_option(what: str) -> Callable[[F], F]:
    """The option --force. what: what it does, as a sentence."""
    return click.option("--force", is_flag=True, help=what)


cluster_options = together(
    click.option("--jobs", default=1, type=click.IntRange(1), help="Processes on this machine or on Slurm."),
    click.option(
        "--slurm",
        is_flag=True,
        help="Run the --jobs processes on a Slurm cluster; jobqueue.yaml in Dask's configuration describes it.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of a running Dask scheduler to use instead of --jobs; its workers must see the same paths.",
    ),
)
"""They say where work runs, for `simulst.machine.cluster.Cluster`."""


def task_of(model: str, source_lang: str, target_lang: str, model_options: tuple[str, ...], unit: str | None) -> Task:
    """The task that options describe. Raises SimulstError: an option of the model that is no NAME=VALUE."""
    from simulst.models.registry import parse_options
    from simulst.runs.folder import Task

    return Task(model, source_lang, target_lang, tuple(sorted(parse_options(model_options).items())), unit or "")


def named_files(values: Iterable[str], wrong: str) -> dict[str, Path]:
    """Files by their names, of values NAME=FILE. wrong: the error's message, in which {value} stands for the value.

    Raises SimulstError: a value of another form, or a name twice.
    """
    files: dict[str, Path] = {}
    for value in values:
        name, _, path = value.partition("=")
        if not (name and path) or name in files:
            raise SimulstError(wrong.format(value=value))
        files[name] = Path(path)
    return files


def asked_by(
    segmentation: Path | None,
    references: Path | None,
    comet: tuple[str, ...] = (),
    sources: Path | None = None,
    metrics: tuple[str, ...] = (),
    context: Path | None = None,
    own: bool = False,
) -> Asked:
    """What options ask for. own: a metric of the user's own, which a run names, may read the transcript.

    Raises SimulstError: of two that belong together one is missing; as `find_metrics`.
    """
    from simulst.measure import Asked, Comet, Sentences
    from simulst.measure.metric import find_metrics

    if (segmentation is None) != (references is None):
        raise SimulstError("give --segmentation and --references together.")
    if comet and sources is None:
        raise SimulstError("give --comet and --sources together.")
    if sources is not None and not (comet or metrics or own):
        raise SimulstError("--sources is read for --comet and --metric alone; give one of them, or leave it out.")
    sentences = Sentences(segmentation, references) if segmentation and references else None
    return Asked(sentences, sources, find_metrics(metrics), Comet(comet) if comet else None, context)


class Group(click.Group):
    """A group whose help has its commands in the order in which they are defined."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


# ---- running ----


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind the error. Compiled code, such as numba's, makes a SystemError of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _file_instead(error: OSError) -> Path | None:
    """The file that is in the way of a folder, if that is what the error is about."""
    if not isinstance(error, FileExistsError | NotADirectoryError) or error.filename is None:
        return None
    path = Path(os.fsdecode(error.filename))
    return next((place for place in (path, *path.parents) if place.is_file()), None)


def _write_anything() -> None:
    """Let output that is closed, or is not UTF-8, end no command."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: a file that is opened later must not get its number
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper) and output.errors in ("strict", "surrogateescape"):
            output.reconfigure(errors="backslashreplace")


def leave_output() -> None:
    """Write to nowhere from now on: whoever read standard output, such as `head`, has ended."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def run_command(command: click.Command, name: str = "") -> None:
    """Run a command with the arguments of the command line, and exit the process.

    Bad input ends in one sentence on stderr and a non-zero exit status.

    name: of the program; begins its error messages.
    """
    start = f"{name}: " if name else ""
    atexit.register(gc.freeze)  # Python looks for garbage once more, and would go through all of torch
    _write_anything()
    try:
        command(standalone_mode=False)
        sys.stdout.flush()
        return
    except SimulstError as error:
        said = str(error)
    except BrokenPipeError:
        leave_output()
        sys.exit(141)  # as a program that SIGPIPE ends
    except ModuleNotFoundError as error:
        if (error.name or "simulst").startswith("simulst"):
            raise
        said = not_installed(error)
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        said = f"{place}cannot be used ({error.strerror or error}); correct that and run the same command again."
        if (file := _file_instead(error)) is not None:
            said = f"{file}: a file, but a folder is needed there; give another path, or move the file away."
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt, SystemError) as error:
        if isinstance(error, SystemError) and not _interrupted(error):
            raise
        click.echo(f"{start}interrupted; run the same command again to go on.", err=True)
        sys.exit(130)
    click.echo(f"{start}error: {said}", err=True)
    sys.exit(1)
