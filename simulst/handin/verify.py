#!/usr/bin/env python3
"""Check that this hand-in is what it claims to be. Needs Python and the development recordings, nothing else.

    python3 verify.py RECORDINGS [--system NAME] [--port 8080] [--environment DIR] [--without-docker]

It checks the digests of all files, installs what the Dockerfile installs into an environment of its own, starts the
server as the Dockerfile does, sends the recordings through simulstream and SimulEval, and compares words, delays and
scores with the logs. With Docker, it builds the image and runs that. A second call goes on with the environment.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUMS = "SHA256SUMS"
REQUIREMENTS = ("requirements.txt", "requirements-verify.txt")
INSTALL = ("pip", "install", "--no-cache-dir", "--no-deps")


def counted(faults: int) -> str:
    """Their number in words."""
    return "1 fault" if faults == 1 else f"{faults} faults"


def faults_of_files(folder: Path) -> list[str]:
    """A sentence for each file that is missing, changed, or not listed in SHA256SUMS, and for links and pipes.

    A folder of compiled files is told as one: what is in it may run.
    """
    try:
        # Not splitlines(): a name may hold U+2028 and similar separators.
        lines = (folder / SUMS).read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        return [f"{folder / SUMS}: cannot be read ({getattr(error, 'strerror', None) or error}); pack again."]
    faults, found = [], {}
    for place, folders, files in os.walk(folder):
        for name in sorted((*folders, *files)):
            path = Path(place, name)
            inside, mode = path.relative_to(folder).as_posix(), path.lstat().st_mode
            if stat.S_ISREG(mode) or name == "__pycache__":
                found[inside] = path
            elif not stat.S_ISDIR(mode):
                faults.append(f"{inside}: is a link, or no file; pack again, or copy the folder again.")
        folders[:] = [name for name in folders if name != "__pycache__"]
    for line in lines:
        digest, _, name = line.partition("  ")
        if name not in found:
            faults.append(f"{name}: is missing; pack again, or copy the folder again.")
        elif _digest(found.pop(name)) != digest:
            faults.append(f"{name}: is not the file that was packed; pack again, or copy the folder again.")
    return faults + [f"{name}: is not listed in {SUMS}; remove it, or pack again." for name in found if name != SUMS]


@contextlib.contextmanager
def environment_of(folder: Path, place: Path, image: dict[str, Any]) -> Iterator[Path]:
    """The Python of an environment with the pinned packages; made unless it is there. One process has it at a time."""
    python, stamp = place / "bin" / "python", place / ".installed"
    wanted = hashlib.sha256(b"".join((folder / name).read_bytes() for name in REQUIREMENTS)).hexdigest()

    def installed() -> bool:
        return stamp.is_file() and stamp.read_text() == wanted

    if not installed():
        _check_machine(image)
    place.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(place, os.O_RDONLY)
    try:
        _lock(descriptor, place)
        if not installed():  # somebody else may have done it meanwhile
            _install(folder, place, python)
            stamp.write_text(wanted)
        yield python
    finally:
        os.close(descriptor)


def _check_machine(image: dict[str, Any]) -> None:
    """Raise SystemExit if the packages can't be installed here."""
    running = ".".join(map(str, sys.version_info[:2]))
    if running != image["python"]:
        raise SystemExit(
            f"error: this is Python {running}, but the image has {image['python']}; call python{image['python']} "
            "verify.py."
        )
    lacking = [name for name in image["debian"] if shutil.which("dpkg") and _fails(["dpkg", "-s", name])]
    if lacking:
        raise SystemExit(f"error: the image has the Debian packages {' '.join(lacking)}; apt-get install them here.")


def _install(folder: Path, place: Path, python: Path) -> None:
    """Make the environment. Raises SystemExit: a package can't be installed."""
    print(f"environment in {place} (minutes, the first time)", flush=True)
    venv.create(place, with_pip=True, clear=True)
    for name in REQUIREMENTS:
        command = [str(python), "-m", *INSTALL, "--disable-pip-version-check", "-r", name]
        log = place / f"{name}.log"
        with log.open("w") as said:
            if subprocess.run(command, cwd=folder, stdout=said, stderr=said, env=_plain()).returncode:
                lines = [line for line in log.read_text().splitlines() if line.startswith("ERROR")]
                raise SystemExit(f"error: {name}: {lines[-1] if lines else 'could not be installed'}; see {log}.")


def with_docker(folder: Path, system: str, port: int, check: list[str]) -> int:
    """Build the image, run it, check the server in it, remove it. Returns the check's status."""
    tag = f"simulst-{hashlib.sha256((folder / SUMS).read_bytes()).hexdigest()[:12]}"
    if subprocess.run(["docker", "build", "--tag", tag, str(folder)]).returncode:
        raise SystemExit("error: the image can't be built; what Docker said is above.")
    gpus = ["--gpus", "all"] if json.loads((folder / "image.json").read_text())["device"] != "cpu" else []
    command = ["docker", "run", "--detach", "--env", f"SYSTEM={system}", *gpus]
    command += ["--publish", f"127.0.0.1:{port}:8080", tag]
    started = subprocess.run(command, capture_output=True, text=True)
    if started.returncode:
        raise SystemExit(f"error: the image can't be run: {started.stderr.strip()}")
    container = started.stdout.strip()
    try:
        health = ["docker", "inspect", "--format", "{{.State.Health.Status}}", container]
        while (state := subprocess.run(health, capture_output=True, text=True).stdout.strip()) == "starting":
            time.sleep(1)
        if state != "healthy":
            subprocess.run(["docker", "logs", "--tail", "5", container])
            print(f"  WRONG the container of {system} does not answer.")
            return 1
        return subprocess.run([*check, "--system", system, "--served", "--port", str(port)]).returncode
    finally:
        subprocess.run(["docker", "rm", "--force", container], capture_output=True)


def main() -> int:
    """Returns the exit status: 0 if all is as claimed."""
    parser = argparse.ArgumentParser(description="Check that this hand-in is what it claims to be.")
    parser.add_argument("recordings", type=Path, help="folder of the development recordings")
    parser.add_argument("--system", help="only this one [default: all]")
    parser.add_argument("--port", type=int, default=8080, help="of the server [default: 8080]")
    parser.add_argument("--environment", type=Path, help="folder for the packages [default: beside this one]")
    parser.add_argument("--without-docker", action="store_true", help="do not use Docker even if it is there")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.folder.absolute()
    faults = faults_of_files(folder)
    for fault in faults:
        print(f"  WRONG {fault}")
    if faults:
        print(f"{folder}: {counted(len(faults))}; the hand-in is not what it claims to be.", file=sys.stderr)
        return 1
    print(f"  ok    digests of all files in {SUMS}", flush=True)
    image = json.loads((folder / "image.json").read_text())
    systems = [given.system] if given.system else image["systems"]
    if unknown := [name for name in systems if name not in image["systems"]]:
        raise SystemExit(f"error: there is no system {unknown[0]}; choose from {', '.join(image['systems'])}.")
    place = given.environment or folder.with_name(f"{folder.name}.environment")
    with environment_of(folder, place.absolute(), image) as python:
        return _check(folder, systems, place, python, given)


def _check(folder: Path, systems: list[str], place: Path, python: Path, given: argparse.Namespace) -> int:
    """Decode and compare, in the environment. Returns the exit status."""
    check = [str(python), "-W", "ignore", "-m", "simulst.handin.check", str(folder), str(given.recordings.absolute())]
    # Compiled files lie elsewhere, so that the folder stays as it was packed.
    compiled = str(place.absolute() / "compiled")
    os.environ.update(
        PYTHONPATH=f"{folder}{os.pathsep}{folder / 'own'}", PYTHONSAFEPATH="1", PYTHONPYCACHEPREFIX=compiled
    )
    if not given.without_docker and shutil.which("docker") and not _fails(["docker", "info"]):
        return max(with_docker(folder, system, given.port, check) for system in systems)
    only = ["--system", given.system] if given.system else []
    return subprocess.run([*check, "--port", str(given.port), *only]).returncode


def _digest(path: Path) -> str:
    whole = hashlib.sha256()
    if path.is_file():
        with path.open("rb") as file:  # hashlib.file_digest came with Python 3.11, and an older one is told below
            while block := file.read(1 << 20):
                whole.update(block)
    return whole.hexdigest()


def _lock(descriptor: int, place: Path) -> None:
    """Lock the environment; wait if another verify.py has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"another verify.py is at work in {place}; waiting for it", flush=True)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        print(f"{place}: no locks on this disk ({error.strerror}); start no second verify.py", flush=True)


def _fails(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True).returncode != 0


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_USER", "PIP_TARGET")}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on with the environment.")
    except OSError as error:
        sys.exit(f"error: {error}.")
