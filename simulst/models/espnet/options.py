"""What a user may choose of an ESPnet model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulst.errors import SimulstError
from simulst.options import Amount, NotNegative

LEAST_WINDOW = 5.0  # seconds


@dataclass(frozen=True)
class ESPnetOptions:
    """Options of an ESPnet model.

    device: the torch device, such as cpu or cuda.
    threads: torch's threads, in the whole process. 0: as many as speed up a model of this width.
    checkpoint: the name of the weights file in the directory. Empty: averaged weights if there are any, else the best.
    window: seconds of speech that the decoder sees, for streams without end. 0: all of it. Blockwise encoders only.
    precision: float32, bfloat16, float16 (for GPUs without bfloat16), or int8. int8 leaves the encoder's convolutions
        in float32 (see products.py).
    """

    device: str = "cpu"
    threads: Amount = 0
    checkpoint: str = ""
    window: NotNegative = 0.0
    precision: Literal["float32", "int8", "bfloat16", "float16"] = "float32"

    def __post_init__(self) -> None:
        if 0 < self.window < LEAST_WINDOW:
            raise SimulstError(f"window: {self.window:g} s is too short; give {LEAST_WINDOW:g} or more, or 0 for all.")
