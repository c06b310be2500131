"""When tokens were spoken, by the decoder's attention to the source."""

from __future__ import annotations

import numpy as np


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
