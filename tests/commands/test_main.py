"""The program as a whole: its help, and that it is at hand at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from simulst.commands import main, prefix
from simulst.prefix.training import Options

HEAVY = ("numpy", "pydantic", "torch", "yaml")


def commands(found: click.Command = main.main, *names: str) -> Iterator[tuple[str, click.Command]]:
    """All commands and groups, with what a user types."""
    yield " ".join(["simulst", *names]), found
    if isinstance(found, click.Group):
        for name, below in found.commands.items():
            yield from commands(below, *names, name)


ALL = dict(commands())
OPTIONS = {
    (typed, option): parameter
    for typed, command in ALL.items()
    for parameter in command.params
    if isinstance(parameter, click.Option) and not parameter.hidden
    for option in parameter.opts
    if option.startswith("--")
}


def test_help_imports_nothing_heavy() -> None:
    code = f"import simulst.commands.main, sys; print([name for name in {HEAVY} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_every_command_is_in_one_section() -> None:
    listed = [command.name for section in main.SECTIONS.values() for command in section]
    shown = [name for name, command in main.main.commands.items() if not command.hidden]
    assert sorted(listed) == sorted(shown) and len(set(listed)) == len(listed)


@pytest.mark.parametrize("typed", ALL)
def test_help(typed: str) -> None:
    """The first sentence is short enough to stand whole in the group's list, in 80 columns."""
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(main.main, [*typed.split()[1:], "--help"], prog_name="simulst")
    assert shown.exit_code == 0 and shown.stdout.startswith(f"Usage: {typed} ")
    if isinstance(ALL[typed], click.Group):
        assert "..." not in shown.stdout.partition("Options:")[2]


@pytest.mark.parametrize(("typed", "option"), OPTIONS)
def test_every_option_is_told(typed: str, option: str) -> None:
    assert OPTIONS[typed, option].help, f"{typed} {option} has no help"


def test_what_stands_in_commands_is_what_the_library_has() -> None:
    """Commands have copies of these, as the library's modules take seconds to import."""
    defaults = {option.name: option.default for option in prefix.predictor.params}
    options = asdict(Options())
    for name, value in {**options.pop("sizes"), **options}.items():
        assert defaults[name] == value
    assert len(fields(Options)) > 5


def test_python_m_simulst_is_the_program() -> None:
    run = subprocess.run([sys.executable, "-m", "simulst", "--version"], capture_output=True, text=True, check=True)
    program = subprocess.run(
        [Path(sys.executable).parent / "simulst", "--version"], capture_output=True, text=True, check=True
    )
    assert run.stdout.split()[-1] == program.stdout.split()[-1]


def test_the_program_of_a_copied_environment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first line names the Python of the old one."""
    (tmp_path / "pyvenv.cfg").touch()
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin/simulst"), "--version"])
    with pytest.raises(SystemExit) as ended:
        main.entry()
    assert ended.value.code == 1 and f"{tmp_path}: a copy of {sys.prefix}" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [f"{sys.prefix}/bin/simulst", "--version"])
    main.entry()
    assert "version" in capsys.readouterr().out
