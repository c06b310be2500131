"""ESPnet2 speech translation (or recognition) models. ESPnet trains them; this package decodes them.

Nothing heavy is imported before a model is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from simulst.errors import SimulstError
from simulst.models.base import Family, Model

LEAST_WINDOW = 5.0  # seconds


@dataclass(frozen=True)
class ESPnetOptions:
    """Options of an ESPnet model.

    device: the torch device, such as cpu or cuda.
    threads: torch's threads, in the whole process. 0: as many as speed up a model of this width.
    checkpoint: the name of the weights file in the directory. Empty: averaged weights if there are any, else the best.
    window: seconds of speech that the decoder sees, for streams without end. 0: all of it. Blockwise encoders only.
    precision: float32, bfloat16, or int8. int8 leaves the encoder in float32 (see linear.py).
    """

    device: str = "cpu"
    threads: Annotated[int, Field(ge=0)] = 0
    checkpoint: str = ""
    window: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    precision: Literal["float32", "int8", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        if 0 < self.window < LEAST_WINDOW:
            raise SimulstError(f"window: {self.window:g} s is too short; give {LEAST_WINDOW:g} or more, or 0 for all.")


def _recognises(path: Path) -> bool:
    config = path / "config.yaml"
    if config.is_file():
        lines = config.read_text(encoding="utf-8", errors="replace").splitlines()
        return any(line.startswith("token_list:") for line in lines)
    return path.suffix == ".zip" and path.is_file()


def _load(path: Path, options: ESPnetOptions, cores: int) -> Model:
    from simulst.models.espnet.loading import load

    return load(path, options, cores)


def _digest(path: Path, options: ESPnetOptions) -> str:
    from simulst.models.espnet.experiment import Experiment

    return Experiment(path, options.checkpoint).digest()


family = Family(
    name="espnet",
    looks_like="an ESPnet experiment (config.yaml with a token_list, weights in *.pth) or the zip that ESPnet packed",
    recognises=_recognises,
    options=ESPnetOptions,
    load=_load,
    digest=_digest,
)
