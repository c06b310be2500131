"""Voice activity detection: find the parts of a stream that are speech, while the audio comes in.

The detector is Silero's (PyPI: silero-vad, MIT), a small recurrent network with its weights in the package. It hears
32 ms at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from simulst.errors import SimulstError

CHUNK = 512  # samples that the detector hears at a time
WIDTH = 128  # of the network's state
CONTEXT = 64  # samples before the chunk that the detector hears again
SPEECH, SILENCE = 0.5, 0.35  # speech begins at a probability of at least SPEECH, and ends below SILENCE


@dataclass(frozen=True)
class Hearing:
    """The detector's state after a chunk of a stream. It is immutable, so several streams can continue from it.

    speech: whether the chunk is speech. threshold: the probability at which it begins.
    """

    speech: bool
    context: np.ndarray  # (CONTEXT,), the chunk's last samples
    state: Any  # of the network, (2, 1, width)
    threshold: float = SPEECH

    def next(self, chunk: np.ndarray) -> Hearing:
        """The state after the next chunk. chunk: (CHUNK,) float32 at 16 kHz."""
        samples = np.concatenate([self.context, chunk])
        [probability], state = _heard(samples[None], self.state)
        return self._after(probability, samples, state)

    @staticmethod
    def next_together(hearings: Sequence[Hearing], chunks: Sequence[np.ndarray]) -> list[Hearing]:
        """The states of several streams, each after its next chunk, as in `next`."""
        import torch

        samples = [np.concatenate([one.context, chunk]) for one, chunk in zip(hearings, chunks, strict=True)]
        probabilities, state = _heard(np.stack(samples), torch.cat([one.state for one in hearings], 1))
        states = [one.clone() for one in state.split(1, 1)]  # no stream holds others' memory
        return [one._after(*found) for one, *found in zip(hearings, probabilities, samples, states, strict=True)]

    def _after(self, probability: float, samples: np.ndarray, state: Any) -> Hearing:
        least = max(self.threshold - SPEECH + SILENCE, 0.01) if self.speech else self.threshold
        return Hearing(probability >= least, samples[-CONTEXT:], state, self.threshold)


def _heard(samples: np.ndarray, state: Any) -> tuple[list[float], Any]:
    """The probability of speech for each of n streams, and the network's state after it.

    samples: (n, CONTEXT + CHUNK). state: (2, n, width).
    """
    import torch

    with torch.inference_mode():
        probabilities, state = _network()(torch.from_numpy(samples), state)
        return probabilities[:, 0].tolist(), state


def start_of_stream(threshold: float = SPEECH) -> Hearing:
    """The state before the first chunk. Raises SimulstError: the package silero-vad is missing."""
    _network()
    import torch

    return Hearing(False, np.zeros(CONTEXT, dtype=np.float32), torch.zeros(2, 1, WIDTH), threshold)


@cache
def _network() -> Any:
    try:
        import torch

        threads = torch.get_num_threads()
        try:
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # torch's, of TorchScript
                from silero_vad import load_silero_vad

                return load_silero_vad()._model  # without its wrapper, which keeps the state of one stream
        finally:
            torch.set_num_threads(threads)  # importing the package sets 1
    except ImportError as error:
        raise SimulstError(
            f"pauses and speech are found by silero-vad and torch ({error}); pip install silero-vad torch, or give a "
            "configuration without 'segment' and name the language."
        ) from error
