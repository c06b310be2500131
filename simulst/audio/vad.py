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
        return self.next_together([self], [chunk])[0]

    @staticmethod
    def next_together(hearings: Sequence[Hearing], chunks: Sequence[np.ndarray]) -> list[Hearing]:
        """The states of several streams, each after its next chunk, as in `next`."""
        import torch

        samples = np.stack([np.concatenate([one.context, chunk]) for one, chunk in zip(hearings, chunks, strict=True)])
        with torch.inference_mode():
            probabilities, state = _network()(torch.from_numpy(samples), torch.cat([one.state for one in hearings], 1))
        found = []
        for number, (one, probability) in enumerate(zip(hearings, probabilities[:, 0].tolist(), strict=True)):
            least = max(one.threshold - SPEECH + SILENCE, 0.01) if one.speech else one.threshold
            own = state[:, number : number + 1].clone()  # no stream holds others' memory
            found.append(Hearing(probability >= least, samples[number, -CONTEXT:].copy(), own, one.threshold))
        return found


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
