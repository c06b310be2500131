"""The folder of a run: the utterances that have been decoded under one configuration, for one task.

It holds `instances.log` (SimulEval's format), `config.yaml` (all that the run depends on, except the audio, of which
the log has digests) and, when the run is complete, `scores.json`. A run is resumed only if `config.yaml` agrees.
"""

from __future__ import annotations

import datetime
import functools
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BeforeValidator, Field

import simulst
from simulst.background import NOTHING
from simulst.config import Decoding
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.files.folder import digest, sha256_of, unwritable, write_atomically
from simulst.files.yaml import load_yaml
from simulst.languages import unit_of
from simulst.log import LOG
from simulst.log.instance import Instance
from simulst.log.simuleval import read_unfinished
from simulst.machine.cluster import worker_threads
from simulst.machine.processor import processor
from simulst.machine.threads import available_cores
from simulst.measure.file import SCORES
from simulst.models.registry import check_languages, digest_of_part, load_model
from simulst.options import read_fields
from simulst.session import Model

CONFIG = "config.yaml"
AGAIN = "give another --out, or use --force to decode again."
# A file has them as a mapping.
Options = Annotated[
    tuple[tuple[str, Any], ...],
    BeforeValidator(lambda found: tuple(found.items()) if isinstance(found, dict) else found),
]


@dataclass(frozen=True)
class Task:
    """Everything about a run except its data and its decoding configuration.

    model: model folder or file, or the name of a class (simulst/find.py).
    options: of the model family, as (name, value) pairs, so that tasks can be hashed.
    unit: "word" or "char"; empty: by target language.
    """

    model: str
    source_language: str
    target_language: str
    options: Options = ()
    unit: Annotated[str, Field(pattern="^(|word|char)$")] = ""

    def portable(self) -> Task:
        """The same task with absolute paths, as a cluster's workers may run in another folder."""
        return replace(self, model=str(Path(self.model).resolve())) if Path(self.model).exists() else self

    def check(self) -> None:
        """Raise SimulstError for languages, before the model is loaded; see `check_languages`."""
        check_languages(self.model, dict(self.options), self.source_language, self.target_language)

    @property
    def latency_unit(self) -> str:
        """The unit of latency: "word" or "char"."""
        return self.unit or unit_of(self.target_language)


def model_of(task: Task, jobs: int | None) -> Model:
    """This process's model, loaded once.

    jobs: processes that share this machine's cores; None: use the threads of the Dask worker.
    """
    return _model(task.model, task.options, available_cores(jobs) if jobs else worker_threads())


@functools.lru_cache(maxsize=1)
def _model(path: str, options: tuple[tuple[str, Any], ...], cores: int) -> Model:
    return load_model(path, cores, **dict(options))


def _with_read(decoding: dict[str, Any]) -> dict[str, Any]:
    """A decoding configuration whose READ tables can look at. Raises ValueError: it is another."""
    read = decoding.get("read")
    if not (isinstance(read, dict) and isinstance(read.get("type"), str)):
        raise ValueError("its read has no type")
    if not isinstance(read.get("initial_wait_ms", 0), int | float):
        raise ValueError("its initial_wait_ms is no number")
    return decoding


@dataclass(frozen=True)
class RunConfig:
    """What a run's config.yaml says.

    decoding: the decoding configuration as it was read; it has a `read` with a `type`.
    label, strategy, curve: its names, as in `simulst.config.Decoding`.
    task: model, languages and unit.
    weights: digest of the model's files (`Family.files`), of a cascade those of all its parts.
    files: path → digest, of each file or model that a policy loads.
    code: module → digest, of the modules of the user's own policies, and of the user's modules that these import.
    utterances: how many there are.
    names: digest of their names.
    context: digest of what is known of the recordings; empty: nothing.
    date, commit, processor: the day on which the run began, simulst's commit, and the machine. They are not compared.
    """

    decoding: Annotated[dict[str, Any], AfterValidator(_with_read)]
    label: str
    strategy: str
    curve: tuple[str, float | None]
    task: Task
    weights: str = ""
    files: dict[str, str] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    utterances: int = 0
    names: str = ""
    context: str = ""
    date: str = ""
    commit: str = ""
    processor: str = ""

    @property
    def read(self) -> dict[str, Any]:
        """READ's type and options."""
        return self.decoding["read"]


def new_run_config(decoding: Decoding, task: Task, weights: str, utterances: Sequence[Utterance]) -> RunConfig:
    """The configuration of a run that begins now. Raises SimulstError: a file that a policy loads can't be read."""
    backgrounds = [utterance.background for utterance in utterances]
    return RunConfig(
        decoding=decoding.raw,
        label=decoding.label,
        strategy=decoding.strategy,
        curve=decoding.curve,
        task=task,
        weights=weights,
        files={path: digest_of_part(path) for path in decoding.files if Path(path).exists()},
        code={name: sha256_of(file) for name, file in decoding.code.items()},
        utterances=len(utterances),
        names=digest(utterance.name for utterance in utterances),
        context=digest(map(str, backgrounds)) if any(known != NOTHING for known in backgrounds) else "",
        date=datetime.date.today().isoformat(),
        commit=_commit(),
        processor=processor(),
    )


def write_run_config(folder: Path, config: RunConfig) -> None:
    """Raises SimulstError: the disk is full."""
    task = {**asdict(config.task), "options": dict(config.task.options)}
    # SimulEval wants the first two to score the folder.
    content = {"source_type": "speech", "target_type": "text", **asdict(config), "task": task}
    content["curve"] = list(config.curve)
    write_atomically(folder / CONFIG, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def read_run_config(folder: Path) -> RunConfig:
    """A run's configuration. Raises SimulstError: config.yaml is missing, or simulst did not write it."""
    path, remedy = folder / CONFIG, "give a folder that simulst evaluate made"
    if not path.is_file():
        raise SimulstError(f"{path}: no such file; {remedy}.")
    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        content = None
    where = f"{path}: not the config.yaml of a simulst run"
    if isinstance(content, dict):
        task = content.get("task", {})
        unknown = {"model": "", "source_language": "", "target_language": ""}
        content = {
            "curve": (content.get("strategy"), None),
            **content,
            "task": {**unknown, **task} if isinstance(task, dict) else task,
        }
    return read_fields(RunConfig, content, where, remedy)


def check_same(folder: Path, old: RunConfig, new: RunConfig) -> None:
    """Raise SimulstError if the run in a folder is not the one that was asked for."""
    was, wanted = asdict(old), asdict(new)
    if new.weights and old.weights == new.weights:
        was["task"]["model"] = new.task.model  # one model's path can be written in several ways
    for name in ("date", "commit", "processor"):
        del wanted[name]
    for key, value in wanted.items():
        if was[key] != value:
            what = {
                "weights": "another model",
                "files": "another predictor or guide",
                "code": "another version of your policy",
                "names": "other utterances",
                "context": "another context",
            }.get(key)
            if what:
                both = {**was[key], **value} if isinstance(value, dict) else {}
                changed = [name for name in both if value.get(name) != was[key].get(name)]
                which = f" (changed: {', '.join(changed)})" if changed else ""
                raise SimulstError(f"{folder}: holds a run of {what} under the same name{which}; {AGAIN}")
            raise SimulstError(f"{folder}: holds a run whose '{key}' is {was[key]!r}, not {value!r}; {AGAIN}")


@functools.cache
def _commit() -> str:
    """The commit of simulst's checkout; empty if it is installed otherwise."""
    root = Path(simulst.__file__).parents[1]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


@dataclass
class RunFolder:
    """One configuration's folder.

    config: what its config.yaml says, or will say.
    done: number of the utterance → its instance.
    force: whether `begin` deletes what is there.
    """

    path: Path
    decoding: Decoding
    config: RunConfig
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
        run = RunFolder(path, decoding, new_run_config(decoding, task, weights, utterances), force=force)
        if force:
            return run
        if (path / CONFIG).is_file():
            check_same(path, read_run_config(path), run.config)
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
            write_run_config(self.path, self.config)
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
        """Write the log in the order of utterances. One that is so already is not touched."""
        text, log = "".join(self.done[index].to_json() + "\n" for index in sorted(self.done)), self.path / LOG
        if not log.is_file() or log.read_bytes() != text.encode():
            write_atomically(log, text)


def audio_digest(utterance: Utterance) -> str:
    """A digest of an utterance's audio: of the bytes of its file, and of its start and end.

    Raises SimulstError: the file can't be read.
    """
    return digest([sha256_of(utterance.wav, "check wav.scp"), f"{utterance.start} {utterance.end}"])


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
