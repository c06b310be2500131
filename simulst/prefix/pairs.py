"""Prefix pairs in files: the result of extraction, and data directories for training.

prefixes.jsonl has one line per utterance; a frame is 10 ms:
    {"utterance": ..., "tau": 100, "frames": 731, "offline": ..., "pairs": [{"frames": 200, "text": ...}, ...]}
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, Strict

from simulst.audio.units import FRAME_MS
from simulst.data.datadir import Utterance, check_has, read_data_dir, write_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import digest, write_atomically, written_whole
from simulst.files.table import read_table
from simulst.files.text import lines_of
from simulst.languages import unit_of
from simulst.log.instance import row_of
from simulst.options import read_fields

PREFIXES, COUNTS = "prefixes.jsonl", "pairs.json"


@dataclass
class _Pair:
    frames: Annotated[int, Strict(), Field(ge=1)]
    text: Annotated[str, Strict()]


@dataclass
class _Line:
    """A line of prefixes.jsonl."""

    utterance: Annotated[str, Strict()]
    tau: Annotated[int, Strict(), Field(ge=1)]
    frames: Annotated[int, Strict(), Field(ge=0)]
    offline: Annotated[str, Strict()]
    pairs: list[_Pair]


def read_prefixes(path: Path) -> list[dict[str, Any]]:
    """The lines of prefixes.jsonl. Raises SimulstError: the file is missing, or `extract` did not write a line."""
    found, remedy = [], "extract the prefix pairs again"
    for number, line in enumerate(lines_of(path, remedy), start=1):
        where = f"{path}, line {number}: not a line of prefix extraction"
        one = row_of(line, f"{where}; {remedy}.")
        read_fields(_Line, one, where, remedy)
        found.append(one)
    return found


def write_pairs(
    data: Path,
    prefixes: Path,
    out: Path,
    target: str,
    max_ratio: float | None = None,
    whole: bool = False,
    force: bool = False,
    tokens: Path | None = None,
) -> None:
    """Write prefix pairs as a data directory.

    The utterance `<utterance>-p<frames>` is the beginning of a segment with its target prefix. `out/pairs.json` holds
    counts: pairs, filtered (left out), kept, whole.

    data: data directory that the pairs were extracted from.
    prefixes: the prefixes.jsonl.
    target: target language.
    max_ratio: maxratio of section 2.1: leave out pairs with more frames per target word. For languages written without
        spaces, as in Table 4, per target token.
    whole: add the whole utterances with their references.
    force: write the directory again.
    tokens: the model's tokens, which `max_ratio` needs for languages written without spaces.

    Raises SimulstError: `data` lacks an utterance; no pair is left; `tokens` is needed or cannot be read; what
        `read_data_dir`, `read_prefixes` and `written_whole` raise.
    """
    if max_ratio is not None and not max_ratio > 0:
        raise SimulstError(f"--max-ratio {max_ratio:g}: give frames per word, above 0, or leave it out.")
    keeps, counts = _limit(max_ratio, target, tokens), Counter[str]()
    utterances = {utterance.name: utterance for utterance in read_data_dir(data, target)}
    parts, texts = dict[str, tuple[Utterance, float | None]](), dict[str, str]()
    for one in read_prefixes(prefixes):
        utterance = utterances.get(one["utterance"])
        if utterance is None:
            raise SimulstError(f"{prefixes}: '{one['utterance']}' is not in {data}; name the data it was made from.")
        if whole:
            counts["whole"] += 1
            parts[utterance.name], texts[utterance.name] = (utterance, None), utterance.reference
        for pair in one["pairs"]:
            kept = keeps(pair)
            counts["pairs"] += 1
            counts["kept" if kept else "filtered"] += 1
            if kept:
                name = f"{utterance.name}-p{pair['frames']:05}"
                parts[name], texts[name] = (utterance, pair["frames"] * FRAME_MS / 1000), pair["text"]
    if not counts["pairs"]:
        raise SimulstError(f"{prefixes}: has no pairs; train the offline model longer, or extract with a smaller tau.")
    if not counts["kept"]:
        raise SimulstError(f"{prefixes}: no pair is left of {counts['pairs']}; raise --max-ratio.")
    tables = tables_of(data, parts) | {f"text.tc.{target}": texts}
    made_of = {"max_ratio": max_ratio, "whole": whole, "pairs": digest(f"{n} {t}" for n, t in tables.items())}
    with written_whole(out, made_of, force) as part:
        if part is not None:
            write_data_dir(part, tables)
            write_atomically(part / COUNTS, json.dumps(counts) + "\n")
            print(f"{out}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))


def _limit(max_ratio: float | None, target: str, tokens: Path | None) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a pair has at most `max_ratio` frames per word or token."""
    if max_ratio is None:
        return lambda pair: True
    split: Callable[[str], Sequence[Any]] = str.split
    if unit_of(target) == "char":
        if tokens is None:
            raise SimulstError(f"--max-ratio: counts tokens of the model for '{target}'; give --tokens.")
        split = _pieces(tokens / "bpe.model")
    return lambda pair: pair["frames"] <= max_ratio * max(1, len(split(pair["text"])))


def _pieces(model: Path) -> Callable[[str], list[int]]:
    from sentencepiece import SentencePieceProcessor

    try:
        encode: Callable[[str], list[int]] = SentencePieceProcessor(model_proto=model.read_bytes()).encode
    except (OSError, RuntimeError):
        raise SimulstError(f"{model}: no SentencePiece model; name a folder of 'simulst train tokens'.") from None
    return encode


def tables_of(data: Path, parts: Mapping[str, tuple[Utterance, float | None]]) -> dict[str, dict[str, str]]:
    """The tables of a data directory without its texts, with the recordings and speakers of `data`.

    parts: name → an utterance of `data`, and of how many seconds of it the new one is; None: all.
    """
    speakers = read_table(data / "utt2spk")
    check_has(data / "utt2spk", speakers, (utterance.name for utterance, _ in parts.values()))
    recordings = {utterance.name: utterance.name for utterance, _ in parts.values()}
    if (data / "segments").is_file():
        recordings = {name: value.split()[0] for name, value in read_table(data / "segments").items()}
    segments = {}
    for name, (one, seconds) in parts.items():
        end = one.start + (one.seconds if seconds is None else seconds)
        segments[name] = f"{recordings[one.name]} {one.start:.3f} {end:.3f}"
    return {
        "wav.scp": {name: str((data / wav).resolve()) for name, wav in read_table(data / "wav.scp").items()},
        "segments": segments,
        "utt2spk": {name: speakers[utterance.name] for name, (utterance, _) in parts.items()},
    }
