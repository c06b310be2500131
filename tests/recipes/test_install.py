"""tools/install.sh, with a program in place of Python and pip."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import tracked
import waiting

PYTHON = """#!/usr/bin/env bash
case "$*" in
    "-m venv "*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    *"-m pip --version") echo 26.0 ;;
    "-I -c "*) [ ! -e moved ] || exit 1 ;;
    *"-r tools/requirements.txt"*)
        echo call >> calls
        if [ -e held ]; then read -r < held; fi
        echo "WARNING: Location 'somewhere' is ignored: it is neither a file nor a directory."
        echo "Collecting torch==2.11.0"
        echo "  Downloading torch-2.11.0-cp311.whl (530.6 MB)"
        echo "  Downloading tqdm-4.whl (78 kB)"
        echo "Installing collected packages: torch, tqdm, click"
        echo "user=$PIP_USER target=${PIP_TARGET-}" >> settings
        if [ -e broken ]; then printf '\\033[31mERROR\\033[0m: No space left on device\\n'; exit 1; fi
        echo "Successfully installed torch-2.11.0 tqdm-4 click-8" ;;
esac
exit 0
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    tracked.copy(tmp_path, "tools")
    shutil.copy(tracked.ROOT / "setup.py", tmp_path)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def begin(checkout: Path) -> subprocess.Popen[str]:
    environment, command = {**os.environ, "PYTHON": str(checkout / "python")}, [str(checkout / "tools/install.sh")]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def install(checkout: Path) -> subprocess.CompletedProcess[str]:
    with begin(checkout) as process:
        out, error = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def test_two_at_once_install_once(checkout: Path) -> None:
    os.mkfifo(checkout / "held")
    with begin(checkout) as first:
        waiting.until((checkout / "calls").exists, checkout, first)
        with begin(checkout) as second:
            assert second.stdout and "waiting for another" in second.stdout.readline()
            (checkout / "held").write_text("go on\n")
            assert first.communicate()[1] == second.communicate()[1] == ""
    assert first.returncode == second.returncode == 0 and (checkout / "calls").read_text() == "call\n"


def test_on_a_disk_without_locks_it_installs(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "flock").write_text("#!/bin/sh\nexit 71\n")
    (checkout / "flock").chmod(0o755)
    monkeypatch.setenv("PATH", str(checkout), prepend=":")
    run = install(checkout)
    assert run.returncode == 0 and "done" in run.stdout
    assert run.stderr == "tools/install.sh: no locks on this disk; start no second one meanwhile\n"


def test_it_says_what_takes_long_and_nothing_else(checkout: Path) -> None:
    run = install(checkout)
    assert run.returncode == 0 and not run.stderr
    lines = [line[5:].strip() for line in run.stdout.splitlines()[1:]]
    big, unpacking = "torch-2.11.0-cp311.whl (530.6 MB)", "Unpacking 3 packages"
    rest = ["ESPnet and SimulEval", "simulst", "Trying what was installed", "tools/install.sh: done"]
    assert lines == ["An empty environment", "Packages", big, unpacking, *rest]


def test_once_done_it_does_nothing_until_the_requirements_change(checkout: Path) -> None:
    install(checkout)
    assert install(checkout).stdout == ""
    with (checkout / "tools/requirements.txt").open("a") as file:
        file.write("six\n")
    assert "done" in install(checkout).stdout
    assert (checkout / "calls").read_text().count("call") == 2


def test_in_a_checkout_that_was_moved_it_installs_again(checkout: Path) -> None:
    install(checkout)
    (checkout / "moved").touch()
    assert "done" in install(checkout).stdout


def test_the_users_settings_for_pip_do_not_install_elsewhere(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    assert install(checkout).returncode == 0 and (checkout / "settings").read_text() == "user=0 target=\n"


def test_a_python_without_wheels_is_refused_before_anything_is_installed(checkout: Path) -> None:
    (checkout / "python").write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo Python 3.99; else exit 1; fi\n')
    run = install(checkout)
    assert run.returncode == 1 and not run.stdout and not (checkout / ".venv").exists()
    assert run.stderr.endswith("is Python 3.99; set PYTHON to a Python 3.11, 3.12 or 3.13.\n")


def test_a_failure_ends_with_pips_last_lines_and_can_be_repeated(checkout: Path) -> None:
    (checkout / "broken").touch()
    run = install(checkout)
    assert run.returncode == 1 and run.stderr.endswith("ERROR: No space left on device\n")
    assert "is ignored" not in run.stderr and not (checkout / ".venv/.installed").exists()
    (checkout / "broken").unlink()
    assert install(checkout).returncode == 0
