"""Tables of Kaldi's form: a key and its value on each line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from simulst.errors import SimulstError


def write_table(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Write one table through a temporary file, so that a killed stage leaves no half-written table."""
    temporary = path.with_name(path.name + ".part")
    lines = [f"{key} {value}" for key, value in rows]
    for line in lines:
        if re.search("[\n\ud800-\udfff]", line):
            raise SimulstError(f"{path}: a name or text has a line break or is no UTF-8, {line!a}; rename the file.")
    temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    temporary.replace(path)


def read_table(path: str | Path, allow_empty: bool = False) -> dict[str, str]:
    """Read a file of `key value` lines.

    allow_empty: accept keys without a value.

    Returns: key → value.
    Raises SimulstError: the file is missing or not UTF-8; a key is repeated; a key has no value.
    """
    path = Path(path)
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")  # a carriage return in a text ends no line
    except FileNotFoundError:
        raise SimulstError(f"{path}: no such file; a data directory needs it; prepare the data again.") from None
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); fix that.") from error
    except UnicodeDecodeError as error:
        raise SimulstError(f"{path}: not UTF-8 (byte {error.start}); convert it.") from error
    table: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        key, value = (*re.split(r"[ \t]+", line.strip(), maxsplit=1), "")[:2]
        key = unicodedata.normalize("NFC", key)
        if key in table:
            raise SimulstError(f"{path}, line {number}: '{key}' stands there twice; remove one of the lines.")
        if not value and not allow_empty:
            raise SimulstError(f"{path}, line {number}: '{key}' has no value; complete the line.")
        table[key] = value
    return table
