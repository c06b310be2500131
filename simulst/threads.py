"""Threads and processors: how many threads to use, how they wait, and how long they waited for a processor."""

from __future__ import annotations

import os
from pathlib import Path


def sleep_while_waiting() -> None:
    """Make OpenMP's threads sleep while they wait for each other, unless OMP_WAIT_POLICY is set already.

    By default they spin. If another process is busy, a spinning thread takes the processor from the thread that it
    waits for. docs/benchmarks.md has figures of both.

    Call this before torch or CTranslate2 is imported; later it has no effect. Child processes inherit the setting.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def available_cores(jobs: int = 1) -> int:
    """How many processors each of `jobs` processes may use.

    This is OMP_NUM_THREADS if it is set. Otherwise the processors of this process are divided by `jobs`.
    """
    try:
        asked = int(os.environ.get("OMP_NUM_THREADS", ""))
    except ValueError:
        asked = 0
    return asked if asked > 0 else max(1, len(os.sched_getaffinity(0)) // jobs)


def waited_seconds() -> float:
    """Seconds that the running threads of this process have waited for a processor, since each of them started.

    0 if the kernel does not provide this.
    """
    total = 0
    for thread in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(thread.read_text().split()[1])
        except (OSError, ValueError, IndexError):  # the thread has just ended
            continue
    return total / 1e9
