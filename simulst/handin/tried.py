"""Run a packed system, or score its log, and say what was imported.

`simulst.handin.needs` starts it in the packed folder, by `python -m simulst.handin.tried`, with `serve`,
`serve-without-torch` or `check`.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from simulst.errors import SimulstError

TRIED_SECONDS = 30
OWN = "simulst"


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
