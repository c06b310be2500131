"""The folder of a run: the utterances that have been decoded under one configuration.

It holds `instances.log` (SimulEval's format), `config.yaml` (configuration, model and data of the run) and, when the
run is complete, `scores.json`. A run is resumed only if `config.yaml` agrees.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import yaml

from simulst.background import NOTHING, known_of, read_backgrounds
from simulst.config import Decoding
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.files.folder import unwritable, write_atomically
from simulst.files.lock import digest
from simulst.files.yaml import load_yaml
from simulst.log.instances import Instance, read_unfinished
from simulst.models import digest_of_weights
from simulst.options import read_fields
from simulst.runs.task import Task

LOG, CONFIG, SCORES = "instances.log", "config.yaml", "scores.json"
AGAIN = "give another --out, or use --force to decode again."


@dataclass
class RunFolder:
    """One configuration's folder.

    record: content of config.yaml.
    done: number of the utterance → its instance.
    force: whether `begin` deletes what is there.
    """

    path: Path
    decoding: Decoding
    record: dict[str, Any]
    done: dict[int, Instance] = field(default_factory=dict)
    force: bool = False

    @staticmethod
    def read(
        path: Path,
        decoding: Decoding,
        task: Task,
        weights: str,
        utterances: Sequence[Utterance],
        force: bool = False,
    ) -> RunFolder:
        """Read the state of a run from its folder; writes nothing.

        weights: digest of the model's weights.
        force: leave out what is there. `begin` deletes it.

        Raises SimulstError: the folder holds another run, or a run of other data.
        """
        run = RunFolder(path, decoding, _record(decoding, task, weights, utterances), force=force)
        if force:
            return run
        if (path / CONFIG).is_file():
            _compare(path, read_run_config(path), run.record)
        elif (path / LOG).exists():
            raise SimulstError(f"{path}: holds an {LOG} without {CONFIG}; give another --out, or move it away.")
        for instance in read_unfinished(path / LOG):
            run.done[instance.index] = _checked(instance, path, utterances)
        return run

    def begin(self) -> None:
        """Write config.yaml, and remove a half-written line that a kill may have left in the log."""
        for name in (SCORES, LOG, CONFIG) if self.force else ():
            (self.path / name).unlink(missing_ok=True)
        if not (self.path / CONFIG).is_file():
            write_atomically(self.path / CONFIG, yaml.safe_dump(self.record, sort_keys=False, allow_unicode=True))
        if (self.path / LOG).is_file():
            self.write_log()

    def append(self, instance: Instance) -> None:
        """Log one utterance. Raises SimulstError: the disk is full."""
        self.done[instance.index] = instance
        log = self.path / LOG
        try:
            with log.open("a", encoding="utf-8") as file:
                file.write(instance.to_json() + "\n")
        except OSError as error:
            raise unwritable(log, error) from error

    def write_log(self) -> None:
        """Write the log in the order of utterances. One that is so already stays older than its scores."""
        text, log = "".join(self.done[index].to_json() + "\n" for index in sorted(self.done)), self.path / LOG
        if not log.is_file() or log.read_bytes() != text.encode():
            write_atomically(log, text)


@dataclass
class _Read:
    """READ in a run's config.yaml, as far as tables look at it."""

    type: str
    initial_wait_ms: float = 0.0


@dataclass
class _Decoding:
    read: _Read


@dataclass
class _Task:
    unit: Literal["", "word", "char"] = ""


@dataclass
class _Config:
    """What is looked at in a run's config.yaml. Runs of older versions lack the last two."""

    label: str
    strategy: str
    decoding: _Decoding
    task: _Task = field(default_factory=_Task)
    curve: tuple[str, float | None] = ("", None)


def read_run_config(folder: Path) -> dict[str, Any]:
    """A run's config.yaml. Raises SimulstError: it is missing, or simulst did not write it."""
    path, remedy = folder / CONFIG, "give a folder that simulst evaluate made"
    if not path.is_file():
        raise SimulstError(f"{path}: no such file; {remedy}.")
    try:
        config = load_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        config = None
    where = f"{path}: not the config.yaml of a simulst run"
    read_fields(_Config, config, where, remedy)
    assert isinstance(config, dict)
    return config


def audio_digest(utterance: Utterance) -> str:
    """A digest of an utterance's audio: of the bytes of its file, and of its start and end.

    Raises SimulstError: the file can't be read.
    """
    return digest([_file_digest(utterance.wav), f"{utterance.start} {utterance.end}"])


def _digest_of(path: Path) -> str:
    """Of what a policy reads: a file, or a model's folder."""
    return digest_of_weights(path, {}) if path.is_dir() else _file_digest(path)


def _file_digest(path: Path) -> str:
    try:
        status = path.stat()
        return _digest_of_bytes(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); check wav.scp.") from error


@lru_cache(maxsize=64)  # consecutive utterances often share a file
def _digest_of_bytes(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _record(decoding: Decoding, task: Task, weights: str, utterances: Sequence[Utterance]) -> dict[str, Any]:
    """All that a run depends on, except the audio: the log has a digest of each utterance's audio."""
    return {
        "source_type": "speech",  # SimulEval wants these two to score the folder
        "target_type": "text",
        "decoding": decoding.raw,
        "label": decoding.label,
        "strategy": decoding.strategy,
        "curve": list(decoding.curve),
        "task": {**asdict(task), "options": dict(task.options)},
        "weights": weights,
        "files": {path: _digest_of(Path(path)) for path in decoding.files if Path(path).exists()},
        "code": {name: _file_digest(Path(str(sys.modules[name].__file__))) for name in decoding.modules},
        "utterances": len(utterances),
        "names": digest(utterance.name for utterance in utterances),
        "context": digest(str(utterance.background) for utterance in utterances) if _any_background(utterances) else "",
    }


def _any_background(utterances: Sequence[Utterance]) -> bool:
    return any(utterance.background != NOTHING for utterance in utterances)


def _compare(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    old, new = dict(old), dict(new)
    if new["weights"] and old.get("weights") == new["weights"] and isinstance(old.get("task"), dict):
        old["task"] = {**old["task"], "model": new["task"]["model"]}  # one model's path can be written in several ways
    for key, value in new.items():
        # The config.yaml of an older version may lack some keys; it knew no context.
        if old.get(key, "" if key == "context" else value) != value:
            what = {
                "weights": "another model",
                "files": "another predictor or guide",
                "code": "another version of your policy",
                "names": "other utterances",
                "context": "another context",
            }.get(key)
            if what:
                raise SimulstError(f"{folder}: holds a run of {what} under the same name; {AGAIN}")
            raise SimulstError(f"{folder}: holds a run whose '{key}' is {old.get(key)!r}, not {value!r}; {AGAIN}")


def _checked(instance: Instance, folder: Path, utterances: Sequence[Utterance]) -> Instance:
    """A logged utterance. Raises SimulstError: it is not in `utterances`, or its text or audio has changed."""
    if instance.index >= len(utterances) or instance.name != utterances[instance.index].name:
        raise SimulstError(f"{folder / LOG}: index {instance.index} is not from this data; give another --out.")
    utterance = utterances[instance.index]
    if instance.reference != utterance.reference:
        raise SimulstError(
            f"{folder}: holds a run with another reference for '{utterance.name}' (was the text edited, or --text "
            f"changed?); {AGAIN}"
        )
    if instance.audio and instance.audio != audio_digest(utterance):
        raise SimulstError(
            f"{folder}: holds a run of other audio for '{utterance.name}' ({utterance.wav} has changed, or wav.scp or "
            f"segments name another part); {AGAIN}"
        )
    return instance


def score_run(
    folder: Path,
    language: str,
    unit: str | None = None,
    bootstrap: int = 1000,
    segmentation: Path | None = None,
    references: Path | None = None,
    context: Path | None = None,
) -> dict[str, Any]:
    """Score a run from its log, and write scores.json next to the log. A run of recognition also has error rates.

    language: target language.
    unit: of latency, "word" or "char"; None: by target language.
    bootstrap: number of resamples for confidence intervals.
    segmentation, references: the sentences of a run over whole recordings, as `score_recordings` takes them.
    context: a table whose terms' recall is scored; None: of those that the run was told.

    Returns: content of scores.json.
    """
    from simulst.log.instances import read_log
    from simulst.metrics.score import score_instances

    log = folder / LOG
    instances = read_log(log)
    source = str(read_run_config(folder).get("task", {}).get("source_language", ""))
    if context is not None:
        instances = with_terms(instances, context, source, language)
    if segmentation is not None and references is not None:
        from simulst.metrics.longform import score_recordings

        scores = score_recordings(
            instances, segmentation, references, language, unit, bootstrap, log, source_language=source
        )
    else:
        scores = score_instances(
            instances, language=language, unit=unit, bootstrap=bootstrap, path=log, source_language=source
        )
    return write_scores(folder, scores)


def recordings_scores(folder: Path) -> dict[str, Any] | None:
    """The scores of whole recordings, unless the log is newer. `score_run` can't make them without a segmentation."""
    scores, log = folder / SCORES, folder / LOG
    try:
        found: dict[str, Any] = json.loads(scores.read_text(encoding="utf-8"))
        newer = scores.stat().st_mtime_ns > log.stat().st_mtime_ns
    except (OSError, ValueError):
        return None
    return found if newer and isinstance(found, dict) and "recordings" in found else None


def with_terms(instances: Sequence[Instance], context: Path, source: str, target: str) -> list[Instance]:
    """The instances with the terms that a table has for them. Raises SimulstError: a broken table."""
    known = read_backgrounds(context)
    found = []
    for instance in instances:
        own = known_of(known, (instance.name, instance.recording)) or NOTHING
        found.append(replace(instance, terms=list(own.between(source, target).target_terms)))
    return found


def write_scores(folder: Path, scores: dict[str, Any]) -> dict[str, Any]:
    """Write a run's scores.json, and return what it holds.

    COMET takes long, and not every command computes it. An earlier one stays if the texts scored have not changed.
    """
    path = folder / SCORES
    try:
        earlier = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError):
        earlier = {}
    if isinstance(earlier, dict) and all(
        earlier.get(name) == scores.get(name) for name in ("sentences", "BLEU", "chrF")
    ):
        scores = {**{name: earlier[name] for name in ("COMET", "COMET_model") if name in earlier}, **scores}
    write_atomically(path, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")
    return scores
