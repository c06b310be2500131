"""The choice of a beam search's step: the best continuations of its hypotheses, in one loop."""

from __future__ import annotations

import numpy as np

from simulst.kernels.compiler import compiled


@compiled(
    "Tuple((i8[::1], b1[::1], i8[:,::1], f8[:,::1], f8[::1]))"
    "(i8[:,:], f8[:,:], i8[:,:], f8[:,:], f8[:], f8[:,:], f8[:], f8, f8, i8, i8, b1)",
)
def best_continuations(
    tokens: np.ndarray,
    attention: np.ndarray,
    candidates: np.ndarray,
    log_p: np.ndarray,
    end: np.ndarray,
    by_ctc: np.ndarray,
    ended_by_ctc: np.ndarray,
    ctc_weight: float,
    bonus: float,
    eos: int,
    beam: int,
    keeps_width: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The best `beam` continuations. Those that are impossible (-inf) are left out; of equal ones the first is better.

    tokens: (n, L) the hypotheses. attention: (n, L + 1) the decoder's log p of their first 0..L tokens.
    candidates, log_p: (n, k) next tokens, and the decoder's log p of each. <eos> among them is left out.
    end: (n,) the decoder's log p of <eos>.
    by_ctc, ended_by_ctc: (n, k) and (n,) CTC prefix scores of candidates, and of <eos>; not used if ctc_weight is 0.
    bonus: of the longer text.
    keeps_width: others take the places of those that end.

    Returns, of m continuations, best first: (m,) the numbers of the hypotheses that they continue; (m,) whether they
        end with <eos>; (m, L + 1) and (m, L + 2) tokens and attention, with the new token; (m,) the scores by which
        they are ranked.
    """
    count, width = candidates.shape
    length = tokens.shape[1]
    # At most one continuation of each hypothesis ends, so these have room for all that others can take the places of.
    most = beam + count if keeps_width else beam
    places, scores = np.empty(most + 1, np.int64), np.empty(most + 1)
    found = 0
    for row in range(count):
        for column in range(width + 1):
            if column < width and candidates[row, column] == eos:
                continue
            by_decoder = attention[row, length] + (log_p[row, column] if column < width else end[row])
            score = (1 - ctc_weight) * by_decoder + bonus
            if ctc_weight > 0:
                score += ctc_weight * (by_ctc[row, column] if column < width else ended_by_ctc[row])
            if not score > -np.inf or (found == most and score <= scores[found - 1]):
                continue
            place = found
            while place and scores[place - 1] < score:
                places[place], scores[place] = places[place - 1], scores[place - 1]
                place -= 1
            places[place], scores[place] = row * (width + 1) + column, score
            found = min(found + 1, most)
    if keeps_width:
        kept = going_on = 0
        for place in range(found):
            goes_on = places[place] % (width + 1) < width
            if (going_on if goes_on else place) < beam:
                places[kept], scores[kept] = places[place], scores[place]
                kept += 1
                going_on += goes_on
        found = kept
    rows, ends = np.empty(found, np.int64), np.empty(found, np.bool_)
    longer, log_ps = np.empty((found, length + 1), np.int64), np.empty((found, length + 2))
    for place in range(found):
        row, column = places[place] // (width + 1), places[place] % (width + 1)
        rows[place], ends[place] = row, column == width
        for i in range(length):
            longer[place, i] = tokens[row, i]
        for i in range(length + 1):
            log_ps[place, i] = attention[row, i]
        longer[place, length] = eos if column == width else candidates[row, column]
        log_ps[place, length + 1] = attention[row, length] + (end[row] if column == width else log_p[row, column])
    return rows, ends, longer, log_ps, scores[:found].copy()
