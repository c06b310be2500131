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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from simulst.config import Decoding, parse_decoding
from simulst.data.audio import SAMPLE_RATE, load_audio
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.log import Instance, read_unfinished, unit_of
from simulst.models import load_model
from simulst.models.base import Memo, Model
from simulst.stream import Stream

logger = logging.getLogger(__name__)

LOG, CONFIG, SCORES = "instances.log", "config.yaml", "scores.json"


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

    @property
    def latency_unit(self) -> str:
        """"word" or "char"."""
        return self.unit or unit_of(self.target_language)


@dataclass(frozen=True)
class Cluster:
    """Where the work runs: `jobs` processes here, or a running Dask scheduler at `scheduler`."""

    jobs: int = 1
    scheduler: str | None = None


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
    """
    audio = load_audio(utterance.wav, utterance.start, utterance.end)
    memo = Memo()
    instances = []
    for decoding in decodings:
        stream = Stream(model.session(memo if share else None), decoding, unit)
        stream.push(audio, finished=True)
        instances.append(_instance(stream, utterance, index, audio.size * 1000 / SAMPLE_RATE))
    return instances


def run(
    task: Task,
    utterances: Sequence[Utterance],
    runs: Sequence[tuple[Path, Decoding]],
    cluster: Cluster = Cluster(),
    share: bool = True,
) -> None:
    """Decode what is missing in each (folder, configuration), until every folder's log is whole.

    Raises SimulstError: a folder that holds another run; utterances that failed (the others are decoded and kept).
    """
    if not utterances:
        raise SimulstError("there is no utterance to decode; check the data directory.")
    states = [_open_run(folder, decoding, task, utterances) for folder, decoding in runs]
    todo: list[tuple[int, list[_Run]]] = []
    for index in range(len(utterances)):
        lacking = [state for state in states if index not in state.done]
        if lacking:
            todo.append((index, lacking))
    failures: list[str] = []
    jobs = [(i, utterances[i], [state.decoding.raw for state in lacking]) for i, lacking in todo]
    lacking_of = dict(todo)
    progress = tqdm(total=len(utterances), initial=len(utterances) - len(todo), unit="utt", desc=_describe(states))
    with progress, _mapper(cluster) as run_all:
        work = functools.partial(_work, task, cluster.jobs, share)
        for index, result in run_all(work, jobs):
            if isinstance(result, str):
                failures.append(result)
            else:
                for state, instance in zip(lacking_of[index], result, strict=True):
                    state.done[index] = instance
                    with (state.folder / LOG).open("a", encoding="utf-8") as file:
                        file.write(instance.to_json() + "\n")
            progress.update()
    for state in states:
        _write_log(state)
    if failures:
        raise SimulstError(
            f"{len(failures)} of {len(utterances)} utterances failed, the others are in {states[0].folder.parent}; "
            f"mend them and run again. First: {failures[0]}"
        )


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


def write_atomically(path: Path, text: str) -> None:
    """Replace a file whole, so that no reader and no kill ever sees half of it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _open_run(folder: Path, decoding: Decoding, task: Task, utterances: Sequence[Utterance]) -> _Run:
    config = {
        "source_type": "speech",  # SimulEval wants these two to score the folder
        "target_type": "text",
        "label": decoding.label,
        "strategy": decoding.strategy,
        "decoding": decoding.raw,
        "task": {**asdict(task), "options": dict(task.options)},
        "utterances": len(utterances),
        "first": utterances[0].name,
        "last": utterances[-1].name,
    }
    path = folder / CONFIG
    if path.is_file():
        old = read_run_config(folder)
        for key, value in config.items():
            if old.get(key) != value:
                raise SimulstError(
                    f"{folder}: holds a run whose '{key}' is {old.get(key)!r}, not {value!r}; "
                    "give another --out, or move the old run away."
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


def _instance(stream: Stream, utterance: Utterance, index: int, duration_ms: float) -> Instance:
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


@functools.lru_cache(maxsize=1)
def _model(task: Task, threads: int) -> Model:
    options = dict(task.options)
    options.setdefault("threads", threads)
    return load_model(task.model, task.source_language, task.target_language, **options)


def _work(
    task: Task, jobs: int, share: bool, job: tuple[int, Utterance, list[dict[str, Any]]]
) -> tuple[int, list[Instance] | str]:
    """One utterance, in whatever process: the instances, or what is wrong with it in a sentence."""
    index, utterance, raws = job
    model = _model(task, max(1, (os.cpu_count() or 1) // jobs))
    decodings = [parse_decoding(raw, "configuration") for raw in raws]
    try:
        return index, decode_utterance(model, utterance, index, decodings, task.latency_unit, share)
    except SimulstError as error:
        return index, f"{utterance.name}: {error}"


@contextmanager
def _mapper(cluster: Cluster) -> Iterator[Callable[..., Iterator[Any]]]:
    """A function like `map` whose results come as they are ready: in this process, or through Dask."""
    if cluster.jobs <= 1 and cluster.scheduler is None:
        yield map
        return
    from dask.distributed import Client, LocalCluster, as_completed

    if cluster.scheduler is None:
        local = LocalCluster(n_workers=cluster.jobs, threads_per_worker=1, dashboard_address=None)
        client = Client(local)
    else:
        local = None
        try:
            client = Client(cluster.scheduler, timeout="20s")
        except (OSError, TimeoutError, ValueError) as error:
            raise SimulstError(f"no Dask scheduler answers at {cluster.scheduler} ({error}); start one or drop --scheduler.") from error

    def run_all(work: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
        # pure=False: Dask must not take two tasks with equal arguments for one.
        futures = [client.submit(work, job, pure=False) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
            future.release()

    try:
        yield run_all
    finally:
        client.close()
        if local is not None:
            local.close()


def _describe(states: Sequence[_Run]) -> str:
    return states[0].decoding.label if len(states) == 1 else f"{len(states)} configurations"
