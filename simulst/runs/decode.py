"""Decode a data directory under one or many configurations.

Each configuration has a folder (folder.py); a sweep is a folder of such folders. Each utterance is read once, decoded
under every configuration that still lacks it, and logged. A killed run resumes with the missing utterances.
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
import resource
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from simulst.audio.name import recording_name
from simulst.audio.read import load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.calls import Steps, run_alone
from simulst.config import Decoding, parse_decoding
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError, sentence_of
from simulst.files.folder import is_read_only, locked
from simulst.log.instance import Instance
from simulst.machine.cluster import HERE, Cluster, Map, mapper
from simulst.machine.threads import waited_seconds, waits
from simulst.meter import Memo, Meter
from simulst.models.registry import digest_of_weights
from simulst.runs.folder import RunFolder, Task, audio_digest, model_of
from simulst.session import Model
from simulst.streams import OpenStream, open_stream
from simulst.streams.driver import Driver
from simulst.words import completed_by

logger = logging.getLogger(__name__)

SHARED_SECONDS = 120  # of a recording that configurations share; a longer one shows how far it is
PIECE = 10 * SAMPLE_RATE  # samples of a long recording that are pushed at once
OTHER_FILES = 200  # that a run may have open, beside the lock of each configuration
GROUP = 4  # times as many utterances as streams are decoded by a process at once; the last ones leave places empty
DISTURBED = 0.2  # share of computation time spent waiting for a processor, from which on we warn

Job = tuple[int, Utterance, list[dict[str, Any]]]
"""An utterance, its index, and the configurations (as they were read) to decode it under."""
Result = tuple[int, list[Instance | str] | str]
"""The index; and for each configuration an instance or an error message, or one error message for all of them."""


def decode_utterance(
    model: Model,
    languages: tuple[str, str],
    utterance: Utterance,
    index: int,
    decodings: Sequence[Decoding],
    unit: str = "",
    share: bool = True,
) -> list[Instance]:
    """Decode one utterance under each configuration, in order.

    languages: source and target.
    index: number of the utterance in the data directory.
    unit: "word" or "char"; empty: by target language.
    share: encode each stretch of audio once for all configurations, and search once if audio, prefix and options are
        equal. Recordings of more than `SHARED_SECONDS` are not shared, as what is kept of them would fill the memory.
        Computation times are still those of a configuration that runs alone (see Memo).

    Raises SimulstError: audio can't be read; the model does not support a configuration.
    """
    found = run_alone(Spoken(utterance, index, languages, share).steps(model, decodings, unit, alone=True))
    for one in found:
        if isinstance(one, SimulstError):
            raise one
    return [one for one in found if isinstance(one, Instance)]


class Spoken:
    """An utterance that is decoded under one configuration after the other. The arguments: see `decode_utterance`.

    meter: the clock of the stream that was opened last.
    """

    def __init__(self, utterance: Utterance, index: int, languages: tuple[str, str], share: bool) -> None:
        self._utterance = replace(utterance, background=utterance.background.between(*languages))
        self._index, self._languages, self._share = index, languages, share
        self.meter = Meter()

    @functools.cached_property
    def audio(self) -> np.ndarray:
        """(n,) float32. Raises SimulstError: it can't be read."""
        return load_audio(self._utterance.wav, self._utterance.start, self._utterance.end)

    @functools.cached_property
    def _memo(self) -> Memo | None:
        return Memo() if self._share and self.audio.size <= SHARED_SECONDS * SAMPLE_RATE else None

    def open(self, model: Model, decoding: Decoding, unit: str) -> OpenStream:
        """A stream for it. Raises SimulstError: the model does not support the configuration."""
        self.meter, background, names = Meter(self._memo), self._utterance.background, names_of(self._utterance)
        return open_stream(model, decoding, *self._languages, unit, self.meter, background, names=names)

    def steps(
        self, model: Model, decodings: Sequence[Decoding], unit: str, alone: bool
    ) -> Steps[list[Instance | SimulstError]]:
        """Decode it under each configuration: the log entries, or errors. Raises SimulstError: audio can't be read.

        alone: no other stream is decoded meanwhile, so that no call is yielded, and computation times are logged.
        """
        found: list[Instance | SimulstError] = []
        _ = self.audio  # its error is none of a configuration
        for decoding in decodings:
            try:
                stream, before = self.open(model, decoding, unit), waits()
                for samples, finished in self._pieces():
                    if alone:
                        stream.push(samples, finished)
                    else:
                        yield from stream.push_steps(samples, finished)
                source_ms = self.audio.size * 1000 / SAMPLE_RATE
                instance = instance_of(stream, self._utterance, self._index, source_ms)
                instance = replace(instance, audio=audio_digest(self._utterance))
                if alone:
                    found.append(replace(instance, waited_ms=1000 * waited_seconds(before)))
                else:
                    found.append(replace(instance, elapsed=[], compute_ms=None))
            except SimulstError as error:
                found.append(error)
        return found

    def _pieces(self) -> Iterator[tuple[np.ndarray, bool]]:
        """The audio, and whether it ends. A long recording comes piece by piece: a terminal shows how far it is."""
        if self.audio.size <= SHARED_SECONDS * SAMPLE_RATE:
            yield self.audio, True
            return
        seconds, name = self.audio.size / SAMPLE_RATE, self._utterance.name
        form = "{desc}: {n:.0f} of {total:.0f} s of audio [{elapsed}<{remaining}]"
        with tqdm(total=seconds, desc=name, bar_format=form, leave=False, position=1, disable=None) as bar:
            for begin in range(0, self.audio.size, PIECE):
                piece = self.audio[begin : begin + PIECE]
                yield piece, begin + PIECE >= self.audio.size
                bar.update(piece.size / SAMPLE_RATE)


def names_of(utterance: Utterance) -> tuple[str, ...]:
    """By which an utterance is known: its own name and, if it is a whole recording, that of the file."""
    whole = not utterance.start and utterance.end is None
    return (utterance.name, *([recording_name(utterance.wav)] if whole else []))


def instance_of(stream: OpenStream, utterance: Utterance, index: int, source_ms: float) -> Instance:
    """The log entry of an utterance whose stream has ended.

    A word that was written in several pieces has one delay, that of its last piece.

    index: number of the utterance in its data.
    source_ms: duration of the audio, in ms.
    """
    pieces = [emission.text for emission in stream.emissions]
    last = [stream.emissions[number] for number in completed_by(pieces, stream.unit)]
    return Instance(
        index=index,
        prediction="".join(pieces),
        delays=[emission.delay_ms for emission in last],
        elapsed=[emission.elapsed_ms for emission in last],
        prediction_length=len(last),
        reference=utterance.reference,
        source=[str(utterance.wav)],
        source_length=source_ms,
        name=utterance.name,
        span=[] if not utterance.start and utterance.end is None else [utterance.start, *filter(None, [utterance.end])],
        reads=stream.reads,
        writes=stream.writes,
        reference_tokens=stream.count(utterance.reference) if utterance.reference else 0,
        compute_ms=stream.meter.seconds * 1000,
        terms=list(utterance.background.target_terms),
        segments=[list(segment) for segment in stream.segments],
        skipped=stream.skipped,
        languages=[language for _, language in stream.languages],
    )


def run(
    task: Task,
    utterances: Sequence[Utterance],
    runs: Sequence[tuple[Path, Decoding]],
    cluster: Cluster = HERE,
    share: bool = True,
    force: bool = False,
    streams: int = 1,
) -> None:
    """Decode the utterances that are missing in each folder, until every folder's log is complete.

    task: model, languages and unit.
    runs: folders and their configurations.
    cluster: where to run.
    share: see `decode_utterance`.
    force: decode everything again.
    streams: how many utterances each process decodes together, in batches. With several, computation times are not
        logged: those of a batch are not what an utterance costs alone.

    Raises SimulstError: several streams and a LATE that looks at the time; a folder holds another run; another run uses
        a folder; the disk is full; an utterance failed, or killed each process that decoded it (the other utterances
        are decoded and kept).
    """
    if not utterances:
        raise SimulstError("there is no utterance to decode; check the data directory.")
    task.check()
    if streams > 1 and any(decoding.late.skips for _, decoding in runs):
        raise SimulstError(
            "late: skip leaves out steps by the time that they take, and streams that are decoded together take each "
            "other's; write 'late: {type: wait}', or leave out --streams."
        )
    _allow_open_files(len(runs) + OTHER_FILES)  # each lock is one
    with ExitStack() as locks:
        for folder, _ in runs:
            if not is_read_only(folder):  # there a finished run can still be shown
                locks.enter_context(locked(folder))
        _run(task, utterances, runs, cluster, share, force, streams)


def _allow_open_files(count: int) -> None:
    """Let this process open so many files, or as many as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != soft < count:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard)
        )


def _run(
    task: Task,
    utterances: Sequence[Utterance],
    runs: Sequence[tuple[Path, Decoding]],
    cluster: Cluster,
    share: bool,
    force: bool,
    streams: int,
) -> None:
    weights = digest_of_weights(task.model, dict(task.options))
    states = [RunFolder.read(folder, decoding, task, weights, utterances, force) for folder, decoding in runs]
    lacking_of = {index: [state for state in states if index not in state.done] for index in range(len(utterances))}
    lacking_of = {index: lacking for index, lacking in lacking_of.items() if lacking}
    failures: list[str] = []
    # Absolute paths: a cluster's workers may run in another folder.
    jobs = [
        (i, replace(utterances[i], wav=utterances[i].wav.resolve()), [_sent(s, cluster) for s in lacking])
        for i, lacking in lacking_of.items()
    ]
    _warn_of_missing([utterance.wav for _, utterance, _ in jobs])
    done = len(utterances) - len(jobs)
    for state in states:
        if len(state.done) < len(utterances) and is_read_only(state.path):
            raise SimulstError(
                f"{state.path}: nothing can be written there, and {len(utterances) - len(state.done)} utterances are "
                "missing; copy it, and give --out the copy."
            )
    with mapper(cluster if jobs else HERE) as run_all:
        place = (task.portable(), cluster.jobs if cluster.is_here else None)
        if jobs:
            _check(run_all, place, states, cluster)
        for state in states:
            state.begin()
        what = states[0].decoding.label if len(states) == 1 else f"{len(states)} configurations"
        with tqdm(total=len(utterances), initial=done, unit="utt", desc=what) as progress:
            for index, result in _results(run_all, place, share, jobs, streams, cluster.is_here and cluster.jobs == 1):
                if isinstance(result, str):
                    failures.append(f"{utterances[index].name}: {result}")
                else:
                    failures += _keep(lacking_of[index], result, utterances[index].name, len(states) > 1)[:1]
                progress.update()
    for state in states:
        state.write_log()
        _warn_of_silence(state)
        _warn_of_disturbance(state)
    if failures:
        where = states[0].path if len(states) == 1 else states[0].path.parent
        raise SimulstError(
            f"{len(failures)} of {len(utterances)} utterances failed, the others are in {where}; "
            f"fix them and run again. First: {failures[0]}"
        )


def _sent(state: RunFolder, cluster: Cluster) -> dict[str, Any]:
    """A configuration as a worker gets it: plain values, with absolute paths for other machines."""
    return state.decoding.raw if cluster.is_here else state.decoding.portable()


def _check(run_all: Map, place: tuple[Task, int | None], states: Sequence[RunFolder], cluster: Cluster) -> None:
    """Open a stream for each configuration in a worker, before audio is decoded. Raises SimulstError: one can't be."""
    [(_, wrong)] = run_all(functools.partial(_open_all, *place), [(0, [_sent(state, cluster) for state in states])])
    if isinstance(wrong, str):
        raise SimulstError(wrong)
    for state, error in zip(states, wrong, strict=True):
        if error:
            raise SimulstError(f"{state.decoding.label}: {error}" if len(states) > 1 else error)


def _open_all(task: Task, jobs: int | None, job: tuple[int, list[dict[str, Any]]]) -> tuple[int, list[str] | str]:
    """The error message of each configuration, in any process; empty if it is fine. jobs: see `model_of`."""
    number, raws = job
    wrong = []
    try:
        model = model_of(task, jobs)
    except Exception as error:
        return number, sentence_of(error)
    for raw in raws:
        try:
            open_stream(model, parse_decoding(raw, "configuration"), task.source_language, task.target_language)
            wrong.append("")
        except SimulstError as error:
            wrong.append(str(error))
    return number, wrong


def _keep(states: Sequence[RunFolder], results: Sequence[Instance | str], name: str, of_several: bool) -> list[str]:
    """Log an utterance's instances in the folders that lacked it. Returns the error messages of the others."""
    errors = []
    for state, result in zip(states, results, strict=True):
        if isinstance(result, str):
            where = f" under {state.decoding.label}" if of_several else ""
            errors.append(f"{name}{where}: {result}")
        else:
            state.append(result)
    return errors


def _warn_of_missing(files: Sequence[Path]) -> None:
    """Warn before the model is loaded of audio that is not there; its utterances will fail, the others will not."""
    if missing := [str(file) for file in dict.fromkeys(files) if not file.is_file()]:
        logger.warning("%s: no such audio file (%d in all); their utterances will fail.", missing[0], len(missing))


def _warn_of_silence(state: RunFolder) -> None:
    """Warn if nothing was written before the end of any utterance. A bad threshold causes that, and BLEU hides it."""
    asked = [instance for instance in state.done.values() if len(instance.reads or ()) > 1 and instance.delays]
    if asked and all(instance.delays[0] >= instance.source_length for instance in asked):
        logger.warning(
            "%s: nothing was written before the end of any of %d utterances; STOP or COMMIT lets nothing through, "
            "see its threshold or n.",
            state.decoding.label,
            len(asked),
        )


def _spoken(task: Task, share: bool, job: Job) -> Spoken:
    return Spoken(job[1], job[0], (task.source_language, task.target_language), share)


def _steps(model: Model, task: Task, spoken: Spoken, job: Job, alone: bool = False) -> Steps[Result]:
    """Decode one utterance, in steps. alone: see `Spoken.steps`."""
    index, _, raws = job
    try:
        decodings = [parse_decoding(raw, "configuration") for raw in raws]
        found = yield from spoken.steps(model, decodings, task.unit, alone)
    except Exception as error:  # of any kind, as it may come from code or audio that a user brought
        return index, sentence_of(error)
    return index, [str(one) if isinstance(one, SimulstError) else one for one in found]


def _work(task: Task, jobs: int | None, share: bool, job: Job) -> Result:
    """Decode one utterance, in any process. jobs: see `model_of`."""
    return run_alone(_steps(model_of(task, jobs), task, _spoken(task, share, job), job, alone=True))


def _results(
    run_all: Map, place: tuple[Task, int | None], share: bool, jobs: list[Job], streams: int, one_process: bool
) -> Iterator[Result]:
    """The result of each job, once it is there. one_process: whether this process does all of them."""
    if streams == 1:
        yield from run_all(functools.partial(_work, *place, share), jobs)
    elif one_process:
        yield from _work_together(*place, share, streams, jobs)
    else:
        size = GROUP * streams
        groups = [jobs[i : i + size] for i in range(0, len(jobs), size)]
        work = functools.partial(_work_group, *place, share, streams)
        while groups:
            lost: list[list[Job]] = []
            for number, results in run_all(work, list(enumerate(groups))):
                if not isinstance(results, str):
                    yield from results
                elif len(groups[number]) > 1:  # its process died: one by one, to find the utterance that kills it
                    lost += [[job] for job in groups[number]]
                else:
                    yield groups[number][0][0], results
            groups = lost


def _work_group(
    task: Task, jobs: int | None, share: bool, streams: int, group: tuple[int, list[Job]]
) -> tuple[int, list[Result]]:
    number, work = group
    return number, list(_work_together(task, jobs, share, streams, work))


def _work_together(task: Task, jobs: int | None, share: bool, streams: int, work: Sequence[Job]) -> Iterator[Result]:
    """Decode utterances, so many of them together. Each one's configurations come one after the other."""
    model = model_of(task, jobs)
    driver = Driver(longest_wait=math.inf, most_calls=streams)
    waiting, found = iter(work), list[Future[Result]]()
    while True:
        for job in itertools.islice(waiting, streams - len(found)):
            spoken = _spoken(task, share, job)
            found.append(driver.run(_steps(model, task, spoken, job), lambda spoken=spoken: spoken.meter))  # type: ignore[misc]
        if not found:
            return
        driver.step()
        ready = [one for one in found if one.done()]
        found = [one for one in found if not one.done()]
        yield from (one.result() for one in ready)


def _warn_of_disturbance(state: RunFolder) -> None:
    """Warn if other work slowed down the computation, as computation-aware figures do not show that."""
    waited = sum(instance.waited_ms or 0.0 for instance in state.done.values())
    computed = sum(instance.compute_ms or 0.0 for instance in state.done.values())
    if computed and waited > DISTURBED * computed:
        logger.warning(
            "%s: other work was in the way (threads waited for a processor for %.0f %% of the computation time); "
            "computation-aware latency and RTF are too high. Use a quiet machine, or fewer --jobs.",
            state.decoding.label,
            100 * waited / computed,
        )
