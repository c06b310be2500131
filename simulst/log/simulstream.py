"""simulstream's log: JSON lines that say what each chunk of a recording's audio added to its text.

    {"model_loading_time": 1.2}
    {"id": 7, "metadata": {"wav_name": "talk.wav"}}
    {"id": 7, "total_audio_processed": 1.0, "computation_time": 0.3, "generated_tokens": [" Hello"],
     "deleted_tokens": []}

Times are in seconds. A chunk's computation time is its own; SimulEval's `elapsed` adds up that of all chunks.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from simulst.audio.name import recording_name
from simulst.errors import SimulstError
from simulst.log.instance import Instance, Text, Time, row_of
from simulst.options import read_fields
from simulst.words import completed_by, plain_spaces

logger = logging.getLogger(__name__)

PIECE = "▁"  # SentencePiece's space
SHORT = 2.5  # characters of a token, in the mean; of single characters, one in seven is a space
SPACED, SPACED_SHORT = 0.2, 0.05
"""If more than this share of tokens (of short tokens) has a space at an end, all tokens carry their own spaces."""


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

    def is_over(self, chunk: _Chunk) -> bool:
        """Whether the chunk is of another stream: audio adds up, and only a stream's last line may add none."""
        heard = [one.total_audio_processed for one in self.chunks[-2:]]
        return bool(heard) and (chunk.total_audio_processed < heard[-1] or (len(heard) == 2 and heard[0] == heard[1]))

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
    Clients that have not named their recording are left out, with a warning. A recording ends where its client's id
    stands for another stream: simulstream takes the number of an object of Python's, which a later client may get.

    Raises SimulstError: a line that is none of simulstream's, a recording that is named again, no recording with a name
        and audio.
    """
    recordings: dict[str, _Recording] = {}
    names: dict[str, str] = {}
    nameless: set[str] = set()
    for where, row in _rows(lines, path):
        if "metadata" in row:
            client, wav = str(row.get("id")), _wav_name(row["metadata"])
            if not wav:
                names.pop(client, None)
            elif recording_name(wav) in recordings:
                raise SimulstError(
                    f"{where}: {recording_name(wav)} begins again; simulstream appends to its log, keep one run of "
                    "each recording."
                )
            else:
                names[client] = wav
        elif "model_loading_time" in row:  # of another process, which knows none of these clients
            names.clear()
        else:
            chunk = read_fields(_Chunk, row, f"{where}: not a chunk of simulstream's log", "score its JSONL log")
            client = str(chunk.id)
            if client in names:
                recording = recordings.setdefault(recording_name(names[client]), _Recording(names[client]))
                if recording.is_over(chunk):
                    del names[client]
                else:
                    recording.add(chunk, where)
            if client not in names and (chunk.total_audio_processed or chunk.generated_tokens):
                nameless.add(client)
    if nameless:
        logger.warning(
            "%s: left out the audio of %d clients that have not named a recording; send metrics_metadata with a "
            "wav_name.",
            path,
            len(nameless),
        )
    heard = [recording for recording in recordings.values() if recording.chunks[-1].total_audio_processed > 0]
    if not heard:
        raise SimulstError(f"{path}: the log has no audio of a named recording; send metrics_metadata, then audio.")
    texts = _texts([recording.tokens for recording in heard], unit, path)
    return [
        _instance(index, recording, pieces, unit)
        for index, (recording, pieces) in enumerate(zip(heard, texts, strict=True))
    ]


def _rows(lines: Sequence[str], path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        if line.strip():
            yield where, row_of(line, f"{where}: not a line of simulstream's log; it was cut off or edited, remove it.")


def _wav_name(metadata: Any) -> str:
    """Empty: the metadata name no recording."""
    name = metadata.get("wav_name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _texts(recordings: Sequence[Sequence[tuple[str, int]]], unit: str, path: str | Path) -> list[list[str]]:
    """The tokens of each recording as pieces of its text.

    In SentencePiece's tokens "▁" is the space. Tokens with spaces at their ends, and characters, stand for themselves;
    others are words or phrases. Single tokens of another kind do not count: what most tokens are decides.
    """
    texts = [[plain_spaces(token, unit) for token, _ in recording] for recording in recordings]
    every = list(itertools.chain.from_iterable(texts))
    pieces = sum(PIECE in token for token in every)
    spaced = sum(token != token.strip() for token in every)
    if pieces > spaced:
        return [[token.replace(PIECE, " ") for token in text] for text in texts]
    short = sum(len(token.strip()) for token in every) < SHORT * len(every)
    if unit == "char" or spaced > (SPACED_SHORT if short else SPACED) * len(every):
        return texts
    if spaced:
        logger.warning(
            "%s: %d of %d tokens begin or end with a space; all are taken for words, with spaces between.",
            path,
            spaced,
            len(every),
        )
    return [[" " * (i > 0) + token.strip() for i, token in enumerate(text)] for text in texts]


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
        name=recording_name(recording.wav),
        compute_ms=total[-1],
        chunk_elapsed=[audio[chunk] + computed[chunk] for chunk in last],
    )
