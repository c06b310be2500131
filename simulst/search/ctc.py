"""CTC prefix scores: how probable it is, by the CTC layer alone, that the text begins with given tokens.

With γⁿ_t(h) and γᵇ_t(h), the probabilities that the first t frames spell h and that frame t is its last label or blank
(Graves 2012, chapter 7; Watanabe et al. 2017, algorithm 2), a token c behind a prefix g has

    Φ_t(g, c)  = γᵇ_t(g) + (0 if c is g's last token else γⁿ_t(g))
    γⁿ_t(g·c)  = p_t(c)     (γⁿ_{t-1}(g·c) + Φ_{t-1}(g, c))
    γᵇ_t(g·c)  = p_t(blank) (γᵇ_{t-1}(g·c) + γⁿ_{t-1}(g·c))
    prefix     p(g·c...)   = Σ_t Φ_{t-1}(g, c) p_t(c)
    complete   p(g·<eos>)  = γᵇ_T(g) + γⁿ_T(g)

Both recursions are linear, y_t = a_t (y_{t-1} + u_{t-1}), and so have a closed form: with A_t = Σ_{s≤t} log a_s,
log y_t = A_t + logcumsumexp_{s<t}(log u_s - A_s), which is one vectorised call for all hypotheses, candidates and
frames instead of a loop over frames. In float64 the subtraction costs no precision that matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from simulst.errors import SimulstError

LEAST = -1e4  # log probability of what is impossible: 0 in any arithmetic, yet sums of it stay exact in float64


@dataclass(frozen=True)
class Prefixes:
    """Token sequences with what is needed to extend them; the shape (...) is (n,), or (n, k) for extensions.

    last: (...) the last token, -1 for none. label, blank: (..., T + 1) log γⁿ and log γᵇ after t = 0..T frames.
    score: (...) log probability that the text begins with these tokens. All but `last` are float64.
    """

    last: torch.Tensor
    label: torch.Tensor
    blank: torch.Tensor
    score: torch.Tensor

    def __getitem__(self, index: Any) -> Prefixes:
        """Select along the leading dimensions, as tensors do."""
        return Prefixes(self.last[index], self.label[index], self.blank[index], self.score[index])

    @property
    def complete(self) -> torch.Tensor:
        """(...) log probability that the text is these tokens and no more."""
        return torch.logaddexp(self.label[..., -1], self.blank[..., -1])


class CTCPrefixScorer:
    """Prefix scores over the frames of one utterance.

    log_probs: (T, V) log posteriors of the CTC layer. blank: its index.
    Raises SimulstError if one of them is not a number.
    """

    def __init__(self, log_probs: torch.Tensor, blank: int = 0) -> None:
        if torch.isnan(log_probs).any():
            raise SimulstError("the CTC layer's scores are not numbers (NaN); the checkpoint or the audio is broken.")
        self._log_probs = log_probs.clamp(min=LEAST)
        self._blank = blank
        self._blank_sum = _sums(self._log_probs[:, blank].double())

    def start(self) -> Prefixes:
        """The empty prefix, n = 1."""
        nothing = torch.full_like(self._blank_sum, -torch.inf)[None]
        last = torch.full((1,), -1, device=nothing.device)
        return Prefixes(last, nothing, self._blank_sum[None], nothing.new_zeros(1))

    def force(self, tokens: tuple[int, ...]) -> Prefixes:
        """A given prefix, n = 1."""
        prefixes = self.start()
        for token in tokens:
            prefixes = self.extend(prefixes, torch.tensor([[token]], device=self._log_probs.device))[:, 0]
        return prefixes

    def extend(self, prefixes: Prefixes, tokens: torch.Tensor) -> Prefixes:
        """Each of n prefixes followed by each of its k candidates: tokens (n, k) → prefixes (n, k).

        Blank is no token: its score is -inf.
        """
        log_p = self._log_probs[:, tokens].double().movedim(0, -1)  # (n, k, T)
        either = torch.logaddexp(prefixes.blank, prefixes.label)[:, None]
        repeated = (tokens == prefixes.last[:, None])[..., None]
        phi = torch.where(repeated, prefixes.blank[:, None], either)[..., :-1]
        label = _recursion(phi, _sums(log_p))
        blank = _recursion(label[..., :-1], self._blank_sum)
        score = torch.logsumexp(phi + log_p, -1).masked_fill(tokens == self._blank, -torch.inf)
        return Prefixes(tokens, label, blank, score)


def _sums(log_p: torch.Tensor) -> torch.Tensor:
    """(..., T) → (..., T + 1): sums of the first 0..T."""
    return torch.nn.functional.pad(log_p.cumsum(-1), (1, 0))


def _recursion(inputs: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
    """log y_t for t = 0..T, where y_0 = 0, from log u_t for t = 0..T-1 and A_t for t = 0..T (see above)."""
    values = sums[..., 1:] + torch.logcumsumexp(inputs - sums[..., :-1], -1)
    return torch.nn.functional.pad(values, (1, 0), value=-torch.inf)
