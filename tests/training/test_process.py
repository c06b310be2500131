"""Killed at any moment, a training leaves a checkpoint to go on from, and the weights of all epochs until there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import warm
from waiting import HANGS

from simulst.training.process import save

KILLED = """
import io, os, signal, sys, torch
from simulst.training import process

write, calls = process._write, 0

def half(thing, file, **options):
    global calls
    calls += 1
    if calls == int(sys.argv[1]):
        whole = io.BytesIO()
        write(thing, whole)
        file.write_bytes(whole.getvalue()[:-100])
        os.kill(os.getpid(), signal.SIGKILL)
    write(thing, file, **options)

process._write = half
state = {"model": {"w": torch.full((1000,), 2.0)}, "reporter": {"epoch": 2}, "optimizers": []}
process.save(state, "checkpoint.pth")
process.save(state["model"], "2epoch.pth")
"""

SPAWNING = """
import multiprocessing
import torch

def work():
    print(torch.save.__module__)

def main():
    work()
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
"""


def state(epoch: int) -> dict[str, object]:
    return {"model": {"w": torch.full((1000,), float(epoch))}, "reporter": {"epoch": epoch}, "optimizers": []}


def read(file: Path) -> dict[str, object]:
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_killed_while_writing(tmp_path: Path, moment: int) -> None:
    save(state(1), tmp_path / "checkpoint.pth")
    run = subprocess.run([sys.executable, "-c", KILLED, str(moment)], cwd=tmp_path, env=warm.environment(), check=False)
    assert run.returncode == -signal.SIGKILL
    last = read(tmp_path / "checkpoint.pth")["reporter"]["epoch"]
    assert last == (1 if moment < 3 else 2)
    for epoch in range(1, last + 1):
        assert torch.all(read(tmp_path / f"{epoch}epoch.pth")["w"] == epoch)
    for file in tmp_path.glob("*.pth"):
        read(file)


def test_a_failed_write_keeps_the_file_before(tmp_path: Path) -> None:
    save({"a": 1}, tmp_path / "1epoch.pth")
    with pytest.raises(Exception, match="pickle"):
        save({"a": lambda: 1}, tmp_path / "1epoch.pth")
    assert read(tmp_path / "1epoch.pth") == {"a": 1}


def test_a_process_ends_if_nobody_reads_its_output(tmp_path: Path) -> None:
    """What started it was killed, or ssh."""
    (tmp_path / "endless.py").write_text("def main():\n    while True: print(input(), flush=True)")
    command = [sys.executable, "-m", "simulst.training.process", "endless"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    with subprocess.Popen(command, **pipes, env=warm.environment(), cwd=tmp_path) as process:
        assert process.stdin is not None and process.stdout is not None
        for line in (b"it works\n", b"and goes on\n"):
            process.stdin.write(line)
            assert process.stdout.readline() == line
        process.stdout.close()
        assert process.wait(HANGS) == 1


def test_espnets_error_rates_are_counted_without_editdistance(tmp_path: Path) -> None:
    program = """
def main():
    import numpy
    from espnet.nets.e2e_asr_common import ErrorCalculator
    rates = ErrorCalculator(["<blank>", "a", "b", "<space>", "<eos>"], "<space>", "<blank>", True, True)
    print(rates(numpy.array([[1, 3, 1, 4]]), numpy.array([[1, 3, 2, -1]])))  # "a a" for "a b"
"""
    (tmp_path / "rates.py").write_text(program)
    command = [sys.executable, "-m", "simulst.training.process", "rates"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=warm.environment(), cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "(0.5, 0.5)"


def test_the_processes_that_a_training_starts_write_so_too(tmp_path: Path) -> None:
    (tmp_path / "spawning.py").write_text(SPAWNING)
    command = [sys.executable, "-m", "simulst.training.process", "spawning"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=warm.environment(), cwd=tmp_path)
    assert done.stdout.split() == ["__main__", "__mp_main__"]


WHICH = """
import torch
from espnet.nets.pytorch_backend.conformer.convolution import ConvolutionModule

def main():
    print(torch.nn.LSTM.forward.__module__, ConvolutionModule.forward.__module__)
"""


@pytest.mark.parametrize(
    ("encoder", "lstm", "convolution"),
    [
        ("contextual_block_conformer", "torch.nn.modules.rnn", "simulst.training.channels_last"),
        ("vgg_rnn", "simulst.training.packed_lstm", "espnet.nets.pytorch_backend.conformer.convolution"),
    ],
)
def test_trainings_have_the_faster_layers(tmp_path: Path, encoder: str, lstm: str, convolution: str) -> None:
    (tmp_path / "which.py").write_text(WHICH)
    (tmp_path / "train.yaml").write_text(f"encoder: {encoder}\n")
    command = [sys.executable, "-m", "simulst.training.process", "which", "--config", "train.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=warm.environment())
    assert done.stdout.split() == [lstm, convolution]
