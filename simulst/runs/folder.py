"""The folder of a run: the utterances that have been decoded under one configuration.

It holds `instances.log` (SimulEval's format), `config.yaml` (configuration, model and data of the run) and, when the
run is complete, `scores.json`. A run is resumed only if `config.yaml` agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from simulst.config import Decoding
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.files.folder import sha256_of, unwritable, write_atomically
from simulst.files.lock import digest
from simulst.log import LOG
from simulst.log.instance import Instance
from simulst.log.simuleval import read_unfinished
from simulst.measure.file import SCORES
from simulst.runs.config import (
    AGAIN,
    CONFIG,
    RunConfig,
    Task,
    check_same,
    new_run_config,
    read_run_config,
    write_run_config,
)


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
