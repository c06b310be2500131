"""Waiting for what another process does, however long it takes on a busy machine."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from inotify_simple import INotify, flags

CHANGES = flags.CREATE | flags.MODIFY | flags.MOVED_TO | flags.CLOSE_WRITE
HANGS = 300  # seconds without any change


def until(happened: Callable[[], object], folder: Path, *processes: subprocess.Popen[Any]) -> None:
    """Return once something has happened in `folder`, asking after each change there.

    processes: those that should make it happen; an end of one is an error.
    """
    with INotify() as inotify:
        poll = select.poll()
        poll.register(inotify, select.POLLIN)
        ends = [os.pidfd_open(process.pid) for process in processes]
        for end in ends:
            poll.register(end, select.POLLIN)
        try:
            while True:
                for place, _, _ in os.walk(folder):
                    with suppress(FileNotFoundError):  # it may be gone by now
                        inotify.add_watch(place, CHANGES)
                if happened():
                    return
                found = poll.poll(1000 * HANGS)
                assert found, f"nothing happens in {folder}"
                assert all(process.poll() is None for process in processes), "a process has ended"
                inotify.read(timeout=0)
        finally:
            for end in ends:
                os.close(end)


def eventually(happened: Callable[[], object]) -> None:
    """Return once something has happened in another thread of this process."""
    end = time.monotonic() + HANGS
    while not happened():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


@contextmanager
def opened_in(folder: Path, how: int = flags.OPEN) -> Iterator[set[Path]]:
    """The files in what folders there are now that any process opens; known once the block has ended. how: inotify's"""
    opened: set[Path] = set()
    with INotify() as inotify:
        places = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
        watches = {inotify.add_watch(place, how): place for place in places}
        yield opened
        for event in inotify.read(timeout=0):
            assert not event.mask & flags.Q_OVERFLOW, "more was opened than the kernel keeps"
            opened.add(watches[event.wd] / event.name)


@contextmanager
def closed(gate: Path) -> Iterator[Callable[[], None]]:
    """Keep those who `pass_through` this gate waiting until the function that is given is called, or the block ends."""
    with gate.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield lambda: fcntl.flock(file, fcntl.LOCK_UN)


def pass_through(gate: str | Path) -> None:
    """Wait while another process keeps the gate closed."""
    with open(gate) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
