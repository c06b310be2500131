"""Whole runs through the command line, with the fake model."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import wave
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pytest
import soundfile
import yaml
from fake import RATE, FakeModel, Loudness
from ports import listening

from simulst import stream
from simulst.commands.main import entry
from simulst.data.datadir import write_data_dir
from simulst.errors import SimulstError
from simulst.log.instances import Instance, read_log
from simulst.machine import cluster
from simulst.models import load_model, option_names
from simulst.policy.boundary_predictor import BoundaryPredictor, Sizes
from simulst.runs import decode, score_run
from simulst.stream import Emission, Stream

MODEL = "fake:FakeModel"
COUNT = 6
DURATIONS = [1000 + 370 * i for i in range(COUNT)]  # ms
LA2 = "read: {type: chunk, ms: 500}\ncommit: {type: local_agreement, n: 2}\nsearch: {type: beam, beam: 2}\n"
SWEEP = """
- read: [{type: chunk, ms: 500}, {type: chunk, ms: 1000}]
  commit: [{type: local_agreement}, {type: hold, n: 3}]
- read: {type: offline}
  commit: {type: all}
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Utterances u0, u1, ...; the first sample, times 100, is the number (see FakeModel)."""
    folder = tmp_path / "data"
    references = {f"u{i}": FakeModel().truth(ms * 16).strip() for i, ms in enumerate(DURATIONS)}
    write_data_dir(folder, {"wav.scp": {name: f"{name}.wav" for name in references}, "text.en": references})
    for i, ms in enumerate(DURATIONS):
        soundfile.write(folder / f"u{i}.wav", np.full(ms * 16, i / 100), 16000, subtype="PCM_16")
    (tmp_path / "la2.yaml").write_text(LA2)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return folder


def simulst(*args: object) -> tuple[int, str, str]:
    """Exit status, stdout, and stderr without progress bars."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["simulst", *map(str, args)])
        try:
            entry()
        except SystemExit as exit:
            status = exit.code if isinstance(exit.code, int) else 1
    errors = [line for line in err.getvalue().replace("\r", "\n").split("\n") if line.strip() and "utt/s" not in line]
    return status, out.getvalue(), "\n".join(line for line in errors if "?utt" not in line and "s/utt" not in line)


def command(data: Path, out: str = "out", *more: object, name: str = "evaluate", model: str = MODEL) -> list[object]:
    folder = data.parent
    files = {"evaluate": ["--decoding", folder / "la2.yaml"], "sweep": ["--decodings", folder / "sweep.yaml"]}
    languages = ["--source-lang", "es", "--target-lang", "en"]
    return [name, "--data", data, "--out", folder / out, "--model", model, *languages, *files[name], *more]


def options(**values: object) -> list[object]:
    return [part for name, value in values.items() for part in ("--model-option", f"{name}={value}")]


def timeless(folder: Path) -> list[Instance]:
    """A log without what differs from run to run."""
    return [replace(instance, elapsed=[], compute_ms=None, waited_ms=None) for instance in read_log(folder)]


def sentence(error: str) -> str:
    """The one line on stderr, less its mark."""
    assert error.count("\n") == 0, error
    assert error.startswith("simulst: error: "), error
    return error.removeprefix("simulst: error: ")


def test_evaluate(data: Path) -> None:
    status, out, error = simulst(*command(data))
    assert (status, error) == (0, "")
    assert "BLEU" in out
    folder = data.parent / "out"
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "instances.log", "scores.json"]
    log = read_log(folder)
    assert [instance.name for instance in log] == [f"u{i}" for i in range(COUNT)]
    assert [instance.source_length for instance in log] == DURATIONS
    assert log[0].reads == [500, 1000]
    assert all(instance.elapsed[-1] > instance.delays[-1] for instance in log)
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["sentences"] == COUNT and scores["BLEU"] > 10
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["label"] == "LA-2_beam2_500ms" and config["task"]["model"] == MODEL
    assert config["source_type"] == "speech" and config["target_type"] == "text"


def test_recognition_of_a_part(data: Path) -> None:
    languages = ["--source-lang", "fr", "--target-lang", "fr", "--text", "en"]
    assert simulst(*command(data, "out", "--draw", "3", *languages))[0] == 0
    folder = data.parent / "out"
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["sentences"] == 3 and scores["CER"] > 0 and scores["WER"] > 0
    (folder / "scores.json").unlink()
    assert score_run(folder, "fr", "word") == scores


def test_the_second_time_nothing_is_decoded(data: Path) -> None:
    note = data.parent / "note"
    args = command(data, "out", *options(log=note))
    assert simulst(*args)[0] == 0
    first = (data.parent / "out" / "instances.log").read_bytes()
    assert simulst(*args)[0] == 0
    assert len(note.read_text().split()) == COUNT
    assert (data.parent / "out" / "instances.log").read_bytes() == first


def test_sharing_changes_no_log(data: Path) -> None:
    for out, flag in (("shared", "--share"), ("alone", "--no-share")):
        status, table, error = simulst(*command(data, out, flag, name="sweep"))
        assert (status, error) == (0, "")
        assert "LA-2" in table and "offline" in table
    folders = sorted(path.name for path in (data.parent / "shared").iterdir())
    assert folders == ["LA-2_1000ms", "LA-2_500ms", "hold-3_1000ms", "hold-3_500ms", "offline"]
    for name in folders:
        assert timeless(data.parent / "shared" / name) == timeless(data.parent / "alone" / name)


def test_a_run_in_a_sweep_is_that_run_alone(data: Path) -> None:
    grids = [{"read": {"type": "offline"}, "commit": {"type": "all"}}, yaml.safe_load(LA2)]
    (data.parent / "sweep.yaml").write_text(yaml.safe_dump(grids))
    assert simulst(*command(data, "sweep", name="sweep"))[0] == 0
    assert simulst(*command(data, "alone"))[0] == 0
    assert timeless(data.parent / "sweep" / "LA-2_beam2_500ms") == timeless(data.parent / "alone")


def test_a_larger_sweep_decodes_what_is_new(data: Path) -> None:
    note = data.parent / "note"
    args = command(data, "out", *options(log=note), name="sweep")
    (data.parent / "sweep.yaml").write_text("read: {type: offline}\ncommit: {type: all}")
    assert simulst(*args)[0] == 0
    (data.parent / "sweep.yaml").write_text(SWEEP)
    assert simulst(*args)[0] == 0
    assert Counter(note.read_text().split()) == {str(i): 5 for i in range(COUNT)}


def test_killed_and_resumed(data: Path) -> None:
    note, log = data.parent / "note", data.parent / "out" / "instances.log"
    args = [str(a) for a in command(data, "out", *options(log=note, sleep=0.1))]
    process = subprocess.Popen([sys.executable, "-m", "simulst", *args], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not (log.is_file() and log.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -9
    done = [instance.name for instance in read_log(log)]
    assert 2 <= len(done) < COUNT
    with log.open("a") as file:
        file.write('{"index": 5, "predic')  # what a kill in the middle of writing would leave
    assert simulst(*args)[0] == 0
    begun = Counter(note.read_text().split())
    assert all(begun[name.removeprefix("u")] == 1 for name in done)
    assert set(begun) == {str(i) for i in range(COUNT)} and begun.total() <= COUNT + 1
    assert simulst(*command(data, "whole"))[0] == 0
    assert timeless(data.parent / "out") == timeless(data.parent / "whole")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--model-option", "seed=5"], "'task'"),
        (["--limit", 3], "'utterances' is 6, not 3"),
        (["--unit", "char"], "'task'"),
        (["--source-lang", "fr"], "'task'"),
    ],
)
def test_another_run_is_not_resumed(data: Path, change: list[object], words: str) -> None:
    assert simulst(*command(data))[0] == 0
    before = (data.parent / "out" / "instances.log").read_bytes()
    status, _, error = simulst(*command(data, "out", *change))
    assert status == 1
    assert words in sentence(error) and "give another --out" in error
    assert (data.parent / "out" / "instances.log").read_bytes() == before


def test_a_policy_that_lets_nothing_through_is_told(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        return [message for message in caplog.messages if "nothing was written" in message]

    assert simulst(*command(data, "out"))[0] == 0 and not told()
    (data.parent / "la2.yaml").write_text("read: {type: chunk, ms: 500}\ncommit: {type: hold, n: 1000}\n")
    assert simulst(*command(data, "other"))[0] == 0
    [said] = told()
    assert said.startswith("hold-1000_500ms: nothing was written before the end of any of 6 utterances; STOP or COMMIT")


@pytest.mark.parametrize("waited", [0.0, 1e3])
def test_computation_times_beside_other_work_are_told(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, waited: float
) -> None:
    monkeypatch.setattr(decode, "waited_seconds", lambda before: waited)
    assert simulst(*command(data, "out"))[0] == 0
    told = [message for message in caplog.messages if "other work was in the way" in message]
    assert len(told) == (waited > 0)
    assert {instance.waited_ms or 0.0 for instance in read_log(data.parent / "out")} == {1000 * waited}


def test_force_deletes_nothing_before_the_model_is_open(data: Path) -> None:
    assert simulst(*command(data, "out"))[0] == 0
    log, scores = (data.parent / "out" / name for name in ("instances.log", "scores.json"))
    before = log.read_text(), scores.read_text()
    status, _, error = simulst(*command(data, "out", "--force", model="gone"))
    assert status == 1 and "gone" in sentence(error)
    assert (log.read_text(), scores.read_text()) == before


def test_scores_of_recordings_stay(data: Path) -> None:
    """A finished run is not scored again as if its recordings were sentences; a new one is."""
    assert simulst(*command(data, "out"))[0] == 0
    path = data.parent / "out/scores.json"
    usual = json.loads(path.read_text())
    longform = {**usual, "recordings": COUNT, "LongYAAL": 5.0, "LongYAAL_CA": 6.0}
    path.write_text(json.dumps(longform))
    assert simulst(*command(data, "out"))[0] == 0
    assert json.loads(path.read_text()) == longform
    assert simulst(*command(data, "out", "--force"))[0] == 0
    assert json.loads(path.read_text()).keys() == usual.keys()


@pytest.mark.parametrize("more", ["", ", whole_words: true"])
def test_a_policy_of_the_users_that_changed_is_noticed(data: Path, monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    monkeypatch.delitem(sys.modules, "mine_alone", raising=False)  # the other case's file
    code = data.parent / "mine_alone.py"
    code.write_text(
        "from dataclasses import dataclass\nfrom typing import Any\nfrom simulst.policy.commit import All\n"
        "@dataclass(frozen=True)\nclass Mine(All):\n    detector: Any = None\n"
    )
    monkeypatch.syspath_prepend(str(data.parent))
    text = "read: {type: chunk, ms: 500}\ncommit: {type: mine_alone.Mine, detector: {type: silero.v4}" + more + "}\n"
    (data.parent / "la2.yaml").write_text(text)
    assert simulst(*command(data, "out"))[0] == 0
    assert simulst(*command(data, "out"))[0] == 0
    code.write_text(code.read_text() + "# other\n")
    status, _, error = simulst(*command(data, "out"))
    assert status == 1 and "another version of your policy under the same name" in sentence(error)
    assert simulst(*command(data, "out", "--force"))[0] == 0


def test_a_model_that_was_trained_anew_is_noticed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = data.parent / "note"
    args = command(data, "out", *options(log=note))
    monkeypatch.setattr(decode, "digest_of_weights", lambda path, options: "one")
    assert simulst(*args)[0] == 0
    monkeypatch.setattr(decode, "digest_of_weights", lambda path, options: "other")
    status, _, error = simulst(*args)
    assert status == 1 and "a run of another model under the same name" in sentence(error) and "--force" in error
    assert simulst(*args, "--force")[0] == 0
    assert Counter(note.read_text().split()) == {str(i): 2 for i in range(COUNT)}
    assert len(read_log(data.parent / "out")) == COUNT


def test_a_configuration_that_fails_does_not_take_the_others_with_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push = Stream.push

    def fails(self: Stream, samples: np.ndarray, finished: bool = False) -> list[Emission]:
        if self.decoding.label == "hold-3_500ms":
            raise SimulstError("the model can't hold")
        return push(self, samples, finished)

    monkeypatch.setattr(Stream, "push", fails)
    status, _, error = simulst(*command(data, "sweep", name="sweep"))
    assert status == 1
    assert f"{COUNT} of {COUNT} utterances failed" in sentence(error)
    assert "First: u0 under hold-3_500ms: the model can't hold" in error
    for folder in (data.parent / "sweep").iterdir():
        lines = (folder / "instances.log").read_text().splitlines()
        assert len(lines) == (0 if folder.name == "hold-3_500ms" else COUNT), folder


def test_other_decodings_and_folders_are_not_resumed(data: Path) -> None:
    assert simulst(*command(data))[0] == 0
    (data.parent / "la2.yaml").write_text(LA2.replace("beam: 2", "beam: 3"))
    status, _, error = simulst(*command(data))
    assert status == 1 and "'decoding'" in sentence(error)
    (data.parent / "out" / "config.yaml").unlink()
    status, _, error = simulst(*command(data))
    assert status == 1 and "without config.yaml" in sentence(error)
    (data.parent / "out" / "config.yaml").write_text("just: something")
    status, _, error = simulst(*command(data))
    assert status == 1 and "not the config.yaml of a simulst run" in sentence(error)
    status, _, error = simulst(*command(data, "la2.yaml"))
    assert status == 1 and "la2.yaml" in sentence(error)


def test_a_log_from_elsewhere_is_not_resumed(data: Path) -> None:
    assert simulst(*command(data))[0] == 0
    log = data.parent / "out" / "instances.log"
    log.write_text(log.read_text().replace('"u3"', '"x3"'))
    status, _, error = simulst(*command(data))
    assert status == 1 and "index 3 is not from this data" in sentence(error)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_broken_file_costs_itself_only(data: Path, jobs: int) -> None:
    whole = (data / "u2.wav").read_bytes()
    (data / "u2.wav").write_bytes(whole[:100])
    note = data.parent / "note"
    args = command(data, "out", "--jobs", jobs, *options(log=note))
    status, _, error = simulst(*args)
    assert status == 1
    assert f"1 of {COUNT} utterances failed, the others are in {data.parent / 'out'};" in sentence(error)
    assert "First: u2: " in error and "truncated" in error
    assert [instance.index for instance in read_log(data.parent / "out")] == [0, 1, 3, 4, 5]
    assert not (data.parent / "out" / "scores.json").exists()
    (data / "u2.wav").write_bytes(whole)
    assert simulst(*args)[0] == 0
    assert Counter(note.read_text().split()) == {str(i): 1 for i in range(COUNT)}
    assert (data.parent / "out" / "scores.json").exists()


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


def test_an_utterance_that_kills_is_given_up(data: Path) -> None:
    status, _, error = simulst(*command(data, "out", "--jobs", 2, *options(die=2)))
    assert status == 1
    [line] = [line for line in error.split("\n") if line.startswith("simulst: error: ")]
    assert f"1 of {COUNT} utterances failed" in line and "First: u2: the process that decoded it died" in line
    assert [instance.index for instance in read_log(data.parent / "out")] == [0, 1, 3, 4, 5]


@pytest.fixture
def scheduler() -> Iterator[str]:
    from dask.distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0") as cluster:
        yield cluster.scheduler_address


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
    data: Path, processes: tuple[str, list[subprocess.Popen[bytes]]], monkeypatch: pytest.MonkeyPatch
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


def test_a_model_whose_path_is_written_otherwise_is_the_same(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "digest_of_weights", lambda path, options: "one")
    assert simulst(*command(data, "out"))[0] == 0
    config = data.parent / "out/config.yaml"
    config.write_text(config.read_text().replace(f"model: {MODEL}", "model: models/fake/"))
    assert simulst(*command(data, "out"))[0] == 0
    monkeypatch.setattr(decode, "digest_of_weights", lambda path, options: "other")
    assert "holds a run" in sentence(simulst(*command(data, "out"))[2])


def test_a_language_without_a_code_is_told_before_decoding(data: Path) -> None:
    status, _, error = simulst(*command(data, "out", "--source-lang", "spanish"))
    assert status == 1 and "'spanish' is not the code of a language" in sentence(error)
    assert not (data.parent / "out").exists()


def test_a_killed_worker_of_a_scheduler_changes_no_log(
    data: Path, processes: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, workers = processes
    note, log = data.parent / "note", data.parent / "out" / "instances.log"
    args = command(data, "out", "--scheduler", address, *options(log=note, sleep=0.2))
    run = subprocess.Popen([sys.executable, "-m", "simulst", *map(str, args)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    done = begun = 0
    while done < 2 or begun != done + 2:  # until both are in the middle of an utterance
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
        done = log.read_bytes().count(b"\n") if log.is_file() else 0
        begun = len(note.read_text().split()) if note.is_file() else 0
    workers[0].kill()
    assert run.wait(60) == 0 and workers[0].wait() == -9 and workers[1].poll() is None
    names = Counter(note.read_text().split())
    assert set(names) == {str(i) for i in range(COUNT)} and names.total() == COUNT + 1
    assert simulst(*command(data, "whole"))[0] == 0
    assert timeless(data.parent / "out") == timeless(data.parent / "whole")


@pytest.mark.parametrize("name", ["evaluate", "sweep"])
def test_a_second_run_in_a_folder_refuses(data: Path, name: str) -> None:
    folder = data.parent / "out" / ("offline" if name == "sweep" else "")
    args = command(data, "out", *options(sleep=0.1), name=name)
    first = subprocess.Popen([sys.executable, "-m", "simulst", *map(str, args)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (folder / "instances.log").is_file():
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    status, _, error = simulst(*args)
    assert status == 1
    assert f"another run is at work there (process {first.pid} on " in sentence(error)
    first.kill()
    first.wait()
    # The kernel has released what the killed run held.
    assert simulst(*args)[0] == 0
    assert simulst(*command(data, "whole", name=name))[0] == 0
    assert timeless(folder) == timeless(data.parent / "whole" / folder.relative_to(data.parent / "out"))
    assert not list((data.parent / "out").rglob(".*"))


def test_a_full_disk_keeps_what_is_whole(data: Path, small_disk: Path) -> None:
    assert simulst(*command(data, "whole"))[0] == 0
    whole = timeless(data.parent / "whole")
    filler = small_disk / "filler"
    full = set()
    for pages in range(6):
        out = small_disk / f"out{pages}"
        args = command(data, str(out))
        filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - pages * 4096))
        status, _, error = simulst(*args)
        if status:
            file, _, rest = sentence(error).partition(": ")
            assert rest.startswith("cannot be written (No space left on device); fix that and run the same command")
            full.add(Path(file).name)
            assert not list(out.rglob("*.part"))
        filler.unlink()
        assert simulst(*args)[0] == 0
        assert timeless(out) == whole
    assert {"config.yaml", "instances.log"} <= full


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
    model = options(log=note, die=2, die_once=marker, sleep=0.2)
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
    status, _, error = simulst(*args, "--scheduler", "tcp://127.0.0.1:1")
    assert status == 1 and "--slurm and --scheduler: give one of them" in told(error)
    monkeypatch.setenv("PATH", str(data))
    status, _, error = simulst(*args)
    assert status == 1 and "--slurm needs the program sbatch, which is not on this machine's PATH" in told(error)


def told(error: str) -> str:
    """The sentence, beside what Dask logs."""
    [line] = [line for line in error.split("\n") if line.startswith("simulst: error: ")]
    return line


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "tcp://127.0.0.1:port", "nonsense://x:1"])
def test_no_scheduler(data: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    status, _, error = simulst(*command(data, "out", "--scheduler", address))
    [line] = [line for line in error.split("\n") if line.startswith("simulst: error: ")]
    assert status == 1 and f"no Dask scheduler answers at {address}" in line


@pytest.mark.parametrize(
    "answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(64)], ids=["silent", "closes", "HTTP", "zeros"]
)
def test_what_answers_is_no_scheduler(data: Path, answer: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """None: it says nothing and keeps the connection, which Dask's client would wait on without end."""
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 0.5)
    with listening(answer) as port:
        address = f"tcp://127.0.0.1:{port}"
        started = time.monotonic()
        status, _, error = simulst(*command(data, "out", "--scheduler", address))
        assert time.monotonic() - started < 20
    stranger = f"what listens at {address} does not answer as a Dask scheduler does"
    # What closes the connection at once may look to Dask as if nothing were there.
    nobody = f"no Dask scheduler answers at {address}" if answer == b"" else stranger
    assert status == 1 and sentence(error).startswith((stranger, nobody))


def test_a_worker_is_no_scheduler(data: Path, scheduler: str) -> None:
    from dask.distributed import Client

    with Client(scheduler) as client:
        [address] = client.scheduler_info()["workers"]
    status, _, error = simulst(*command(data, "out", "--scheduler", address))
    assert status == 1 and f"at {address} is a Dask worker" in sentence(error)


@pytest.mark.parametrize("more", [["--jobs", "2"], ["--scheduler"]], ids=" ".join)
def test_ctrl_c_ends_in_one_sentence(data: Path, more: list[str], request: pytest.FixtureRequest) -> None:
    """A terminal sends the signal to all processes of the command; so does this test."""
    if more == ["--scheduler"]:
        more = [*more, request.getfixturevalue("scheduler")]
    log = data.parent / "out" / "instances.log"
    args = command(data, "out", *options(sleep=0.2))
    whole = [sys.executable, "-m", "simulst", *map(str, args), *more]
    run = subprocess.Popen(whole, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (log.is_file() and log.stat().st_size):
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGINT)
    _, error = run.communicate(timeout=60)
    said = [line for line in error.splitlines() if line and "utt" not in line]
    assert (run.returncode, said) == (130, ["simulst: interrupted; run the same command again to go on."]), error
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:  # its processes end with it, if not at once
            os.killpg(run.pid, 0)
            time.sleep(0.05)
        raise AssertionError("processes are left")
    assert simulst(*args)[0] == 0
    assert len(read_log(log)) == COUNT


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--source-lang", "sw"], "no language 'sw'; it has es, fr"),
        (["--target-lang", "fr"], "no text in language 'fr'; it has en"),
        (["--target-lang", "xx"], "'xx' is not the code of a language"),
        (["--data", "/nowhere"], "/nowhere: no such data directory"),
        (["--decoding", "/nowhere.yaml"], "/nowhere.yaml: no such configuration"),
        (["--model", "/nowhere"], "/nowhere: no such model folder"),
        (["--model", "fake:Nothing"], "fake:Nothing: cannot import"),
        (["--model", "no_such_module:Model"], "no_such_module:Model: cannot import"),
        (["--model", "fake:WORDS"], "fake:WORDS: not a model"),
        (["--model", "."], "not a model that simulst knows"),
        (["--model-option", "size=3"], "no option 'size'; it has vocabulary, seed, token_ms"),
        (["--model-option", "seed"], "--model-option seed: give it as NAME=VALUE"),
        (["--model-option", "seed=[1, 2]"], "must be a number, a word"),
    ],
)
def test_bad_input(data: Path, more: list[str], words: str) -> None:
    status, out, error = simulst(*command(data, "out", *more))
    assert (status, out) == (1, "")
    assert words in sentence(error)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--steps", "3"], "No such option"),
        (["--jobs", "0"], "--jobs"),
        (["--unit", "syllable"], "--unit"),
    ],
)
def test_bad_usage(data: Path, args: list[str], words: str) -> None:
    status, out, error = simulst(*command(data, "out", *args))
    assert (status, out) == (2, "")
    assert words in error.split("\n")[-1]
    assert simulst("dekode")[0] == 2
    assert simulst("evaluate", "--help")[0] == 0


def test_score(data: Path) -> None:
    assert simulst(*command(data))[0] == 0
    out = data.parent / "out"
    status, text, _ = simulst("score", out, "--bootstrap", 0, "--json")
    assert status == 0
    scores = json.loads((out / "scores.json").read_text())
    again = {key: value for key, value in json.loads(text).items() if "signature" not in key}
    assert again == {key: scores[key] for key in again} and "LAAL_CA" in again
    status, _, error = simulst("score", out, "--unit", "char")
    assert status == 1 and f"{out}, index 0: " in sentence(error)
    log = out / "instances.log"
    log.write_text(log.read_text().replace('"prediction": "', '"prediction": "more ', 1))
    status, _, error = simulst("score", log)
    assert status == 1 and "words but" in sentence(error)
    status, _, error = simulst("score", data)
    assert status == 1 and "no such log" in sentence(error)


def test_export(data: Path) -> None:
    """The references of recipes are called text.tc.LANG; every command finds them, and others by --text."""
    (data / "text.en").rename(data / "text.tc.en")
    shutil.copy(data / "text.tc.en", data / "text.lc.en")
    (data / "text.lc.en").write_text((data / "text.lc.en").read_text().replace(" the", " THE"))
    args = ["--data", data, "--target-lang", "en", "--out"]
    status, out, error = simulst("export", *args, data.parent / "files")
    assert (status, error) == (0, "") and "--source" in out
    cased = (data.parent / "files" / "target.txt").read_text()
    assert "the" in cased and "THE" not in cased
    for path in (data.parent / "files" / "source.txt").read_text().split():
        with wave.open(path) as file:
            assert (file.getframerate(), file.getsampwidth()) == (16000, 2)
    assert simulst("export", *args, data.parent / "lower", "--text", "lc.en")[0] == 0
    assert (data.parent / "lower" / "target.txt").read_text() == cased.replace(" the", " THE")
    status, _, error = simulst("export", *args, data.parent / "none", "--text", "xx")
    assert status == 1 and f"{data}: no text in language 'xx'; it has lc.en, tc.en" in sentence(error)
    assert simulst(*command(data))[0] == 0
    assert [i.reference for i in read_log(data.parent / "out")] == cased.splitlines()


def test_translate(data: Path) -> None:
    name = f"u{COUNT - 1}"
    args = ["--model", MODEL, "--source-lang", "es", "--target-lang", "en", "--decoding", data.parent / "la2.yaml"]
    status, out, error = simulst("translate", data / f"{name}.wav", *args)
    assert (status, error) == (0, "")
    lines = [line.split(" s  ") for line in out.rstrip("\n").split("\n")]
    assert simulst(*command(data))[0] == 0
    instance = read_log(data.parent / "out")[-1]
    assert " ".join(words for _, words in lines) == instance.prediction
    assert [float(seconds) * 1000 for seconds, _ in lines] == sorted(set(instance.delays))
    status, _, error = simulst("translate", data / "none.wav", *args)
    assert status == 1 and "no such audio file" in sentence(error)
    started = time.monotonic()
    status, realtime, _ = simulst("translate", data / "u0.wav", "--realtime", *args)
    assert status == 0 and realtime and time.monotonic() - started >= 1.0


def test_translate_a_stream_of_any_length(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without --decoding it is cut at pauses; a configuration that takes minutes as one sentence is told of."""
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    stream._warn_of_long_utterance.cache_clear()
    speech, quiet = np.full(3 * RATE, 0.5, np.float32), np.zeros(61 * RATE, np.float32)
    soundfile.write(data / "talk.wav", np.concatenate([speech, quiet] * 2), RATE)
    args = [data / "talk.wav", "--model", MODEL, "--source-lang", "es", "--target-lang", "en"]
    status, out, error = simulst("translate", *args)
    assert (status, error) == (0, "") and "minutes" not in caplog.text
    assert out.split(" s  ")[-1].strip()
    times = [float(line.split()[0]) for line in out.splitlines()]
    assert all(0 < time < 4 or 64 < time < 68 for time in times), "no text in silence"
    soundfile.write(data / "quiet.wav", quiet, RATE)
    status, out, error = simulst("translate", data / "quiet.wav", *args[1:])
    assert (status, out, error) == (0, "", f"{data / 'quiet.wav'}: no words were written.")
    status, _, _ = simulst("translate", *args, "--decoding", data.parent / "la2.yaml")
    assert status == 0
    assert "more than 2 minutes of audio are decoded as one sentence; add 'segment: {type: pause," in caplog.text


def test_translate_in_real_time_tells_that_it_is_too_slow(data: Path) -> None:
    options = ["--model", MODEL, "--model-option", "sleep=0.7", "--source-lang", "es", "--target-lang", "en"]
    slow = data.parent / "slow.yaml"
    slow.write_text("read: {type: chunk, ms: 100}\ncommit: {type: all}\nlate: {type: skip}\n")
    status, out, error = simulst("translate", data / "u0.wav", *options, "--realtime", "--decoding", slow)
    assert status == 0 and out
    assert re.search(r"the machine is too slow: \d+ of \d+ decoding steps were left out; give longer chunks", error)


def test_options_of_models_and_a_model_of_ones_own(tmp_path: Path) -> None:
    model = load_model(MODEL, seed=3)
    assert isinstance(model, FakeModel) and model.seed == 3
    assert "threads" not in option_names(MODEL) and "sleep" in option_names(MODEL)
    for name in ("model.bin", "vocabulary.json"):
        (tmp_path / name).touch()
    assert {"threads", "device", "compute_type"} <= set(option_names(tmp_path))
    with pytest.raises(SimulstError, match=r"no option 'computetype'; it has .*compute_type"):
        load_model(tmp_path, computetype="int8")
    with pytest.raises(SimulstError, match=r"fake:FakeModel: the model has no option 'threads'"):
        load_model(MODEL, threads=1)
