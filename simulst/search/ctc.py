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
from numba import njit

from simulst.errors import SimulstError

NEGLIGIBLE = -50.0  # a summand that is e^50 times smaller does not change a float64 sum, even if there are 10^6 of them
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

    log_probs: (T, V) log posteriors of the CTC layer, on any device; T may be 0.
    blank: index of the blank. It is not a token, so its score after any prefix is -inf.
    """

    def __init__(self, log_probs: torch.Tensor, blank: int = 0) -> None:
        """Raises SimulstError as `append` does."""
        self.frames, self._blank = 0, blank
        self._make_room(log_probs.shape[1], 0)
        self.append(log_probs)

    def append(self, log_probs: torch.Tensor) -> None:
        """Add frames, (t, V).

        Raises SimulstError: a score is NaN.
        """
        new = log_probs.detach().to("cpu", torch.float64).numpy()
        if math.isnan(new.sum()):  # a single pass: the sum is NaN only if one of the scores is
            raise SimulstError("the CTC layer's scores are not numbers (NaN); the checkpoint or the audio is broken.")
        used, self.frames = self.frames, self.frames + len(new)
        if self.frames > self._log_probs.shape[1]:
            old = self._log_probs
            self._make_room(len(old), max(self.frames, 2 * used))
            self._log_probs[:, :used] = old[:, :used]
        self._log_probs[:, used : self.frames] = new.T

    def _make_room(self, size: int, frames: int) -> None:
        """For all posteriors, (V, frames): those of a token lie side by side. Each append takes constant time.

        Probabilities are computed when a token is first scored. Memory that is never written to is never taken.
        """
        self._log_probs = np.empty((size, frames))
        self._probs = np.empty((size, frames))
        self._known = np.zeros(size, dtype=np.int64)  # of how many frames `_probs` has the token's probability

    def start(self) -> CTCPrefixes:
        """The empty prefix, n = 1."""
        return self.force(())

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
        posteriors = self._log_probs, self._probs, self._known
        return _score(prefixes.tokens, prefixes.forward, candidates, *posteriors, self._blank)

    def extend(self, prefixes: CTCPrefixes, rows: np.ndarray, tokens: np.ndarray) -> CTCPrefixes:
        """The m prefixes that are prefixes[rows[i]] followed by tokens[i]; both are (m,) int64."""
        assert rows.shape == tokens.shape and prefixes.frames <= self.frames
        old = prefixes.tokens, prefixes.forward, prefixes.frontier
        return CTCPrefixes(*_extend(*old, rows, tokens, self._log_probs, self._blank))

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
        old = prefixes.score, prefixes.forward, prefixes.frontier
        new = _advance(prefixes.tokens, *old, self._log_probs, self.frames, self._blank, exact)
        return CTCPrefixes(prefixes.tokens, *new)


# ---- compiled loops; log_probs are (V, room), of which the first T columns count ----


@njit(cache=True)
def _add(a: float, b: float) -> float:
    """log(e^a + e^b)."""
    if a < b:
        a, b = b, a
    if b == -np.inf or b - a < NEGLIGIBLE:
        return a
    return a + math.log1p(math.exp(b - a))


@njit(cache=True)
def _sum(phi: np.ndarray, log_p: np.ndarray) -> float:
    """log Σ_t Φ_{t-1} p_t, for phi (T + 1,) and log_p (T,)."""
    most = -np.inf
    for t in range(len(log_p)):
        most = max(most, phi[t] + log_p[t])
    if most == -np.inf:
        return most
    total = 0.0
    for t in range(len(log_p)):
        term = phi[t] + log_p[t] - most
        if term > NEGLIGIBLE:  # most terms are negligible, and exponentials are slow
            total += math.exp(term)
    return most + math.log(total)


@njit(cache=True, fastmath={"reassoc", "nsz", "contract"})  # so the sum is one of several at once
def _dot(a: np.ndarray, b: np.ndarray) -> float:
    total = 0.0
    for t in range(len(a)):
        total += a[t] * b[t]
    return total


@njit(cache=True)
def _of_token(log_probs: np.ndarray, token: int, first: int, last: int) -> np.ndarray:
    if not 0 <= token < len(log_probs):
        raise IndexError("a token outside of the CTC layer's vocabulary")  # compiled code does not check indices
    return log_probs[token, first:last]


@njit(cache=True)
def _follow(
    phi: np.ndarray, label: float, silent: float, log_p: np.ndarray, log_blank: np.ndarray, forward: np.ndarray
) -> tuple[float, float]:
    """Add a token to a prefix: from Φ of the prefix (t + 1,), write Φ of both, (2, t + 1).

    label, silent: γⁿ and γᵇ with the token, before the first of the t frames. Returns: those after the last.
    """
    either = forward[0, 0] = _add(label, silent)
    forward[1, 0] = silent
    for t in range(len(log_p)):
        label = log_p[t] + _add(label, phi[t])
        silent = log_blank[t] + either
        either = forward[0, t + 1] = _add(label, silent)
        forward[1, t + 1] = silent
    return label, silent


# These have signatures, so they are compiled (or loaded from the cache) when the module is imported. Otherwise they
# would be compiled in the first step of a search, which may be timed.


@njit("f8[:,::1](i8[:,:], f8[:,:,::1], i8[:,:], f8[:,::1], f8[:,::1], i8[::1], i8)", cache=True)
def _score(
    tokens: np.ndarray,
    forward: np.ndarray,
    candidates: np.ndarray,
    log_probs: np.ndarray,
    probs: np.ndarray,
    known: np.ndarray,
    blank: int,
) -> np.ndarray:
    """probs: e^log_probs, for the first known[c] frames of each token c; what is missing is added."""
    frames, length = forward.shape[2] - 1, tokens.shape[1]
    scores = np.full(candidates.shape, -np.inf)
    weights = np.empty(frames)  # Φ, in units of the largest
    for i in range(len(candidates)):
        phi, most = forward[i, 0], -np.inf
        for t in range(frames):
            most = max(most, phi[t])
        for t in range(frames):
            weights[t] = math.exp(phi[t] - most) if phi[t] - most > -np.inf else 0.0
        for k in range(candidates.shape[1]):
            token = candidates[i, k]
            log_p = _of_token(log_probs, token, 0, frames)
            if token == blank:
                continue
            if length and token == tokens[i, length - 1]:
                scores[i, k] = _sum(forward[i, 1], log_p)
                continue
            for t in range(known[token], frames):
                probs[token, t] = math.exp(log_p[t])
            known[token] = max(known[token], frames)
            total = _dot(weights, probs[token, :frames])
            scores[i, k] = most + math.log(total) if total > LEAST_SUM else _sum(phi, log_p)
    return scores


@njit(
    "Tuple((i8[:,::1], f8[::1], f8[:,:,::1], f8[:,:,::1]))"
    "(i8[:,:], f8[:,:,::1], f8[:,:,::1], i8[:], i8[:], f8[:,::1], i8)",
    cache=True,
)
def _extend(
    tokens: np.ndarray,
    forward: np.ndarray,
    frontier: np.ndarray,
    rows: np.ndarray,
    added: np.ndarray,
    log_probs: np.ndarray,
    blank: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """tokens, forward and frontier of n prefixes → tokens, score, forward and frontier of m."""
    count, length, frames = len(rows), tokens.shape[1], forward.shape[2] - 1
    longer = np.empty((count, length + 1), np.int64)
    score = np.full(count, -np.inf)
    followed = np.full((count, 2, frames + 1), -np.inf)
    ends = np.full((count, 2, length + 2), -np.inf)
    silence = log_probs[blank]
    for i in range(count):
        row, token = rows[i], added[i]
        longer[i, :length], longer[i, length] = tokens[row], token
        ends[i, :, : length + 1] = frontier[row]
        log_p = _of_token(log_probs, token, 0, frames)
        if token != blank:
            phi = forward[row, 1 if length and token == tokens[row, length - 1] else 0]
            ends[i, 0, -1], ends[i, 1, -1] = _follow(phi, -np.inf, -np.inf, log_p, silence, followed[i])
            score[i] = _sum(phi, log_p)
    return longer, score, followed, ends


@njit(
    "Tuple((f8[::1], f8[:,:,::1], f8[:,:,::1]))(i8[:,:], f8[:], f8[:,:,::1], f8[:,:,::1], f8[:,::1], i8, i8, b1)",
    cache=True,
)
def _advance(
    tokens: np.ndarray,
    score: np.ndarray,
    forward: np.ndarray,
    frontier: np.ndarray,
    log_probs: np.ndarray,
    frames: int,
    blank: int,
    exact: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """tokens, score, forward and frontier of n prefixes → score, forward and frontier over `frames` frames."""
    count, length, old = tokens.shape[0], tokens.shape[1], forward.shape[2] - 1
    score, frontier = score.copy(), frontier.copy()
    grown = np.empty((count, 2, frames + 1))
    grown[:, :, : old + 1] = forward
    silence = log_probs[blank, old:frames]
    # If it is exact, from the empty prefix to the complete one, a token at a time; else the complete one alone.
    now, before = np.empty((2, frames - old + 1)), np.empty((2, frames - old + 1))
    for i in range(count):
        now[:, 0] = frontier[i, 1, 0] if exact else forward[i, 1, old]
        for t in range(len(silence)):
            now[:, t + 1] = now[0, t] + silence[t]
        if exact:
            frontier[i, 1, 0] = now[1, -1]
            gained = -np.inf
            for end in range(length):
                token = tokens[i, end]
                log_p = _of_token(log_probs, token, old, frames)
                now, before = before, now
                phi = before[1 if end and token == tokens[i, end - 1] else 0]
                gained = -np.inf
                if token == blank:
                    now[:], frontier[i, :, end + 1] = -np.inf, -np.inf
                else:
                    label, silent = frontier[i, 0, end + 1], frontier[i, 1, end + 1]
                    gained = _sum(phi, log_p)
                    label, silent = _follow(phi, label, silent, log_p, silence, now)
                    frontier[i, 0, end + 1], frontier[i, 1, end + 1] = label, silent
            score[i] = _add(score[i], gained)
        else:
            frontier[i, 0] = -np.inf
            for end in range(length + 1):
                for t in range(len(silence)):
                    frontier[i, 1, end] += silence[t]
        grown[i, :, old + 1 :] = now[:, 1:]
    return score, grown, frontier
