"""The emission log of a run: SimulEval's `instances.log`, one JSON object a line, an utterance each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError

CHARACTER_LANGUAGES = frozenset({"zh", "ja", "yue", "th", "lo", "my", "km", "bo"})
"""Languages written without spaces: output and latency are counted in characters."""


def unit_of(language: str) -> str:
    """ "char" for languages written without spaces, else "word"."""
    return "char" if language in CHARACTER_LANGUAGES else "word"


@dataclass
class Instance:
    """What one utterance became.

    delays:  per target unit, ms of source that had been read when it was written.
    elapsed: delays plus the computation time up to then, ms (SimulEval's convention).
    reads:   ms of source read at each decoding step, written or not (ours; SimulEval ignores it). It gives the
             steps t of paper B's equation 6; without it, steps that wrote nothing are unknown.
    """

    index: int
    prediction: str
    delays: list[float]
    elapsed: list[float]
    prediction_length: int
    reference: str
    source: list[str]
    source_length: float
    name: str = ""
    reads: list[float] = field(default_factory=list)
    compute_ms: float | None = None

    def units(self, unit: str) -> list[str]:
        """The prediction in words or characters, as SimulEval counts them."""
        return self.prediction.split() if unit == "word" else list(self.prediction.replace(" ", ""))

    def reference_length(self, unit: str) -> int:
        """|Y*| as SimulEval 1.1.4 counts it: pieces between single spaces, or characters with inner spaces."""
        return len(self.reference.split(" ")) if unit == "word" else len(self.reference.strip())

    def to_json(self) -> str:
        """One line of the log; optional fields only where they are set."""
        optional = ("name", "reads", "compute_ms")
        row = {key: value for key, value in asdict(self).items() if key not in optional or value}
        return json.dumps(row, ensure_ascii=False)


def read_log(path: str | Path) -> list[Instance]:
    """Read a whole log, ours or SimulEval's, in the order of `index`.

    Raises SimulstError: missing or empty log, a line that is not a log entry, an index twice, delays and
        elapsed times of different numbers. (`check_units` compares delays with words: that needs the unit.)
    """
    path = Path(path)
    if path.is_dir():
        path = path / "instances.log"
    if not path.is_file():
        raise SimulstError(f"{path}: no such log; give an instances.log or the run's folder.")
    instances: dict[int, Instance] = {}
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SimulstError(f"{path}: not UTF-8 (byte {error.start}); give an instances.log.") from error
    # Not splitlines(): the text may hold U+2028 and its like.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            instance = _parse(line, f"{path}, line {number}")
            if instance.index in instances:
                raise SimulstError(f"{path}, line {number}: index {instance.index} stands there twice; remove one.")
            instances[instance.index] = instance
    if not instances:
        raise SimulstError(f"{path}: the log is empty; decode something first.")
    return [instances[index] for index in sorted(instances)]


def read_unfinished(path: Path) -> Iterator[Instance]:
    """The whole lines of a log that a killed run left; a half-written last line is dropped."""
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        if line.strip():
            yield _parse(line, f"{path}, line {number}")


def _parse(line: str, where: str) -> Instance:
    try:
        row: dict[str, Any] = json.loads(line)
        instance = Instance(
            index=int(row["index"]),
            prediction=str(row["prediction"] or ""),
            delays=[float(d) for d in row["delays"]],
            elapsed=[float(e) for e in row.get("elapsed") or []],
            prediction_length=int(row.get("prediction_length", len(row["delays"]))),
            reference=str(row.get("reference") or ""),
            source=row.get("source", []),
            source_length=float(row["source_length"]),
            name=str(row.get("name", "")),
            reads=[float(r) for r in row.get("reads", [])],
            compute_ms=float(row["compute_ms"]) if row.get("compute_ms") is not None else None,
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise SimulstError(f"{where}: not an entry of an instances.log ({error!r}); score a SimulEval log.") from error
    if instance.elapsed and len(instance.elapsed) != len(instance.delays):
        raise SimulstError(
            f"{where}: {len(instance.delays)} delays but {len(instance.elapsed)} elapsed times; the log is broken."
        )
    if not all(map(math.isfinite, (*instance.delays, *instance.elapsed, instance.source_length))):
        raise SimulstError(f"{where}: a time is not a finite number; the log is broken.")
    if instance.source_length <= 0:
        raise SimulstError(f"{where}: source_length is {instance.source_length:g} ms; it must be positive.")
    return instance


def check_units(instances: list[Instance], unit: str, path: str | Path) -> None:
    """Raise SimulstError unless every prediction has as many words (characters) as delays."""
    for instance in instances:
        units = len(instance.units(unit))
        if units != len(instance.delays):
            raise SimulstError(
                f"{path}, index {instance.index}: {units} {unit}s but {len(instance.delays)} delays; "
                f"the log is broken or was written in another unit (--unit)."
            )
