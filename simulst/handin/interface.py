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
from simulst.files.folder import replacing, write_atomically
from simulst.handin.image import HOST, Image, packed_environment

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
        with replacing(target) as part:
            write_wav(part, as_int16(load_audio(source)))
    return found


def run_inference(folder: Path, processor: Path, languages: tuple[str, str], wavs: Sequence[Path], log: Path) -> None:
    """simulstream's inference command on recordings, with the folder's code; it writes the log.

    Raises SimulstError: the command ends with an error.
    """
    log.unlink(missing_ok=True)
    names = log.with_suffix(".wavs")
    write_atomically(names, "".join(f"{wav.absolute()}\n" for wav in wavs))
    command = ["simulstream.inference", "--speech-processor-config", str(processor)]
    command += ["--wav-list-file", str(names), "--metrics-log-file", str(log.absolute())]
    command += ["--src-lang", languages[0], "--tgt-lang", languages[1]]
    _run("simulstream's inference command", folder, command, log.with_suffix(".out"))


def _run(what: str, folder: Path, command: Sequence[str], output: Path) -> None:
    """Run a module of Python's with the folder's code. output: file of all that it prints."""
    with output.open("wb") as said:
        command = [sys.executable, "-m", *command]
        done = subprocess.run(command, cwd=folder, env=packed_environment(folder), stdout=said, stderr=said)
    if done.returncode:
        raise SimulstError(f"{what} failed: {last_line(output)}")


@contextlib.contextmanager
def serving(folder: Path, image: Image, command: Sequence[str], port: int, said: Path) -> Iterator[None]:
    """A server of the folder, started as the Dockerfile does, once it says that it serves. It ends with the block.

    command: as `Image.start` gives it; its `python` is this one. said: file of all that it prints.

    Raises SimulstError: the port is taken; the server ends before it answers, or in the middle of the block.
    """
    check_port(port)
    # Compiled code, which takes a minute to make. The image's place may be another user's here.
    kept = Path(sys.prefix) if os.access(sys.prefix, os.W_OK) else said.parent
    places = {"NUMBA_CACHE_DIR": str(kept / "numba"), "HF_HOME": str(kept / "huggingface")}
    environment = packed_environment(folder, {**image.environment, **places})
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command[1:]], cwd=folder, env=environment, stdout=output, stderr=output
        )
        try:
            while not any(words in said.read_bytes() for words in SERVES):  # at its port another program may answer
                if process.poll() is not None:
                    raise SimulstError(f"the server ended before it answered: {last_line(said)}")
                time.sleep(0.1)
            try:
                yield
            except SimulstError:
                with contextlib.suppress(subprocess.TimeoutExpired):  # its clients see its end a moment before
                    raise SimulstError(f"the server ended in the middle, with status {process.wait(5)}") from None
                raise
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run_simuleval(folder: Path, image: Image, system: str, wavs: Sequence[Path], work: Path, unit: str) -> Path:
    """SimulEval's evaluator against the remote agent of a system; returns its log, in the folder `work`.

    Raises SimulstError: the agent or the evaluator ends with an error.
    """
    out = work / "simuleval" / system
    out.mkdir(parents=True, exist_ok=True)
    sources, targets = out / "source.txt", out / "target.txt"
    write_atomically(sources, "".join(f"{wav.absolute()}\n" for wav in wavs))
    write_atomically(targets, f"{REFERENCE}\n" * len(wavs))
    command = ["simulst.handin.agent", "--remote-eval", "--remote-address", HOST]
    command += ["--source", str(sources), "--target", str(targets), "--source-segment-size", "100"]
    command += ["--output", str(out), "--eval-latency-unit", unit, "--source-type", "speech", "--target-type", "text"]
    with kept_port() as port, serving(folder, image, image.start_agent(system, port), port, work / "agent.out"):
        _run("SimulEval's evaluator", folder, [*command, "--remote-port", str(port)], out / "simuleval.out")
    return out / "instances.log"


@contextlib.contextmanager
def kept_port() -> Iterator[int]:
    """A port that nothing serves at, and that no other program is given in the block: only a server that sets
    SO_REUSEADDR can have it, as SimulEval's agent does."""
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((HOST, 0))
        yield int(keeper.getsockname()[1])


def check_port(port: int) -> None:
    """Raise SimulstError if something serves there already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise SimulstError(f"port {port} is taken ({error.strerror}); give another one with --port") from error


def last_line(file: Path) -> str:
    """What a program said last; a message of ours counts most."""
    lines = [line.strip() for line in file.read_text(errors="replace").splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("error: ")]
    return (ours or lines or ["it said nothing"])[-1].removeprefix("error: ").rstrip(".")
