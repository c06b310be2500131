"""The emission log of a run: SimulEval's `instances.log`, with one JSON object per utterance, one per line."""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, Strict, TypeAdapter, ValidationError

from simulst.errors import SimulstError
from simulst.words import completed_by

if TYPE_CHECKING:
    from simulst.data.datadir import Utterance
    from simulst.streams import OpenStream

logger = logging.getLogger(__name__)

SAME_MS = 1e-3
"""Two positions in the source that differ by less than this, in ms, count as equal: a log may be rounded."""

LONGEST_MS = 1e9
"""Twelve days: a longer time is an error. The limit keeps sums of times finite, as JSON has no infinity."""

# Strict: "1000" or true instead of a number is an error in the log. NaN and infinity are errors, too.
Time = Annotated[float, Strict(), Field(allow_inf_nan=False, ge=-LONGEST_MS, le=LONGEST_MS)]
Text = Annotated[str, Strict()]


@dataclass
class Instance:
    """The result of one utterance. SimulEval ignores the fields that are marked "ours".

    index: number of the utterance in its data.
    prediction: text that was written.
    delays: for each target unit, ms of source that had been read when it was written.
    elapsed: for each target unit, its delay plus the computation time until then, in ms (SimulEval's convention).
    prediction_length: number of target units.
    reference: None if there is no reference; an empty one is "".
    source: path of the audio, in a list.
    source_length: duration of the audio, in ms.
    name: name of the utterance (ours).
    reads: ms of source at each decoding step, also at steps that wrote nothing (ours). They are the steps t of paper
        B's equation 6.
    compute_ms: computation time, in ms (ours).
    waited_ms: part of the computation time that was spent waiting for a processor, in ms (ours).
    audio: digest of the audio, to notice that it has changed (ours).
    terms: those of the recording's context, whose recall is scored (ours).
    segments: first and last ms of source of each utterance that the stream was cut into (ours).
    skipped: how many decoding steps were left out because computation was slower than speech (ours).
    chunk_elapsed: for each target unit, its delay plus the computation time of its step alone, in ms (simulstream's
        convention; ours). Empty if only `elapsed` is known.
    """

    index: Annotated[int, Strict(), Field(ge=0, le=1e9)]
    prediction: Annotated[Text, BeforeValidator(lambda value: "" if value is None else value)]
    delays: list[Time]
    elapsed: Annotated[list[Time], BeforeValidator(lambda value: [] if value is None else value)]
    prediction_length: Annotated[int, Strict()]
    reference: Text | None
    source: Any
    source_length: Annotated[Time, Field(ge=0.01)]
    name: Text = ""
    reads: list[Annotated[Time, Field(ge=0)]] = field(default_factory=list)
    compute_ms: Annotated[Time, Field(ge=0)] | None = None
    waited_ms: Annotated[Time, Field(ge=0)] | None = None
    audio: Text = ""
    terms: list[Text] = field(default_factory=list)
    segments: list[Annotated[list[Time], Field(min_length=2, max_length=2)]] = field(default_factory=list)
    chunk_elapsed: list[Time] = field(default_factory=list)
    skipped: Annotated[int, Strict(), Field(ge=0)] = 0

    @property
    def recording(self) -> str:
        """The name of the audio's file without folder and suffix, or else of the utterance."""
        source = self.source[0] if isinstance(self.source, list) and self.source else self.source
        return Path(source).stem if isinstance(source, str) and source else self.name

    def units(self, unit: str) -> list[str]:
        """The prediction in words or characters, as SimulEval counts them."""
        return self.prediction.split() if unit == "word" else list(self.prediction.replace(" ", ""))

    def reference_length(self, unit: str) -> int:
        """|Y*| as SimulEval 1.1.4 counts it: the pieces between single spaces, or the characters with inner spaces.

        Without a reference, it is |Y|.
        """
        if self.reference is None:
            return len(self.delays)
        return len(self.reference.split(" ")) if unit == "word" else len(self.reference.strip())

    def to_json(self) -> str:
        """One line of the log, without optional fields that are not set."""
        optional = (
            "name",
            "reads",
            "compute_ms",
            "waited_ms",
            "audio",
            "terms",
            "segments",
            "chunk_elapsed",
            "skipped",
        )
        row = {key: value for key, value in asdict(self).items() if key not in optional or value}
        return json.dumps(row, ensure_ascii=False)


def instance_of(stream: OpenStream, utterance: Utterance, index: int, source_ms: float, audio: str = "") -> Instance:
    """The log entry of an utterance whose stream has ended.

    A word that was written in several pieces has one delay, that of its last piece.

    index: number of the utterance in its data.
    source_ms: duration of the audio, in ms.
    audio: digest of the audio.
    """
    pieces = [emission.text for emission in stream.emissions]
    last = [stream.emissions[number] for number in completed_by(pieces, stream.unit)]
    return Instance(
        index=index,
        prediction="".join(pieces),
        delays=[emission.delay_ms for emission in last],
        elapsed=[emission.elapsed_ms for emission in last],
        prediction_length=len(last),
        reference=utterance.reference,
        source=[str(utterance.wav)],
        source_length=source_ms,
        name=utterance.name,
        reads=stream.reads,
        compute_ms=stream.meter.seconds * 1000,
        terms=list(utterance.background.target_terms),
        segments=[list(segment) for segment in stream.segments],
        skipped=stream.skipped,
    )


def read_log(path: str | Path, unit: str = "word") -> list[Instance]:
    """Read a whole log, ours, SimulEval's or simulstream's, in the order of `index`.

    Warns of faults that can be scored: missing indices; delays that fall or are negative; elapsed times that are
    missing, 0 or less than the delays. Elapsed times that are all 0 were not measured, so they are removed.

    path: the log, or a folder with instances.log. The log may be a pipe, or compressed with gzip.
    unit: "word" or "char", the unit of the delays, which a log of simulstream does not tell.

    Raises SimulstError: the log is missing or empty; a line is not a log entry; a field has the wrong type, or a time
        is NaN or infinite; an index appears twice; the numbers of delays and elapsed times differ; times are in
        seconds. (`check_units` compares the delays with the words, as that needs the unit.)
    """
    path = Path(path)
    if path.is_dir():
        path = path / "instances.log"
    # Not splitlines(): the text may hold U+2028 and similar separators.
    lines = _read_text(path).split("\n")
    if _is_simulstream(lines):
        from simulst.log.simulstream import read_simulstream

        return read_simulstream(lines, unit, path)
    instances: dict[int, Instance] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            instance = _parse(line, f"{path}, line {number}")
            if instance.index in instances:
                raise SimulstError(f"{path}, line {number}: index {instance.index} stands there twice; remove one.")
            instances[instance.index] = instance
    if not instances:
        raise SimulstError(f"{path}: the log is empty; decode something first.")
    whole = [instances[index] for index in sorted(instances)]
    _check_milliseconds(whole, path)
    _warn_of_gaps(whole, path)
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
            yield _parse(line, f"{path}, line {number}", "remove the line, or use --force")


def check_units(instances: Sequence[Instance], unit: str, path: str | Path) -> None:
    """Raise SimulstError unless every prediction has as many words (or characters) as delays."""
    for instance in instances:
        units = len(instance.units(unit))
        if units != len(instance.delays):
            raise SimulstError(
                f"{path}, index {instance.index}: {units} {unit}s but {len(instance.delays)} delays; "
                f"the log is broken or was written in another unit (--unit)."
            )


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
        data = path.read_bytes()  # a pipe can be read only once
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise SimulstError(f"{path}: no such log; give an instances.log or the run's folder.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SimulstError(f"{path}: damaged gzip ({error}); copy or compress the log again.") from error
    except UnicodeDecodeError as error:
        raise SimulstError(f"{path}: not UTF-8 (byte {error.start}); give an instances.log.") from error
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); give an instances.log.") from error


@cache
def _entry() -> TypeAdapter[Instance]:
    return TypeAdapter(Instance)


def _parse(line: str, where: str, remedy: str = "give a log that simulst or SimulEval wrote") -> Instance:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise SimulstError(f"{where}: not an entry of an instances.log ({_short(line)}); {remedy}.")
    if "index" in row:
        where += f", index {_short(json.dumps(row['index']))}"
    # Logs of other programs may lack these fields.
    optional: dict[str, Any] = {"elapsed": None, "reference": None, "source": []}
    if isinstance(row.get("delays"), list):
        optional["prediction_length"] = len(row["delays"])
    try:
        instance = _entry().validate_python(optional | row)
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
    return instance


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


def _falls(times: Sequence[float]) -> bool:
    return any(later < earlier - SAME_MS for earlier, later in pairwise(times))


def _check_milliseconds(instances: Sequence[Instance], path: Path) -> None:
    """Raise SimulstError if source_length or delays are in seconds: then they differ by a factor of 1000.

    In a log of text-to-text translation, both count words: they do not differ so much, and have no fractions.
    """
    written = [instance for instance in instances if instance.delays]
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


def _count_in_config(path: Path) -> int:
    """The number of utterances of a simulst run according to its config.yaml; 0 if unknown."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return 0
    count = config.get("utterances") if isinstance(config, dict) else None
    return count if isinstance(count, int) else 0


def _warn_of_gaps(instances: Sequence[Instance], path: Path) -> None:
    """Warn of missing utterances: the run was killed, or some utterances failed."""
    present = {instance.index for instance in instances}
    count = max(max(present) + 1, _count_in_config(path.with_name("config.yaml")))
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
    falling = "a word is written before the one in front of it"
    early = "a word is written before its sentence begins"
    no_sum = "they should be delay plus computation"
    faults = {
        f"delays fall ({falling})": [i for i in written if _falls(i.delays)],
        f"delays are negative ({early})": [i for i in written if min(i.delays) < 0],
        "elapsed times fall": [i for i in measured if _falls(i.elapsed)],
        f"elapsed times are less than the delays ({no_sum})": [
            i for i in measured if any(e < d - SAME_MS for e, d in zip(i.elapsed, i.delays, strict=True))
        ],
    }
    for fault, found in faults.items():
        if found:
            count, first = len(found), found[0].index
            logger.warning("%s: %s in %d of %d sentences, first in index %d.", path, fault, count, len(written), first)
