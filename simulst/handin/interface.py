"""The judges' commands, as pack and verify call them: simulstream's inference, its HTTP server, SimulEval."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from simulst.audio.read import as_int16, is_plain_wav, load_audio, write_wav
from simulst.errors import SimulstError
from simulst.files.folder import write_atomically
from simulst.handin.image import HOST, Image
from simulst.handin.needs import packed_environment

SERVES = (b"Serving on http", b"Listening to port")
"""What simulstream's HTTP server and SimulEval's agent say once they listen."""
REFERENCE = "reference"  # SimulEval wants one of each recording; its scores are not used


def as_wavs(recordings: Mapping[str, Path], folder: Path) -> dict[str, Path]:
    """The recordings as simulstream and SimulEval read them: WAV of 16 bits, 16 kHz, one channel, named `NAME.wav`.

    Files of that form are linked. Raises SimulstError: audio that can't be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, source in recordings.items():
        target = found[name] = folder / f"{name}.wav"
        if target.exists():
            continue
        if is_plain_wav(source):
            target.unlink(missing_ok=True)
            target.symlink_to(source.resolve())
            continue
        part = target.with_name(target.name + ".part")
        write_wav(part, as_int16(load_audio(source)))
        part.replace(target)
    return found


def run_inference(
    folder: Path,
    processor: Path,
    languages: tuple[str, str],
    wavs: Sequence[Path],
    log: Path,
    beside: subprocess.Popen[bytes] | None = None,
) -> None:
    """simulstream's inference command on recordings, with the folder's code; it writes the log.

    beside: a server that must stay alive meanwhile.

    Raises SimulstError: the command or the server ends with an error.
    """
    log.unlink(missing_ok=True)
    names = log.with_suffix(".wavs")
    write_atomically(names, "".join(f"{wav.absolute()}\n" for wav in wavs))
    command = [sys.executable, "-m", "simulstream.inference", "--speech-processor-config", str(processor)]
    command += ["--wav-list-file", str(names), "--metrics-log-file", str(log.absolute())]
    command += ["--src-lang", languages[0], "--tgt-lang", languages[1]]
    output = log.with_suffix(".out")
    with output.open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, env=packed_environment(folder), stdout=said, stderr=said)
        try:
            while process.poll() is None:
                if beside is not None and beside.poll() is not None:
                    _check_alive(beside, "server")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        _check_alive(beside, "server")
        raise SimulstError(f"simulstream's inference command failed: {last_line(output)}")


@contextlib.contextmanager
def serving(
    folder: Path,
    image: Image,
    command: Sequence[str],
    port: int,
    said: Path,
    option: str = "--port",
) -> Iterator[subprocess.Popen[bytes]]:
    """A server of the folder, started as the Dockerfile does, once it says that it serves. It ends with the block.

    command: as `Image.start` gives it; its `python` is this one. said: file of all that it prints.
    option: that gives another port.

    Raises SimulstError: the port is taken; the server ends before it answers.
    """
    check_port(port, option)
    # Compiled code, which takes a minute to make. The image's place may be another user's here.
    kept = Path(sys.prefix) if os.access(sys.prefix, os.W_OK) else said.parent
    places = {"NUMBA_CACHE_DIR": str(kept / "numba"), "HF_HOME": str(kept / "huggingface")}
    environment = packed_environment(folder, {**image.environment, **places})
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command[1:]], cwd=folder, env=environment, stdout=output, stderr=output
        )
        try:
            while not _says_so(said):
                if process.poll() is not None:
                    raise SimulstError(f"the server ended before it answered: {last_line(said)}")
                time.sleep(0.1)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run_simuleval(
    folder: Path, image: Image, system: str, wavs: Sequence[Path], work: Path, port: int, unit: str
) -> Path:
    """SimulEval's evaluator against the remote agent of a system; returns its log, in the folder `work`.

    Raises SimulstError: the port is taken; the agent or the evaluator ends with an error.
    """
    start = image.start_agent(system, port)
    with serving(folder, image, start, port, work / "agent.out", "--agent-port") as agent:
        return _evaluate(folder, wavs, work / "simuleval" / system, port, unit, agent)


def _evaluate(
    folder: Path, wavs: Sequence[Path], out: Path, port: int, unit: str, beside: subprocess.Popen[bytes]
) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    sources, targets = out / "source.txt", out / "target.txt"
    write_atomically(sources, "".join(f"{wav.absolute()}\n" for wav in wavs))
    write_atomically(targets, f"{REFERENCE}\n" * len(wavs))
    command = [sys.executable, "-m", "simulst.handin.evaluator", "--remote-eval", "--remote-address", HOST]
    command += ["--remote-port", str(port), "--source", str(sources), "--target", str(targets)]
    command += ["--source-segment-size", "100", "--output", str(out), "--eval-latency-unit", unit]
    command += ["--source-type", "speech", "--target-type", "text"]
    output = out / "simuleval.out"
    with output.open("wb") as said:
        status = subprocess.run(command, cwd=folder, env=packed_environment(folder), stdout=said, stderr=said)
    if status.returncode or not (out / "instances.log").is_file():
        _check_alive(beside, "agent")
        raise SimulstError(f"SimulEval's evaluator failed: {last_line(output)}")
    return out / "instances.log"


def free_port() -> int:
    """A port that nothing serves at."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def check_port(port: int, option: str) -> None:
    """Raise SimulstError if something serves there already. option: that gives another one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise SimulstError(f"port {port} is taken ({error.strerror}); give another one with {option}") from error


def _check_alive(process: subprocess.Popen[bytes] | None, what: str) -> None:
    """Raise SimulstError if a server has ended. Its clients see its end a moment before it can be waited for."""
    if process is None:
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        raise SimulstError(f"the {what} ended in the middle, with status {process.wait(5)}")


def last_line(file: Path) -> str:
    """What a program said last; a message of ours counts most."""
    lines = [line.strip() for line in file.read_text(errors="replace").splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("error: ")]
    return (ours or lines or ["it said nothing"])[-1].removeprefix("error: ").rstrip(".")


def _says_so(said: Path) -> bool:
    """Whether a server has said that it serves. At its port, meanwhile, another program may answer."""
    text = said.read_bytes()
    return any(words in text for words in SERVES)
