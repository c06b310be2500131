"""The processor that a benchmark ran on: ratios differ between processors, so every benchmark prints it."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

EXTENSIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
"""Instruction sets that matrix products use."""


def processor() -> str:
    """One line: name, family and model, number of processors that this process may use, instruction sets."""
    name, sets = _parts()
    count = len(os.sched_getaffinity(0))
    return "; ".join(part for part in (name, f"{count} processor{'s' if count > 1 else ''}", sets) if part)


def kind(device: str = "cpu") -> str:
    """The same without their number: on one kind, the same computation has the same bits.

    device: the GPU is named, too, if this is another than cpu.
    """
    return "; ".join(filter(None, (*_parts(), _gpu() if device != "cpu" else "")))


def _gpu() -> str:
    try:
        asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        return subprocess.run(asked, capture_output=True, text=True).stdout.partition("\n")[0].strip()
    except OSError:  # there is none
        return ""


def _parts() -> tuple[str, str]:
    known = _cpuinfo()
    name = known.get("model name") or platform.processor() or platform.machine()
    numbers = ", ".join(f"{key.removeprefix('cpu ')} {known[key]}" for key in ("cpu family", "model") if key in known)
    flags = known.get("flags", "").split()
    sets = " ".join(extension for extension in EXTENSIONS if extension in flags)
    return f"{name} ({numbers})" if numbers else name, sets


def _cpuinfo() -> dict[str, str]:
    """The description of the first processor in /proc/cpuinfo; empty if there is none."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").split("\n\n")[0].splitlines() if path.is_file() else []
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}
