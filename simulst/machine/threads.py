"""Threads and processors: how many threads to use, how they wait and add, and how long they waited for a processor."""

from __future__ import annotations

import math
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

    This is OMP_NUM_THREADS if it is set. Otherwise the processors of this process are divided by `jobs`. Of a container
    they are as many as its quota is worth, rounded down: more threads would be stopped together, for most of the time.
    """
    try:
        asked = int(os.environ.get("OMP_NUM_THREADS", ""))
    except ValueError:
        asked = 0
    return asked if asked > 0 else max(1, int(min(len(os.sched_getaffinity(0)), quota())) // jobs)


def quota(root: Path = Path("/")) -> float:
    """How many processors' time this process may use by the limits of its cgroups (versions 1 and 2), or infinity.

    root: in which proc and sys are.
    """
    mounted = root / "sys/fs/cgroup"
    found = [math.inf]
    try:
        groups = [line.split(":", 2)[1:] for line in (root / "proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return math.inf
    for controllers, path in groups:
        if controllers and "cpu" not in controllers.split(","):
            continue
        for top in [mounted / "cpu", mounted / "cpu,cpuacct"] if controllers else [mounted]:
            place = top / path.lstrip("/")  # of the host, so that it may not be there; a limit may be above, too
            found += [_limit(folder) for folder in (place, *place.parents) if folder.is_relative_to(top)]
    return min(found)


def _limit(folder: Path) -> float:
    """Processors by the limit of one cgroup."""
    try:
        if (folder / "cpu.max").is_file():
            time, period = map(float, (folder / "cpu.max").read_text().replace("max", "inf").split())
        else:
            time, period = (float((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    except (OSError, ValueError):
        return math.inf
    return time / period if time > 0 and period > 0 else math.inf


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
