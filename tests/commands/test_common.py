"""How commands end, and what they make of numbers."""

from __future__ import annotations

import click
import pytest

from simulst.commands.common import Several, run_command
from simulst.errors import SimulstError


@click.command()
@click.option("--speeds", type=Several(float), default="1.0 0.9")
@click.option("--counts", type=Several(int), default="1")
def command(speeds: tuple[float, ...], counts: tuple[int, ...]) -> None:
    if counts == (7,):
        raise SimulstError("seven is too many.")
    print(speeds, counts)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--speeds", "x"], 2, "Invalid value for '--speeds': 'x': could not convert"),
        (["--counts", "1 2.5"], 2, "Invalid value for '--counts': '1 2.5'"),
        (["--counts", ""], 2, "give at least one number"),
        (["--counts", "7"], 1, "error: seven is too many."),
    ],
)
def test_bad_values(
    arguments: list[str], status: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["command", *arguments])
    with pytest.raises(SystemExit) as ended:
        run_command(command)
    assert ended.value.code == status and words in capsys.readouterr().err


def test_numbers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["command", "--counts", "3  1"])
    run_command(command)
    assert capsys.readouterr().out == "(1.0, 0.9) (3, 1)\n"


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), ValueError()])
def test_ctrl_c_in_compiled_code_is_an_interruption(
    cause: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """numba raises a SystemError from it."""

    @click.command()
    def compiled() -> None:
        raise SystemError("returned a result with an exception set") from cause

    monkeypatch.setattr("sys.argv", ["compiled"])
    with pytest.raises((SystemExit, SystemError)) as ended:
        run_command(compiled, "simulst")
    if isinstance(cause, KeyboardInterrupt):
        assert isinstance(ended.value, SystemExit) and ended.value.code == 130
        assert capsys.readouterr().err == "simulst: interrupted; run the same command again to go on.\n"
    else:
        assert isinstance(ended.value, SystemError)
