"""Where a run decodes: processes, a Dask scheduler, Slurm; workers that die."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
import waiting
import yaml
from dask.distributed import Client
from run_commands import COUNT, command, options, simulst, timeless, told

from simulst.log import read_log
from simulst.machine import cluster
from simulst.policy.boundary_predictor import BoundaryPredictor, Sizes

pytestmark = pytest.mark.usefixtures("warm_programs")


def test_jobs_change_no_log(data: Path) -> None:
    for jobs in (1, 2):
        assert simulst(*command(data, f"out{jobs}", "--jobs", jobs, name="sweep"))[0] == 0
    for folder in (data.parent / "out1").iterdir():
        assert timeless(folder) == timeless(data.parent / "out2" / folder.name)
        assert [json.loads(line)["index"] for line in (folder / "instances.log").open()] == list(range(COUNT))


def test_a_worker_that_dies_costs_a_retry(data: Path) -> None:
    note, marker = data.parent / "note", data.parent / "died"
    status, _, _ = simulst(*command(data, "out", "--jobs", 2, *options(log=note, die=2, die_once=marker)))
    assert status == 0 and marker.exists()
    assert simulst(*command(data, "whole"))[0] == 0
    assert timeless(data.parent / "out") == timeless(data.parent / "whole")
    assert Counter(note.read_text().split())["2"] == 2


@pytest.mark.parametrize(("streams", "lost"), [(1, "15s"), (2, "1ms")])
def test_an_utterance_that_kills_is_given_up(data: Path, streams: int, lost: str) -> None:
    """Also if Dask drops a process that does not begin again at once, as it does after 15 s on a busy machine."""
    with dask.config.set({"distributed.deploy.lost-worker-timeout": lost}):
        status, _, error = simulst(*command(data, "out", "--jobs", 2, "--streams", streams, *options(die=2)))
    assert status == 1
    [line] = [line for line in error.split("\n") if line.startswith("simulst: error: ")]
    assert f"1 of {COUNT} utterances failed" in line and "First: u2: the worker process died" in line
    assert [instance.index for instance in read_log(data.parent / "out")] == [0, 1, 3, 4, 5]


def test_scheduler(data: Path, scheduler: str) -> None:
    assert scheduler.startswith("tcp://127.0.0.1:")
    status, _, error = simulst(*command(data, "out", "--scheduler", scheduler))
    assert (status, error) == (0, "")
    assert simulst(*command(data, "whole"))[0] == 0
    assert timeless(data.parent / "out") == timeless(data.parent / "whole")
    # What is wrong with the whole task is told as it is without workers.
    status, _, error = simulst(*command(data, "sw", "--scheduler", scheduler, "--source-lang", "sw"))
    assert status == 1 and "the fake has no language 'sw'" in error


def test_workers_in_another_folder_find_what_a_policy_reads(
    data: Path, processes: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = data.parent / "here"
    here.mkdir()
    BoundaryPredictor(8, Sizes(20, channels=3, embedding=6, hidden=7)).save(here / "predictor.pth")
    monkeypatch.chdir(here)
    text = "read: {type: boundary, predictor: predictor.pth, frames: 8, threshold: 0.5}\ncommit: {type: all}\n"
    (data.parent / "la2.yaml").write_text(text)
    status, _, error = simulst(*command(data, "out", "--scheduler", processes[0]))
    assert status == 0, error
    config = yaml.safe_load((data.parent / "out/config.yaml").read_text())
    assert config["decoding"]["read"]["predictor"] == "predictor.pth"


def lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.is_file() else 0


def test_a_killed_worker_of_a_scheduler_changes_no_log(data: Path, processes: tuple[str, Any]) -> None:
    address, workers = processes
    note, log = data.parent / "note", data.parent / "out" / "instances.log"
    gate = data.parent / "gate"
    args = command(data, "out", "--scheduler", address, *options(log=note, gate=gate, gate_from=2))
    with waiting.closed(gate) as open_gate:
        run = subprocess.Popen([sys.executable, "-m", "simulst", *map(str, args)], stderr=subprocess.DEVNULL)
        # Two are written, and both workers are in the middle of another.
        waiting.until(lambda: lines(log) == 2 and lines(note) == 4, data.parent, run)
        (number, killed), (_, other) = workers
        os.kill(number, signal.SIGKILL)
        assert killed.wait() == -9
        open_gate()
        assert run.wait() == 0 and other.poll() is None
    names = Counter(note.read_text().split())
    assert set(names) == {str(i) for i in range(COUNT)} and names.total() == COUNT + 1
    assert simulst(*command(data, "whole"))[0] == 0
    assert timeless(data.parent / "out") == timeless(data.parent / "whole")


def test_a_killed_scheduler_is_one_sentence(data: Path, processes: tuple[str, Any]) -> None:
    """Dask logs nothing of it; what was decoded is kept."""
    with Client(processes[0]) as client:
        number = client.run_on_scheduler(os.getpid)
    note = data.parent / "note"
    gate = data.parent / "gate"
    model = options(log=note, gate=gate, gate_from=2)
    args = command(data, "out", "--scheduler", processes[0], *model)
    quick = "from simulst.machine import cluster; cluster.CONNECT_SECONDS = 10; from simulst.commands.main import entry"
    whole = [sys.executable, "-c", f"{quick}; entry()", *map(str, args)]
    with waiting.closed(gate):
        run = subprocess.Popen(whole, stderr=subprocess.PIPE, text=True)
        waiting.until(lambda: lines(note) >= 3, data.parent, run)
        os.kill(number, signal.SIGKILL)
        error = run.communicate(timeout=waiting.HANGS)[1].replace("\r", "\n")
    left = [line for line in error.split("\n") if line.strip() and "utt" not in line]
    assert run.returncode == 1 and len(left) == 1, error
    assert "error: the Dask scheduler went away (" in left[0] and left[0].endswith("same command again to go on.")
    assert simulst(*command(data, "out", *model))[0] == 0


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of programs that stand in for Slurm's."""
    pytest.importorskip("dask_jobqueue")
    folder = tmp_path / "slurm"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(cluster, "RENEW_SECONDS", 0.5)
    with dask.config.set(
        {
            **{"jobqueue.slurm.cores": 4, "jobqueue.slurm.processes": 4, "jobqueue.slurm.memory": "8 GiB"},
            **{"jobqueue.slurm.queue": "cpu", "jobqueue.slurm.account": "speech"},
            **{"jobqueue.slurm.walltime": "02:00:00", "jobqueue.slurm.job-script-prologue": ["module load ffmpeg"]},
        }
    ):
        yield folder


def program(file: Path, *lines: str) -> None:
    file.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    file.chmod(0o755)


def test_the_job_that_slurm_gets(slurm: Path) -> None:
    program(slurm / "sbatch")
    with cluster.slurm_cluster() as made:
        script = made.job_script()
    lines = script.splitlines()
    wanted = ["-p cpu", "-A speech", "-n 1", "--cpus-per-task=4", "--mem=8G", "-t 02:00:00"]
    assert all(f"#SBATCH {option}" in lines for option in wanted)
    assert "module load ffmpeg" in lines and "export MALLOC_TRIM_THRESHOLD_=1073741824" in lines
    [worker] = [line for line in lines if "dask_worker" in line]
    assert sys.executable in worker and "--nthreads 1" in worker and "--nworkers 4" in worker


def test_slurm_runs_the_work_and_a_lost_job_is_submitted_again(data: Path, slurm: Path) -> None:
    """Jobs are processes here: sbatch starts one in the background, squeue looks which are alive."""
    record = f'echo x >> "{slurm}/submitted"'
    # As sbatch does, it keeps the script, which Dask removes at once.
    start = f'job=$(mktemp -p "{slurm}"); cp "$1" "$job"; sh "$job" > /dev/null 2>&1 &'
    program(slurm / "sbatch", '[ "$1" = --test-only ] && exit', record, start, "echo Submitted batch job $!")
    program(slurm / "scancel", 'kill "$1"')
    program(slurm / "squeue", "ps -eo pid=,stat= | awk '$2 !~ /Z/ {print $1}'")
    note, marker = data.parent / "note", data.parent / "died"
    model = options(log=note, die=2, die_once=marker)
    one = {"cores": 1, "processes": 1, "worker-extra-args": ["--no-nanny"]}
    with dask.config.set({f"jobqueue.slurm.{name}": value for name, value in one.items()}):
        status, _, error = simulst(*command(data, "out", "--slurm", "--jobs", 1, *model))
    assert status == 0, error
    assert marker.exists() and (slurm / "submitted").read_text().split() == ["x", "x"]
    assert simulst(*command(data, "whole"))[0] == 0
    assert timeless(data.parent / "out") == timeless(data.parent / "whole")


def test_slurm_refuses(data: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = command(data, "out", "--slurm", "--jobs", 2)
    refuse = ["echo sbatch: error: invalid partition specified: cpu >&2", "exit 1"]
    program(slurm / "sbatch", *refuse)
    status, _, error = simulst(*args)
    assert status == 1 and "sbatch refused the job: sbatch: error: invalid partition specified: cpu;" in told(error)
    program(slurm / "squeue")
    program(slurm / "scancel")
    for lines in (["echo Submitted batch job 7"], ['[ "$1" = --test-only ] && exit', *refuse]):
        program(slurm / "sbatch", *lines)
        status, _, error = simulst(*args)
        assert status == 1 and "no job is left in Slurm's queue, and none has reached this process" in told(error)
    with dask.config.set({"jobqueue.slurm.cores": None}):
        status, _, error = simulst(*args)
    assert status == 1 and "must be told the cores and memory of a job" in told(error)


@pytest.mark.parametrize("more", [["--jobs", "2"], ["--scheduler"]], ids=" ".join)
def test_ctrl_c_ends_in_one_sentence(data: Path, more: list[str], request: pytest.FixtureRequest) -> None:
    """A terminal sends the signal to all processes of the command; so does this test."""
    if more == ["--scheduler"]:
        more = [*more, request.getfixturevalue("scheduler")]
    log, gate = data.parent / "out" / "instances.log", data.parent / "gate"
    args = command(data, "out", *options(gate=gate, gate_from=2))
    # With an option of Python's, it is not in the warm process, but in one group with what it starts.
    whole = [sys.executable, "-u", "-m", "simulst", *map(str, args), *more]
    with waiting.closed(gate):
        run = subprocess.Popen(whole, stderr=subprocess.PIPE, text=True, start_new_session=True)
        waiting.until(lambda: lines(log), data.parent, run)
        os.killpg(run.pid, signal.SIGINT)
        _, error = run.communicate(timeout=waiting.HANGS)  # until all of its processes have ended, which hold the pipe
    said = [line for line in error.splitlines() if line and "utt" not in line]
    assert (run.returncode, said) == (130, ["simulst: interrupted; run the same command again to go on."]), error
    assert simulst(*args)[0] == 0
    assert len(read_log(log)) == COUNT
