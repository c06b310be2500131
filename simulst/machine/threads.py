"""Threads and processors: how many threads to use, how they wait and add, and how long they waited for a processor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SPINS = "5000"
"""Rounds that a thread of GCC's OpenMP spins before it sleeps."""


def sleep_while_waiting() -> None:
    """Make OpenMP's threads spin for well under a millisecond while they wait for each other, and then sleep.

    By default they spin for long. If another process is busy, a spinning thread takes the processor from the thread
    that it waits for. If they never spin, training is a fifth slower. docs/benchmarks.md has figures of both.
    OMP_WAIT_POLICY and GOMP_SPINCOUNT keep the values that the user has set.

    Call this before torch or CTranslate2 is imported; later it has no effect. Child processes inherit the setting.
    """
    if os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE") == "PASSIVE":
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def add_alike_in_numpy() -> None:
    """Let numpy's products use one thread. With another number of threads, OpenBLAS gives other last bits.

    Our features use none, but those of transformers do. Call this before numpy is imported; later it has no effect.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def add_alike_in_mkl() -> None:
    """Make products of MKL, which is in torch and in CTranslate2, the same to the bit for any number of threads.

    By default, threads share the sums of a product, and other last bits change words. MKL_CBWR keeps the value that the
    user has set; OFF makes float32 somewhat faster. Call this before the first product; later it has no effect.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


def available_cores(jobs: int = 1) -> int:
    """How many processors each of `jobs` processes may use.

    This is OMP_NUM_THREADS if it is set. Otherwise the processors of this process are divided by `jobs`.
    """
    try:
        asked = int(os.environ.get("OMP_NUM_THREADS", ""))
    except ValueError:
        asked = 0
    return asked if asked > 0 else max(1, len(os.sched_getaffinity(0)) // jobs)


def waits() -> dict[str, int]:
    """Nanoseconds that each running thread of this process has waited for a processor, by the thread's number.

    Empty if the kernel does not provide this.
    """
    found = {}
    for file in Path("/proc/self/task").glob("*/schedstat"):
        try:
            found[file.parent.name] = int(file.read_text().split()[1])
        except (OSError, ValueError, IndexError):  # the thread has just ended
            continue
    return found


def waited_seconds(before: Mapping[str, int]) -> float:
    """Seconds that the running threads have waited for a processor since `before`, which `waits` gave.

    A thread that has ended since then does not count.
    """
    return sum(max(0, now - before.get(thread, 0)) for thread, now in waits().items()) / 1e9
