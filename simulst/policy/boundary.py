"""READ `boundary`: decode when a boundary predictor finds a boundary (NAIST at IWSLT 2022, section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from simulst.audio.units import FRAME, FRAME_MS, SAMPLE_RATE
from simulst.calls import Steps
from simulst.errors import SimulstError
from simulst.needs import Need
from simulst.options import Share
from simulst.policy.context import Context
from simulst.policy.read import Read, Reading

if TYPE_CHECKING:
    from simulst.policy.boundary_predictor import Heard


@dataclass(frozen=True)
class Boundary(Read):
    """Decode when a boundary predictor finds a boundary.

    Use it with STOP `end_of_sentence` and COMMIT `all`. The option last_word of COMMIT writes everything at a boundary.

    threshold: λ_thre, in [0, 1]. A piece is a boundary if at least this share of its outputs are labelled 1. With 0,
        every piece is a boundary; with 1, hardly any.
    predictor: its file, which `simulst prefix predictor` writes. A relative path is relative to the current folder.
    frames: T, length of a piece in frames of 10 ms, a multiple of 4. The paper also uses 48, for its lowest latencies.
    name: of model and predictor; it tells several of them apart in tables and curves.
    """

    threshold: Share
    predictor: str
    frames: Annotated[int, Field(gt=0, multiple_of=4)] = 100
    name: str = ""

    label, system = "boundary-T{frames}{name:-}-{threshold:g}", "boundary-T{frames}{name:-}"
    sweeps = "threshold"
    needs = frozenset({Need.AUDIO})
    usual_commit = "all-last"

    @property
    def files(self) -> tuple[str, ...]:
        return (self.predictor,)

    def open(self, context: Context) -> Reading:
        """Raises SimulstError: the predictor is missing, broken or made for shorter pieces; wrong sample rate."""
        if context.sample_rate != SAMPLE_RATE:
            raise SimulstError(
                f"read: the boundary predictor hears {SAMPLE_RATE} Hz, and the model {context.sample_rate} Hz; "
                "take another READ, such as chunk."
            )
        return _Boundaries(self, context)


class _Boundaries(Reading):
    """The predictor's state for one stream. Streams that share a memo share the shares of pieces."""

    options: Boundary

    def __init__(self, options: Boundary, context: Context) -> None:
        super().__init__(options, context)
        self._size = options.frames * FRAME
        self._audio = np.zeros(0, dtype=np.float32)  # of the piece that is not complete yet
        self._pieces = 0
        self._share = -1.0  # share of the newest piece; -1 inside a piece, which is below any threshold
        self._heard = _load(options.predictor)
        tau = self._heard.predictor.tau
        if options.frames > tau:
            raise SimulstError(
                f"{options.predictor}: learnt boundaries in pieces of {tau} frames, but read: frames is "
                f"{options.frames}; give {tau} or less, or train a predictor with --tau {options.frames}."
            )
        self._key = ("boundary", options.predictor, options.frames)

    def next_ms(self, decoded_ms: float) -> float:
        """The end of the next piece, in ms. Decoding a full window between two pieces does not move the pieces."""
        piece = self.options.frames * FRAME_MS
        return (decoded_ms // piece + 1.0) * piece

    def hear(self, samples: np.ndarray) -> Steps[None]:
        audio = np.concatenate([self._audio, samples])
        piece, self._audio = audio[: self._size], audio[self._size :]
        if piece.size < self._size:
            self._audio, self._share = piece, -1.0
            return
        self._pieces += 1
        key = (*self._key, self._pieces)  # streams that come to the piece later find its share in the memo
        self._share, self._heard = yield from self.context.meter.shared_steps(key, lambda: self._heard.share(piece))

    def ready(self) -> bool:
        return self._share >= self.options.threshold


@lru_cache(maxsize=4)
def _load(path: str) -> Heard:
    """What a predictor knows at the beginning. It is loaded once per process, not once per utterance."""
    from simulst.policy.boundary_predictor import Heard, load_predictor  # imports torch

    return Heard(load_predictor(path))
