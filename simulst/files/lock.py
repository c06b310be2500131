"""Allow one run at a time in a folder, and only runs with the same options.

The kernel releases the lock when its holder dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError

logger = logging.getLogger(__name__)

LOCK = ".lock"


@contextmanager
def locked(folder: Path, file: Path | None = None, wait: bool = False) -> Iterator[int]:
    """Lock a folder against other processes, also on other machines if the file system supports locks.

    file: the lock file; None: `folder/.lock`. It is created with its folder, and removed at the end.
    wait: wait until no other process holds the lock.

    Yields: the lock's file descriptor. A program that inherits it (`pass_fds`) also holds the lock, until it ends.
    Raises SimulstError: another process holds the lock.
    """
    file = file or folder / LOCK
    file.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode(errors="replace") or "unknown"
            os.close(descriptor)
            raise SimulstError(
                f"{folder}: another run is at work there ({holder}, or what it started); wait for it, or stop it."
            ) from None
        except OSError as error:
            logger.warning("%s: no locks on this disk (%s); start no second run there.", folder, error.strerror)
        # Another process may have removed the file after we opened it and before we locked it.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                break
        os.close(descriptor)
    try:
        with suppress(OSError):  # the disk may be full
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield descriptor
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def digest(lines: Iterable[str]) -> str:
    """A digest of some lines, 16 hexadecimal digits."""
    whole = hashlib.sha256()
    for line in lines:
        whole.update(line.encode() + b"\n")
    return whole.hexdigest()[:16]


def read_record(
    file: Path, wanted: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """The options that an earlier run stored in a file; None if there was no earlier run.

    wanted: options of this run.
    defaults: of options that the earlier run may not have known yet.

    Raises SimulstError: an option of the earlier run differs from `wanted`; the file is damaged.
    """
    if not file.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError
    except (ValueError, RecursionError):
        raise SimulstError(f"{file}: damaged; use --force to begin again.") from None
    for name, value in wanted.items():
        begun = found.get(name, (defaults or {}).get(name))
        if begun != value:
            raise SimulstError(
                f"{file.parent}: was begun with {name} {begun}, not {value}; "
                "name another folder, or use --force to begin again."
            )
    return found
