"""Debian packages as sources of data: fetch them with apt-get and unpack them, without root."""

from __future__ import annotations

import io
import lzma
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import click

from simulst.commands.common import PATH, run_command
from simulst.errors import SimulstError


def fetch_packages(names: list[str], downloads: Path) -> dict[str, Path]:
    """Fetch the Debian packages that `downloads` lacks, with apt-get and without root.

    Returns: name → file.
    Raises SimulstError: apt-get is missing or cannot fetch a package. The message lists what to fetch by hand.
    """
    downloads.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not find_package(name, downloads)]
    if missing:
        # An incomplete download must not look like a complete package to the next run.
        part = downloads / "apt.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        failure = _apt(["download", *missing], part)
        if failure and os.geteuid() == 0 and not _apt(["update"], part):
            failure = _apt(["download", *missing], part)
        for file in sorted(part.glob("*.deb")) if not failure else ():
            file.replace(downloads / file.name)
        shutil.rmtree(part)
        if failure:
            raise SimulstError(
                f"{downloads}: apt-get could not get {', '.join(missing)} ({failure}); download the .deb files of "
                "these packages from Debian's package pages into this folder and run again."
            )
    found = {name: find_package(name, downloads) for name in names}
    return {name: file for name, file in found.items() if file}


def find_package(name: str, downloads: Path) -> Path | None:
    """The package's file in the folder; of several, the last by name; None if there is none."""
    return max(downloads.glob(f"{name}_*.deb"), default=None)


def unpack(package: Path, root: Path) -> Path:
    """Unpack a .deb file to `root`, unless that is done. Returns `root`. Raises SimulstError: the file is broken."""
    stamp = root / ".done"
    if stamp.is_file() and stamp.read_text() == package.name:
        return root
    part = root.with_name(root.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        if shutil.which("dpkg"):
            subprocess.run(["dpkg", "-x", package, part], check=True, capture_output=True, text=True)
        else:
            _unpack_deb(package, part)
    except (subprocess.CalledProcessError, OSError, EOFError, ValueError, tarfile.TarError, lzma.LZMAError) as error:
        reason = _last_line(getattr(error, "stderr", None) or str(error))
        raise SimulstError(f"{package}: cannot be unpacked ({reason}); delete it and run again.") from error
    (part / ".done").write_text(package.name)
    shutil.rmtree(root, ignore_errors=True)
    part.replace(root)
    return root


def _apt(arguments: list[str], folder: Path) -> str:
    """Run apt-get in a folder. Returns the last line of its errors; "" if it succeeds."""
    try:
        done = subprocess.run(["apt-get", "-q", *arguments], check=False, cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        return "there is no apt-get"
    return "" if done.returncode == 0 else _last_line(done.stderr or f"exit status {done.returncode}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1].rstrip(".")


def _unpack_deb(package: Path, root: Path) -> None:
    """Unpack a .deb file: an `ar` archive whose member data.tar.* holds the files."""
    data = package.read_bytes()
    if not data.startswith(b"!<arch>\n"):
        raise ValueError("no ar archive")
    at = 8
    while at < len(data):
        name = data[at : at + 16].decode("ascii").strip().rstrip("/")
        size = int(data[at + 48 : at + 58])
        if name.startswith("data.tar"):
            if name.endswith(".zst"):
                raise SimulstError(f"{package}: compressed with zstd, which only dpkg unpacks here; install dpkg.")
            with tarfile.open(fileobj=io.BytesIO(data[at + 60 : at + 60 + size])) as tar:
                tar.extractall(root, filter="data")
            return
        at += 60 + size + size % 2
    raise ValueError("no data member")


# ---- command ----


@click.command()
@click.argument("packages", nargs=-1, required=True)
@click.option("--downloads", required=True, type=PATH, help="Folder for the packages.")
@click.option("--out", required=True, type=PATH, help="Each package is unpacked into the folder of its name here.")
def main(packages: tuple[str, ...], downloads: Path, out: Path) -> None:
    """Fetch Debian packages and unpack them, without root."""
    for name, file in fetch_packages([*packages], downloads).items():
        unpack(file, out / name)


if __name__ == "__main__":
    run_command(main)
