"""The server's log, in simulstream's form (simulst/log/simulstream.py). Words never wait for it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.files.folder import unwritable

logger = logging.getLogger(__name__)


class Log:
    """A file to which rows are added. The first that can't be written is told, and is the last one.

    Raises SimulstError: the file can't be opened, or another server adds rows to it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("ab", buffering=0)
            self._lock()
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as file:
                    file.seek(-1, os.SEEK_END)
                    if file.read() != b"\n":  # an earlier server was killed within a row
                        self._file.write(b"\n")
        except OSError as error:
            raise unwritable(path, error) from error

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SimulstError(f"{self._path}: another server writes this log; give it one of its own.") from None
        except OSError:
            pass  # a file system without locks

    def write(self, row: Mapping[str, Any]) -> None:
        if self._file.closed:
            return
        line = json.dumps(row).encode() + b"\n"
        try:
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            logger.error("%s: cannot be written (%s). The log ends here; words go on.", self._path, error.strerror)
            self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
