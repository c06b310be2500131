"""Encode all prefixes of some utterances; each prefix gets the same encoder frames as if it were encoded alone.

A blockwise encoder runs through the utterances once. At the end of each prefix, a copy of its state encodes the last
frames of the prefix. With other encoders, the prefixes of an utterance share the convolution. All prefixes of one
length are encoded together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simulst.audio.units import FRAME
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.network.blockwise_encoder import EncoderState


def encode_prefixes(model: ESPnet, audio: Sequence[np.ndarray], tau: int) -> dict[tuple[int, int], Tensor]:
    """Encode the prefixes of tau, 2 tau, ... frames of each utterance, and the whole utterance.

    audio: samples of each utterance, (n,) float32 at 16 kHz.
    tau: frames of 10 ms by which prefixes grow.

    Returns: (index of the utterance, frames of 10 ms) → encoder frames, (t, width). The whole utterance includes the
        samples after its last whole frame.
    """
    encode = _in_blocks if model.blockwise else _one_length_at_a_time
    return dict(encode(model, audio, tau))


def _one_length_at_a_time(
    model: ESPnet, audio: Sequence[np.ndarray], tau: int
) -> Iterator[tuple[tuple[int, int], Tensor]]:
    prefixes = [model.reduced(one) for one in audio]
    frames = [one.size // FRAME for one in audio]
    for end in range(tau, max(frames), tau):
        rows = [row for row, count in enumerate(frames) if end < count]
        encoded = model.encode_prefixes([prefixes[row] for row in rows], end * FRAME)
        yield from zip([(row, end) for row in rows], encoded, strict=True)
    for row, one in enumerate(audio):
        yield (row, frames[row]), model.encode_prefixes([prefixes[row]], one.size)[0]


def _in_blocks(model: ESPnet, audio: Sequence[np.ndarray], tau: int) -> Iterator[tuple[tuple[int, int], Tensor]]:
    frames = [one.size // FRAME for one in audio]

    def encode(
        rows: list[int], samples: int, first: int, state: EncoderState | None, final: bool
    ) -> tuple[Tensor, Any, int]:
        """Encode from feature frame `first` on.

        Returns: the encoder frames (B, t, width), the state, and the next feature frame.
        """
        last = model.features.count(samples, final)
        features = torch.stack([model.features.frames(audio[row][:samples], 0, first, last) for row in rows])
        [(frames, state)] = model.encode_blocks([(features, state, final)])
        return frames, state, last

    rows, first = list(range(len(audio))), 0
    state: EncoderState | None = None
    heard = [model.no_frames for _ in audio]  # encoder frames that do not depend on where the prefix ends
    for end in range(tau, max(frames) + tau, tau):
        going = [row for row in rows if end < frames[row]]
        for place, row in enumerate(rows):
            if row not in going:
                last, *_ = encode([row], audio[row].size, first, state[[place]] if state else None, True)
                yield (row, frames[row]), torch.cat([heard[row], last[0]])
        if not going:
            return
        state = state[[rows.index(row) for row in going]] if state else None
        rows = going
        more, state, first = encode(rows, end * FRAME, first, state, False)
        last, *_ = encode(rows, end * FRAME, first, state, True)
        for row, new, rest in zip(rows, more, last, strict=True):
            heard[row] = torch.cat([heard[row], new])
            yield (row, end), torch.cat([heard[row], rest])
