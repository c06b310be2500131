"""What a packed system imports: found by running it, in a process of its own, on a piece of a recording."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulst.errors import SimulstError

CUDA_FOR_CTRANSLATE2 = ("nvidia-cublas-cu12==12.9.3.13", "nvidia-cudnn-cu12==9.28.0.42")


@dataclass(frozen=True)
class Needs:
    """Packages as pip wants them (name==version), and the modules at their tops."""

    packages: tuple[str, ...]
    modules: tuple[str, ...]


def needs_of(folder: Path, systems: Sequence[str], recording: Path, device: str) -> Needs:
    """What the systems need.

    recording: WAV, whose beginning is decoded. Raises SimulstError: a system can't be run from its folder.
    """
    found = _tried(folder, ["serve", *systems, str(recording)])
    extra = CUDA_FOR_CTRANSLATE2 if device != "cpu" and "ctranslate2" in found.modules else ()
    return Needs((*found.packages, *extra), found.modules)


def needs_of_verify(folder: Path, systems: Sequence[str], serving: Needs) -> Needs:
    """What verify needs besides, once the folder has its logs. Raises SimulstError: they can't be scored."""
    found = _tried(folder, ["check", *systems])
    return Needs(tuple(one for one in found.packages if one not in serving.packages), found.modules)


def packed_environment(folder: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process that sees the folder's code alone."""
    known = {**os.environ, **(variables or {})}
    known.pop("SYSTEM", None)
    return {**known, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'own'}", "PYTHONSAFEPATH": "1"}


def _tried(folder: Path, arguments: Sequence[str]) -> Needs:
    command = [sys.executable, "-m", "simulst.handin.tried", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=packed_environment(folder.absolute()), capture_output=True, text=True
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise SimulstError(f"{folder}: its system does not run there: {lines[-1].removeprefix('error: ')}")
    return Needs(*map(tuple, json.loads(done.stdout.splitlines()[-1])))
