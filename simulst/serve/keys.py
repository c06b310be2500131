"""Keys of clients. A file has a line for each: a name, and the SHA-256 of the key.

A key has 256 random bits, so nobody finds it by trying, and a hash that is slow to compute would protect nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

from simulst.errors import SimulstError
from simulst.files.folder import unwritable

LINE = re.compile(r"(\S{1,100})\s+([0-9a-f]{64})")


class Keys:
    """The keys of a file.

    Raises SimulstError: the file is missing or empty; others may read it; a line is wrong; a name or key stands twice.
    """

    def __init__(self, path: Path) -> None:
        try:
            mode, lines = path.stat().st_mode & 0o777, path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise SimulstError(
                f"{path}: no file of keys; make one by: simulst serve --keys FILE --new-key NAME."
            ) from error
        if mode & 0o077:
            raise SimulstError(f"{path}: others may read it (mode {mode:o}); run: chmod 600 {path}.")
        self.names: dict[str, str] = {}
        for number, line in enumerate(lines, start=1):
            found = LINE.fullmatch(line.strip())
            if not found:
                raise SimulstError(f"{path}, line {number}: no name with the hash of a key; remove it.")
            if found[1] in self.names or found[2] in self.names.values():
                raise SimulstError(f"{path}, line {number}: the name or the key stands there twice; remove one.")
            self.names[found[1]] = found[2]
        if not self.names:
            raise SimulstError(f"{path}: has no key; add one by: simulst serve --keys {path} --new-key NAME.")

    def allow(self, key: str) -> bool:
        """Whether it is one of the keys. How long that takes does not tell how much of it is right."""
        found = _hash(key)
        return any([hmac.compare_digest(found, one) for one in self.names.values()])


def add_key(path: Path, name: str) -> str:
    """Add a key to a file that only its owner may read. Returns the key, which stands nowhere else.

    Raises SimulstError: the name has spaces, or is there; the file is no file of keys, or can't be written.
    """
    if not re.fullmatch(r"\S{1,100}", name):
        raise SimulstError(f"'{name}' is no name for a key; give one without spaces.")
    before = ""
    if path.exists() and path.stat().st_size:
        if name in Keys(path).names:
            raise SimulstError(f"{path}: has a key of the name '{name}'; choose another, or remove its line.")
        before = "" if path.read_text(encoding="utf-8").endswith("\n") else "\n"  # an editor may leave it out
    key = secrets.token_urlsafe(32)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8") as file:
            file.write(f"{before}{name} {_hash(key)}\n")
    except OSError as error:
        raise unwritable(path, error) from error
    return key


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()
