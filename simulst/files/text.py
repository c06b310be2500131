"""Read files of text and of JSON: one that can't be read is told in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError


def read_text(path: Path, remedy: str, what: str = "file") -> str:
    """A text in UTF-8, without a byte order mark; its line ends stay as they are.

    remedy: says what to do, without its full stop. what: the kind of file that is missing.
    Raises SimulstError: it is missing, can't be read, or is not UTF-8.
    """
    return decoded(read_bytes(path, remedy, what), path, remedy)


def read_bytes(path: Path, remedy: str, what: str = "file") -> bytes:
    """What a file holds. Arguments and errors: as of `read_text`."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise SimulstError(f"{path}: no such {what}; {remedy}.") from None
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); {remedy}.") from error


def decoded(data: bytes, path: Path, remedy: str) -> str:
    """The text of a file's bytes. Arguments and errors: as of `read_text`."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SimulstError(f"{path}, line {line}: not UTF-8; {remedy}.") from error


def lines_of(path: Path, remedy: str = "check the path, or copy the corpus again") -> list[str]:
    """The lines of a text, which a line feed ends; texts hold other breaks. Raises SimulstError: as `read_text`."""
    text = read_text(path, remedy)
    return text.removesuffix("\n").split("\n") if text else []


def read_json(path: Path, remedy: str) -> Any:
    """What a file of JSON holds. Raises SimulstError: as `read_text`; it is no JSON."""
    try:
        return json.loads(read_text(path, remedy))
    except (ValueError, RecursionError) as error:  # such as brackets without end
        raise SimulstError(f"{path}: not valid JSON ({error}); {remedy}.") from error
