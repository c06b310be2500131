"""simulstream's log, read and written: JSON lines that say what each chunk of a recording's audio added to its text.

    {"model_loading_time": 1.2}
    {"id": 7, "metadata": {"wav_name": "talk.wav"}}
    {"id": 7, "total_audio_processed": 1.0, "computation_time": 0.3, "generated_tokens": [" Hello"],
     "deleted_tokens": []}

Times are in seconds. A chunk's computation time is its own; SimulEval's `elapsed` adds up that of all chunks.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from simulst.errors import SimulstError
from simulst.log import Instance, Text, Time, check_units
from simulst.words import completed_by

PIECE = "▁"  # SentencePiece's space

Seconds = Annotated[Time, Field(ge=0)]


@dataclass(frozen=True)
class _Chunk:
    """One step. Token: any string; how tokens make a text, see `_texts`."""

    total_audio_processed: Seconds
    computation_time: Seconds
    generated_tokens: list[Text]
    deleted_tokens: list[Text]
    id: int | str = 0


@dataclass
class _Recording:
    """What is known of one recording: its chunks, and the tokens that stand, each with the number of its chunk."""

    wav: str
    chunks: list[_Chunk] = field(default_factory=list)
    tokens: list[tuple[str, int]] = field(default_factory=list)

    def add(self, chunk: _Chunk, where: str) -> None:
        self.chunks.append(chunk)
        if count := len(chunk.deleted_tokens):
            if [token for token, _ in self.tokens[-count:]] != chunk.deleted_tokens:
                raise SimulstError(f"{where}: deletes tokens that do not end {self.wav}; the log is broken.")
            del self.tokens[-count:]
        self.tokens += [(token, len(self.chunks) - 1) for token in chunk.generated_tokens]


def read_simulstream(lines: Sequence[str], unit: str, path: str | Path) -> list[Instance]:
    """An instance for each recording, in the order in which they began; they have no references.

    unit: "word" or "char". A word whose end was written, or written again, by a later chunk has that chunk's delay.
    path: names the log in errors.
    Raises SimulstError: a line that is none of simulstream's, audio of an unnamed recording, two runs in one log,
        nothing but names.
    """
    recordings: dict[str, _Recording] = {}
    names: dict[Any, str] = {}
    for where, row in _rows(lines, path):
        if "metadata" in row:
            wav = names[str(row.get("id"))] = _wav_name(row["metadata"], where)
            if Path(wav).stem in recordings:
                raise SimulstError(
                    f"{where}: {Path(wav).stem} begins again; simulstream appends to its log, keep one run of each "
                    "recording."
                )
        elif "model_loading_time" not in row:
            chunk = _parse(row, where)
            if str(chunk.id) not in names:
                raise SimulstError(
                    f"{where}: client {chunk.id} has not named its recording; send metrics_metadata with a wav_name."
                )
            wav = names[str(chunk.id)]
            recordings.setdefault(Path(wav).stem, _Recording(wav)).add(chunk, where)
    heard = [recording for recording in recordings.values() if recording.chunks[-1].total_audio_processed > 0]
    if not heard:
        raise SimulstError(f"{path}: the log is empty; send some audio first.")
    texts = _texts([recording.tokens for recording in heard], unit)
    return [
        _instance(index, recording, pieces, unit)
        for index, (recording, pieces) in enumerate(zip(heard, texts, strict=True))
    ]


def write_simulstream(instances: Sequence[Instance], unit: str, path: str | Path) -> str:
    """A log of whole recordings in simulstream's form; `read_simulstream` finds the same texts and times in it.

    A chunk is what was written at one time. It is charged all computation since the chunk before it.
    unit: "word" or "char", that of the delays. path: names the log in errors.
    Raises SimulstError: predictions that do not match their delays, words without elapsed times, a recording twice.
    """
    check_units(instances, unit, path)
    rows: list[dict[str, Any]] = [{"model_loading_time": 0.0}]
    seen: set[str] = set()
    for number, instance in enumerate(instances):
        name = instance.recording
        if name in seen:
            raise SimulstError(f"{path}: several entries are of {name}; simulstream's log has one of each recording.")
        seen.add(name)
        if len(instance.elapsed) != len(instance.delays):
            raise SimulstError(f"{path}, index {instance.index}: has no elapsed times; simulstream's log needs them.")
        rows.append({"id": number, "metadata": {"wav_name": f"{name}.wav"}})
        tokens = re.findall(r"\s*\S+" if unit == "word" else " *[^ ]", instance.prediction.strip(" "))
        times = zip(instance.delays, instance.elapsed, strict=True)
        computed = 0.0
        for (delay, elapsed), units in itertools.groupby(zip(times, tokens, strict=True), key=lambda one: one[0]):
            rows.append(_row(number, delay, elapsed - delay - computed, [token for _, token in units]))
            computed = elapsed - delay
        rows.append(_row(number, instance.source_length, (instance.compute_ms or computed) - computed, []))
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _row(number: int, audio_ms: float, computed_ms: float, tokens: list[str]) -> dict[str, Any]:
    times = {"total_audio_processed": audio_ms / 1000, "computation_time": max(0.0, computed_ms) / 1000}
    return {"id": number, **times, "generated_tokens": tokens, "deleted_tokens": []}


def _rows(lines: Sequence[str], path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise SimulstError(f"{where}: not a line of simulstream's log; it was cut off or edited, remove it.")
        yield where, row


def _wav_name(metadata: Any, where: str) -> str:
    name = metadata.get("wav_name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise SimulstError(f"{where}: metadata without a wav_name; send metrics_metadata with one.")
    return name


def _parse(row: dict[str, Any], where: str) -> _Chunk:
    try:
        return _chunk().validate_python(row)
    except ValidationError as error:
        first = error.errors()[0]
        says = first["msg"].replace("Input should", "should")
        name = first["loc"][0]
        raise SimulstError(f"{where}: not a chunk of simulstream's log: {name}: {says}; score its JSONL log.") from None


@cache
def _chunk() -> TypeAdapter[_Chunk]:
    return TypeAdapter(_Chunk)


def _texts(recordings: Sequence[Sequence[tuple[str, int]]], unit: str) -> list[list[str]]:
    """The tokens of each recording as pieces of its text.

    Tokens that carry spaces, and characters, stand for themselves; in SentencePiece's "▁" is the space; others are
    words.
    """
    texts = [[token for token, _ in recording] for recording in recordings]
    every = "".join(itertools.chain.from_iterable(texts))
    if PIECE in every and not any(map(str.isspace, every)):
        return [[token.replace(PIECE, " ") for token in text] for text in texts]
    if unit == "char" or any(map(str.isspace, every)):
        return texts
    return [[" " * (i > 0) + token for i, token in enumerate(text)] for text in texts]


def _instance(index: int, recording: _Recording, pieces: Sequence[str], unit: str) -> Instance:
    audio = [chunk.total_audio_processed * 1000 for chunk in recording.chunks]
    computed = [chunk.computation_time * 1000 for chunk in recording.chunks]
    total = list(itertools.accumulate(computed))
    last = [recording.tokens[i][1] for i in completed_by(pieces, unit)]
    return Instance(
        index=index,
        prediction="".join(pieces).strip(),
        delays=[audio[chunk] for chunk in last],
        elapsed=[audio[chunk] + total[chunk] for chunk in last],
        prediction_length=len(last),
        reference=None,
        source=[recording.wav],
        source_length=audio[-1],
        name=Path(recording.wav).stem,
        compute_ms=total[-1],
        chunk_elapsed=[audio[chunk] + computed[chunk] for chunk in last],
    )
