"""What `simulst verify` says of a folder that is as claimed, and of faults of all kinds."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("simuleval")
import small
import tiny_whisper
import warm
import yaml
from run_commands import simulst

from simulst.handin import check, interface
from simulst.handin import verify as verification
from simulst.handin.check import AGENT_LOG, CLAIM, LOG, SCORES, difference
from simulst.handin.image import packed_environment, read_image
from simulst.handin.pack import _write_sums
from simulst.handin.system import System
from simulst.handin.verify import SUMS, faults_of_files
from simulst.machine.processor import kind

FAKE, WHISPER = "es-en_0-90000", "es-en_0-80000"


@pytest.fixture(scope="module", autouse=True)
def warm_servers() -> Iterator[None]:
    """Servers and clients of these tests run in the warm process, with the folder's code; those of verify.py don't."""

    def environment(folder: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        own = packed_environment(folder, variables)
        known = warm.environment(Path(own["PYTHONPATH"]))
        return {**own, **{name: known[name] for name in ("PYTHONPATH", "OMP_NUM_THREADS", "WARM")}}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interface, "packed_environment", environment)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `data`, a hand-in `packed` of the fake model and of a tiny Whisper, and an `environment` for it."""
    folder = tmp_path_factory.mktemp("handin")
    small.write_recordings(folder)
    whisper = tiny_whisper.write(folder / "whisper.v1", eos=7.0)
    (whisper / "LICENSE").write_text("MIT\n")
    options = {"compute_type": "float32", "threads": 1}
    choices = [
        small.chosen(folder, "fake", small.FAKE, "0-90000"),
        small.chosen(folder, "whisper", whisper, "0-80000", options),
    ]
    status, said, error = simulst("pack", *choices, "--out", folder / "packed", "--contact", "a@b.c")
    assert not status, error
    assert "simulst verify" in said and not (folder / "packed.work").exists()
    small.write_environment(folder / "environment", folder / "packed")
    return folder


@pytest.fixture
def packed(made: Path, tmp_path: Path) -> Path:
    """A copy of the hand-in, to spoil."""
    return shutil.copytree(made / "packed", tmp_path / "packed")


@pytest.fixture
def without_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are as claimed without a server."""
    monkeypatch.setattr(check, "_by_server", lambda folder, image, name, *rest: folder / "systems" / name / LOG)


def verify(folder: Path, made: Path, *more: object, environment: Path | None = None) -> tuple[int, str]:
    """Exit status and all output of the folder's own program."""
    options = ["--environment", environment or made / "environment", "--port", small.free_port(), *more]
    command = [sys.executable, folder / "verify.py", made / "data", "--without-docker", *options]
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=folder.parent, env=usual)
    return done.returncode, done.stdout + done.stderr


def faults(folder: Path, made: Path, capsys: pytest.CaptureFixture[str], port: int = 0) -> list[str]:
    """What is wrong, by the check that verify.py runs in the environment."""
    problems = check.verify(folder, made / "data", port or small.free_port(), FAKE, True).problems
    found = [line.partition("WRONG ")[2] for line in capsys.readouterr().out.splitlines() if "WRONG" in line]
    assert len(found) == problems
    return found


def change(path: Path, **values: object) -> None:
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **values}))


def test_all_is_as_claimed(made: Path, packed: Path) -> None:
    """From the folder alone, in another working folder. A call leaves nothing in the folder."""
    before = {file for file in packed.rglob("*") if file.is_file()}
    status, said = verify(packed, made)
    assert status == 0 and f"{packed}: all is as claimed." in said and "WRONG" not in said, said
    for name in (FAKE, WHISPER):
        part = said[said.index(name) :]
        assert "ok    scores and regime" in part and "ok    words and delays of simulstream's server" in part
    assert {file for file in packed.rglob("*") if file.is_file()} == before


def test_nothing_of_this_machine_is_in_the_folder(made: Path) -> None:
    folder = made / "packed"
    places = (str(made), str(Path(small.__file__).parents[2]))
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix in (".yaml", ".json", ".jsonl", ".tsv", ".md", ".txt", ""):
            text = file.read_text(errors="ignore")
            assert not any(place in text for place in places), file
    rows = [json.loads(line) for line in (folder / "systems" / FAKE / LOG).read_text().splitlines()]
    assert [row["metadata"]["wav_name"] for row in rows if "metadata" in row] == [f"{name}.wav" for name in small.NAMES]
    assert any(row.get("generated_tokens") for row in rows)
    wanted = (folder / "requirements.txt").read_text()
    assert "ctranslate2==" in wanted and "simulstream==" in wanted
    assert not any(name in wanted for name in ("torch", "espnet", "transformers", "pytest", "simulst=="))


def spoil_byte(folder: Path) -> None:
    weights = folder / "models" / "whisper.v1" / "model.bin"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte of the weights": (spoil_byte, "models/whisper.v1/model.bin: is not the file that was packed"),
    "a missing file": (lambda folder: (folder / "server.yaml").unlink(), "server.yaml: is missing"),
    "an extra file": (lambda folder: (folder / "own" / "yaml.py").touch(), "own/yaml.py: is not listed in SHA256SUMS"),
    "a linked folder": (lambda folder: (folder / "own" / "yaml").symlink_to(folder.parent), "own/yaml: is a link"),
    "a pipe": (lambda folder: os.mkfifo(folder / "own" / "pipe"), "own/pipe: is a link, or no file"),
    "compiled files": (lambda folder: (folder / "own" / "__pycache__").mkdir(), "own/__pycache__: is not listed"),
    "no digests": (lambda folder: (folder / SUMS).unlink(), "SHA256SUMS: cannot be read"),
    "digests that are no text": (lambda folder: (folder / SUMS).write_bytes(b"\xff"), "SHA256SUMS: cannot be read"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_files(what: str, packed: Path) -> None:
    spoil, told = SPOILT[what]
    assert not faults_of_files(packed)
    spoil(packed)
    [fault] = faults_of_files(packed)
    assert told in fault


def test_a_spoilt_file_ends_the_program(made: Path, packed: Path) -> None:
    spoil_byte(packed)
    status, said = verify(packed, made)
    [line] = [line for line in said.splitlines() if "WRONG" in line]
    assert status == 1 and "models/whisper.v1/model.bin" in line and ": 1 fault;" in said


def test_names_with_separators_and_an_old_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SHA256SUMS has one name a line, whatever it holds; Python 3.10 reads it, too, to be told which Python to call."""
    for name in ("a\u2028b", "c\x85d", "e\rf"):
        (tmp_path / name).write_text(name)
    _write_sums(tmp_path)
    monkeypatch.delattr(hashlib, "file_digest")
    assert not faults_of_files(tmp_path)


def test_two_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits until the first has ended; it installs only what the first has not."""
    waiting, done = threading.Event(), []

    def use(folder: Path) -> None:
        with verification.environment_of(folder, tmp_path / "environment", {}):
            done.append(f"use {folder.name}")

    monkeypatch.setattr(verification, "_check_machine", lambda image: None)
    monkeypatch.setattr(verification, "_install", lambda folder, *_: done.append(f"install {folder.name}"))
    monkeypatch.setattr(verification, "print", lambda *_, **__: waiting.set(), raising=False)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        for file in verification.REQUIREMENTS:
            (tmp_path / name / file).write_text(name)
    second = threading.Thread(target=use, args=[tmp_path / "one"])
    with verification.environment_of(tmp_path / "one", tmp_path / "environment", {}):
        second.start()
        assert waiting.wait(60)
        done.append("use one")
    second.join(60)
    use(tmp_path / "other")
    assert done == ["install one", "use one", "use one", "install other", "use other"]


@pytest.mark.usefixtures("without_server")
def test_a_wrong_version(made: Path, packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy
    import sacrebleu

    file = packed / "requirements.txt"
    file.write_text(file.read_text().replace(f"numpy=={numpy.__version__}", "numpy==1.0") + "no-such-package==1\n")
    (packed / "requirements-verify.txt").write_text("sacrebleu==0.0.1\n")
    assert faults(packed, made, capsys) == [
        f"requirements.txt: numpy should be 1.0, but is {numpy.__version__}.",
        "requirements.txt: no-such-package should be 1, but is missing.",
        f"requirements-verify.txt: sacrebleu should be 0.0.1, but is {sacrebleu.__version__}.",
    ]


def append(name: str, text: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_text((folder / name).read_text() + text)

    return spoil


def claimed_scores(**values: object) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        scores = folder / "systems" / FAKE / SCORES
        known = json.loads(scores.read_text())
        for key, value in values.items():
            known[key] = round(known[key] + value, 3) if isinstance(value, float) else value
        scores.write_text(json.dumps(known))

    return spoil


PLACE = f"systems/{FAKE}"
SUMMED: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a Dockerfile": (append("Dockerfile", "USER 0\n"), ["Dockerfile: is not what image.json says"]),
    "SimulEval's": (append("Dockerfile.simuleval", "#\n"), ["Dockerfile.simuleval: is not what image.json says"]),
    "a client": (append("client.yaml", "#\n"), ["client.yaml: is not what image.json says"]),
    "a server": (lambda folder: change(folder / "server.yaml", pool_size=0), ["server.yaml: is not what the image"]),
    "a system more": (lambda folder: (folder / "systems/es-en_0-1").mkdir(), ["image.json: its systems are not those"]),
    "a decoding": (
        lambda folder: change(folder / PLACE / "decoding.yaml", commit={"type": "all"}),
        ["decoding.yaml: is not the decoding of processor.yaml"],
    ),
    "a regime": (
        lambda folder: change(folder / PLACE / CLAIM, regime=[0.0, 10.0]),
        ["is of the system es-en_0-10", "does not prove the regime of 0 to 10 ms"],
    ),
    "another score": (claimed_scores(BLEU="99"), ["scores.json: BLEU is 99, but the log gives"]),
    "a digit of a score": (claimed_scores(LongYAAL=-0.001), ["scores.json: LongYAAL is"]),
    "a score more": (claimed_scores(COMET=None), ["scores.json: COMET is None, but the log gives None"]),
}


@pytest.mark.usefixtures("without_server")
@pytest.mark.parametrize("what", SUMMED)
def test_what_digests_would_not_tell(what: str, made: Path, packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The digests may have been summed again: the files still have to agree with each other."""
    spoil, told = SUMMED[what]
    spoil(packed)
    found = faults(packed, made, capsys)
    assert len(found) == len(told) and all(part in fault for part, fault in zip(told, found, strict=True)), found


def write_log(path: Path, words: tuple[str, ...] = ("a", "b"), seconds: float = 1.0, name: str = "talk") -> Path:
    rows: list[dict[str, object]] = [{"id": 1, "metadata": {"wav_name": f"{name}.wav"}}]
    for number, word in enumerate(words, start=1):
        row = {"id": 1, "total_audio_processed": number * seconds, "computation_time": 0.1}
        rows.append({**row, "generated_tokens": [f" {word}"], "deleted_tokens": []})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    "again, told",
    [
        ({"words": ("a", "c")}, "word 2 of talk is 'b' at 2 s, but the server wrote 'c' at 2 s"),
        ({"seconds": 1.1}, "word 1 of talk is 'a' at 1 s, but the server wrote 'a' at 1.1 s"),
        ({"words": ("a",)}, "word 2 of talk is 'b' at 2 s, but the server wrote nothing"),
        ({"name": "other"}, "word 1 of talk is 'a' at 1 s, but the server wrote nothing"),
    ],
)
def test_words_delays_and_recordings_of_logs(again: dict[str, Any], told: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl")
    assert not list(difference(log, write_log(tmp_path / "same.jsonl"), "word", "the server"))
    [fault] = difference(log, write_log(tmp_path / "again.jsonl", **again), "word", "the server")
    assert told in fault


@pytest.mark.parametrize(
    "processor, scores, told",
    [
        ("another", {"BLEU": 20.0, "chrF": 50.0, "LongYAAL": 900.0}, "other"),
        ("another", {"BLEU": 17.9, "chrF": 50.0, "LongYAAL": 900.0}, "BLEU is 17.9 here"),
        ("another", {"BLEU": 20.0, "chrF": 52.1, "LongYAAL": 900.0}, "chrF is 52.1 here"),
        ("another", {"BLEU": 20.0, "chrF": 50.0, "LongYAAL": 1001.0}, "does not prove the regime"),
        (kind(), {"BLEU": 20.0, "chrF": 50.0, "LongYAAL": 900.0}, "on this kind of processor, with 2 threads"),
    ],
)
def test_other_words_on_another_processor(
    processor: str,
    scores: dict[str, float],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are wrong unless the processor is another kind than the claim's, quality is within the claimed intervals,
    and the lag proves the regime."""
    log, again = write_log(tmp_path / LOG), write_log(tmp_path / "again.jsonl", ("a", "c"))
    claimed = {"BLEU_low": 18.0, "BLEU_high": 22.0, "chrF_low": 48.0, "chrF_high": 52.0}
    (tmp_path / SCORES).write_text(json.dumps(claimed))
    system = System([0, 1000], "LongYAAL", "", "", "es", "en", {}, "", "", threads=2, processor=processor)
    monkeypatch.setattr(check, "scores_of", lambda *_, **__: scores)
    verdict = check.Verdict()
    verdict.attempt("words", check.check_log(log, log, "the server", system, tmp_path, verdict))
    assert capsys.readouterr().out == "  ok    words\n"
    verdict.attempt("words", check.check_log(log, again, "the server", system, tmp_path, verdict))
    said = capsys.readouterr().out
    assert "word 2 of talk" in said and "and model? " in said and told in said and said.count("\n") == 1
    assert (verdict.problems, verdict.others) == ((0, 1) if told == "other" else (1, 0))
    assert (processor in said and kind() in said) or processor == kind()


def test_simulevals_log(tmp_path: Path) -> None:
    """Its words are those of simulstream's log, in all recordings. Its delays may be others."""
    log, of_simuleval = write_log(tmp_path / LOG), tmp_path / AGENT_LOG
    for words, name, told in [
        ("a b", "talk", []),
        ("a c", "talk", ["simulstream.jsonl: word 2 of talk is 'b', but SimulEval wrote 'c'"]),
        ("a b", "other", ["simulstream.jsonl: word 1 of talk is 'a', but SimulEval wrote nothing"]),
    ]:
        row = {"index": 0, "prediction": words, "delays": [1000, 2100], "elapsed": [1000, 2100], "prediction_length": 2}
        row |= {"reference": "", "source": [f"{name}.wav"], "source_length": 3000}
        of_simuleval.write_text(json.dumps(row) + "\n")
        assert list(difference(log, of_simuleval, "word", "SimulEval", times=False)) == told


def test_recordings(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another one, or none. Beside the right one, another of that name may lie."""
    (tmp_path / "data").mkdir()
    first, second = (f"{name}.wav" for name in small.NAMES)
    shutil.copy(made / "data" / first, tmp_path / "data" / first)
    [fault] = faults(made / "packed", tmp_path, capsys)
    assert f"has no recording {small.NAMES[1]}" in fault
    shutil.copy(made / "data" / first, tmp_path / "data" / second)
    [fault] = faults(made / "packed", tmp_path, capsys)
    assert f"{second}: is not the recording that the logs are of" in fault
    (tmp_path / "data" / "more").mkdir()
    shutil.copy(made / "data" / second, tmp_path / "data" / "more" / second)
    assert set(check.recordings_of(made / "packed", tmp_path / "data")) == set(small.NAMES)


def test_another_system_and_another_python(made: Path, packed: Path, tmp_path: Path) -> None:
    status, said = verify(packed, made, "--system", "en-de_0-1")
    assert status == 1 and said.splitlines()[-1].startswith(
        "error: there is no system en-de_0-1; choose from es-en_0-9"
    )
    image = json.loads((packed / "image.json").read_text())
    (packed / "image.json").write_text(json.dumps({**image, "python": "2.7"}))
    small.sum_again(packed)
    status, said = verify(packed, made, environment=tmp_path / "new")
    assert status == 1 and "call python2.7 verify.py" in said and not (tmp_path / "new").exists()
    image["debian"] = ["no-such-package"]
    (packed / "image.json").write_text(json.dumps(image))
    small.sum_again(packed)
    status, said = verify(packed, made, environment=tmp_path / "new")
    if shutil.which("dpkg"):
        assert status == 1 and "apt-get install them here" in said and "Traceback" not in said


def test_simulevals_agent(made: Path, packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its server and its evaluator are asked; a port of simulstream's server that is busy is told."""
    place = packed / "systems" / FAKE
    wavs = interface.as_wavs(check.recordings_of(packed, made / "data"), tmp_path / "wavs")
    sent, image = list(wavs.values()), read_image(packed)
    shutil.copy(interface.run_simuleval(packed, image, FAKE, sent, tmp_path, "word"), place / AGENT_LOG)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        [fault] = faults(packed, made, capsys, port)
        assert f"port {port} is taken" in fault and "--port" in fault
    with interface.kept_port() as port, socket.socket() as another, pytest.raises(OSError):  # of the agent
        another.bind(("127.0.0.1", port))
    assert faults(packed, made, capsys) == []


def test_dockerfiles_are_without_faults(made: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.is_file():
        pytest.skip("hadolint is not installed")
    files = [str(made / "packed" / name) for name in ("Dockerfile", "Dockerfile.simuleval")]
    done = subprocess.run([str(hadolint), *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


DOCKER = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
    build) exit {build} ;;
    run) echo the-container ;;
    inspect) echo {state} ;;
    logs) echo it broke ;;
esac
"""


@pytest.mark.parametrize("build, state", [(0, "unhealthy"), (1, "healthy")])
def test_docker(build: int, state: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image is built, run and removed, with the port that was asked for."""
    log, program = tmp_path / "log", tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(DOCKER.format(log=log, build=build, state=state))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    command = [sys.executable, made / "packed" / "verify.py", made / "data", "--environment", made / "environment"]
    done = subprocess.run([*map(str, [*command, "--system", FAKE, "--port", 1234])], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    asked = log.read_text().splitlines()
    assert asked[:2][0] == "info" and asked[1].startswith("build --tag simulst-") and asked[1].endswith("/packed")
    if build:
        assert len(asked) == 2 and "the image can't be built" in done.stderr
        return
    assert f"--env SYSTEM={FAKE} --publish 127.0.0.1:1234:8080 simulst-" in asked[2]
    assert [line.split()[0] for line in asked[3:]] == ["inspect", "logs", "rm"] and "does not answer" in done.stdout
