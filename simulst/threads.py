"""Processors: how many threads to use, that they sleep while they wait, and whether others were in the way."""

from __future__ import annotations

import os
from pathlib import Path


def sleep_while_waiting() -> None:
    """Have OpenMP's threads sleep where they wait for each other, unless the environment says otherwise.

    By default they spin. Beside another busy process a spinning thread takes the processor from the very thread that it
    waits for, and small models become twenty times slower. It works only before torch or CTranslate2 is imported, and
    child processes inherit it. docs/benchmarks.md has the figures.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def available_cores(jobs: int = 1) -> int:
    """The processors that each of `jobs` processes may use: OMP_NUM_THREADS, or its share of those of this process."""
    try:
        asked = int(os.environ.get("OMP_NUM_THREADS", ""))
    except ValueError:
        asked = 0
    return asked if asked > 0 else max(1, len(os.sched_getaffinity(0)) // jobs)


def waited_seconds() -> float:
    """How long threads of this process have been ready to run but had no processor, since they started.

    0 where the kernel does not tell.
    """
    total = 0
    for thread in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(thread.read_text().split()[1])
        except (OSError, ValueError, IndexError):  # a thread that has just ended
            continue
    return total / 1e9
