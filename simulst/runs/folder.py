"""The folder of a run: what has been decoded under one configuration, and of what.

It holds `instances.log` (SimulEval's format), `config.yaml` (all that made it) and, once it is whole, `scores.json`.
Only a run of the same things is resumed there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from simulst.config import Decoding
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.folder import unwritable, write_atomically
from simulst.lock import digest
from simulst.log import Instance, read_unfinished
from simulst.runs.task import Task
from simulst.yaml_files import load_yaml

LOG, CONFIG, SCORES = "instances.log", "config.yaml", "scores.json"
AGAIN = "give another --out, or use --force to decode again."


@dataclass
class RunFolder:
    """One configuration's folder. done: what has been decoded, by the number of the utterance."""

    path: Path
    decoding: Decoding
    record: dict[str, Any]
    done: dict[int, Instance] = field(default_factory=dict)

    @staticmethod
    def read(path: Path, decoding: Decoding, task: Task, weights: str, utterances: Sequence[Utterance]) -> RunFolder:
        """What a folder has of a run; nothing is written.

        Raises SimulstError: it has another run, or one of other data.
        """
        run = RunFolder(path, decoding, _record(decoding, task, weights, utterances))
        if (path / CONFIG).is_file():
            _compare(path, read_run_config(path), run.record)
        elif (path / LOG).exists():
            raise SimulstError(f"{path}: holds an {LOG} without {CONFIG}; give another --out, or move it away.")
        for instance in read_unfinished(path / LOG):
            run.done[instance.index] = _checked(instance, path, utterances)
        return run

    def begin(self) -> None:
        """Write what says which run the folder holds, and drop half a line that a kill may have left in the log."""
        if not (self.path / CONFIG).is_file():
            write_atomically(self.path / CONFIG, yaml.safe_dump(self.record, sort_keys=False, allow_unicode=True))
        if (self.path / LOG).is_file():
            self.write_log()

    def append(self, instance: Instance) -> None:
        """Log one utterance. Raises SimulstError: a full disk."""
        self.done[instance.index] = instance
        log = self.path / LOG
        try:
            with log.open("a", encoding="utf-8") as file:
                file.write(instance.to_json() + "\n")
        except OSError as error:
            raise unwritable(log, error) from error

    def write_log(self) -> None:
        """The whole log, in the order of utterances."""
        rows = [self.done[index].to_json() + "\n" for index in sorted(self.done)]
        write_atomically(self.path / LOG, "".join(rows))


def read_run_config(folder: Path) -> dict[str, Any]:
    """A run's config.yaml. Raises SimulstError if it is missing or not one of ours."""
    path = folder / CONFIG
    try:
        config = load_yaml(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (yaml.YAMLError, UnicodeDecodeError):
        config = None
    if isinstance(config, dict) and "label" in config:
        decoding = config.get("decoding")
        if isinstance(decoding, dict) and isinstance(decoding.get("read"), dict):
            return config
    raise SimulstError(f"{path}: not the config.yaml of a simulst run; give a folder that simulst evaluate made.")


def audio_digest(utterance: Utterance) -> str:
    """A short name of an utterance's audio: the bytes of its file, and where in it the utterance lies.

    Raises SimulstError: a file that can't be read.
    """
    return digest([_file_digest(utterance.wav), f"{utterance.start} {utterance.end}"])


def _file_digest(path: Path) -> str:
    try:
        status = path.stat()
        return _digest_of_bytes(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); check wav.scp.") from error


@lru_cache(maxsize=64)  # the utterances of a talk follow one another
def _digest_of_bytes(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _record(decoding: Decoding, task: Task, weights: str, utterances: Sequence[Utterance]) -> dict[str, Any]:
    """All that a run depends on, but the audio: that of each utterance is in the log."""
    return {
        "source_type": "speech",  # SimulEval wants these two to score the folder
        "target_type": "text",
        "decoding": decoding.raw,
        "label": decoding.label,
        "strategy": decoding.strategy,
        "curve": list(decoding.curve),
        "task": {**asdict(task), "options": dict(task.options)},
        "weights": weights,
        "files": {str(path): _file_digest(Path(path)) for path in decoding.files if Path(path).is_file()},
        "utterances": len(utterances),
        "names": digest(utterance.name for utterance in utterances),
    }


def _compare(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        # A run of an older version has not all of them.
        if old.get(key, value) != value:
            if key in ("weights", "files", "names"):
                what = {"weights": "another model", "files": "another predictor", "names": "other utterances"}[key]
                raise SimulstError(f"{folder}: holds a run of {what} under the same name; {AGAIN}")
            raise SimulstError(f"{folder}: holds a run whose '{key}' is {old.get(key)!r}, not {value!r}; {AGAIN}")


def _checked(instance: Instance, folder: Path, utterances: Sequence[Utterance]) -> Instance:
    """A logged utterance. Raises SimulstError: it is no utterance of these, or its text or audio has changed."""
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


def score_run(folder: Path, language: str, unit: str | None = None, bootstrap: int = 1000) -> dict[str, Any]:
    """Score a run from its log and write scores.json beside it."""
    from simulst.log import read_log
    from simulst.metrics.score import score_instances

    scores = score_instances(read_log(folder / LOG), language=language, unit=unit, bootstrap=bootstrap)
    write_scores(folder, scores)
    return scores


def write_scores(folder: Path, scores: dict[str, Any]) -> None:
    """A run's scores.json."""
    write_atomically(folder / SCORES, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")
