"""The image of a hand-in: one list of steps, from which the Dockerfile is written and which verify executes.

A step of the Dockerfile is this module, in the packed folder: it loads every library that the systems use, and ends
with an error that names those that are missing.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from simulst.handin.verify import INSTALL
from simulst.options import read_json_fields

IMAGE = "image.json"
HOST = "127.0.0.1"
PORT = 8080
AGENT_PORT = 8888
HTTP_SERVER = "simulstream.server.speech_processors.remote.http_speech_processor_server"

OFFLINE = {
    "PYTHONPATH": "/app:/app/own",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "NUMBA_CACHE_DIR": "/tmp/numba",  # librosa's; the image's own folders belong to root
    "HF_HOME": "/tmp/huggingface",  # where transformers puts a model's own code
    "PYTHONUNBUFFERED": "1",
}
SERVER = {"hostname": "0.0.0.0", "port": PORT, "pool_size": 2, "ttl": 600}
"""Inside the image. verify serves on loopback."""
CLIENT = "client.yaml"
PROXY = "simulstream.server.speech_processors.remote.http_proxy_speech_processor.HttpProxySpeechProcessor"
CUDA = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
CUDA_LIBRARIES = ("cublas", "cudnn")
CTRANSLATE2_CUDA = ("libcublas.so.12", "libcudnn.so.9")
"""What CTranslate2's wheels open by name on a GPU, beside the CUDA 13 that torch's wheels bring."""


@dataclass(frozen=True)
class Image:
    """What an image is made of, and what it runs.

    python: version of Python, such as 3.11. base: the image it begins with.
    debian: Debian packages. environment: variables. device: cpu or cuda.
    modules: what the systems import; loading all of them shows a library that is missing.
    systems: names of the systems; the first runs unless the variable SYSTEM names another.
    """

    python: str
    base: str
    debian: list[str]
    environment: dict[str, str]
    device: str
    modules: list[str]
    systems: list[str]

    def start(self, system: str) -> list[str]:
        """The HTTP processor server of a system."""
        configurations = ["--server-config", "server.yaml", "--speech-processor-config"]
        return ["python", "-m", HTTP_SERVER, *configurations, f"systems/{system}/processor.yaml"]

    def start_agent(self, system: str, port: int = AGENT_PORT) -> list[str]:
        """SimulEval's remote agent of a system."""
        return ["python", "-m", "simulst.handin.agent", f"systems/{system}", "--remote-port", str(port)]

    def write(self, folder: Path) -> None:
        """Write image.json and the Dockerfiles."""
        (folder / IMAGE).write_text(json.dumps(asdict(self), indent=1) + "\n")
        for name, text in self.files().items():
            (folder / name).write_text(text)

    def files(self) -> dict[str, str]:
        """The Dockerfiles, what Docker leaves out, and simulstream's client of the image: name → content."""
        ignored = ("**/__pycache__", "development", "systems/*/*.jsonl", "systems/*/*.log", "verify.py")
        agent = self.start_agent("$SYSTEM")
        return {
            "Dockerfile": self.dockerfile(self.start("$SYSTEM"), PORT),
            "Dockerfile.simuleval": self.dockerfile(agent, AGENT_PORT, ["requirements-verify.txt"]),  # SimulEval, too
            ".dockerignore": "".join(f"{name}\n" for name in ignored),
            CLIENT: f"type: {PROXY}\nhostname: {HOST}\nport: {PORT}\n",
        }

    def dockerfile(self, start: Sequence[str], port: int, more: Sequence[str] = ()) -> str:
        """The Dockerfile. Layers that change seldom come first: packages, then weights, then code, then systems.

        start: the command that it runs. more: files of further packages.
        """
        files, variables = ("requirements.txt", *more), {**self.environment, "SYSTEM": self.systems[0]}
        lines = [f"FROM {self.base}", ""]
        if self.debian:
            lines += [
                "# Their versions are those of the base image's Debian.",
                "# hadolint ignore=DL3008",
                "RUN apt-get update \\",
                f"    && apt-get install --yes --no-install-recommends {' '.join(self.debian)} \\",
                "    && rm -rf /var/lib/apt/lists/*",
                "",
            ]
        lines += [
            "WORKDIR /app",
            f"COPY {' '.join(files)} ./",
            f"RUN {' '.join((*INSTALL, *(f'-r {file}' for file in files)))}",
            "COPY models ./models",
            "COPY simulst ./simulst",
            "COPY own ./own",
            "COPY server.yaml image.json ./",
            "COPY systems ./systems",
            "ENV " + " \\\n    ".join(f"{key}={value}" for key, value in variables.items()),
            "RUN python -m simulst.handin.image",
            "USER 65534:65534",
            f"EXPOSE {port}",
            "HEALTHCHECK --interval=10s --timeout=5s --start-period=10m \\",
            f'    CMD ["python", "-c", "import socket; socket.create_connection((\'127.0.0.1\', {port}), 4)"]',
            f'CMD ["sh", "-c", "exec {" ".join(start)}"]',
            "",
        ]
        return "\n".join(lines)


def read_image(folder: Path) -> Image:
    """Raises SimulstError: image.json is missing or broken."""
    return read_json_fields(Image, folder / IMAGE, "pack again")


def environment_of(device: str, python: str, requirements: Sequence[str]) -> dict[str, str]:
    if device == "cpu":
        return dict(OFFLINE)
    found = {**OFFLINE, **CUDA}
    if any(line.startswith("ctranslate2==") for line in requirements):
        # It opens them by name; their wheels put them where the loader does not look.
        folders = [f"/usr/local/lib/python{python}/site-packages/nvidia/{name}/lib" for name in CUDA_LIBRARIES]
        found["LD_LIBRARY_PATH"] = ":".join(folders)
    return found


def packed_environment(folder: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process that sees the folder's code alone."""
    known = {**os.environ, **(variables or {})}
    known.pop("SYSTEM", None)
    return {**known, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'own'}", "PYTHONSAFEPATH": "1"}


def missing(image: Image) -> list[str]:
    """A sentence for each module or library that can't be loaded."""
    found = []
    for name in image.modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # of any kind: a library of another version, too
            found.append(f"the module {name} can't be loaded ({error})")
    if image.device != "cpu" and "ctranslate2" in image.modules:
        for name in CTRANSLATE2_CUDA:
            try:
                ctypes.CDLL(name)
            except OSError as error:
                found.append(
                    f"CTranslate2 needs {name} on a GPU ({error}); install nvidia-cublas-cu12, nvidia-cudnn-cu12"
                )
    return found


if __name__ == "__main__":
    sys.exit("\n".join(f"error: {sentence}." for sentence in missing(read_image(Path()))) or None)
