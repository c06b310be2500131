"""The sentences of whole recordings: a list of {wav, offset, duration} (s), as in MuST-C, and their texts.

The list is YAML, or JSON, which OmniSTEval reads, too.
"""

from __future__ import annotations

import io
import logging
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field

from simulst.audio.name import recording_name
from simulst.errors import SimulstError
from simulst.files.text import lines_of, read_json, read_text
from simulst.files.yaml import load_yaml
from simulst.log.instance import Text, Time
from simulst.options import read_fields

logger = logging.getLogger(__name__)

BATCH = 500  # segments that are parsed together; parsing all at once takes gigabytes and three times as long
SAME_SECONDS = 1e-3  # by which segments may overlap: times are rounded


@dataclass(frozen=True)
class Sentence:
    """One reference: its recording, where it begins, how long it is (seconds), and its text."""

    wav: Annotated[Text, Field(min_length=1)]
    offset: Annotated[Time, Field(ge=0)]
    duration: Annotated[Time, Field(gt=0)]
    text: str = ""

    @property
    def recording(self) -> str:
        return recording_name(self.wav)


def read_segmentation(segmentation: Path, references: Path) -> list[Sentence]:
    """The sentences of all recordings, in the order of both files. Segments that overlap end in a warning.

    Raises SimulstError: a file that is missing or broken, an entry without wav, offset or duration, other numbers of
        segments and lines, segments of a recording that are apart from each other or go back in time, a recording
        whose references are all empty.
    """
    listed, lines = _listed(segmentation), read_lines(references)
    if len(listed) != len(lines) or not lines:
        raise SimulstError(
            f"{segmentation}: {len(listed)} segments, but {len(lines)} lines in {references}; give a line for each."
        )
    what = "segment" if segmentation.suffix == ".json" else "line"
    remedy = "a segment is {wav: ..., offset: ..., duration: ...}"
    found = []
    for (number, item), text in zip(listed, lines, strict=True):
        content = {**item, "text": text} if isinstance(item, dict) else item
        found.append(read_fields(Sentence, content, f"{segmentation}, {what} {number}", remedy))
    written = {sentence.recording for sentence in found if sentence.text}
    if silent := [sentence.recording for sentence in found if sentence.recording not in written]:
        raise SimulstError(f"{references}: all lines of {silent[0]} are empty; leave it out, or give its text.")
    _check_order(found, segmentation)
    return found


def _listed(path: Path) -> list[tuple[int, object]]:
    """The segments of a file, each with its line (in JSON: its number)."""
    if path.suffix in (".yaml", ".yml"):
        return list(read_segments(path)[1])
    if path.suffix != ".json":
        raise SimulstError(f"{path}: a segmentation is a .yaml or .json file; give one that ends so.")
    content = read_json(path, "give a list of segments")
    if not isinstance(content, list):
        raise SimulstError(f"{path}: no list of segments, which are {{wav: ..., offset: ..., duration: ...}}.")
    return list(enumerate(content, start=1))


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


def read_lines(path: Path) -> list[str]:
    """The lines of a text as OmniSTEval reads them, without blanks around, in NFC. Raises SimulstError: unreadable."""
    text = io.StringIO(read_text(path, "give a text file"), newline=None)  # lines end where OmniSTEval sees their ends
    return [unicodedata.normalize("NFC", line).strip() for line in text]


def _check_order(sentences: Sequence[Sentence], path: Path) -> None:
    seen: set[str] = set()
    overlaps = []
    for before, after in pairwise(sentences):
        seen.add(before.recording)
        if after.recording != before.recording:
            if after.recording in seen:
                raise SimulstError(f"{path}: the segments of {after.recording} are apart; put them together.")
        elif after.offset < before.offset:
            raise SimulstError(
                f"{path}: {after.recording} goes back from {before.offset:g} s to {after.offset:g} s; sort them."
            )
        elif after.offset < before.offset + before.duration - SAME_SECONDS:
            overlaps.append(after)
    if overlaps:
        first = overlaps[0]
        logger.warning(
            "%s: %d segments begin before the one in front of them has ended, first in %s at %g s.",
            path,
            len(overlaps),
            first.recording,
            first.offset,
        )
