"""Write files and folders whole or not at all; make a folder only once, and with one run at a time.

The kernel releases a folder's lock when its holder dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError

logger = logging.getLogger(__name__)

MADE_OF, LOCK = "made_of.json", ".lock"


@contextmanager
def replacing(path: Path, alone: bool = False) -> Iterator[Path]:
    """Yield the path of a file to write, which replaces `path` as a whole: no reader and no kill sees half of it.

    alone: no other process writes it meanwhile, so what a kill has left is written over. It may be large.
    Raises SimulstError: the file can't be written.
    """
    part = path.with_name(f"{path.name}.part" if alone else f"{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    except (OSError, RuntimeError) as error:  # torch's and libsndfile's, if the disk is full
        raise unwritable(path, error) from error
    finally:
        part.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file as a whole. Raises SimulstError: the file can't be written."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def empty(folder: Path) -> None:
    """Remove all that is in a folder except its lock."""
    for path in folder.iterdir():
        if path.name != LOCK:
            _remove(path)


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def is_read_only(folder: Path) -> bool:
    """Whether a folder is there in which nothing can be written."""
    return folder.is_dir() and not os.access(folder, os.W_OK)


def unwritable(path: Path, error: Exception) -> SimulstError:
    """The error to raise if a file can't be written, for example on a full disk. Some libraries don't say why."""
    reason = (error.strerror if isinstance(error, OSError) else None) or "is the disk full?"
    return SimulstError(f"{path}: cannot be written ({reason}); fix that and run the same command again.")


def save_atomically(path: Path, content: Any) -> None:
    """The same by torch.save. Raises SimulstError: the file can't be written."""
    import torch  # here, as it takes a second

    with replacing(path, alone=True) as part:
        torch.save(content, part)


@contextmanager
def replaced(out: Path) -> Iterator[Path]:
    """Yield a new folder to fill; it replaces `out` at the end. Raises SimulstError: `out` can't be written."""
    out = out.resolve() if out.is_symlink() else out  # the link stays
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        yield part
        shutil.rmtree(out, ignore_errors=True)
        part.replace(out)
    except OSError as error:
        raise unwritable(out, error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


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


@contextmanager
def written_whole(out: Path, made_of: Mapping[str, Any], force: bool = False) -> Iterator[Path | None]:
    """Yield a new folder to fill, which replaces `out` at the end; yield None if `out` is complete.

    made_of: inputs and options of the folder, as JSON values. They are stored in the folder.
    force: make the folder again. A folder without a record is somebody else's, and is never replaced.

    Raises SimulstError: `out` was made of something else, or has no record of it; the disk is full; another run uses
        `out`.
    """
    out = Path(os.path.abspath(out)) if out.name in ("", "..") else out
    with locked(out, out.with_name(f".{out.name}.lock")):
        if out.is_dir() and any(out.iterdir()) and not (out / MADE_OF).is_file():
            raise SimulstError(f"{out}: is there already, without {MADE_OF}; name another folder, or delete it.")
        if (out / MADE_OF).is_file() and not force:
            read_record(out / MADE_OF, made_of)
            print(f"{out}: complete; --force does it again")
            yield None
            return
        with replaced(out) as part:
            yield part
            write_atomically(part / MADE_OF, json.dumps(made_of, indent=1, ensure_ascii=False))


def begun(
    record: Path,
    wanted: Mapping[str, Any],
    made: Sequence[str],
    force: bool = False,
    defaults: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """What is stored of work that goes on after an interruption, in its locked folder; None: it is to begin.

    record: the file. wanted, defaults: as of `read_record`.
    made: patterns of what the work writes after its record.
    force: delete these and the record. What others have put there stays, such as decoded runs.

    Raises SimulstError: as `read_record`; there is something that such work writes, and no record.
    """
    if record.is_file() and force:
        # If this is interrupted, the record fits no work, so that nothing goes on with what is left.
        write_atomically(record, "{}")
        for path in [path for pattern in (*made, record.name) for path in record.parent.glob(pattern)]:
            _remove(path)
    found = read_record(record, wanted, defaults)
    others = sorted(path.name for pattern in made for path in record.parent.glob(pattern))
    if found is None and others:
        raise SimulstError(
            f"{record.parent}: holds {others[0]}, but no {record.name}; name another folder, or delete it."
        )
    return found


def digest(lines: Iterable[str]) -> str:
    """A digest of some lines, 16 hexadecimal digits."""
    whole = hashlib.sha256()
    for line in lines:
        whole.update(line.encode() + b"\n")
    return whole.hexdigest()[:16]


def digest_of_texts(files: Iterable[Path]) -> str:
    """A digest of the contents of text files. A missing file counts as empty."""
    return digest(file.read_text(encoding="utf-8") if file.is_file() else "" for file in files)


def digest_of_files(files: Iterable[Path]) -> str:
    """A digest of files, 16 hexadecimal digits, which depends on their order. Raises as `sha256_of`."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(bytes.fromhex(sha256_of(file)))
    return whole.hexdigest()[:16]


def digest_of_file(path: Path) -> str:
    """A digest of a file's bytes, 16 hexadecimal digits. Raises as `sha256_of`."""
    return sha256_of(path)[:16]


def sha256_of(path: Path, remedy: str = "check the path") -> str:
    """The SHA-256 of a file's bytes, 64 hexadecimal digits. Raises SimulstError: it can't be read."""
    try:
        status = path.stat()
        return _sha256(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); {remedy}.") from error


@lru_cache(maxsize=4096)  # utterances of a recording share its file; a package is read several times
def _sha256(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
