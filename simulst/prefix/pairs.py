"""Prefix pairs in files: what extraction found, and the data directories that training reads.

prefixes.jsonl has a line per utterance, frames being 10 ms:
    {"utterance": ..., "tau": 100, "frames": 731, "offline": ..., "pairs": [{"frames": 200, "text": ...}, ...]}
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from simulst.data.audio import seconds_of
from simulst.data.datadir import Utterance, read_data_dir, read_table, write_data_dir
from simulst.errors import SimulstError
from simulst.folder import made_whole, write_atomically
from simulst.lock import digest
from simulst.log import unit_of

PREFIXES, COUNTS = "prefixes.jsonl", "pairs.json"
FRAME_SECONDS = 0.01


def count(found: Iterable[dict[str, Any]]) -> Counter[str]:
    """What lines of prefixes.jsonl hold: utterances, those too short to have prefixes, prefixes, pairs."""
    counts: Counter[str] = Counter()
    for one in found:
        prefixes = max(0, math.ceil(one["frames"] / one["tau"]) - 1)
        counts.update(utterances=1, short=int(not prefixes), prefixes=prefixes, pairs=len(one["pairs"]))
    return counts


def read_prefixes(path: Path) -> list[dict[str, Any]]:
    """The lines of prefixes.jsonl. Raises SimulstError: no such file, or a line that is not what `extract` writes."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise SimulstError(f"{path}: no such file; run the recipe's stage of prefix extraction first.") from None
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            one = json.loads(line)
            [one[key] for key in ("utterance", "tau", "frames", "offline")]
            [(pair["frames"], pair["text"]) for pair in one["pairs"]]
        except (ValueError, KeyError, TypeError):
            raise SimulstError(f"{path}, line {number}: not a line of prefix extraction; extract anew.") from None
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
) -> None:
    """Write the pairs as a data directory: `<utterance>-p<frames>`, a segment that ends early, with its target prefix.

    data: whose utterances they are. max_ratio: leave out pairs of more frames per target word (character for zh, ja;
    section 2.1: maxratio). whole: put the utterances themselves, with their references, beside their pairs.
    force: write them again. `out/pairs.json` has counts: pairs, filtered (left out), kept, whole.
    Raises SimulstError: what `read_data_dir`, `read_prefixes` and `made_whole` raise; utterances that `data` lacks;
        nothing left.
    """
    if max_ratio is not None and not max_ratio > 0:
        raise SimulstError(f"--max-ratio {max_ratio:g}: give frames per word, above 0, or leave it out.")
    utterances = {utterance.name: utterance for utterance in read_data_dir(data, f"tc.{target}")}
    wavs = {name: str((data / wav).resolve()) for name, wav in read_table(data / "wav.scp").items()}
    recordings = {name: name for name in utterances}
    if (data / "segments").is_file():
        recordings = {name: value.split()[0] for name, value in read_table(data / "segments").items()}
    speakers = read_table(data / "utt2spk")
    unit, counts = unit_of(target), Counter[str]()
    text: dict[str, str] = {}
    segments: dict[str, str] = {}
    utt2spk: dict[str, str] = {}

    def add(name: str, utterance: Utterance, seconds: float | None, sentence: str) -> None:
        end = utterance.end if seconds is None else utterance.start + seconds
        end = seconds_of(utterance.wav) if end is None else end
        segments[name] = f"{recordings[utterance.name]} {utterance.start:.3f} {end:.3f}"
        text[name], utt2spk[name] = sentence, speakers[utterance.name]

    for one in read_prefixes(prefixes):
        utterance = utterances.get(one["utterance"])
        if utterance is None:
            raise SimulstError(f"{prefixes}: '{one['utterance']}' is not in {data}; name the data it was made from.")
        if whole:
            counts["whole"] += 1
            add(utterance.name, utterance, None, utterance.reference)
        for pair in one["pairs"]:
            counts["pairs"] += 1
            words = pair["text"].replace(" ", "") if unit == "char" else pair["text"].split()
            if max_ratio is not None and pair["frames"] / len(words) > max_ratio:
                counts["filtered"] += 1
                continue
            counts["kept"] += 1
            add(f"{utterance.name}-p{pair['frames']:05}", utterance, pair["frames"] * FRAME_SECONDS, pair["text"])
    if not counts["pairs"]:
        raise SimulstError(f"{prefixes}: has no pairs; train the offline model longer, or extract with a smaller tau.")
    if not counts["kept"]:
        raise SimulstError(f"{prefixes}: no pair is left of {counts['pairs']}; raise --max-ratio.")
    tables = {"wav.scp": wavs, "segments": segments, "utt2spk": utt2spk, f"text.tc.{target}": text}
    made_of = {"max_ratio": max_ratio, "whole": whole, "pairs": digest(f"{n} {t}" for n, t in tables.items())}
    with made_whole(out, made_of, force) as part:
        if part is not None:
            write_data_dir(part, tables)
            write_atomically(part / COUNTS, json.dumps(counts) + "\n")
            print(f"{out}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))
