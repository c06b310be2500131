"""The entry of a log: what was written for one utterance, and when."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, Strict

from simulst.audio.name import recording_name
from simulst.errors import SimulstError
from simulst.files.folder import digest

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
    source_length: duration of the audio, in ms; 0 if another program's log does not say it.
    name: name of the utterance (ours).
    reads: ms of source at each decoding step, also at steps that wrote nothing (ours). They are the steps t of paper
        B's equation 6.
    writes: tokens that each of them wrote (ours). At the end of the source a step of paper B writes as many as STOP
        lets it; the rest, which further steps would write there, is left out. Empty: not counted.
    reference_tokens: length of the reference in the model's tokens (ours). 0: not counted.
    compute_ms: computation time, in ms (ours).
    waited_ms: part of the computation time that was spent waiting for a processor, in ms (ours).
    audio: digest of the audio, to notice that it has changed (ours).
    span: the part of the file that was heard: its first second, and its last one unless it is the file's end. Empty:
        all of the file (ours).
    terms: those of the recording's context, whose recall is scored (ours).
    segments: first and last ms of source of each utterance that the stream was cut into (ours).
    skipped: how many decoding steps were left out because computation was slower than speech (ours).
    languages: those that were found, in the order of time. Empty: the language was named (ours).
    stratum: of a pooled log, the test set that the utterance is of (ours).
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
    source_length: Annotated[Time, Field(ge=0.01)] = 0.0
    name: Text = ""
    reads: list[Annotated[Time, Field(ge=0)]] = field(default_factory=list)
    writes: list[Annotated[int, Strict(), Field(ge=0)]] = field(default_factory=list)
    reference_tokens: Annotated[int, Strict(), Field(ge=0)] = 0
    compute_ms: Annotated[Time, Field(ge=0)] | None = None
    waited_ms: Annotated[Time, Field(ge=0)] | None = None
    audio: Text = ""
    span: Annotated[list[Annotated[Time, Field(ge=0)]], Field(max_length=2)] = field(default_factory=list)
    terms: list[Text] = field(default_factory=list)
    segments: list[Annotated[list[Time], Field(min_length=2, max_length=2)]] = field(default_factory=list)
    chunk_elapsed: list[Time] = field(default_factory=list)
    skipped: Annotated[int, Strict(), Field(ge=0)] = 0
    languages: list[Text] = field(default_factory=list)
    stratum: Text = ""

    @property
    def recording(self) -> str:
        """The name of the audio's file (`recording_name`), or else of the utterance."""
        source = self.source[0] if isinstance(self.source, list) and self.source else self.source
        return recording_name(source) if isinstance(source, str) and source else self.name

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
        required = {field.name for field in fields(self) if field.default is field.default_factory is MISSING}
        row = {key: value for key, value in asdict(self).items() if key in {*required, "source_length"} or value}
        return json.dumps(row, ensure_ascii=False)


def row_of(line: str, wrong: str) -> dict[str, Any]:
    """A line of a log, which is a JSON object. Raises SimulstError: it is none. wrong: what is said then."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise SimulstError(wrong)
    return row


def digest_of_test_set(instances: Sequence[Instance]) -> str:
    """A digest of what was translated: names, lengths of the audio, and references. Runs of one test set share it."""
    lines = ((i.name or i.recording, f"{i.source_length:.0f}", i.reference) for i in instances)
    return digest(map(repr, sorted(lines, key=repr)))


def check_units(instances: Sequence[Instance], unit: str, path: str | Path) -> None:
    """Raise SimulstError unless every prediction has as many words (or characters) as delays."""
    for instance in instances:
        units = len(instance.units(unit))
        if units != len(instance.delays):
            raise SimulstError(
                f"{path}, index {instance.index}: {units} {unit}s but {len(instance.delays)} delays; "
                f"the log is broken or was written in another unit (--unit)."
            )
