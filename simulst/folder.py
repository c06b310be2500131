"""Files and folders that appear whole or not at all; and folders that a stage makes of one thing, one run at a time."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.lock import digest, locked, read_record

MADE_OF = "made_of.json"


def write_atomically(path: Path, text: str) -> None:
    """Replace a file whole, so that no reader and no kill ever sees half of it. Raises SimulstError where it cannot."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> SimulstError:
    """What to raise for a full disk and the like."""
    return SimulstError(f"{path}: cannot be written ({error.strerror}); fix that and run the same command again.")


@contextmanager
def replaced(out: Path) -> Iterator[Path]:
    """Yield a new folder to fill, which takes the place of `out` in the end. Raises SimulstError where it cannot."""
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
def written_whole(out: Path, made_of: Mapping[str, Any], force: bool = False) -> Iterator[Path | None]:
    """Yield the folder to fill instead of `out`, which takes its place in the end; None if `out` is complete.

    made_of: what it is made of and how, as JSON knows it. force: make it again.
    Raises SimulstError: `out` was made of something else, or by nobody who told; a full disk; another run at work.
    """
    with locked(out, out.with_name(f".{out.name}.lock")):
        if out.is_dir() and not force:
            if read_record(out / MADE_OF, made_of) is None:
                raise SimulstError(f"{out}: is there already, without {MADE_OF}; use --force to make it again.")
            print(f"{out}: complete; --force does it again")
            yield None
            return
        with replaced(out) as part:
            yield part
            write_atomically(part / MADE_OF, json.dumps(made_of, indent=1, ensure_ascii=False))


def digest_of_files(files: Iterable[Path]) -> str:
    """A short name of text files' contents; what is missing counts as empty."""
    return digest(file.read_text(encoding="utf-8") if file.is_file() else "" for file in files)
