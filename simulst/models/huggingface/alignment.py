"""When tokens were spoken, by the decoder's attention to the source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulst.errors import SimulstError
from simulst.options import read_json_fields
from simulst.policy.context import HeadPairs

HEADS = "alignment_heads.json"
"""The file beside a model that `simulst models heads` writes."""


@dataclass(frozen=True)
class Heads:
    """Of such a file: the heads that align best, best first, each as the number of its layer and its number there."""

    heads: tuple[tuple[int, int], ...]


def heads_beside(folder: Path, layers: int, heads: int) -> HeadPairs:
    """The heads that were found for a model with so many layers and heads in each; none if nobody looked for them.

    Raises SimulstError: the file is broken, or of another model.
    """
    path = folder / HEADS
    if not path.is_file():
        return ()
    remedy = "find the heads again (simulst models heads)"
    found = read_json_fields(Heads, path, remedy).heads
    for layer, head in found:
        if not (0 <= layer < layers and 0 <= head < heads):
            raise SimulstError(
                f"{path}: names head {head} of layer {layer}, but the decoder has {layers} layers of {heads} heads; "
                f"{remedy}."
            )
    return found


def monotonic_frames(weights: np.ndarray) -> list[int]:
    """The frame of each token, never before that of the token before it, so that the sum of log weights is greatest.

    weights: (tokens, frames), positive.
    """
    scores = np.log(np.maximum(weights, 1e-10))
    best = np.zeros(scores.shape[1])
    before = []  # token → for each frame, the best frame up to it of the token before
    for row in scores:
        reached = np.maximum.accumulate(best)
        is_new = np.concatenate([[True], reached[1:] > reached[:-1]])
        before.append(np.maximum.accumulate(np.where(is_new, np.arange(len(best)), 0)))
        best = reached + row
    frames = []
    frame = int(best.argmax()) if len(scores) else 0
    for place in reversed(range(len(scores))):
        frames.append(frame)
        frame = int(before[place][frame])
    return frames[::-1]
