"""What a packed system imports: found by running it, in a process of its own, on a piece of a recording."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulst.errors import SimulstError

CUDA_FOR_CTRANSLATE2 = ("nvidia-cublas-cu12==12.9.3.13", "nvidia-cudnn-cu12==9.28.0.42")
TRIED_SECONDS = 30
OWN = "simulst"


@dataclass(frozen=True)
class Needs:
    """Packages as pip wants them (name==version), and the modules at their tops."""

    packages: tuple[str, ...]
    modules: tuple[str, ...]


def needs_of(folder: Path, systems: Sequence[str], recording: Path, device: str) -> Needs:
    """What the systems need.

    recording: WAV, whose beginning is decoded. Raises SimulstError: a system can't be run from its folder.
    """
    found = _tried(folder, ["serve", *systems, str(recording)])
    extra = CUDA_FOR_CTRANSLATE2 if device != "cpu" and "ctranslate2" in found.modules else ()
    return Needs((*found.packages, *extra), found.modules)


def needs_of_verify(folder: Path, systems: Sequence[str], serving: Needs) -> Needs:
    """What verify needs besides, once the folder has its logs. Raises SimulstError: they can't be scored."""
    found = _tried(folder, ["check", *systems])
    return Needs(tuple(one for one in found.packages if one not in serving.packages), found.modules)


def packed_environment(folder: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process that sees the folder's code alone."""
    known = {**os.environ, **(variables or {})}
    known.pop("SYSTEM", None)
    return {**known, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'own'}", "PYTHONSAFEPATH": "1"}


def _tried(folder: Path, arguments: Sequence[str]) -> Needs:
    command = [sys.executable, "-m", "simulst.handin.needs", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=packed_environment(folder.absolute()), capture_output=True, text=True
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise SimulstError(f"{folder}: its system does not run there: {lines[-1].removeprefix('error: ')}")
    return Needs(*map(tuple, json.loads(done.stdout.splitlines()[-1])))


def _imported() -> tuple[list[str], list[str]]:
    """The packages of all that was imported, and what their wheels of shared libraries are."""
    tops = {name.partition(".")[0] for name in sys.modules}
    by_module = importlib.metadata.packages_distributions()
    modules = sorted(top for top in tops if top in by_module and top != OWN and not top.startswith("_"))
    names = {name for top in tops for name in by_module.get(top, ())} - {OWN}
    if "torch" in names:  # its wheels are linked against these, on a CPU, too
        installed = (str(one.metadata["Name"]) for one in importlib.metadata.distributions())
        names |= {name for name in installed if name.startswith(("nvidia-", "cuda-", "triton"))}
    packages = sorted(f"{name}=={importlib.metadata.version(name)}" for name in names)
    return packages, [module for module in modules if not module.startswith("pkg_resources")]


def _serve(systems: Sequence[str], recording: str) -> None:
    """As simulstream's HTTP server does with a client's audio."""
    import simulstream.inference
    import simulstream.server.speech_processors.remote.http_proxy_speech_processor
    import simulstream.server.speech_processors.remote.http_speech_processor_server  # noqa: F401
    from simulstream.client.wav_reader_client import read_wav_file
    from simulstream.config import yaml_config
    from simulstream.server.speech_processors import build_speech_processor

    from simulst.audio.units import SAMPLE_RATE

    _, samples = read_wav_file(recording)
    heard = samples[: TRIED_SECONDS * SAMPLE_RATE].astype("float32") / 2**15
    for system in systems:
        processor = build_speech_processor(yaml_config(f"systems/{system}/processor.yaml"))
        step = int(processor.speech_chunk_size * SAMPLE_RATE)
        for start in range(0, len(heard), step):
            processor.process_chunk(heard[start : start + step])
        processor.end_of_stream()


def _check(systems: Sequence[str]) -> None:
    """What verify runs: scores of recordings, and SimulEval."""
    import simuleval.cli  # noqa: F401
    import simulstream.inference  # noqa: F401

    from simulst.handin.check import check_scores, read_claim

    for system in systems:
        for fault in check_scores(Path(), system, read_claim(Path("systems", system))):
            raise SimulstError(fault)


if __name__ == "__main__":
    kind, *given = sys.argv[1:]
    try:
        _serve(given[:-1], given[-1]) if kind == "serve" else _check(given)
    except SimulstError as error:
        sys.exit(f"error: {error}")
    print(json.dumps(_imported()))
