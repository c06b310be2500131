"""SimulEval's log, `instances.log`: one JSON object per utterance, one per line. Runs of simulst are written so."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simulst.errors import SimulstError
from simulst.log.instance import SAME_MS, Instance, row_of
from simulst.options import adapter_of

logger = logging.getLogger(__name__)

GIVE = "give a log that simulst or SimulEval wrote"


def read_simuleval(lines: Sequence[str], path: Path, utterances: int = 0) -> list[Instance]:
    """The entries of a whole log, in the order of `index`.

    utterances: how many there should be; 0: as many as the indices say. path: names the log in errors.
    What is warned of, and raised: as `simulst.log.read_log`.
    """
    instances: dict[int, Instance] = {}
    by_order = False  # OmniSTEval's lines have no index
    for number, line in enumerate(lines, start=1):
        if line.strip():
            row = _row(line, f"{path}, line {number}")
            by_order = by_order or (not instances and "prediction" in row and "index" not in row)
            if by_order and "index" in row:
                raise SimulstError(f"{path}, line {number}: has an index, but lines before it have none; remove it.")
            instance = _parse({"index": len(instances)} | row if by_order else row, f"{path}, line {number}")
            if instance.index in instances:
                raise SimulstError(f"{path}, line {number}: index {instance.index} stands there twice; remove one.")
            instances[instance.index] = instance
    if not instances:
        raise SimulstError(f"{path}: the log is empty; decode something first.")
    whole = [instances[index] for index in sorted(instances)]
    check_milliseconds(whole, path)
    _warn_of_gaps(whole, path, utterances)
    _warn_of_times(whole, path)
    for instance in whole:
        if not any(instance.elapsed):
            instance.elapsed = []
    return whole


def read_unfinished(path: Path) -> Iterator[Instance]:
    """The entries of a log that a killed run left; a half-written last line is ignored."""
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        if line.strip():
            where, remedy = f"{path}, line {number}", "remove the line, or use --force"
            yield _parse(_row(line, where, remedy), where, remedy)


def _row(line: str, where: str, remedy: str = GIVE) -> dict[str, Any]:
    return row_of(line, f"{where}: not an entry of an instances.log ({_short(line)}); {remedy}.")


def _parse(row: dict[str, Any], where: str, remedy: str = GIVE) -> Instance:
    if "index" in row:
        where += f", index {_short(json.dumps(row['index']))}"
    # Logs of other programs may lack these fields.
    optional: dict[str, Any] = {"elapsed": None, "reference": None, "source": []}
    if isinstance(row.get("delays"), list):
        optional["prediction_length"] = len(row["delays"])
    try:
        instance = adapter_of(Instance).validate_python(optional | row)
    except ValidationError as error:
        first = error.errors()[0]
        name, *places = first["loc"]
        if first["type"] == "missing":
            raise SimulstError(f"{where}: not an entry of an instances.log, it has no '{name}'; {remedy}.") from None
        what = str(name) + "".join(f"[{place}]" for place in places if isinstance(place, int))
        says = first["msg"].replace("Input should", "should")
        found = _short(json.dumps(first["input"], ensure_ascii=False))
        raise SimulstError(f"{where}: {what} {says}, but is {found}; correct the log.") from None
    for name, times in (("elapsed", instance.elapsed), ("chunk_elapsed", instance.chunk_elapsed)):
        if times and len(times) != len(instance.delays):
            raise SimulstError(
                f"{where}: {len(instance.delays)} delays but {len(times)} {name} times; the log is broken."
            )
    if _falls(instance.reads):
        raise SimulstError(f"{where}: reads fall; the log is broken.")
    if instance.writes and len(instance.writes) != len(instance.reads):
        raise SimulstError(
            f"{where}: {len(instance.reads)} reads but {len(instance.writes)} writes; the log is broken."
        )
    return instance


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


def _falls(times: Sequence[float]) -> bool:
    return any(later < earlier - SAME_MS for earlier, later in pairwise(times))


def check_milliseconds(instances: Sequence[Instance], path: str | Path) -> None:
    """Raise SimulstError if source_length or delays are in seconds: then they differ by a factor of 1000.

    In a log of text-to-text translation, both count words: they do not differ so much, and have no fractions.
    """
    written = [instance for instance in instances if instance.delays and instance.source_length]
    if not written:
        return
    first = written[0]
    lengths = sum(instance.source_length for instance in written)
    ratio = sum(max(instance.delays) for instance in written) / lengths
    fractions = any(time % 1 for instance in written for time in (*instance.delays, instance.source_length))
    if ratio > 100:
        wrong = "source_length looks like seconds"
    elif 0 < ratio < 0.002:
        wrong = "delays look like seconds"
    elif lengths / len(written) < 100 and fractions:
        wrong = "delays and source_length look like seconds"
    else:
        return
    raise SimulstError(
        f"{path}: {wrong} (index {first.index}: source_length {first.source_length:g}, last delay "
        f"{first.delays[-1]:g}); give all times in ms."
    )


def _warn_of_gaps(instances: Sequence[Instance], path: Path, utterances: int) -> None:
    """Warn of missing utterances: the run was killed, or some utterances failed."""
    present = {instance.index for instance in instances}
    count = max(max(present) + 1, utterances)
    if missing := count - len(present):
        first = next(index for index in range(count) if index not in present)
        logger.warning(
            "%s: of the indices 0 to %d, %d are missing, first %d; scores are of the other sentences only.",
            path,
            count - 1,
            missing,
            first,
        )


def _warn_of_times(instances: Sequence[Instance], path: Path) -> None:
    """Warn of times that cannot be right but can be scored, as SimulEval scores them."""
    written = [instance for instance in instances if instance.delays]
    measured = [instance for instance in written if any(instance.elapsed)]
    if 0 < len(measured) < len(written):
        first = next(instance.index for instance in written if not any(instance.elapsed))
        logger.warning(
            "%s: no elapsed times, or only 0, in %d of %d sentences, first in index %d; computation-aware figures "
            "(*_CA, RTF) are of the others only.",
            path,
            len(written) - len(measured),
            len(written),
            first,
        )
    timed = [i for i in written if any(i.elapsed) or any(i.chunk_elapsed)]
    faults = {
        "delays fall (a word is written before the one in front of it)": [i for i in written if _falls(i.delays)],
        "delays are negative (a word is written before its sentence begins)": [i for i in written if min(i.delays) < 0],
        "delays are longer than the recording (source_length is wrong, or of other audio)": [
            i
            for i in written
            if i.source_length and max(i.delays) > i.source_length + 1  # ms, as it may be rounded
        ],
        "elapsed times fall": [i for i in measured if _falls(i.elapsed)],
        "elapsed times are negative": [i for i in timed if min(i.elapsed + i.chunk_elapsed) < 0],
        "elapsed times are less than the delays (they should be delay plus computation)": [
            i
            for i in timed
            for times in (i.elapsed, i.chunk_elapsed)
            if times and any(0 <= time < delay - SAME_MS for time, delay in zip(times, i.delays, strict=True))
        ],
    }
    for fault, found in faults.items():
        if found:
            count, first = len(found), found[0].index
            logger.warning("%s: %s in %d of %d sentences, first in index %d.", path, fault, count, len(written), first)
