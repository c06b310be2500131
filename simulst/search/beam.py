"""Joint CTC/attention beam search behind a forced prefix (Watanabe et al. 2017, section III).

A hypothesis' score is (1 - w) log p_attention + w log p_ctc + bonus * length. The decoder picks the candidates, as
CTC prefix scores are too dear for the whole vocabulary. Without a prefix this finds what ESPnet's BatchBeamSearch does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from simulst.errors import SimulstError
from simulst.search import Beam, Hypothesis, JointBeamSearch, Tokens
from simulst.search.ctc import CTCPrefixScorer, Prefixes

PRE_BEAM = 1.5  # candidates per hypothesis that get a CTC score, in beams
END_GAP = 10.0  # Watanabe et al. 2017, equation 50: the search is over once what ends is this much worse than the best
END_STEPS = (2, 3, 4)  # ... at each of these many steps ago (ESPnet looks so far back)


class Decoder(Protocol):
    """ESPnet's TransformerDecoder, or anything that scores like it."""

    def batch_score(self, ys: torch.Tensor, states: list[Any], xs: torch.Tensor) -> tuple[torch.Tensor, list[Any]]:
        """Token ids (n, length), n states (None at the start), memory (n, T, width) → log p (n, V), new states."""


@dataclass(frozen=True)
class _Running:
    """The hypotheses that go on: tokens (n, length) with <sos>, attention scores (n,), states and CTC prefixes."""

    tokens: torch.Tensor
    attention: torch.Tensor
    states: list[Any]
    prefixes: Prefixes | None
    scores: list[float]


@torch.inference_mode()
def joint_beam_search(
    memory: torch.Tensor,
    log_probs: torch.Tensor | None,
    decoder: Decoder,
    prefix: Tokens,
    options: JointBeamSearch,
    sos: int,
    eos: int,
    max_new: int | None = None,
) -> Beam:
    """The best texts that begin with `prefix`.

    memory: (T, width) encoder output. log_probs: (T, V) CTC log posteriors, needed unless ctc_weight is 0.
    sos, eos: token ids. max_new: the most tokens that may follow the prefix.
    Returns at most `options.beam` hypotheses, best first, their scores given the prefix, without <sos> and <eos>; the
    prefix alone if nothing can follow it (no frames, no room, or too few frames for the prefix itself).
    Raises SimulstError: scores that are not numbers.
    """
    room = max(1, int(options.max_length_ratio * memory.shape[0])) - len(prefix)
    room = room if max_new is None else min(room, max_new)
    if memory.shape[0] == 0 or room < 1:
        return [Hypothesis(prefix)]
    ctc = None
    if options.ctc_weight > 0:
        assert log_probs is not None
        ctc = CTCPrefixScorer(log_probs)
    running = _Running(
        tokens=torch.tensor([[sos, *prefix]], device=memory.device),
        attention=torch.zeros(1, dtype=torch.float64, device=memory.device),
        states=[None],
        prefixes=ctc.force(prefix) if ctc else None,
        scores=[0.0],
    )
    given = running.prefixes.score[0] if running.prefixes else torch.zeros(())
    if torch.isneginf(given):
        return [Hypothesis(prefix)]
    ended: list[Hypothesis] = []
    best_at: dict[int, float] = {}  # step → best score that ended there
    for step in range(room):
        running, new = _step(running, memory, ctc, given, decoder, options, step, eos)
        if new:
            ended += new
            best_at[step] = new[0].score
        if not running.scores or _is_over(best_at, step):
            break
    else:
        ended += _texts(running.tokens, running.scores)
    ended.sort(key=lambda hypothesis: -hypothesis.score)
    return ended[: options.beam] or [Hypothesis(prefix)]


def _step(
    running: _Running,
    memory: torch.Tensor,
    ctc: CTCPrefixScorer | None,
    given: torch.Tensor,
    decoder: Decoder,
    options: JointBeamSearch,
    step: int,
    eos: int,
) -> tuple[_Running, list[Hypothesis]]:
    """Extend all hypotheses by a token, keep the best `beam`: those that go on, and those that ended, best first."""
    count = len(running.scores)
    log_p, states = decoder.batch_score(running.tokens, running.states, memory.expand(count, -1, -1))
    if torch.isnan(log_p).any():
        raise SimulstError("the decoder's scores are not numbers (NaN); the checkpoint or the audio is broken.")
    attention = running.attention[:, None] + log_p.double()
    width = min(int(PRE_BEAM * options.beam) if ctc else options.beam, log_p.shape[1])
    candidates = attention.topk(width).indices
    # The end is always a candidate, in a column of its own.
    candidates = torch.cat([candidates, torch.full_like(candidates[:, :1], eos)], 1)
    attention = attention.gather(1, candidates)
    scores = (1 - options.ctc_weight) * attention + options.length_bonus * (step + 1)
    extended = None
    if ctc and running.prefixes:
        extended = ctc.extend(running.prefixes, candidates)
        by_ctc = torch.cat([extended.score[:, :-1], running.prefixes.complete[:, None]], 1)
        scores = scores + options.ctc_weight * (by_ctc - given)
    scores[:, :-1].masked_fill_(candidates[:, :-1] == eos, -torch.inf)
    values, places = scores.flatten().topk(min(options.beam, scores.numel()))
    values, places = values[~torch.isneginf(values)], places[~torch.isneginf(values)]
    rows, columns = places // scores.shape[1], places % scores.shape[1]
    ends = columns == width
    ended = _texts(running.tokens[rows[ends]], values[ends].tolist())
    rows, columns = rows[~ends], columns[~ends]
    return (
        _Running(
            tokens=torch.cat([running.tokens[rows], candidates[rows, columns][:, None]], 1),
            attention=attention[rows, columns],
            states=[states[row] for row in rows.tolist()],
            prefixes=extended[rows, columns] if extended else None,
            scores=values[~ends].tolist(),
        ),
        ended,
    )


def _is_over(best_at: dict[int, float], step: int) -> bool:
    best = max(best_at.values(), default=0.0)
    return all(best_at.get(step - ago, best) < best - END_GAP for ago in END_STEPS)


def _texts(tokens: torch.Tensor, scores: list[float]) -> list[Hypothesis]:
    return [Hypothesis(tuple(row[1:]), score) for row, score in zip(tokens.tolist(), scores, strict=True)]
