"""One run at a time in a folder, by a lock that the kernel takes away when its holder dies; and one kind of run."""

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
def locked(folder: Path, file: Path | None = None) -> Iterator[int]:
    """Hold a folder against every other process that asks for it, also on other machines if the disk knows of locks.

    file: the lock file [`folder/.lock`]; it is made, with its folder, and removed in the end.
    Yields the lock's descriptor: a program that inherits it (`pass_fds`) holds the folder as well, until it ends.
    Raises SimulstError: the folder is held by another.
    """
    file = file or folder / LOCK
    file.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode(errors="replace") or "unknown"
            os.close(descriptor)
            raise SimulstError(
                f"{folder}: another run is at work there ({holder}, or what it started); wait for it, or stop it."
            ) from None
        except OSError as error:
            logger.warning("%s: no locks on this disk (%s); start no second run there.", folder, error.strerror)
        # Whoever held it may have removed the file between our opening and our locking it.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                break
        os.close(descriptor)
    try:
        with suppress(OSError):  # a full disk
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield descriptor
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def digest(lines: Iterable[str]) -> str:
    """A short name of some lines: others have another."""
    whole = hashlib.sha256()
    for line in lines:
        whole.update(line.encode() + b"\n")
    return whole.hexdigest()[:16]


def read_record(file: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an earlier run in the file's folder kept of its options; None if there was none.

    Raises SimulstError: one of these options differs from what is wanted.
    """
    if not file.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError
    except ValueError:
        raise SimulstError(f"{file}: damaged; use --force to begin again.") from None
    for name, value in wanted.items():
        if found.get(name) != value:
            raise SimulstError(
                f"{file.parent}: was begun with {name} {found.get(name)}, not {value}; "
                "name another folder, or use --force to begin again."
            )
    return found
