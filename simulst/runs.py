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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from simulst.config import Decoding, parse_decoding
from simulst.data.audio import SAMPLE_RATE, load_audio
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.log import Instance, read_unfinished, unit_of
from simulst.models import load_model, option_names
from simulst.models.base import Memo, Model
from simulst.stream import Stream

logger = logging.getLogger(__name__)

LOG, CONFIG, SCORES = "instances.log", "config.yaml", "scores.json"
CONNECT_SECONDS = 20

Job = tuple[int, Utterance, list[dict[str, Any]]]
"""An utterance, its index, and the configurations (as they were read) to decode it under."""
Result = tuple[int, list[Instance] | str]
"""The index, and an instance for each configuration, or what is wrong with the utterance in a sentence."""


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
        """ "word" or "char"."""
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

    Raises SimulstError: a folder that holds another run; utterances that failed, or killed the process that
        decoded them time and again (the others are decoded and kept).
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
    # Whole paths: a cluster's workers may run in another folder.
    jobs = [
        (i, replace(utterances[i], wav=utterances[i].wav.resolve()), [state.decoding.raw for state in lacking])
        for i, lacking in todo
    ]
    lacking_of = dict(todo)
    progress = tqdm(total=len(utterances), initial=len(utterances) - len(todo), unit="utt", desc=_describe(states))
    with progress, _mapper(cluster if jobs else Cluster()) as run_all:
        model = Path(task.model)
        portable = replace(task, model=str(model.resolve())) if model.exists() else task
        work = functools.partial(_work, portable, None if cluster.scheduler else cluster.jobs, share)
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
        where = states[0].folder if len(states) == 1 else states[0].folder.parent
        raise SimulstError(
            f"{len(failures)} of {len(utterances)} utterances failed, the others are in {where}; "
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
        "decoding": decoding.raw,
        "label": decoding.label,
        "strategy": decoding.strategy,
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
    if "threads" in option_names(task.model):
        options.setdefault("threads", threads)
    return load_model(task.model, task.source_language, task.target_language, **options)


def _work(task: Task, jobs: int | None, share: bool, job: Job) -> Result:
    """One utterance, in whatever process. jobs: processes that share this machine; None: as the Dask worker says."""
    index, utterance, raws = job
    model = _model(task, max(1, (os.cpu_count() or 1) // jobs) if jobs else _worker_threads())
    decodings = [parse_decoding(raw, "configuration") for raw in raws]
    try:
        return index, decode_utterance(model, utterance, index, decodings, task.latency_unit, share)
    except SimulstError as error:
        return index, f"{utterance.name}: {error}"


def _worker_threads() -> int:
    from dask.distributed import get_worker

    return int(get_worker().state.nthreads)


@contextmanager
def _mapper(cluster: Cluster) -> Iterator[Callable[[Callable[[Job], Result], list[Job]], Iterable[Result]]]:
    """A function like `map` whose results come as they are ready: in this process, or through Dask."""
    if cluster.jobs <= 1 and cluster.scheduler is None:
        yield map
        return
    try:
        import dask
        from dask.distributed import Client, LocalCluster
    except ImportError as error:
        raise SimulstError(f"--jobs and --scheduler need Dask ({error}); install dask and distributed.") from error

    # Importing it has set its log to chatter about every connection.
    logging.getLogger("distributed").setLevel(logging.getLogger().level)
    local = None
    if cluster.scheduler is None:
        settings = {
            "distributed.scheduler.allowed-failures": 1,
            # Dask has its workers give every freed 64 KiB back to the system: encoders then spend half their time on
            # page faults. Whoever sets one threshold must set both, or large blocks still go back at once.
            "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 30,
            "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 30,
        }
        with dask.config.set(settings):
            local = LocalCluster(n_workers=cluster.jobs, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    try:
        client = Client(local or cluster.scheduler, timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise SimulstError(
            f"no Dask scheduler answers at {cluster.scheduler} ({error}); start one or drop --scheduler."
        ) from error
    if not client.nthreads():
        logger.warning("the scheduler at %s has no workers; waiting for some.", cluster.scheduler)
    try:
        yield functools.partial(_run_all, client)
    finally:
        client.close()
        if local is not None:
            local.close()


def _run_all(client: Any, work: Callable[[Job], Result], jobs: list[Job]) -> Iterator[Result]:
    """`map` over Dask's workers, in the order in which jobs end.

    Dask tries again what a dying worker held, and in the end gives up all of it (KilledWorker). Therefore workers hold
    one job per thread, and what was given up is tried once more with nothing beside it, to find the one that kills.
    """
    from dask.distributed import CancelledError, KilledWorker, as_completed

    waiting, held, suspects = deque(jobs), {}, []
    ready = as_completed()

    def submit() -> None:
        # pure=False: Dask must not take two tasks with equal arguments for one.
        future = client.submit(work, job := waiting.popleft(), pure=False)
        held[future.key] = job
        ready.add(future)

    def fill() -> None:
        while waiting and len(held) < max(1, sum(client.nthreads().values())):
            submit()

    try:
        fill()
        for future in ready:
            job = held.pop(future.key)
            try:
                yield future.result()
            except KilledWorker:
                suspects.append(job)
            future.release()
            fill()
        for job in suspects:
            try:
                yield client.submit(work, job, pure=False).result()
            except KilledWorker:
                yield job[0], f"{job[1].name}: the process that decoded it died each time (out of memory?)"
    except CancelledError as error:
        raise SimulstError(f"the Dask scheduler went away ({error}); run the same command again to go on.") from error


def _describe(states: Sequence[_Run]) -> str:
    return states[0].decoding.label if len(states) == 1 else f"{len(states)} configurations"
