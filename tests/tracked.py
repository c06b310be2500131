"""The checkout as git knows it: tests do not see what recipes, or their user, have left in it."""

from __future__ import annotations

import functools
import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@functools.cache
def _listing() -> tuple[str, ...]:
    listing = ["git", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split("\0")
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


def files(*patterns: str) -> list[Path]:
    """The files that git tracks (a new one after `git add`), sorted.

    `*` stands for a part of one folder's or file's name, `**/` for folders at any depth.
    """

    def fits(name: str, pattern: str) -> bool:
        deep = "**/" in pattern
        return (deep or name.count("/") == pattern.count("/")) and fnmatchcase(name, pattern.replace("**/", "*"))

    return [ROOT / name for name in _listing() if any(fits(name, pattern) for pattern in patterns)]


def copy(out: Path, *folders: str, leave_out: str = "") -> None:
    """Copy what git tracks, or what it tracks in these folders, to the same places in `out`. leave_out: a folder."""
    for name in _listing():
        wanted = not folders or any(name.startswith(f"{folder}/") for folder in folders)
        if wanted and not (leave_out and name.startswith(f"{leave_out}/")):
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, out / name)
