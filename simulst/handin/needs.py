"""What a packed system imports: found by running it, in a process of its own, on a piece of a recording."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulst.errors import SimulstError

CUBLAS, CUDNN = "nvidia-cublas-cu12==12.9.3.13", "nvidia-cudnn-cu12==9.28.0.42"


@dataclass(frozen=True)
class Needs:
    """Packages as pip wants them (name==version), and the modules at their tops."""

    packages: tuple[str, ...]
    modules: tuple[str, ...]


def needs_of(folder: Path, systems: Sequence[str], recording: Path, device: str) -> Needs:
    """What the systems need.

    recording: WAV, whose beginning is decoded. Raises SimulstError: a system can't be run from its folder.
    """
    arguments = [*systems, str(recording)]
    found, words = _tried(folder, ["serve", *arguments])
    if "torch" in found.modules:  # transformers imports it if it is there, also where only a tokeniser is used
        with contextlib.suppress(SimulstError):
            lean, same = _tried(folder, ["serve-without-torch", *arguments])
            found = lean if same == words else found
    return Needs((*found.packages, *_for_ctranslate2(found, device)), found.modules)


def _for_ctranslate2(found: Needs, device: str) -> tuple[str, ...]:
    """What its wheels open by name on a GPU. Torch brings a cuDNN of its own, as files of the same names."""
    if device == "cpu" or "ctranslate2" not in found.modules:
        return ()
    return (CUBLAS,) if any(one.startswith("nvidia-cudnn-") for one in found.packages) else (CUBLAS, CUDNN)


def needs_of_verify(folder: Path, systems: Sequence[str], serving: Needs) -> Needs:
    """What verify needs besides, once the folder has its logs. Raises SimulstError: they can't be scored."""
    found, _ = _tried(folder, ["check", *systems])
    return Needs(tuple(one for one in found.packages if one not in serving.packages), found.modules)


def packed_environment(folder: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process that sees the folder's code alone."""
    known = {**os.environ, **(variables or {})}
    known.pop("SYSTEM", None)
    return {**known, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'own'}", "PYTHONSAFEPATH": "1"}


def _tried(folder: Path, arguments: Sequence[str]) -> tuple[Needs, list[str]]:
    """What was imported, and what was written."""
    command = [sys.executable, "-m", "simulst.handin.tried", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=packed_environment(folder.absolute()), capture_output=True, text=True
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise SimulstError(f"{folder}: its system does not run there: {lines[-1].removeprefix('error: ')}")
    packages, modules, words = json.loads(done.stdout.splitlines()[-1])
    return Needs(tuple(packages), tuple(modules)), words
