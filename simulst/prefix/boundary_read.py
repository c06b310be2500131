"""READ `boundary`: decode where a boundary predictor says so (NAIST 2022, section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from simulst.errors import SimulstError
from simulst.needs import Need
from simulst.policy.context import Context
from simulst.policy.read import Read, Reading, check_name
from simulst.units import FRAME, FRAME_MS, SAMPLE_RATE

if TYPE_CHECKING:
    from simulst.prefix.predictor import BoundaryPredictor


@dataclass(frozen=True)
class Boundary(Read):
    """Where a boundary predictor says so, with STOP `end_of_sentence` and COMMIT `all`, whose last_word has everything
    written at the boundary.

    threshold: λ_thre. There is a boundary where at least this share of the newest piece's outputs are labelled 1: 0
        takes every piece for one, 1 hardly any.
    predictor: its file (local/train_predictor.py writes it), from where simulst runs.
    frames: a piece's length T, in frames of 10 ms; the paper also uses 48 for its lowest latencies.
    name: of model and predictor in tables and curves, where several are compared.
    """

    threshold: float
    predictor: str
    frames: int = 100
    name: str = ""

    needs = frozenset({Need.AUDIO})
    usual_commit = "all-last"

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise SimulstError(f"read: threshold is {self.threshold:g}; give a share, from 0 to 1.")
        if self.frames < 1 or self.frames % 4:
            raise SimulstError(f"read: frames is {self.frames}; the predictor needs a positive multiple of 4.")
        check_name(self.name)

    @property
    def label(self) -> str:
        return f"{self.curve}-{self.threshold:g}"

    @property
    def curve(self) -> str:  # type: ignore[override]
        return f"boundary-T{self.frames}" + (f"-{self.name}" if self.name else "")

    @property
    def swept(self) -> float | None:
        return self.threshold

    @property
    def files(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.predictor,)

    def next_ms(self, decoded_ms: float) -> float:
        """The end of the next piece. Pieces keep their places, also where a full window was decoded between two."""
        piece = self.frames * FRAME_MS
        return (decoded_ms // piece + 1.0) * piece

    def open(self, context: Context) -> Reading:
        """Raises SimulstError: a predictor that is missing, broken or made for shorter pieces; another sample rate."""
        if context.sample_rate != SAMPLE_RATE:
            raise SimulstError(
                f"read: the boundary predictor hears {SAMPLE_RATE} Hz, and the model {context.sample_rate} Hz; "
                "take another READ, such as chunk."
            )
        return _Boundaries(self, context)


class _Boundaries(Reading):
    """The predictor runs once over an utterance for all thresholds that share a memo."""

    def __init__(self, read: Boundary, context: Context) -> None:
        self._read, self._meter = read, context.meter
        self._size = read.frames * FRAME
        self._audio = np.zeros(0, dtype=np.float32)  # of the piece that is not whole yet
        self._pieces = 0
        self._share = -1.0  # of the newest piece; less than any threshold between two pieces' ends
        predictor = _load(read.predictor)
        if read.frames > predictor.tau:
            raise SimulstError(
                f"{read.predictor}: learnt boundaries in pieces of {predictor.tau} frames, and read: frames is "
                f"{read.frames}; give {predictor.tau} or less, or train one with --tau {read.frames}."
            )
        self._key = ("boundary", read.predictor, read.frames)
        # The same for all: whoever comes first to a piece has it heard, and nobody comes to one without those before.
        self._stream = self._meter.shared(self._key, predictor.start)

    def next_ms(self, decoded_ms: float) -> float:
        return self._read.next_ms(decoded_ms)

    def hear(self, samples: np.ndarray) -> None:
        audio = np.concatenate([self._audio, samples])
        piece, self._audio = audio[: self._size], audio[self._size :]
        if piece.size < self._size:
            self._audio, self._share = piece, -1.0
            return
        self._pieces += 1
        self._share = self._meter.shared((*self._key, self._pieces), lambda: self._stream.share(piece))

    def ready(self) -> bool:
        return self._share >= self._read.threshold


@lru_cache(maxsize=4)
def _load(path: str) -> BoundaryPredictor:
    """Once a process, not once an utterance."""
    from simulst.prefix.predictor import load_predictor  # which needs torch

    return load_predictor(path)
