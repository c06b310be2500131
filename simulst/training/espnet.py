"""Run ESPnet's statistics and trainer as programs, and show a progress bar that follows their logs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from simulst.errors import SimulstError
from simulst.files.folder import digest_of_file, empty, locked, replacing, write_atomically
from simulst.files.yaml import load_yaml, read_yaml
from simulst.models.espnet.network.lagging import WaitOptions, lagging_of
from simulst.training.configuration import read_mapping

RECORD, LOG = "simulst.json", "simulst.log"
TOKENS = "tokens.txt", "bpe.model"  # in a folder of tokens
MEETING = ".dist_init_"
EPOCHS, ESPNET_EPOCHS = "--max_epoch", 40  # ESPnet's default
FORWARDED = ("OMP_", "GOMP_", "GLOO_", "NCCL_", "PYTHONPATH", "PYTHONUNBUFFERED")
"""Prefixes of the environment variables that ssh passes to other machines (srun passes all variables)."""


@dataclass(frozen=True)
class Training:
    """One ESPnet training (or its statistics): data, tokens and configuration.

    task: `asr`, or `st`, which needs source_text and source_tokens.
    config: ESPnet's training configuration.
    train: folder of training data, as local/prepare_data.py dump writes it.
    valid: the same of development data.
    text: language of the target's text files, such as tc.de.
    tokens: folder of target tokens that `train_tokens` wrote.
    source_text: language of the source's text files, such as lc.rm.en.
    source_tokens: folder of source tokens that `train_tokens` wrote.
    wait: None, or how the model learns to wait (see simulst/models/espnet/network/lagging.py).
    """

    task: str
    config: Path
    train: Path
    valid: Path
    text: str
    tokens: Path
    source_text: str | None = None
    source_tokens: Path | None = None
    wait: WaitOptions | None = None

    def command(self, out: Path, extra: Sequence[str]) -> list[str]:
        """The ESPnet command line that both stages share."""
        program = "simulst.training.wait_k" if self.wait else f"espnet2.bin.{self.task}_train"
        command = [sys.executable, "-m", program, "--config", str(self.config)]
        for option, value in (asdict(self.wait) if self.wait else {}).items():
            command += [] if value is None else [f"--{option}", str(value)]
        command += ["--output_dir", str(out), "--use_preprocessor", "true"]
        command += ["--token_type", "bpe", *self._tokens(self.tokens, "")]
        if self.source_tokens is not None:
            command += ["--src_token_type", "bpe", *self._tokens(self.source_tokens, "src_")]
        for split, folder in (("train", self.train), ("valid", self.valid)):
            texts = {"text": self.text, **({"src_text": self.source_text} if self.source_text else {})}
            sources = [f"{folder / 'wav.scp'},speech,kaldi_ark"]
            sources += [f"{folder / f'text.{language}'},{name},text" for name, language in texts.items()]
            for source in sources:
                command += [f"--{split}_data_path_and_name_and_type", source]
            command += [f"--{split}_shape_file", str(folder / "utt2num_samples")]
        return [*command, *extra]

    def files(self) -> list[Path]:
        """The data and the tokens that ESPnet reads, except the audio itself."""
        tables = ["wav.scp", "utt2num_samples", *(f"text.{name}" for name in (self.text, self.source_text) if name)]
        tokens = [folder / name for folder in (self.tokens, self.source_tokens) if folder for name in TOKENS]
        return [folder / table for folder in (self.train, self.valid) for table in tables] + tokens

    @staticmethod
    def _tokens(folder: Path, prefix: str) -> list[str]:
        names, pieces = TOKENS
        return [f"--{prefix}token_list", str(folder / names), f"--{prefix}bpemodel", str(folder / pieces)]


@dataclass(frozen=True)
class Machines:
    """Where a training runs. ESPnet gives each process a part of every batch and weights its gradients by their size.

    ngpu: GPUs per machine, with one process for each; 0: one process on the CPUs.
    nodes: machines of a Slurm cluster; srun starts the processes.
    hosts: machines to reach through ssh instead, as ESPnet's launcher expects them: `one,two`, or with the numbers of
        their GPUs `one:0:1,two:0`. They must see the same files under the same paths.
    """

    ngpu: int = 0
    nodes: int = 1
    hosts: str | None = None

    def command(self, command: Sequence[str], out: Path, environment: Mapping[str, str]) -> list[str]:
        """The command that runs ESPnet's `command` on these machines. The processes meet at a file in `out`.

        Raises SimulstError: srun or ssh is missing; the path has blanks, for ssh; both `nodes` and `hosts` are given.
        """
        if self.hosts is not None and self.nodes > 1:
            raise SimulstError("--num-nodes and --hosts: give one of them; --hosts already tells how many machines.")
        meeting = f"{out.resolve() / MEETING}"
        if command[1:2] == ["-m"]:
            command = [*command[:2], "simulst.training.process", *command[2:]]
        if self.hosts is not None:
            _find("ssh", "--hosts")
            if len(str(Path.cwd()).split()) > 1:  # ESPnet's launcher does not quote it
                raise SimulstError(f"--hosts: the path {Path.cwd()} has blanks; move the checkout to one without.")
            launcher = [sys.executable, "-m", "espnet2.bin.launch", "--host", self.hosts, "--ngpu", str(self.ngpu)]
            launcher += ["--envfile", "none", "--log", "-", "--init_file_prefix", meeting, "--", "env"]
            launcher += [f"{k}={shlex.quote(v)}" for k, v in environment.items() if k.startswith(FORWARDED)]
            return [*launcher, *map(shlex.quote, command)]
        if self.nodes > 1:
            _find("srun", "--num-nodes")
            step = [f"--nodes={self.nodes}", f"--ntasks={self.nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=1"]
            step += [f"--gres=gpu:{self.ngpu}"] if self.ngpu else []
            options = ["--multiprocessing_distributed", "true", "--dist_launcher", "slurm"]
            options += ["--dist_init_method", f"file://{meeting}{uuid.uuid4()}"]
            options += [] if self.ngpu else ["--dist_backend", "gloo"]
            return ["srun", *step, *command, *options]
        return [*command, *(["--multiprocessing_distributed", "true"] if self.ngpu > 1 else [])]


def _find(program: str, option: str) -> None:
    if shutil.which(program) is None:
        raise SimulstError(f"{option} needs the program {program}, which is not on this machine's PATH.")


def collect_stats(training: Training, out: Path, extra: Sequence[str] = (), force: bool = False) -> None:
    """Collect ESPnet's feature statistics: `out/train/feats_stats.npz` holds the global mean and variance."""
    command = training.command(out, ["--collect_stats", "true", "--ngpu", "0", *extra])
    run_espnet(command, out, training.config, force, files=training.files())


def train(
    training: Training,
    out: Path,
    stats: Path,
    extra: Sequence[str] = (),
    encoder: Path | None = None,
    force: bool = False,
    machines: Machines = Machines(),
    model: Path | None = None,
) -> None:
    """Train a model, or resume an interrupted training after its last epoch (also on other machines).

    A complete training goes on, too, if `max_epoch` is higher than it was.

    out: folder of the training.
    stats: folder that `collect_stats` wrote.
    extra: further options of ESPnet, which override the configuration.
    encoder: weights of another model, for example of ASR pre-training, that initialise the encoder.
    force: begin again.
    machines: where to train.
    model: weights of an ST model that initialise the whole model. Its CTC layer for the source is used only if this
        training has source texts.

    Raises SimulstError: the weights to begin with are missing; how it waits does not fit the configuration.
    """
    if training.wait:
        tokens = training.tokens / TOKENS[0]
        known = tokens.read_text(encoding="utf-8").splitlines() if tokens.is_file() else []
        lagging_of({**read_mapping(training.config), **asdict(training.wait), "token_list": known})
    features = stats / "train/feats_stats.npz"
    options = ["--resume", "true", "--normalize", "global_mvn", "--normalize_conf", f"stats_file={features}"]
    files = [*training.files(), features, *(path for path in (encoder, model) if path)]
    if encoder is not None:
        if not encoder.is_file():
            raise SimulstError(f"{encoder}: no such weights to begin with; do the ASR pre-training first.")
        options += ["--init_param", f"{encoder}:encoder:encoder"]
    if model is not None:
        if not model.is_file():
            raise SimulstError(f"{model}: no such weights to begin with; train that model first.")
        # Without source texts, ESPnet makes no CTC layer for them; a model with wait tokens has none for the target.
        left_out = [] if training.source_text else ["ctc"]
        left_out += ["st_ctc"] if training.wait and training.wait.wait_chunk_ms else []
        options += ["--init_param", f"{model}" if not left_out else f"{model}:::{','.join(left_out)}"]
    options += ["--ngpu", str(machines.ngpu)]
    run_espnet(training.command(out, [*options, *extra]), out, training.config, force, machines, files)
    if training.wait and training.wait.wait_chunk_ms and model is not None:
        keep_ctc(model, out)


def keep_ctc(model: Path, out: Path) -> None:
    """Put the CTC layer of the model to begin with beside a model with wait tokens, which is trained without it."""
    import torch

    from simulst.models.espnet.experiment import CONFIG, CTC

    state = torch.load(model, map_location="cpu", weights_only=True)
    layer = {name: tensor for name, tensor in state.items() if name.startswith("st_ctc.")}
    if layer and "encoder" not in (read_yaml(out / CONFIG).get("freeze_param") or []):
        print(f"{out}: the encoder was trained, so the CTC layer of {model} is left out; decode with ctc_weight 0.")
    elif layer:
        with replacing(out / CTC) as part:  # another run may write it, too: training has given its lock back
            torch.save(layer, part)


def run_espnet(
    command: list[str],
    out: Path,
    config: Path,
    force: bool = False,
    machines: Machines = Machines(),
    files: Sequence[Path] = (),
) -> None:
    """Run one ESPnet program with its log in `out/simulst.log`.

    `out/simulst.json` records the command, the configuration and what the input files hold. The same command resumes an
    interrupted run, and does nothing if the run is complete. Other comments in the configuration change nothing.

    command: ESPnet's command line.
    config: ESPnet's training configuration.
    force: delete the files in `out` and begin again.
    machines: where to run.
    files: the input files. A run of other contents is refused, as its result would not be theirs.

    Raises SimulstError: the program failed (the message quotes the end of its log); `out` holds a run with another
        command, configuration or input, or a checkpoint without a record; another run uses `out`.
    """
    read_mapping(config)
    record = out / RECORD
    # The record leaves out the interpreter, whose path changes when a checkout is moved, and the machines.
    text = config.read_text(encoding="utf-8")
    held = {str(file): digest_of_file(file) for file in files if file.is_file()}
    wanted = {"command": command[1:], "config": text, "files": held}
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    launched = machines.command(command, out, environment)
    with locked(out) as lock:
        weights = [*out.glob("*epoch.pth"), *out.glob("checkpoint.pth")]
        if force and (record.is_file() or weights):
            record.unlink(missing_ok=True)  # first: what a kill leaves must not look complete
            empty(out)
        elif weights and not record.is_file():
            raise SimulstError(f"{out}: has {weights[0].name} and no {RECORD}; use --force to begin again.")
        elif record.is_file():
            try:
                found = json.loads(record.read_text(encoding="utf-8"))
                complete = found.get("complete")
                begun, epochs = _identity(found.get("command", []), found.get("config", ""))
                before = dict(found["files"])
            except (ValueError, AttributeError, KeyError, TypeError, yaml.YAMLError):
                raise SimulstError(f"{record}: damaged; use --force to begin again.") from None
            identity, wanted_epochs = _identity(command[1:], text)
            if identity != begun or wanted_epochs < epochs:
                raise SimulstError(
                    f"{out}: was begun with other options or another {config.name} (see {RECORD} there); "
                    "name another folder, or use --force to begin again."
                )
            for file in sorted(before.keys() & held.keys()):
                if before[file] != held[file]:
                    raise SimulstError(
                        f"{out}: was begun with another {file}, which was made again since then; "
                        "name another folder, or use --force to begin again."
                    )
            if complete and wanted_epochs == epochs:
                print(f"{out}: complete; --force does it again")
                return
        write_atomically(record, json.dumps({**wanted, "complete": False}, indent=1))
        try:
            _follow(launched, out, environment, lock)
        finally:
            for meeting in out.glob(f"{MEETING}*"):
                meeting.unlink()
        write_atomically(record, json.dumps({**wanted, "complete": True}, indent=1))


def _identity(command: Sequence[str], config: str) -> tuple[Any, float]:
    """What a run must share with an earlier one to go on from it, and the number of epochs (0 for statistics)."""
    options = load_yaml(config) or {}
    epochs = options.pop("max_epoch", ESPNET_EPOCHS)
    command = [*command]
    while EPOCHS in command[:-1]:
        place = command.index(EPOCHS)
        epochs = command[place + 1]
        del command[place : place + 2]
    counts = "--collect_stats" not in command and str(epochs).isdigit()
    return (command, options), float(epochs) if counts else 0.0


def _follow(command: list[str], out: Path, environment: dict[str, str], lock: int) -> None:
    """Run a program, append its output to the log, and show its progress."""
    log = out / LOG
    with (
        log.open("a", encoding="utf-8") as file,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            # If this process is killed, ESPnet may continue for a while. It inherits the lock, and so keeps the folder.
            pass_fds=[lock],
        ) as process,
    ):
        last: list[str] = []
        assert process.stdout is not None
        with Progress(out.name) as progress:
            try:
                for line in process.stdout:
                    file.write(line)
                    file.flush()
                    progress.read(line)
                    last = [*last, line.strip()][-3:]
            except BaseException:
                process.terminate()
                process.communicate()  # the lock is ours until it has ended; it may still write
                raise
    if process.returncode != 0:
        raise SimulstError(f"{log}: ESPnet stopped with status {process.returncode}: {' | '.join(last)[-300:]}")


class Progress:
    """A bar that follows ESPnet's log: epochs, loss, accuracy and the time that remains."""

    _epoch = re.compile(r"(\d+)/(\d+)epoch started")
    _batches = re.compile(r"\[train\] Batch sampler: \w+\(N-batch=(\d+)")
    _interval = re.compile(r"(\d+)epoch:train:\d+-(\d+)batch: (.*)")
    _results = re.compile(r"(\d+)epoch results: (.*)")
    _value = re.compile(r"\b(loss|acc)=([-\d.e+]+)")

    def __init__(self, title: str) -> None:
        self._bar = tqdm(desc=title, unit="epoch", bar_format="{desc}: getting ready [{elapsed}]")
        self._batches_per_epoch = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def read(self, line: str) -> None:
        """Update the bar from one line of the log."""
        if match := self._batches.search(line):
            self._batches_per_epoch = int(match[1])
        elif match := self._epoch.search(line):
            if self._bar.total is None:
                # Do not count an earlier run's epochs, so that the remaining time is estimated from this run.
                self._bar.total = int(match[2])
                self._bar.bar_format = "{l_bar}{bar}| {n:.2f}/{total} epochs [{elapsed}<{remaining}{postfix}]"
                self._bar.initial = int(match[1]) - 1
            self._at(int(match[1]) - 1)
        elif match := self._interval.search(line):
            done = int(match[2]) / self._batches_per_epoch if self._batches_per_epoch else 0.0
            self._say("", match[3])
            self._at(int(match[1]) - 1 + min(done, 1.0))
        elif match := self._results.search(line):
            valid = match[2].partition("[valid]")[2]
            self._say("dev ", valid)
            self._at(int(match[1]))

    def _at(self, epochs: float) -> None:
        self._bar.n = max(self._bar.n, epochs)
        self._bar.refresh()

    def _say(self, prefix: str, text: str) -> None:
        values = dict(self._value.findall(text))
        self._bar.set_postfix_str(", ".join(f"{prefix}{name} {value}" for name, value in values.items()), refresh=False)
