"""Prefix pairs of a whole training set, by many processes, and the data directories that training reads them from.

`extract` writes OUT/prefixes.jsonl, a line per utterance, frames being 10 ms:
    {"utterance": ..., "tau": 100, "frames": 731, "offline": ..., "pairs": [{"frames": 200, "text": ...}, ...]}
OUT/shards has what is done so far, so that a killed extraction goes on.
"""

from __future__ import annotations

import functools
import json
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from simulst.cluster import Cluster, mapper
from simulst.data.audio import SAMPLE_RATE, load_audio, seconds_of
from simulst.data.datadir import Utterance, read_data_dir, read_table, write_data_dir
from simulst.errors import SimulstError
from simulst.log import unit_of
from simulst.prefix.align import FRAME, Translator, align
from simulst.runs import HERE, Task, model_of, write_atomically
from simulst.search import JointBeamSearch

PREFIXES, RECORD, COUNTS = "prefixes.jsonl", "extraction.json", "pairs.json"
SHARD_SECONDS, SHARD_UTTERANCES = 200.0, 32  # what is translated together: bounded memory, and enough for batches


@dataclass(frozen=True)
class Shard:
    """Utterances that are aligned together, of about the same length."""

    number: int
    utterances: list[Utterance]

    @property
    def name(self) -> str:
        return f"shard {self.number} (from {self.utterances[0].name})"


def extract(
    task: Task, data: Path, out: Path, tau: int = 100, beam: int = 10, cluster: Cluster = HERE, limit: int = 0
) -> Counter[str]:
    """Extract the prefix pairs of all utterances of a data directory (or its first `limit`), what is missing of them.

    tau: frames of 10 ms. beam: of the search, by the decoder alone (10 in the paper).
    Returns counts: utterances, those not longer than tau, prefixes, pairs.
    Raises SimulstError: options that differ from those of an extraction that is in `out`; a model that translates
        nothing; utterances that can't be read (the others are kept).
    """
    if tau < 1 or beam < 1:
        raise SimulstError(f"--tau {tau}, --beam {beam}: give 1 or more of each.")
    utterances = read_data_dir(data, f"tc.{task.target_language}")[: limit or None]
    options = {"model": task.model, "data": str(data), "tau": tau, "beam": beam, "limit": limit}
    _open(out, options)
    shards = shards_of(utterances)
    lacking = [shard for shard in shards if not _file(out, shard.number).is_file()]
    failures = []
    total = sum(len(shard.utterances) for shard in shards)
    done = total - sum(len(shard.utterances) for shard in lacking)
    with (
        tqdm(total=total, initial=done, unit="utt", desc="prefix pairs") as progress,
        mapper(cluster if lacking else HERE) as run_all,
    ):
        work = functools.partial(_work, task.portable(), cluster.jobs if cluster.is_here else None, tau, beam)
        jobs = [(n, replace(s, utterances=[replace(u, wav=u.wav.resolve()) for u in s.utterances]))
                for n, s in enumerate(lacking)]  # fmt: skip
        for index, result in run_all(work, jobs):
            shard = lacking[index]
            if isinstance(result, str):
                failures.append(result)
            else:
                write_atomically(_file(out, shard.number), "".join(line + "\n" for line in result))
            progress.update(len(shard.utterances))
    if failures:
        raise SimulstError(
            f"{len(failures)} of {len(shards)} shards failed, the others are in {out / 'shards'}; "
            f"mend them and run again. First: {failures[0]}"
        )
    lines = [line for shard in shards for line in _file(out, shard.number).read_text(encoding="utf-8").splitlines()]
    order = {utterance.name: place for place, utterance in enumerate(utterances)}
    lines.sort(key=lambda line: order[json.loads(line)["utterance"]])
    found = [json.loads(line) for line in lines]
    if not any(one["offline"] for one in found):
        raise SimulstError(f"{task.model}: translates every utterance of {data} to nothing; train it longer.")
    write_atomically(out / PREFIXES, "".join(line + "\n" for line in lines))
    return count(found)


def count(found: Iterable[dict[str, Any]]) -> Counter[str]:
    """What lines of prefixes.jsonl hold: utterances, those too short to have prefixes, prefixes, pairs."""
    counts: Counter[str] = Counter()
    for one in found:
        prefixes = max(0, math.ceil(one["frames"] / one["tau"]) - 1)
        counts.update(utterances=1, short=not prefixes, prefixes=prefixes, pairs=len(one["pairs"]))
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
    data: Path, prefixes: Path, out: Path, target: str, max_ratio: float | None = None, whole: bool = False
) -> Counter[str]:
    """Write the pairs as a data directory: `<utterance>-p<frames>`, a segment that ends early, with its target prefix.

    data: whose utterances they are. max_ratio: leave out pairs of more frames per target word (character for zh, ja;
    section 2.1: maxratio). whole: put the utterances themselves, with their references, beside the pairs.
    Returns counts, which are in `out/pairs.json` too: pairs, filtered (left out), kept, whole.
    Raises SimulstError: what `read_data_dir` and `read_prefixes` raise; utterances that `data` lacks; nothing left.
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
        for pair in one["pairs"]:
            counts["pairs"] += 1
            words = pair["text"].replace(" ", "") if unit == "char" else pair["text"].split()
            if max_ratio is not None and pair["frames"] / len(words) > max_ratio:
                counts["filtered"] += 1
                continue
            counts["kept"] += 1
            add(f"{utterance.name}-p{pair['frames']:05}", utterance, pair["frames"] * FRAME / SAMPLE_RATE, pair["text"])
    if not counts["kept"]:
        raise SimulstError(f"{prefixes}: no pair is left of {counts['pairs']}; raise or leave out --max-ratio.")
    if whole:
        for utterance in utterances.values():
            counts["whole"] += 1
            add(utterance.name, utterance, None, utterance.reference)
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    write_data_dir(part, {"wav.scp": wavs, "segments": segments, "utt2spk": utt2spk, f"text.tc.{target}": text})
    write_atomically(part / COUNTS, json.dumps(counts) + "\n")
    shutil.rmtree(out, ignore_errors=True)
    part.replace(out)
    return counts


def shards_of(utterances: Sequence[Utterance]) -> list[Shard]:
    def seconds(utterance: Utterance) -> float:
        return (seconds_of(utterance.wav) if utterance.end is None else utterance.end) - utterance.start

    shards: list[Shard] = []
    held: list[Utterance] = []
    length = 0.0
    for utterance in sorted(utterances, key=lambda u: (seconds(u), u.name)):
        if held and (length + seconds(utterance) > SHARD_SECONDS or len(held) == SHARD_UTTERANCES):
            shards.append(Shard(len(shards), held))
            held, length = [], 0.0
        held.append(utterance)
        length += seconds(utterance)
    return [*shards, Shard(len(shards), held)] if held else shards


def _open(out: Path, options: dict[str, Any]) -> None:
    record = out / RECORD
    if record.is_file():
        found = json.loads(record.read_text(encoding="utf-8"))
        for name, value in options.items():
            if found.get(name) != value:
                raise SimulstError(
                    f"{out}: holds an extraction whose {name} is {found.get(name)!r}, not {value!r}; "
                    "name another folder, or move it away."
                )
    (out / "shards").mkdir(parents=True, exist_ok=True)
    write_atomically(record, json.dumps(options, indent=1))


def _file(out: Path, number: int) -> Path:
    return out / "shards" / f"{number:05}.jsonl"


def _work(task: Task, jobs: int | None, tau: int, beam: int, job: tuple[int, Shard]) -> tuple[int, list[str] | str]:
    """One shard, in whatever process: lines of prefixes.jsonl, or what is wrong in a sentence."""
    index, shard = job
    try:
        model = model_of(task, jobs)
        audio = [load_audio(u.wav, u.start, u.end) for u in shard.utterances]
        translator = Translator(model, audio, tau, JointBeamSearch(beam=beam, ctc_weight=0.0))  # type: ignore[arg-type]
        found = align(translator, translator.frames, tau, model.text)  # type: ignore[attr-defined]
    except SimulstError as error:
        return index, f"{shard.name}: {error}"
    lines = []
    for utterance, alignment in zip(shard.utterances, found, strict=True):
        text = model.text  # type: ignore[attr-defined]
        pairs = [{"frames": pair.frames, "text": text(pair.tokens).strip()} for pair in alignment.pairs]
        line = {"utterance": utterance.name, "tau": tau, "frames": alignment.frames}
        line |= {"offline": text(alignment.whole).strip(), "pairs": pairs}
        lines.append(json.dumps(line, ensure_ascii=False))
    return index, lines
