"""Training in several processes: two of them on the CPU, started by ESPnet's own launcher, and what Slurm is given."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
import sounds
import torch
import warm
import yaml

from corpora.dump import dump_audio
from simulst.errors import SimulstError
from simulst.training.espnet import Machines, Training, train
from simulst.training.tokens import train_tokens

WORDS = ("der", "die", "das", "hund", "katze", "mann", "frau", "sieht", "hat", "geht", "im", "wald", "garten", "haus")
EPOCHS, UTTERANCES, BATCH = 4, 12, 4
TRANSFORMER = {"output_size": 16, "attention_heads": 2, "linear_units": 24, "num_blocks": 2, "input_layer": "conv2d"}
QUIET = {"dropout_rate": 0.0, "positional_dropout_rate": 0.0, "attention_dropout_rate": 0.0}


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A tiny corpus of noise, and a Transformer without dropout or batch norm."""
    folder = tmp_path_factory.mktemp("machines")
    random = np.random.default_rng(0)
    for split, count in {"train": UTTERANCES, "dev": BATCH}.items():
        # Equal lengths: ESPnet's encoders see a little of the padding, which depends on the split.
        audio = {f"u{i:02}": random.normal(0, 0.1, 16000) for i in range(count)}
        texts = {name: " ".join(random.choice(WORDS, random.integers(3, 8))) for name in audio}
        sounds.write(folder / split, audio, {"de": texts})
        dump_audio(folder / split, folder / f"dump_{split}", ["de"])
    train_tokens([folder / "dump_train/text.de"], folder / "tokens", 30)
    (folder / "stats/train").mkdir(parents=True)
    np.savez(folder / "stats/train/feats_stats.npz", count=100, sum=np.full(80, -800.0), sum_square=np.full(80, 6800.0))
    options = {
        **{"encoder": "transformer", "encoder_conf": TRANSFORMER | QUIET, "decoder": "transformer"},
        "decoder_conf": {"attention_heads": 2, "linear_units": 24, "num_blocks": 1, "dropout_rate": 0.0}
        | {"positional_dropout_rate": 0.0, "self_attention_dropout_rate": 0.0, "src_attention_dropout_rate": 0.0},
        **{"model_conf": {"ctc_weight": 0.3, "lsm_weight": 0.1, "report_cer": False, "report_wer": False}},
        **{"optim": "adam", "optim_conf": {"lr": 0.003}, "max_epoch": EPOCHS, "num_att_plot": 0, "num_workers": 0},
        **{"batch_type": "unsorted", "batch_size": BATCH, "use_tensorboard": False, "use_matplotlib": False},
        **{"best_model_criterion": [["valid", "loss", "min"]], "keep_nbest_models": 1, "seed": 1},
    }
    (folder / "asr.yaml").write_text(yaml.safe_dump(options))
    return Training("asr", folder / "asr.yaml", folder / "dump_train", folder / "dump_dev", "de", folder / "tokens")


def executable(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def curve(out: Path, split: str) -> list[float]:
    """The loss of each epoch, from the trainer's state."""
    stats = torch.load(out / "checkpoint.pth", weights_only=False)["reporter"]["stats"]
    return [stats[epoch][split]["loss"] for epoch in range(1, EPOCHS + 1)]


def test_two_processes_train_as_one_with_twice_their_batch(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ESPnet's batch is that of all processes together: of the same 4 utterances each of the two holds 2."""
    for name, value in warm.environment().items():
        monkeypatch.setenv(name, value)
    # There is no second machine here: instead of ssh, a shell at home does what the remote one would be told.
    (tmp_path / "bin").mkdir()
    executable(tmp_path / "bin/ssh", '#!/bin/sh\nshift\nexec sh -c "$*"\n')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    stats = training.config.parent / "stats"
    train(training, tmp_path / "one", stats)
    train(training, tmp_path / "two", stats, machines=Machines(hosts="here,there"))
    assert ":0/2]" in (tmp_path / "two/simulst.log").read_text()
    assert not list((tmp_path / "two").glob(".*"))
    for split in ("train", "valid"):
        one, two = curve(tmp_path / "one", split), curve(tmp_path / "two", split)
        assert one[-1] < 0.95 * one[0]
        np.testing.assert_allclose(two, one, rtol=1e-5)


def test_a_slurm_step_for_each_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "srun", "")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    line = " ".join(Machines(ngpu=4, nodes=2).command(["python", "train"], tmp_path, {}))
    assert line.startswith("srun --nodes=2 --ntasks=2 --ntasks-per-node=1 ") and " --gres=gpu:4 python train " in line
    assert "--multiprocessing_distributed true --dist_launcher slurm" in line
    assert f"--dist_init_method file://{tmp_path}/.dist_init_" in line and "gloo" not in line
    line = " ".join(Machines(nodes=3).command(["python", "train"], tmp_path, {}))
    assert "--nodes=3" in line and "gres" not in line and line.endswith("--dist_backend gloo")


def test_one_machine(tmp_path: Path) -> None:
    assert Machines().command(["train"], tmp_path, {}) == ["train"]
    assert Machines(1).command(["train"], tmp_path, {}) == ["train"]
    assert Machines(2).command(["train"], tmp_path, {}) == ["train", "--multiprocessing_distributed", "true"]


@pytest.mark.parametrize(
    ("machines", "words"),
    [
        (Machines(nodes=2), "--num-nodes needs the program srun"),
        (Machines(hosts="one,two"), "--hosts needs the program ssh"),
        (Machines(nodes=2, hosts="one,two"), "give one of them"),
    ],
)
def test_what_is_missing_is_named(
    machines: Machines, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SimulstError, match=words):
        machines.command(["train"], tmp_path, {})


def test_espnets_programs_run_in_our_process(tmp_path: Path) -> None:
    command = Machines().command(["python", "-m", "espnet2.bin.st_train", "--ngpu", "0"], tmp_path, {})
    assert command == ["python", "-m", "simulst.training.process", "espnet2.bin.st_train", "--ngpu", "0"]
