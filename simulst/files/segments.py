"""Lists of segments in YAML, as MuST-C has them. They may be long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from simulst.errors import SimulstError
from simulst.files.text import lines_of
from simulst.files.yaml import load_yaml

BATCH = 500  # segments that are parsed together; parsing all at once takes gigabytes and three times as long


def read_segments(path: Path) -> tuple[int, Iterator[tuple[int, object]]]:
    """Read a YAML list of segments, as inline maps or in block style.

    The items are parsed in batches, so that they need not all be in memory.

    Returns: the number of items, and an iterator over line number and item.
    Raises SimulstError: the file is missing or not UTF-8. The iterator raises: not YAML, or not a list.
    """
    lines = lines_of(path)
    dashes = (re.match(r" *-(?=[ \r]|$)", line) for line in lines)
    indents = [len(dash[0]) if dash else 0 for dash in dashes]
    outer = next(filter(None, indents), 0)
    starts = [i for i, indent in enumerate(indents) if indent == outer > 0]
    items = _parse(path, lines, starts)
    return (len(starts), items) if starts else (0, iter(list(items)))  # list(): raise now if the file is no list


def _parse(path: Path, lines: Sequence[str], starts: Sequence[int]) -> Iterator[tuple[int, object]]:
    firsts = starts[::BATCH] or [0]
    for n, first in enumerate(firsts):
        batch = starts[n * BATCH : (n + 1) * BATCH]
        begin, end = first if n else 0, firsts[n + 1] if n + 1 < len(firsts) else len(lines)
        try:
            items = load_yaml("\n".join(lines[begin:end]), fast=True)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = min(begin + (mark.line if mark else 0) + 1, end)
            problem = getattr(error, "problem", error)
            raise SimulstError(f"{path}, line {line}: not YAML ({problem}); copy the file again.") from error
        if items is None and not batch:
            return
        if not isinstance(items, list) or len(items) != len(batch):
            raise SimulstError(
                f"{path}, line {begin + 1}: no list of segments; lines should be '- {{duration: ..., offset: ...}}'."
            )
        yield from zip((start + 1 for start in batch), items, strict=True)
