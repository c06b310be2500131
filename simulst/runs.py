"""Runs: decode a data directory under one or many configurations and keep what came out.

A run's folder holds `instances.log` (SimulEval's format), `config.yaml` (all that made it) and, once it is whole,
`scores.json`. A sweep is a folder of such folders. Each utterance is read once, decoded under every configuration
that still lacks it, and written; a killed run goes on with the utterances that are missing.
"""

from __future__ import annotations

import functools
import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from simulst.cluster import Cluster, mapper, worker_threads
from simulst.config import Decoding, parse_decoding
from simulst.data.audio import SAMPLE_RATE, load_audio
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.folder import unwritable, write_atomically
from simulst.lock import alone
from simulst.log import Instance, read_unfinished, unit_of
from simulst.models import digest_of_weights, load_model, option_names
from simulst.models.base import Memo, Model
from simulst.pauses import Segmented, open_stream
from simulst.policy.read import listener_of
from simulst.stream import Stream

logger = logging.getLogger(__name__)

LOG, CONFIG, SCORES = "instances.log", "config.yaml", "scores.json"

HERE = Cluster()

Job = tuple[int, Utterance, list[dict[str, Any]]]
"""An utterance, its index, and the configurations (as they were read) to decode it under."""
Result = tuple[int, list[Instance | str] | str]
"""The index, and for each configuration an instance, or what is wrong in a sentence; or that for all of them."""


@dataclass(frozen=True)
class Task:
    """What is decoded with what: all but the decoding configuration.

    options: of the model family, as (name, value) pairs so that tasks can be hashed.
    """

    model: str
    source_language: str
    target_language: str
    options: tuple[tuple[str, Any], ...] = ()
    unit: str = ""

    def portable(self) -> Task:
        """The same with whole paths: a cluster's workers may run in another folder."""
        return replace(self, model=str(Path(self.model).resolve())) if Path(self.model).exists() else self

    @property
    def latency_unit(self) -> str:
        """ "word" or "char"."""
        return self.unit or unit_of(self.target_language)


@dataclass
class _Run:
    """The state of one configuration's folder."""

    folder: Path
    decoding: Decoding
    done: dict[int, Instance] = field(default_factory=dict)


def decode_utterance(
    model: Model, utterance: Utterance, index: int, decodings: Sequence[Decoding], unit: str, share: bool = True
) -> list[Instance]:
    """Decode one utterance under each configuration, in order.

    share: encode each stretch of audio once for all of them (and search once where audio, prefix and options agree);
        computation times are still those of a configuration run alone (see Memo).
    Raises SimulstError: audio that can't be read, a configuration that the model can't do.
    """
    instances = []
    for found in _decode(model, utterance, index, decodings, unit, share):
        if isinstance(found, SimulstError):
            raise found
        instances.append(found)
    return instances


def _decode(
    model: Model, utterance: Utterance, index: int, decodings: Sequence[Decoding], unit: str, share: bool
) -> Iterator[Instance | SimulstError]:
    """As `decode_utterance`, with an error in place of the instance of a configuration that has one."""
    audio = load_audio(utterance.wav, utterance.start, utterance.end)
    memo = Memo()
    for decoding in decodings:
        try:
            stream = open_stream(model, decoding, unit, memo if share else None)
            stream.push(audio, finished=True)
            yield _instance(stream, utterance, index, audio.size * 1000 / SAMPLE_RATE)
        except SimulstError as error:
            yield error


def run(
    task: Task,
    utterances: Sequence[Utterance],
    runs: Sequence[tuple[Path, Decoding]],
    cluster: Cluster = HERE,
    share: bool = True,
    force: bool = False,
) -> None:
    """Decode what is missing in each (folder, configuration), until every folder's log is whole.

    force: decode anew what is there.
    Raises SimulstError: a folder that holds another run, or where another is at work; a full disk; utterances that
        failed, or killed the process that decoded them time and again (the others are decoded and kept).
    """
    if not utterances:
        raise SimulstError("there is no utterance to decode; check the data directory.")
    for _, decoding in runs:
        listener_of(decoding.read, Memo())  # so that a missing predictor ends the run before it begins
    with ExitStack() as locks:
        for folder, _ in runs:
            locks.enter_context(alone(folder))
            for name in (LOG, CONFIG, SCORES) if force else ():
                (folder / name).unlink(missing_ok=True)
        _run(task, utterances, runs, cluster, share)


def _run(
    task: Task, utterances: Sequence[Utterance], runs: Sequence[tuple[Path, Decoding]], cluster: Cluster, share: bool
) -> None:
    weights = digest_of_weights(task.model, dict(task.options))
    states = [_open_run(folder, decoding, task, weights, utterances) for folder, decoding in runs]
    todo: list[tuple[int, list[_Run]]] = []
    for index in range(len(utterances)):
        lacking = [state for state in states if index not in state.done]
        if lacking:
            todo.append((index, lacking))
    failures: list[str] = []
    # Whole paths: a cluster's workers may run in another folder.
    jobs = [
        (i, replace(utterances[i], wav=utterances[i].wav.resolve()), [state.decoding.raw for state in lacking])
        for i, lacking in todo
    ]
    lacking_of = dict(todo)
    progress = tqdm(total=len(utterances), initial=len(utterances) - len(todo), unit="utt", desc=_describe(states))
    with progress, mapper(cluster if jobs else HERE) as run_all:
        work = functools.partial(_work, task.portable(), cluster.jobs if cluster.is_here else None, share)
        for index, result in run_all(work, jobs):
            if isinstance(result, str):
                failures.append(result)
            else:
                failures += _keep(lacking_of[index], result, utterances[index].name, len(states) > 1)[:1]
            progress.update()
    for state in states:
        _write_log(state)
        _tell_of_silence(state)
    if failures:
        where = states[0].folder if len(states) == 1 else states[0].folder.parent
        raise SimulstError(
            f"{len(failures)} of {len(utterances)} utterances failed, the others are in {where}; "
            f"mend them and run again. First: {failures[0]}"
        )


def _keep(states: Sequence[_Run], results: Sequence[Instance | str], name: str, of_several: bool) -> list[str]:
    """Log an utterance's instances under the configurations that lacked it; returns what was wrong under others.

    name: the utterance's. of_several: whether the run has other configurations, so that these are to be named.
    """
    errors = []
    for state, result in zip(states, results, strict=True):
        if isinstance(result, str):
            where = f" under {state.decoding.label}" if of_several else ""
            errors.append(f"{name}{where}: {result}")
        else:
            state.done[result.index] = result
            _append(state.folder / LOG, result)
    return errors


def score_run(folder: Path, language: str, unit: str | None = None, bootstrap: int = 1000) -> dict[str, Any]:
    """Score a run from its log and write scores.json beside it."""
    from simulst.log import read_log
    from simulst.metrics.score import score_instances

    scores = score_instances(read_log(folder / LOG), language=language, unit=unit, bootstrap=bootstrap)
    write_atomically(folder / SCORES, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")
    return scores


def read_run_config(folder: Path) -> dict[str, Any]:
    """A run's config.yaml. Raises SimulstError if it is missing or not one of ours."""
    path = folder / CONFIG
    config = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    if not isinstance(config, dict) or "decoding" not in config:
        raise SimulstError(f"{path}: not the config.yaml of a simulst run; give a folder that simulst evaluate made.")
    return config


def _append(log: Path, instance: Instance) -> None:
    try:
        with log.open("a", encoding="utf-8") as file:
            file.write(instance.to_json() + "\n")
    except OSError as error:
        raise unwritable(log, error) from error


def _open_run(folder: Path, decoding: Decoding, task: Task, weights: str, utterances: Sequence[Utterance]) -> _Run:
    config = {
        "source_type": "speech",  # SimulEval wants these two to score the folder
        "target_type": "text",
        "decoding": decoding.raw,
        "label": decoding.label,
        "strategy": decoding.strategy,
        "task": {**asdict(task), "options": dict(task.options)},
        "weights": weights,
        "utterances": len(utterances),
        "first": utterances[0].name,
        "last": utterances[-1].name,
    }
    path = folder / CONFIG
    if path.is_file():
        old = read_run_config(folder)
        for key, value in config.items():
            if old.get(key, value) != value:
                raise SimulstError(
                    f"{folder}: holds a run whose '{key}' is {old.get(key)!r}, not {value!r}; "
                    "give another --out, or use --force to decode anew."
                )
    else:
        if (folder / LOG).exists():
            raise SimulstError(f"{folder}: holds an {LOG} without {CONFIG}; give another --out, or move it away.")
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    state = _Run(folder, decoding)
    for instance in read_unfinished(folder / LOG):
        if not (0 <= instance.index < len(utterances)) or instance.name != utterances[instance.index].name:
            raise SimulstError(f"{folder / LOG}: index {instance.index} is not from this data; give another --out.")
        state.done[instance.index] = instance
    if (folder / LOG).is_file():
        _write_log(state)
    return state


def _write_log(state: _Run) -> None:
    rows = [state.done[index].to_json() + "\n" for index in sorted(state.done)]
    write_atomically(state.folder / LOG, "".join(rows))


def _tell_of_silence(state: _Run) -> None:
    """A threshold may be such that nothing is ever written before the end; nobody sees that in BLEU."""
    asked = [instance for instance in state.done.values() if len(instance.reads or ()) > 1 and instance.delays]
    if asked and all(instance.delays[0] >= instance.source_length for instance in asked):
        logger.warning(
            "%s: nothing was written before the end of any of %d utterances; STOP or COMMIT lets nothing through, "
            "see its threshold or n.",
            state.decoding.label,
            len(asked),
        )


def _instance(stream: Stream | Segmented, utterance: Utterance, index: int, duration_ms: float) -> Instance:
    words = [emission.text for emission in stream.emissions]
    return Instance(
        index=index,
        prediction=(" " if stream.unit == "word" else "").join(words),
        delays=[emission.delay_ms for emission in stream.emissions],
        elapsed=[emission.elapsed_ms for emission in stream.emissions],
        prediction_length=len(words),
        reference=utterance.reference,
        source=[str(utterance.wav)],
        source_length=duration_ms,
        name=utterance.name,
        reads=stream.reads,
        compute_ms=stream.compute_seconds * 1000,
    )


def model_of(task: Task, jobs: int | None) -> Model:
    """A process's model, loaded once. jobs: processes that share this machine; None: as the Dask worker says."""
    return _model(task, max(1, (os.cpu_count() or 1) // jobs) if jobs else worker_threads())


@functools.lru_cache(maxsize=1)
def _model(task: Task, threads: int) -> Model:
    options = dict(task.options)
    if "threads" in option_names(task.model):
        options.setdefault("threads", threads)
    return load_model(task.model, task.source_language, task.target_language, **options)


def _work(task: Task, jobs: int | None, share: bool, job: Job) -> Result:
    """One utterance, in whatever process. jobs: see `model_of`."""
    index, utterance, raws = job
    model = model_of(task, jobs)
    decodings = [parse_decoding(raw, "configuration") for raw in raws]
    try:
        found = list(_decode(model, utterance, index, decodings, task.latency_unit, share))
    except SimulstError as error:
        return index, f"{utterance.name}: {error}"
    return index, [str(one) if isinstance(one, SimulstError) else one for one in found]


def _describe(states: Sequence[_Run]) -> str:
    return states[0].decoding.label if len(states) == 1 else f"{len(states)} configurations"
