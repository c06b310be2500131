"""The boundary predictor in the loop: what READ `boundary` listens with."""

from __future__ import annotations

import functools

import numpy as np

from simulst.data.audio import SAMPLE_RATE
from simulst.errors import SimulstError
from simulst.models.base import Memo
from simulst.policy.read import FRAME_MS
from simulst.prefix.predictor import BoundaryPredictor, load_predictor


class BoundaryListener:
    """One utterance, piece by piece.

    predictor: its file. frames: a piece's length, in frames of 10 ms. threshold: the share of the piece's outputs
    labelled 1 from which on it ends at a boundary.
    The predictor runs once over an utterance for all thresholds that share a memo.
    Raises SimulstError: a predictor that is missing or broken, or was trained on shorter pieces.
    """

    sample_rate = SAMPLE_RATE

    def __init__(self, predictor: str, frames: int, threshold: float, memo: Memo) -> None:
        self._threshold, self._memo = threshold, memo
        self._size = frames * FRAME_MS * SAMPLE_RATE // 1000
        self._audio = np.zeros(0, dtype=np.float32)  # of the piece that is not whole yet
        self._pieces = 0
        loaded = _load(predictor)
        if frames > loaded.tau:
            raise SimulstError(
                f"{predictor}: learnt boundaries in pieces of {loaded.tau} frames, and read: frames is {frames}; "
                f"give {loaded.tau} or less, or train one with --tau {frames}."
            )
        self._key = ("boundary", predictor, frames)
        # The same for all: whoever comes first to a piece has it heard, and nobody comes to one without those before.
        self._listener = memo.get(self._key, loaded.start)

    def ready(self, samples: np.ndarray) -> bool:
        """Whether these samples, (n,) float32, complete a piece that ends at a boundary; at most one is completed."""
        audio = np.concatenate([self._audio, samples])
        piece, self._audio = audio[: self._size], audio[self._size :]
        if piece.size < self._size:
            self._audio = piece
            return False
        self._pieces += 1
        share = self._memo.get((*self._key, self._pieces), lambda: self._listener.share(piece))
        return share >= self._threshold


@functools.lru_cache(maxsize=4)
def _load(path: str) -> BoundaryPredictor:
    """Once a process, not once an utterance."""
    return load_predictor(path)
