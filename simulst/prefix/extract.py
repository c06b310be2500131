"""Extract the prefix pairs of a whole training set with many processes (NAIST at IWSLT 2022, section 2.1).

OUT/prefixes.jsonl is the result (see pairs.py). OUT/shards holds the finished shards, so that a killed extraction can
be resumed.
"""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tqdm import tqdm

from simulst.audio.read import load_audio
from simulst.data.datadir import Utterance, read_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import begun, digest, locked, write_atomically
from simulst.languages import unit_of
from simulst.machine.cluster import HERE, Cluster, mapper
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.models.registry import digest_of_weights
from simulst.opening import Opening
from simulst.options import Amount, Count, check_options
from simulst.prefix.align import Translator, align
from simulst.prefix.pairs import PREFIXES, read_prefixes
from simulst.runs.folder import Task, model_of
from simulst.search import Beam, JointBeamSearch

RECORD, SHARDS = "extraction.json", "shards"
SHARD_SECONDS, SHARD_UTTERANCES = 200.0, 32  # most that is translated together: bounds memory, but fills batches


@dataclass(frozen=True)
class Options:
    """How pairs are extracted.

    tau: frames of 10 ms by which prefixes grow.
    beam: beam size of the search, which uses the decoder alone (10 in the paper).
    open_end: see `align`.
    limit: number of utterances, the first ones; 0: all.
    """

    tau: Count = 100
    beam: Beam = 10
    open_end: bool = False
    limit: Amount = 0

    def __post_init__(self) -> None:
        check_options(self)


def extract(
    task: Task, data: Path, out: Path, options: Options, cluster: Cluster = HERE, force: bool = False
) -> Counter[str]:
    """Extract the prefix pairs of a data directory's utterances, or resume an extraction.

    out: folder of the extraction.
    force: delete the extraction in `out` and begin again.

    Returns: counts of utterances, of those not longer than tau, of prefixes, and of pairs.
    Raises SimulstError: `out` holds an extraction with another model, languages, utterances or options; the model
        translates everything to nothing; an utterance can't be read (the others are kept); another run uses `out`.
    """
    utterances = read_data_dir(data, task.target_language)[: options.limit or None]
    wanted = {
        "model": task.model,
        "options": dict(task.options),
        "weights": digest_of_weights(task.model, dict(task.options)),
        "languages": [task.source_language, task.target_language],
        "data": str(data),
        **asdict(options),
        "utterances": digest(f"{u.name} {u.wav} {u.start} {u.end}" for u in utterances),
    }
    with locked(out):
        begun(out / RECORD, wanted, (SHARDS, PREFIXES), force)
        write_atomically(out / RECORD, json.dumps(wanted, indent=1))
        (out / SHARDS).mkdir(exist_ok=True)
        return _extract(task, data, out, options, utterances, cluster)


def _extract(
    task: Task, data: Path, out: Path, options: Options, utterances: list[Utterance], cluster: Cluster
) -> Counter[str]:
    """Extract the shards that are missing in `out`, and write prefixes.jsonl."""
    shards = shards_of(utterances)
    jobs = [
        (number, [replace(utterance, wav=utterance.wav.resolve()) for utterance in shard])
        for number, shard in enumerate(shards)
        if not _file(out, number).is_file()
    ]
    failures = []
    done = len(utterances) - sum(len(shard) for _, shard in jobs)
    with (
        tqdm(total=len(utterances), initial=done, unit="utt", desc="prefix pairs") as progress,
        mapper(cluster if jobs else HERE) as run_all,
    ):
        work = functools.partial(_work, task.portable(), cluster.jobs if cluster.is_here else None, options)
        for number, result in run_all(work, jobs):
            if isinstance(result, str):
                failures.append(f"shard {number} (from {shards[number][0].name}): {result}")
            else:
                write_atomically(_file(out, number), "".join(line + "\n" for line in result))
            progress.update(len(shards[number]))
    if failures:
        raise SimulstError(
            f"{len(failures)} of {len(shards)} shards failed, the others are in {out / SHARDS}; "
            f"fix them and run again. First: {failures[0]}"
        )
    found = [line for number in range(len(shards)) for line in read_prefixes(_file(out, number))]
    order = {utterance.name: place for place, utterance in enumerate(utterances)}
    found.sort(key=lambda line: order[line["utterance"]])
    if not any(one["offline"] for one in found):
        raise SimulstError(
            f"{task.model}: translates every utterance of {data} to nothing; train it longer, then use --force."
        )
    write_atomically(out / PREFIXES, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in found))
    counts = Counter[str]()
    for one in found:
        prefixes = max(0, math.ceil(one["frames"] / one["tau"]) - 1)
        counts.update(utterances=1, short=int(not prefixes), prefixes=prefixes, pairs=len(one["pairs"]))
    return counts


def shards_of(utterances: Sequence[Utterance]) -> list[list[Utterance]]:
    """Utterances that are aligned together, of about the same length."""
    shards: list[list[Utterance]] = []
    length = math.inf
    for utterance in sorted(utterances, key=lambda u: (u.seconds, u.name)):
        if length + utterance.seconds > SHARD_SECONDS or len(shards[-1]) == SHARD_UTTERANCES:
            shards.append([])
            length = 0.0
        shards[-1].append(utterance)
        length += utterance.seconds
    return shards


def _file(out: Path, number: int) -> Path:
    return out / SHARDS / f"{number:05}.jsonl"


def _work(
    task: Task, jobs: int | None, options: Options, job: tuple[int, list[Utterance]]
) -> tuple[int, list[str] | str]:
    """Align one shard, in any process. Returns its number, and lines of prefixes.jsonl or a sentence with the error."""
    number, shard = job
    try:
        model = model_of(task, jobs)
        if not isinstance(model, ESPnet) or not isinstance(model.decoder, CachedDecoder):
            raise SimulstError(
                f"{task.model}: prefix pairs are extracted with an ESPnet model that has a Transformer decoder; "
                "train one (docs/prefix.md)."
            )
        if model.decoder.lagging:
            raise SimulstError(f"{task.model}: was trained for wait-k; extract prefix pairs with an offline model.")
        model.session(Opening(task.source_language, task.target_language))  # raises what is wrong with the languages
        audio = [load_audio(u.wav, u.start, u.end) for u in shard]
        search = JointBeamSearch(options.beam, ctc_weight=0.0, max_length_ratio=model.search.max_length_ratio)
        translator = Translator(model, task.target_language, audio, options.tau, search, options.open_end)
        unit = unit_of(task.target_language)
        found = align(translator, translator.frames, options.tau, model.text, options.open_end, unit)
    except SimulstError as error:
        return number, str(error)
    lines = []
    for utterance, alignment in zip(shard, found, strict=True):
        pairs = [{"frames": pair.frames, "text": model.text(pair.tokens).strip()} for pair in alignment.pairs]
        line = {"utterance": utterance.name, "tau": options.tau, "frames": alignment.frames}
        line |= {"offline": model.text(alignment.whole).strip(), "pairs": pairs}
        lines.append(json.dumps(line, ensure_ascii=False))
    return number, lines
