"""Read a log of any form."""

from __future__ import annotations

import gzip
import json
import logging
import re
import unicodedata
import zlib
from collections.abc import Sequence
from pathlib import Path

import regex

from simulst.errors import SimulstError
from simulst.files.text import decoded, read_bytes
from simulst.log.instance import Instance
from simulst.log.simuleval import read_simuleval
from simulst.log.simulstream import read_simulstream

logger = logging.getLogger(__name__)

LOG = "instances.log"
"""A run's log, in its folder."""
GIVE = "give an instances.log or the run's folder"
END = "</s>"
"""The end of a sentence that SimulEval 1.0 wrote after each prediction, with a delay of its own."""
_WITH_ENDS = {"word": re.compile(rf"{END}|(?:(?!{END})\S)+"), "char": re.compile(rf"{END}|[^ ]")}


def read_log(path: str | Path, unit: str = "word", utterances: int = 0) -> list[Instance]:
    """Read a whole log, ours, SimulEval's or simulstream's, in the order of `index`.

    Warns of faults that can be scored: missing indices; delays that fall or are negative; elapsed times that are
    missing, 0 or less than the delays; END, which is no word. Elapsed times that are all 0 were not measured, so they
    are removed, as are END and its delays. OmniSTEval's JSON lines may have no index (their order stands for it) and no
    source_length (it is 0), and in characters have delays of spaces, which are left out. Texts are read in NFC: in two
    normal forms they are the same. A character that is made of several has the time of its last one.

    path: the log, or a folder with instances.log. The log may be a pipe, or compressed with gzip.
    unit: "word" or "char", the unit of the delays, which a log of simulstream does not tell.
    utterances: how many the log should have, as a run's config.yaml says; 0: unknown.

    Raises SimulstError: the log is missing or empty; a line is not a log entry; a field has the wrong type, or a time
        is NaN or infinite; an index appears twice; the numbers of delays and elapsed times differ; times are in
        seconds. (`check_units` compares the delays with the words, as that needs the unit.)
    """
    path = Path(path)
    if path.is_dir():
        path = path / LOG
    # Not splitlines(): the text may hold U+2028 and similar separators.
    lines = _read_text(path).split("\n")
    if _is_simulstream(lines):
        instances = read_simulstream(lines, unit, path)
    else:
        instances = read_simuleval(lines, path, utterances)
    for instance in instances:
        if unit == "char" and len(instance.units(unit)) < len(instance.delays) == len(instance.prediction):
            _keep(instance, [place for place, character in enumerate(instance.prediction) if character != " "])
        _compose(instance)
    if ended := [instance for instance in instances if _without_ends(instance)]:
        logger.warning(
            "%s: %d of %d predictions hold %s, the first in index %d; it is no word, so it is left out.",
            path,
            len(ended),
            len(instances),
            END,
            ended[0].index,
        )
    return instances


def _without_ends(instance: Instance) -> bool:
    """Take the ends of sentences off a prediction, with their delays. Returns whether there were any."""
    if END not in instance.prediction or END in (instance.reference or ""):
        return False
    for pattern in _WITH_ENDS.values():
        units = pattern.findall(instance.prediction)
        if len(units) == len(instance.delays):
            _keep(instance, [place for place, unit in enumerate(units) if unit != END])
            break
    instance.prediction = re.sub(rf" *{END}", "", instance.prediction).lstrip(" ")
    return True


def _compose(instance: Instance) -> None:
    """Bring the texts to NFC, and the times of characters with them."""
    if instance.reference is not None:
        instance.reference = unicodedata.normalize("NFC", instance.reference)
    instance.terms = [unicodedata.normalize("NFC", term) for term in instance.terms]
    parts = regex.findall(r"\X", instance.prediction)  # what becomes one character never crosses their bounds
    composed = [unicodedata.normalize("NFC", part) for part in parts]
    by_character = len(instance.units("char")) == len(instance.delays) != len(instance.units("word"))
    instance.prediction = "".join(composed)
    if by_character and parts != composed:
        places: list[int] = []
        end = 0
        for before, after in zip(parts, composed, strict=True):
            count, start = len(after.replace(" ", "")), end
            end += len(before.replace(" ", ""))
            places += [max(start, end - count + k) for k in range(count)]
        _keep(instance, places)


def _keep(instance: Instance, places: Sequence[int]) -> None:
    """Keep the times of these units only."""
    for name in ("delays", "elapsed", "chunk_elapsed"):
        if times := getattr(instance, name):
            setattr(instance, name, [times[place] for place in places])
    instance.prediction_length = len(instance.delays)


def _is_simulstream(lines: Sequence[str]) -> bool:
    """Whether these are the lines of simulstream's log, by the first that is not empty."""
    first = next((line for line in lines if line.strip()), "")
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "index" not in row and ("model_loading_time" in row or "id" in row)


def _read_text(path: Path) -> str:
    try:
        data = read_bytes(path, GIVE, "log")
        return decoded(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data, path, GIVE)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SimulstError(f"{path}: damaged gzip ({error}); copy or compress the log again.") from error
