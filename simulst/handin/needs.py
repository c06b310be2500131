"""What a packed system imports: found by running it, in a process of its own, on a piece of a recording.

That process is this module in the packed folder, with `serve`, `serve-without-torch` or `check`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simulst.errors import SimulstError
from simulst.handin.image import packed_environment

CUBLAS, CUDNN = "nvidia-cublas-cu12==12.9.3.13", "nvidia-cudnn-cu12==9.28.0.42"
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
    arguments = [*systems, str(recording)]
    found, words = _tried(folder, ["serve", *arguments])
    if "torch" in found.modules:  # transformers imports it if it is there, also where only a tokeniser is used
        with contextlib.suppress(SimulstError):
            lean, same = _tried(folder, ["serve-without-torch", *arguments])
            found = lean if same == words else found
    return Needs((*found.packages, *_for_ctranslate2(found, device)), found.modules)


def _for_ctranslate2(found: Needs, device: str) -> tuple[str, ...]:
    """What its wheels open by name on a GPU. Torch brings a cuDNN of its own, as files of the same names."""
    if device == "cpu" or "ctranslate2" not in found.modules:
        return ()
    return (CUBLAS,) if any(one.startswith("nvidia-cudnn-") for one in found.packages) else (CUBLAS, CUDNN)


def needs_of_verify(folder: Path, systems: Sequence[str], serving: Needs) -> Needs:
    """What verify needs besides, once the folder has its logs. Raises SimulstError: they can't be scored."""
    found, _ = _tried(folder, ["check", *systems])
    return Needs(tuple(one for one in found.packages if one not in serving.packages), found.modules)


def _tried(folder: Path, arguments: Sequence[str]) -> tuple[Needs, list[str]]:
    """What was imported, and what was written."""
    command = [sys.executable, "-m", "simulst.handin.needs", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=packed_environment(folder.absolute()), capture_output=True, text=True
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise SimulstError(f"{folder}: its system does not run there: {lines[-1].removeprefix('error: ')}")
    packages, modules, words = json.loads(done.stdout.splitlines()[-1])
    return Needs(tuple(packages), tuple(modules)), words


def _imported() -> tuple[list[str], list[str]]:
    """The packages of all that was imported, and what their wheels of shared libraries are."""
    tops = {name.partition(".")[0] for name, module in sys.modules.items() if module is not None}
    by_module = importlib.metadata.packages_distributions()
    modules = sorted(top for top in tops if top in by_module and top != OWN and not top.startswith("_"))
    names = {name for top in tops for name in by_module.get(top, ())} - {OWN}
    if "torch" in names and sys.modules["torch"].version.cuda:  # its wheels for GPUs are linked against these
        installed = (str(one.metadata["Name"]) for one in importlib.metadata.distributions())
        names |= {name for name in installed if name.startswith(("nvidia-", "cuda-", "triton"))}
    packages = sorted(f"{name}=={importlib.metadata.version(name)}" for name in names)
    return packages, [module for module in modules if not module.startswith("pkg_resources")]


def _serve(systems: Sequence[str], recording: str) -> list[str]:
    """As simulstream's HTTP server does with a client's audio. Returns what is written."""
    import simulstream.inference
    import simulstream.server.speech_processors.remote.http_proxy_speech_processor
    import simulstream.server.speech_processors.remote.http_speech_processor_server  # noqa: F401
    from simulstream.client.wav_reader_client import read_wav_file
    from simulstream.config import yaml_config
    from simulstream.server.speech_processors import build_speech_processor

    from simulst.audio.units import SAMPLE_RATE

    _, samples = read_wav_file(recording)
    heard = samples[: TRIED_SECONDS * SAMPLE_RATE].astype("float32") / 2**15
    written = []
    for system in systems:
        processor = build_speech_processor(yaml_config(f"systems/{system}/processor.yaml"))
        step = int(processor.speech_chunk_size * SAMPLE_RATE)
        for start in range(0, len(heard), step):
            written.append(processor.process_chunk(heard[start : start + step]).strings_to_json())
        written.append(processor.end_of_stream().strings_to_json())
    return written


def _check(systems: Sequence[str]) -> list[str]:
    """What verify runs: scores of recordings, and SimulEval."""
    import simuleval.cli  # noqa: F401
    import simulstream.inference  # noqa: F401

    from simulst.handin.check import check_scores, read_claim

    for system in systems:
        for fault in check_scores(Path(), system, read_claim(Path("systems", system))):
            raise SimulstError(fault)
    return []


if __name__ == "__main__":
    kind, *given = sys.argv[1:]
    if kind == "serve-without-torch":
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        words = _check(given) if kind == "check" else _serve(given[:-1], given[-1])
    except SimulstError as error:
        sys.exit(f"error: {error}")
    print(json.dumps([*_imported(), words]))
