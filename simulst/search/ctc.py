"""CTC prefix scores: the probability, by the CTC layer alone, that the text begins with given tokens.

γⁿ_t(h) is the probability that the first t frames spell h and that frame t is the last label of h. γᵇ_t(h) is the same
if frame t is a blank (Graves 2012, chapter 7; Watanabe et al. 2017, algorithm 2). For a token c after a prefix g:

    Φ_t(g, c)  = γᵇ_t(g) + (0 if c is g's last token else γⁿ_t(g))
    γⁿ_t(g·c)  = p_t(c)     (γⁿ_{t-1}(g·c) + Φ_{t-1}(g, c))
    γᵇ_t(g·c)  = p_t(blank) (γᵇ_{t-1}(g·c) + γⁿ_{t-1}(g·c))
    prefix     p(g·c...)   = Σ_t Φ_{t-1}(g, c) p_t(c)
    complete   p(g·<eos>)  = γᵇ_T(g) + γⁿ_T(g)

The prefix probability of a candidate needs only the variables of g, and no recursion. So a search step calls `score`
for many candidates and `extend` for the few that survive. The variables of g·c in new frames need only those of g in
the same frames, and their own values in the last old frame. So `advance` can add frames to a prefix. It needs one value
per ancestor of the prefix.

On the CPU, compiled loops take a third of the time of tensor operations. On a GPU one operation per frame would be
slow, so both recursions are solved in closed form. They are linear, y_t = a_t (y_{t-1} + u_{t-1}). With
A_t = Σ_{s≤t} log a_s, this gives log y_t = A_t + log(y_0 + Σ_{s<t} u_s exp(-A_s)), which is a cumulative logsumexp. In
float64 the subtraction is precise enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit

from simulst.errors import SimulstError

LEAST = -1e4  # log probability of the impossible: e^LEAST is 0, but sums of such logs stay exact in float64
NEGLIGIBLE = -50.0  # a summand that is e^50 times smaller does not change a float64 sum, even if there are 10^6 of them


@dataclass(frozen=True)
class CTCPrefixes:
    """n token sequences of the same length L over T frames, and the variables with which tokens and frames are added.

    All variables but `tokens` are logarithms, in float64.

    tokens: (n, L).
    score: (n,) probability that the text begins with these tokens.
    forward: (n, 2, T + 1) γⁿ and γᵇ of all L tokens, after t = 0..T frames.
    frontier: (n, 2, L + 1) γⁿ and γᵇ of the first 0..L tokens, after T frames.
    """

    tokens: torch.Tensor
    score: torch.Tensor
    forward: torch.Tensor
    frontier: torch.Tensor

    def __getitem__(self, rows: Any) -> CTCPrefixes:
        """Select some of the n sequences, with any index that a tensor takes."""
        return CTCPrefixes(self.tokens[rows], self.score[rows], self.forward[rows], self.frontier[rows])

    @property
    def frames(self) -> int:
        return self.forward.shape[2] - 1

    @property
    def last(self) -> torch.Tensor:
        """(n,) the last token, -1 for none."""
        return self.tokens[:, -1] if self.tokens.shape[1] else torch.full_like(self.score, -1, dtype=torch.long)

    @property
    def label(self) -> torch.Tensor:
        """(n, T + 1) γⁿ."""
        return self.forward[:, 0]

    @property
    def blank(self) -> torch.Tensor:
        """(n, T + 1) γᵇ."""
        return self.forward[:, 1]

    @property
    def complete(self) -> torch.Tensor:
        """(n,) log probability that the text is these tokens and no more."""
        return torch.logaddexp(self.label[:, -1], self.blank[:, -1])


class CTCPrefixScorer:
    """Prefix scores over the frames of one utterance so far.

    CTCPrefixes cover the frames that were there when they were made. `advance` extends them to newer frames.

    log_probs: (T, V) log posteriors of the CTC layer; T may be 0.
    blank: index of the blank. It is not a token, so its score after any prefix is -inf.
    """

    def __init__(self, log_probs: torch.Tensor, blank: int = 0) -> None:
        """Raises SimulstError as `append` does."""
        self._blank = blank
        self.device, size = log_probs.device, log_probs.shape[1]
        self._log_probs = _Columns(size, self.device)
        compiled = self.device.type == "cpu"
        self._score = _score_compiled if compiled else _score_vectorised
        self._follow = _follow_compiled if compiled else _follow_vectorised
        self._grow = _grow_compiled if compiled else _grow_vectorised
        self.append(log_probs)

    @property
    def frames(self) -> int:
        return self._log_probs.filled.shape[1]

    def append(self, log_probs: torch.Tensor) -> None:
        """Add frames, (t, V).

        Raises SimulstError: a score is NaN.
        """
        if log_probs.sum().isnan():  # a single pass: the sum is NaN only if one of the scores is
            raise SimulstError("the CTC layer's scores are not numbers (NaN); the checkpoint or the audio is broken.")
        self._log_probs.append(log_probs.clamp(min=LEAST))

    def start(self) -> CTCPrefixes:
        """The empty prefix, n = 1."""
        return self.force(())

    def force(self, tokens: tuple[int, ...], known: CTCPrefixes | None = None) -> CTCPrefixes:
        """A given prefix, n = 1.

        tokens: the prefix.
        known: an earlier result. If `tokens` begin with its tokens, only new frames and new tokens are computed.
        """
        if known is not None and tokens[: known.tokens.shape[1]] == tuple(known.tokens[0].tolist()):
            forced = self.advance(known)
            for token in tokens[known.tokens.shape[1] :]:
                row = torch.zeros(1, dtype=torch.long, device=self.device)
                forced = self.extend(forced, row, row + token)
            return forced
        return self.over(torch.tensor([tokens], dtype=torch.long, device=self.device))

    def over(self, tokens: torch.Tensor) -> CTCPrefixes:
        """Given prefixes of the same length, (n, L), over all frames so far."""
        # Before the first frame the empty prefix has probability 1, and any other prefix has probability 0.
        frontier = torch.full(
            (len(tokens), 2, tokens.shape[1] + 1), -torch.inf, dtype=torch.float64, device=self.device
        )
        frontier[:, 1, 0] = 0.0
        unheard = CTCPrefixes(
            tokens=tokens,
            score=frontier[:, 1, -1],
            forward=frontier[:, :, -1:],
            frontier=frontier,
        )
        return self.advance(unheard)

    def score(self, prefixes: CTCPrefixes, candidates: torch.Tensor) -> torch.Tensor:
        """Score each of n prefixes followed by each of its k candidates, (n, k) → log p(g·c...), (n, k) float64."""
        assert len(candidates) == len(prefixes.score)
        return self._score(prefixes.forward, prefixes.last, candidates, self._heard(prefixes), self._blank)

    def extend(self, prefixes: CTCPrefixes, rows: torch.Tensor, tokens: torch.Tensor) -> CTCPrefixes:
        """The m prefixes that are prefixes[rows[i]] followed by tokens[i]; both are (m,)."""
        assert rows.shape == tokens.shape
        parents = prefixes[rows]
        unheard = torch.full_like(parents.frontier[:, :, 0], -torch.inf)
        forward, score = self._follow(
            parents.forward, parents.last, tokens, unheard, self._heard(prefixes), self._blank
        )
        return CTCPrefixes(
            tokens=torch.cat([parents.tokens, tokens[:, None]], 1),
            score=score,
            forward=forward,
            frontier=torch.cat([parents.frontier, forward[:, :, -1:]], 2),
        )

    def advance(self, prefixes: CTCPrefixes, exact: bool = True) -> CTCPrefixes:
        """The same prefixes over all frames so far.

        exact: if True, the result is as if the prefixes had been computed over all frames at once. If False, the result
            is that of ESPnet's blockwise search (Tsunoo et al. 2021, as of ESPnet 202511), for comparisons. There a
            prefix has only blanks in the new frames, and only after a blank in the last old frame: γⁿ_t(g) = 0 and
            γᵇ_t(g) = p_t(blank) γᵇ_{t-1}(g). Alignments whose last label is in a new frame or in the last old frame are
            lost. The score stays that over the old frames. This is exact only for the empty prefix.
        """
        new = self._log_probs.filled[:, prefixes.frames :]
        if not new.shape[1]:
            return prefixes
        blanks = _sums(new[self._blank])
        silence = torch.stack([torch.full_like(blanks, -torch.inf), blanks])  # (2, t + 1) the gain of blanks only
        score = prefixes.score
        if exact:
            empty = prefixes.frontier[:, :, :1] + silence
            forward, frontier, gained = self._grow(empty, prefixes.frontier, prefixes.tokens, new, self._blank)
            if prefixes.tokens.shape[1]:
                score = torch.logaddexp(score, gained)
        else:
            forward = prefixes.forward[:, :, -1:] + silence
            frontier = prefixes.frontier + silence[:, -1:]
        return CTCPrefixes(prefixes.tokens, score, torch.cat([prefixes.forward, forward[:, :, 1:]], 2), frontier)

    def _heard(self, prefixes: CTCPrefixes) -> torch.Tensor:
        """(V, T) log posteriors of the frames that the prefixes cover; a view."""
        assert prefixes.frames <= self.frames, "these prefixes are another scorer's"
        return self._log_probs.filled[:, : prefixes.frames]


class _Columns:
    """A float64 matrix to which columns are appended. All appends together take time linear in their number.

    A column is a frame, so that the frames of a token lie side by side.
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        self._room = torch.empty(rows, 0, dtype=torch.float64, device=device)
        self.filled = self._room

    @torch.inference_mode()  # tensors made in inference mode can be written to only in that mode
    def append(self, columns: torch.Tensor) -> None:
        """Add columns, (t, rows)."""
        used = self.filled.shape[1]
        count = used + len(columns)
        if count > self._room.shape[1]:
            self._room = self.filled.new_empty(len(self.filled), max(count, 2 * used))
            self._room[:, :used] = self.filled
        self._room[:, used:count] = columns.T
        self.filled = self._room[:, :count]


# Each of these three functions exists twice, for the CPU (_compiled) and for GPUs (_vectorised).
#
# _score: forward (n, 2, T + 1) and last (n,) of n prefixes, candidates (n, k), log_probs (V, T) → log p(g·c...) (n, k).
# _follow: forward and last of n prefixes g, a token c for each (n,), γⁿ and γᵇ of g·c before the first frame, known
# (n, 2), log_probs → γⁿ and γᵇ of g·c (n, 2, T + 1), and log Σ_t Φ_{t-1}(g, c) p_t(c) (n,).
# _grow: forward of n empty prefixes over the last old frame and all new ones, frontier (n, 2, L + 1) and tokens (n, L)
# of the complete prefixes, log_probs of the new frames → forward of the complete prefixes over the same frames, their
# new frontier, and the sum of the last `_follow` (n,), -inf for L = 0. It goes from the empty prefix to the complete
# one, a token at a time.


def _score_vectorised(
    forward: torch.Tensor, last: torch.Tensor, candidates: torch.Tensor, log_probs: torch.Tensor, blank: int
) -> torch.Tensor:
    log_p = log_probs[candidates]  # (n, k, T)
    phi = _phi(forward[:, None], candidates == last[:, None])
    return torch.logsumexp(phi + log_p, -1).masked_fill(candidates == blank, -torch.inf)


def _follow_vectorised(
    forward: torch.Tensor,
    last: torch.Tensor,
    tokens: torch.Tensor,
    known: torch.Tensor,
    log_probs: torch.Tensor,
    blank: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    log_p = log_probs[tokens]  # (n, T)
    phi = _phi(forward, tokens == last)
    label = _recursion(known[:, 0], phi, log_p)
    label = label.masked_fill((tokens == blank)[:, None], -torch.inf)
    silent = _recursion(known[:, 1], label[:, :-1], log_probs[blank])
    gained = torch.logsumexp(phi + log_p, -1).masked_fill(tokens == blank, -torch.inf)
    return torch.stack([label, silent], 1), gained


def _grow_vectorised(
    forward: torch.Tensor, frontier: torch.Tensor, tokens: torch.Tensor, log_probs: torch.Tensor, blank: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    ends = [forward[:, :, -1]]
    gained = torch.full_like(ends[0][:, 0], -torch.inf)
    last = torch.full_like(gained, -1, dtype=torch.long)
    for length, token in enumerate(tokens.unbind(1), 1):
        forward, gained = _follow_vectorised(forward, last, token, frontier[:, :, length], log_probs, blank)
        ends.append(forward[:, :, -1])
        last = token
    return forward, torch.stack(ends, 2), gained


def _phi(forward: torch.Tensor, repeated: torch.Tensor) -> torch.Tensor:
    """forward (..., 2, T + 1), and whether the next token is the last one → log Φ_t for t = 0..T-1, (..., T)."""
    label, blank = forward[..., :-1].unbind(-2)
    return torch.where(repeated[..., None], blank, torch.logaddexp(label, blank))


def _recursion(first: torch.Tensor, inputs: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
    """log y_0 (n,), log u_t for t = 0..T-1 and log a_t for t = 1..T → log y_t for t = 0..T (see above)."""
    sums = _sums(log_p)
    terms = torch.cat([first[..., None], inputs - sums[..., :-1]], -1)
    return sums + torch.logcumsumexp(terms, -1)


def _sums(log_p: torch.Tensor) -> torch.Tensor:
    """(..., T) → (..., T + 1): sums of the first 0..T."""
    return torch.nn.functional.pad(log_p.cumsum(-1), (1, 0))


def _score_compiled(
    forward: torch.Tensor, last: torch.Tensor, candidates: torch.Tensor, log_probs: torch.Tensor, blank: int
) -> torch.Tensor:
    scores = _score_loop(_array(forward), _array(last), _array(candidates), log_probs.numpy(), blank)
    return torch.from_numpy(scores)


def _follow_compiled(
    forward: torch.Tensor,
    last: torch.Tensor,
    tokens: torch.Tensor,
    known: torch.Tensor,
    log_probs: torch.Tensor,
    blank: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    followed, gained = _follow_loop(
        _array(forward), _array(last), _array(tokens), _array(known), log_probs.numpy(), blank
    )
    return torch.from_numpy(followed), torch.from_numpy(gained)


def _grow_compiled(
    forward: torch.Tensor, frontier: torch.Tensor, tokens: torch.Tensor, log_probs: torch.Tensor, blank: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grown, ends, gained = _grow_loop(_array(forward), _array(frontier), _array(tokens), log_probs.numpy(), blank)
    return torch.from_numpy(grown), torch.from_numpy(ends), torch.from_numpy(gained)


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.contiguous().numpy()


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
    """log Σ_t Φ_{t-1} p_t."""
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


@njit(cache=True)
def _of_token(log_probs: np.ndarray, token: int) -> np.ndarray:
    if not 0 <= token < len(log_probs):
        raise IndexError("a token outside of the CTC layer's vocabulary")  # compiled code does not check indices
    return log_probs[token]


# The loops have signatures, so they are compiled (or loaded from the cache) when the module is imported. Otherwise they
# would be compiled in the first step of a search, which may be timed.


@njit("f8[:,::1](f8[:,:,::1], i8[::1], i8[:,::1], f8[:,:], i8)", cache=True)
def _score_loop(
    forward: np.ndarray, last: np.ndarray, candidates: np.ndarray, log_probs: np.ndarray, blank: int
) -> np.ndarray:
    scores = np.full(candidates.shape, -np.inf)
    either = np.empty(log_probs.shape[1])
    for i in range(len(candidates)):
        for t in range(log_probs.shape[1]):
            either[t] = _add(forward[i, 0, t], forward[i, 1, t])
        for k in range(candidates.shape[1]):
            token = candidates[i, k]
            if token != blank:
                scores[i, k] = _sum(forward[i, 1] if token == last[i] else either, _of_token(log_probs, token))
    return scores


@njit("Tuple((f8[:,:,::1], f8[::1]))(f8[:,:,::1], i8[::1], i8[::1], f8[:,::1], f8[:,:], i8)", cache=True)
def _follow_loop(
    forward: np.ndarray, last: np.ndarray, tokens: np.ndarray, known: np.ndarray, log_probs: np.ndarray, blank: int
) -> tuple[np.ndarray, np.ndarray]:
    followed = np.full(forward.shape, -np.inf)
    gained = np.full(len(tokens), -np.inf)
    phi = np.empty(log_probs.shape[1])
    for i in range(len(tokens)):
        if tokens[i] == blank:
            continue
        log_p = _of_token(log_probs, tokens[i])
        label, silent = known[i]
        followed[i, 0, 0], followed[i, 1, 0] = label, silent
        for t in range(log_probs.shape[1]):
            phi[t] = forward[i, 1, t]
            if tokens[i] != last[i]:
                phi[t] = _add(phi[t], forward[i, 0, t])
            silent = log_probs[blank, t] + _add(label, silent)
            label = log_p[t] + _add(label, phi[t])
            followed[i, 0, t + 1], followed[i, 1, t + 1] = label, silent
        gained[i] = _sum(phi, log_p)
    return followed, gained


@njit("Tuple((f8[:,:,::1], f8[:,:,::1], f8[::1]))(f8[:,:,::1], f8[:,:,::1], i8[:,::1], f8[:,:], i8)", cache=True)
def _grow_loop(
    forward: np.ndarray, frontier: np.ndarray, tokens: np.ndarray, log_probs: np.ndarray, blank: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.empty_like(frontier)
    ends[:, :, 0] = forward[:, :, -1]
    gained = np.full(len(tokens), -np.inf)
    last = np.full(len(tokens), -1)
    for length in range(tokens.shape[1]):
        token = np.ascontiguousarray(tokens[:, length])
        known = np.ascontiguousarray(frontier[:, :, length + 1])
        forward, gained = _follow_loop(forward, last, token, known, log_probs, blank)
        ends[:, :, length + 1] = forward[:, :, -1]
        last = token
    return forward, ends, gained
