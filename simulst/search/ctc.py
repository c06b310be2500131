"""CTC prefix scores: the probability, by the CTC layer alone, that the text begins with given tokens.

γⁿ_t(h) is the probability that the first t frames spell h and that frame t is the last label of h. γᵇ_t(h) is the same
if frame t is a blank (Graves 2012, chapter 7; Watanabe et al. 2017, algorithm 2). For a token c after a prefix g:

    Φ_t(g, c)  = γᵇ_t(g) + (0 if c is g's last token else γⁿ_t(g))
    γⁿ_t(g·c)  = p_t(c)     (γⁿ_{t-1}(g·c) + Φ_{t-1}(g, c))
    γᵇ_t(g·c)  = p_t(blank) (γᵇ_{t-1}(g·c) + γⁿ_{t-1}(g·c))
    prefix     p(g·c...)   = Σ_t Φ_{t-1}(g, c) p_t(c)
    complete   p(g·<eos>)  = γᵇ_T(g) + γⁿ_T(g)

The prefix probability of a candidate needs only Φ of g, and no recursion. So a search step calls `score` for many
candidates and `extend` for the few that survive. The variables of g·c in new frames need only those of g in the same
frames, and their own values in the last old frame. So `advance` can add frames to a prefix. It needs two values per
ancestor of the prefix.

The loops are compiled and run on the CPU, also for a model on a GPU. Six hypotheses over a hundred frames take them
less time than it takes to start the thirty operations that a GPU would need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from simulst.errors import SimulstError
from simulst.kernels.compiler import build, compiled

NO_NUMBERS = (  # what is said of scores
    "scores are not numbers (NaN); the checkpoint or the audio is broken, or the model's numbers are too large for "
    "float16."
)
BLANK = 0  # the label of no token: its score after any prefix is -inf
LEAST_SUM = 1e-250  # of products of probabilities; a smaller sum may have lost some of them to underflow


@dataclass(frozen=True)
class CTCPrefixes:
    """n token sequences of the same length L over T frames, and the variables with which tokens and frames are added.

    All variables but `tokens` are logarithms, in float64.

    tokens: (n, L) int64.
    score: (n,) probability that the text begins with these tokens.
    forward: (n, 2, T + 1) Φ of all L tokens after t = 0..T frames: γⁿ + γᵇ, for any next token but the last one again,
        and γᵇ, for that.
    frontier: (n, 2, L + 1) γⁿ and γᵇ of the first 0..L tokens, after T frames.
    """

    tokens: np.ndarray
    score: np.ndarray
    forward: np.ndarray
    frontier: np.ndarray

    def __getitem__(self, rows: Any) -> CTCPrefixes:
        """Select some of the n sequences, with any index that leaves an array of them."""
        return CTCPrefixes(self.tokens[rows], self.score[rows], self.forward[rows], self.frontier[rows])

    @property
    def frames(self) -> int:
        return self.forward.shape[2] - 1

    @property
    def complete(self) -> np.ndarray:
        """(n,) log probability that the text is these tokens and no more."""
        return self.forward[:, 0, -1]


class CTCPrefixScorer:
    """Prefix scores over the frames of one utterance so far.

    CTCPrefixes cover the frames that were there when they were made. `advance` extends them to newer frames.

    log_probs: (T, V) log posteriors of the CTC layer, on any device; T may be 0. Those below -745 count as -inf.
    """

    def __init__(self, log_probs: torch.Tensor) -> None:
        """Raises SimulstError as `append` does."""
        build(__name__)
        self.frames = 0
        self._posteriors = np.empty((log_probs.shape[1], 0))  # (V, room): those of a token lie side by side
        self._silence = np.empty(0)  # (room,) log p(blank)
        self.append(log_probs)

    def append(self, log_probs: torch.Tensor) -> None:
        """Add frames, (t, V).

        Raises SimulstError: a score is NaN.
        """
        new = log_probs.detach().cpu().double().numpy()
        if math.isnan(new.sum()):  # a single pass: the sum is NaN only if one of the scores is
            raise SimulstError(f"the CTC layer's {NO_NUMBERS}")
        used, self.frames = self.frames, self.frames + len(new)
        if self.frames > self._silence.size:  # room for twice as many, so all appends together take linear time
            known, room = (self._posteriors[:, :used], self._silence[:used]), max(self.frames, 2 * used)
            self._posteriors, self._silence = np.empty((len(self._posteriors), room)), np.empty(room)
            self._posteriors[:, :used], self._silence[:used] = known
        self._posteriors[:, used : self.frames] = np.exp(new.T)
        self._silence[used : self.frames] = new[:, BLANK]

    def force(self, tokens: tuple[int, ...], known: CTCPrefixes | None = None) -> CTCPrefixes:
        """A given prefix, n = 1.

        tokens: the prefix.
        known: an earlier result. If `tokens` begin with its tokens, only new frames and new tokens are computed.
        """
        text = np.array(tokens, dtype=np.int64)
        if known is not None and tokens[: known.tokens.shape[1]] == tuple(known.tokens[0].tolist()):
            forced, first = self.advance(known), np.zeros(1, dtype=np.int64)
            for end in range(known.tokens.shape[1], len(text)):
                forced = self.extend(forced, first, text[end : end + 1])
            return forced
        return self.over(text[None])

    def over(self, tokens: np.ndarray) -> CTCPrefixes:
        """Given prefixes of the same length, (n, L), over all frames so far."""
        # Before the first frame the empty prefix has probability 1, and any other prefix has probability 0.
        frontier = np.full((len(tokens), 2, tokens.shape[1] + 1), -np.inf)
        frontier[:, 1, 0] = 0.0
        ends = frontier[:, 1, -1]
        return self.advance(CTCPrefixes(tokens, ends, np.stack([ends, ends], 1)[:, :, None], frontier))

    def score(self, prefixes: CTCPrefixes, candidates: np.ndarray) -> np.ndarray:
        """Score each of n prefixes followed by each of its k candidates, (n, k) → log p(g·c...), (n, k) float64."""
        assert len(candidates) == len(prefixes.score) and prefixes.frames <= self.frames
        return _score(prefixes.tokens, prefixes.forward, candidates, self._posteriors)

    def extend(self, prefixes: CTCPrefixes, rows: np.ndarray, tokens: np.ndarray) -> CTCPrefixes:
        """The m prefixes that are prefixes[rows[i]] followed by tokens[i]; both are (m,) int64."""
        assert rows.shape == tokens.shape and prefixes.frames <= self.frames
        old = prefixes.tokens, prefixes.forward, prefixes.frontier
        return CTCPrefixes(*_extend(*old, rows, tokens, self._posteriors, self._silence))

    def advance(self, prefixes: CTCPrefixes, exact: bool = True) -> CTCPrefixes:
        """The same prefixes over all frames so far.

        exact: if True, the result is as if the prefixes had been computed over all frames at once. If False, the result
            is that of ESPnet's blockwise search (Tsunoo et al. 2021, as of ESPnet 202511), for comparisons. There a
            prefix has only blanks in the new frames, and only after a blank in the last old frame: γⁿ_t(g) = 0 and
            γᵇ_t(g) = p_t(blank) γᵇ_{t-1}(g). Alignments whose last label is in a new frame or in the last old frame are
            lost. The score stays that over the old frames. This is exact only for the empty prefix.
        """
        if prefixes.frames == self.frames:
            return prefixes
        silent = np.append(0.0, np.cumsum(self._silence[prefixes.frames : self.frames]))  # log p of blanks only
        start = prefixes.frontier[:, 1, 0] if exact else prefixes.forward[:, 1, -1]
        now = np.repeat((start[:, None] + silent)[:, None], 2, 1)
        score, frontier = prefixes.score, prefixes.frontier.copy()
        if exact:
            frontier[:, 1, 0] = now[:, 1, -1]
            posteriors = self._posteriors, self._silence, prefixes.frames
            now, gained = _follow_all(now, prefixes.tokens, frontier, *posteriors)
            score = np.logaddexp(score, gained)
        else:
            frontier[:, 0] = -np.inf
            frontier[:, 1] += silent[-1]
        return CTCPrefixes(prefixes.tokens, score, np.append(prefixes.forward, now[:, :, 1:], 2), frontier)


# ---- compiled loops; posteriors are (V, room), silence is (room,), and the first T frames of them count ----


@compiled()
def _add(a: float, b: float) -> float:
    """log(e^a + e^b)."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


@compiled()
def _weights(phi: np.ndarray, weights: np.ndarray) -> float:
    """Write Φ without its logarithm, in units of the largest, of which the logarithm is returned."""
    most = -np.inf
    for t in range(len(weights)):
        most = max(most, phi[t])
    for t in range(len(weights)):
        weights[t] = math.exp(phi[t] - most) if most > -np.inf else 0.0
    return most


@compiled(fastmath={"reassoc", "nsz", "contract"})  # so several products are summed at once
def _dot(a: np.ndarray, b: np.ndarray) -> float:
    total = 0.0
    for t in range(len(a)):
        total += a[t] * b[t]
    return total


@compiled()
def _sum(phi: np.ndarray, most: float, weights: np.ndarray, p: np.ndarray) -> float:
    """log Σ_t Φ_{t-1} p_t, for phi (T + 1,) and p (T,). most, weights: of phi, see `_weights`."""
    total = _dot(weights, p)
    if total > LEAST_SUM:
        return most + math.log(total)
    total = -np.inf
    for t in range(len(p)):
        if p[t] > 0:
            total = _add(total, phi[t] + math.log(p[t]))
    return total


@compiled()
def _of_token(posteriors: np.ndarray, token: int, first: int, last: int) -> np.ndarray:
    if not 0 <= token < len(posteriors):
        raise IndexError("a token outside of the CTC layer's vocabulary")  # compiled code does not check indices
    return posteriors[token, first:last]


@compiled()
def _follow(
    forward: np.ndarray,
    rows: np.ndarray,
    last: np.ndarray,
    tokens: np.ndarray,
    known: np.ndarray,
    posteriors: np.ndarray,
    silence: np.ndarray,
    first: int,
    followed: np.ndarray,
) -> np.ndarray:
    """Add a token to each of m prefixes, over t frames from number `first` on.

    forward: (n, 2, t + 1) Φ of n prefixes; rows, last, tokens: (m,) which of them, its last token, and the new one.
    known: (m, 2) γⁿ and γᵇ with the new token, before the first frame. Those after the last frame are written there.
    followed: (m, 2, t + 1) Φ with the new token is written there.
    Returns: (m,) log Σ_t Φ_{t-1} p_t of the new token.
    """
    count, frames = len(rows), forward.shape[2] - 1
    gained, again, weights = np.full(count, -np.inf), np.empty(count, np.int64), np.empty(frames)
    either, share = np.empty(count), np.empty(count)  # γⁿ + γᵇ, and the share of γⁿ in it
    for i in range(count):
        again[i] = tokens[i] == last[i]
        p = _of_token(posteriors, tokens[i], first, first + frames)
        if tokens[i] == BLANK:
            known[i, 0] = known[i, 1] = -np.inf
        else:
            phi = forward[rows[i], again[i]]
            gained[i] = _sum(phi, _weights(phi, weights), weights, p)
        either[i] = followed[i, 0, 0] = _add(known[i, 0], known[i, 1])
        followed[i, 1, 0] = known[i, 1]
        share[i] = math.exp(known[i, 0] - either[i]) if known[i, 0] > -np.inf else 0.0
    # Frame by frame, so that the processor computes the prefixes side by side.
    for t in range(frames):
        p_blank = posteriors[BLANK, first + t]
        for i in range(count):
            # In units of the larger one of `either` and Φ. So it takes one exponential and one logarithm.
            old, phi = either[i], forward[rows[i], again[i], t]
            unit = max(old, phi)
            less = math.exp(min(old, phi) - unit) if unit > -np.inf else 0.0
            before, entered = (less, 1.0) if phi > old else (1.0, less)
            spoken = posteriors[tokens[i], first + t] * (share[i] * before + entered) if tokens[i] != BLANK else 0.0
            both = spoken + p_blank * before
            either[i] = unit + math.log(both) if both > 0 and unit > -np.inf else -np.inf
            share[i] = spoken / both if both > 0 else 0.0
            followed[i, 0, t + 1], followed[i, 1, t + 1] = either[i], silence[first + t] + old
    for i in range(count):
        known[i, 0] = either[i] + math.log(share[i]) if share[i] > 0 else -np.inf
        known[i, 1] = followed[i, 1, frames]
    return gained


@compiled("f8[:,::1](i8[:,:], f8[:,:,::1], i8[:,:], f8[:,::1])")
def _score(tokens: np.ndarray, forward: np.ndarray, candidates: np.ndarray, posteriors: np.ndarray) -> np.ndarray:
    frames, length = forward.shape[2] - 1, tokens.shape[1]
    scores = np.full(candidates.shape, -np.inf)
    either, again = np.empty(frames), np.empty(frames)
    for i in range(len(candidates)):
        most = _weights(forward[i, 0], either)
        for k in range(candidates.shape[1]):
            token = candidates[i, k]
            p = _of_token(posteriors, token, 0, frames)
            if length and token == tokens[i, length - 1]:
                scores[i, k] = _sum(forward[i, 1], _weights(forward[i, 1], again), again, p)
            elif token != BLANK:
                scores[i, k] = _sum(forward[i, 0], most, either, p)
    return scores


@compiled(
    "Tuple((i8[:,::1], f8[::1], f8[:,:,::1], f8[:,:,::1]))"
    "(i8[:,:], f8[:,:,::1], f8[:,:,::1], i8[::1], i8[:], f8[:,::1], f8[::1])",
)
def _extend(
    tokens: np.ndarray,
    forward: np.ndarray,
    frontier: np.ndarray,
    rows: np.ndarray,
    added: np.ndarray,
    posteriors: np.ndarray,
    silence: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """tokens, forward and frontier of n prefixes → tokens, score, forward and frontier of m."""
    count, length = len(rows), tokens.shape[1]
    longer, last = np.empty((count, length + 1), np.int64), np.full(count, -1)
    ends, known = np.empty((count, 2, length + 2)), np.full((count, 2), -np.inf)
    followed = np.empty((count, 2, forward.shape[2]))
    for i in range(count):
        for place in range(length):
            last[i] = longer[i, place] = tokens[rows[i], place]
        longer[i, length] = added[i]
    score = _follow(forward, rows, last, added.copy(), known, posteriors, silence, 0, followed)
    for i in range(count):
        for part in range(2):
            for place in range(length + 1):
                ends[i, part, place] = frontier[rows[i], part, place]
            ends[i, part, length + 1] = known[i, part]
    return longer, score, followed, ends


@compiled(
    "Tuple((f8[:,:,::1], f8[::1]))(f8[:,:,::1], i8[:,:], f8[:,:,::1], f8[:,::1], f8[::1], i8)",
)
def _follow_all(
    forward: np.ndarray,
    tokens: np.ndarray,
    frontier: np.ndarray,
    posteriors: np.ndarray,
    silence: np.ndarray,
    first: int,
) -> tuple[np.ndarray, np.ndarray]:
    """From n empty prefixes to the complete ones, (n, L), a token at a time, over t frames from number `first` on.

    forward: (n, 2, t + 1) Φ of the empty prefixes; frontier: of the complete ones, before these frames and then after.
    Returns: Φ of the complete prefixes, and (n,) by how much their score grows; -inf for L = 0.
    """
    count, length = tokens.shape
    rows, last, added = np.arange(count), np.full(count, -1), np.empty(count, np.int64)
    known, gained, now = np.empty((count, 2)), np.full(count, -np.inf), np.empty_like(forward)
    for end in range(1, length + 1):
        for i in range(count):
            added[i] = tokens[i, end - 1]
            known[i, 0], known[i, 1] = frontier[i, 0, end], frontier[i, 1, end]
        gained = _follow(forward, rows, last, added, known, posteriors, silence, first, now)
        for i in range(count):
            last[i] = added[i]
            frontier[i, 0, end], frontier[i, 1, end] = known[i, 0], known[i, 1]
        forward, now = now, forward
    return forward, gained
