"""Threads: OpenMP's threads sleep soon while they wait, unless the environment says otherwise."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from multiprocessing import Process
from pathlib import Path

import pytest

from simulst.machine import threads
from simulst.machine.threads import available_cores, quota, waited_seconds, waits


@pytest.mark.parametrize(
    ("said", "expected"),
    [({}, "PASSIVE 5000"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None"), ({"GOMP_SPINCOUNT": "0"}, "PASSIVE 0")],
)
def test_threads_sleep_soon_unless_the_environment_says_otherwise(said: dict[str, str], expected: str) -> None:
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in names} | said
    code = f"import simulst, os; print(*map(os.environ.get, {names}))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


@pytest.mark.parametrize(
    ("asked", "here", "quota", "expected"),
    [
        *((asked, 6, math.inf, [6, 3, 1, 1]) for asked in ("", "nonsense", "0", "-2")),
        ("", 64, 2.5, [2, 1, 1, 1]),
        ("5", 6, math.inf, [5, 5, 5, 5]),
    ],
)
def test_processes_share_the_processors(
    monkeypatch: pytest.MonkeyPatch, asked: str, here: int, quota: float, expected: list[int]
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(here)))
    monkeypatch.setattr(threads, "quota", lambda: quota)
    assert [available_cores(jobs) for jobs in (1, 2, 4, 100)] == expected


OLD = {"quota": 3, "period": 1}  # of version 1


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/", {"cpu.max": "250000 100000"}, 2.5),
        ("0::/", {"cpu.max": "max 100000"}, math.inf),
        ("0::/", {}, math.inf),
        ("0::/docker/abc", {"cpu.max": "150000 100000"}, 1.5),  # as the host names it
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 0.5),
        ("3:cpu,cpuacct:/a", {f"cpu,cpuacct/a/cpu.cfs_{n}_us": f"{t}00000" for n, t in OLD.items()}, 3),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, math.inf),
        ("2:cpuset:/", {"cpu.max": "100000 100000"}, math.inf),
    ],
)
def test_quota_of_cgroups(tmp_path: Path, groups: str, files: dict[str, str], expected: float) -> None:
    for name, text in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{n}": t for n, t in files.items()}}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert quota(tmp_path) == expected


def spin() -> None:
    while True:
        pass


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel does not tell")
def test_waiting_for_a_processor_is_seen() -> None:
    """Two busy processes share one processor, so this one waits for it part of the time."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(everywhere)})
    try:
        other = Process(target=spin, daemon=True)
        other.start()
        before, end = waits(), time.process_time() + 10
        while waited_seconds(before) < 0.1:
            assert time.process_time() < end
    finally:
        other.kill()
        other.join()
        os.sched_setaffinity(0, everywhere)


def test_a_thread_that_has_ended_takes_no_waiting_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may also be another thread's by now. A negative time would make the run's log unreadable."""
    monkeypatch.setattr(threads, "waits", lambda: {"1": 3_000_000_000, "3": 500_000_000, "4": 1_000_000_000})
    assert waited_seconds({"1": 1_000_000_000, "2": 9_000_000_000, "4": 7_000_000_000}) == 2.5
    assert waited_seconds({"2": 9_000_000_000, "1": 3_000_000_000, "3": 500_000_000, "4": 1_000_000_000}) == 0
