"""Joint CTC/attention beam search behind a forced prefix (Watanabe et al. 2017, section III).

A hypothesis' score is (1 - w) log p_attention + w log p_ctc + bonus * length. The decoder picks the candidates; of
them, CTC prefix scores are computed. Without a prefix this finds what ESPnet's BatchBeamSearch does.
`JointSearch` is one step of it, which blockwise search shares; `joint_beam_search` is the whole.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from simulst.errors import SimulstError
from simulst.policy.stop import EndOfSentence, Evidence, Stop
from simulst.search import Beam, Hypothesis, JointOptions, Tokens
from simulst.search.ctc import CTCPrefixScorer, Prefixes

logger = logging.getLogger(__name__)

PRE_BEAM = 1.5  # candidates per hypothesis that get a CTC score, in beams
END_GAP = 10.0  # Watanabe et al. 2017, equation 50: the search is over once what ends is this much worse than the best
TO_THE_END = EndOfSentence()
END_STEPS = (2, 3, 4)  # ... at each of these many steps ago (ESPnet looks so far back)


class Decoder(Protocol):
    """What a search asks of a decoder; `simulst.models.decoder.CachedDecoder` is one.

    A state is what n hypotheses have read; it can be indexed with their numbers, and has their last source attention
    (layers, n, heads, T) as `attention` if that was asked for.
    """

    def memory(self) -> Any:
        """Room for encoder frames: `append(frames)` of shape (t, width), `len()`."""

    def start(self) -> Any:
        """The state of one hypothesis that has read nothing."""

    def step(self, tokens: Tensor, state: Any, memory: Any, *, attention: bool = False) -> tuple[Tensor, Any]:
        """Read a token of each hypothesis, (n,) → log p of the next, (n, V), and the new state."""

    def prefill(self, tokens: Tensor, memory: Any, *, attention: bool = False) -> tuple[Tensor, Any]:
        """Read several tokens of one hypothesis, (length,) → as `step`."""


@dataclass(frozen=True)
class Running:
    """n hypotheses of one length L, best first.

    tokens: (n, L) without <sos>. attention: (n, L + 1) log probabilities by the decoder of their first 0..L tokens.
    state: of the decoder, which has read all but the last token. prefixes: of the CTC layer, if it takes part.
    scores: (n,) as they are ranked. All floating-point numbers are float64.
    """

    tokens: Tensor
    attention: Tensor
    state: Any
    prefixes: Prefixes | None
    scores: Tensor

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def __getitem__(self, rows: Tensor) -> Running:
        """Hypotheses by their numbers, (m,)."""
        prefixes = None if self.prefixes is None else self.prefixes[rows]
        return Running(self.tokens[rows], self.attention[rows], self.state[rows], prefixes, self.scores[rows])


@dataclass(frozen=True)
class Scored:
    """Running hypotheses with the scores of their continuations, (n, k): k - 1 candidate tokens, then the end."""

    running: Running
    state: Any
    candidates: Tensor
    attention: Tensor
    scores: Tensor
    evidence: Evidence


@dataclass(frozen=True)
class Chosen:
    """The best continuations, best first: those that go on, and those that ended.

    ranks: places in the common ranking of those that go on; ended_ranks: of those that ended.
    """

    running: Running
    ended: Running
    ranks: list[int]
    ended_ranks: list[int]


class JointSearch:
    """One utterance: its encoder frames so far, and how hypotheses grow over them.

    options: weights and sizes. sos, eos: token ids. with_ctc: use the CTC layer though it has no weight (for STOP).
    """

    def __init__(self, decoder: Decoder, options: JointOptions, sos: int, eos: int, with_ctc: bool = False) -> None:
        self.decoder, self.options = decoder, options
        self.sos, self.eos = sos, eos
        self.memory = decoder.memory()
        self._device = torch.device("cpu")
        self.ctc: CTCPrefixScorer | None = None
        self._forced: Prefixes | None = None  # the prefix of the last `start`
        self._with_ctc = with_ctc or options.ctc_weight > 0

    def append(self, frames: Tensor, log_probs: Tensor | None = None) -> None:
        """More encoder frames (t, width) with their CTC log posteriors (t, V), which may be missing if unused."""
        self.memory.append(frames)
        self._device = frames.device
        if not self._with_ctc:
            return
        assert log_probs is not None and len(log_probs) == len(frames)
        if self.ctc is None:
            self.ctc = CTCPrefixScorer(log_probs)
        else:
            self.ctc.append(log_probs)

    @property
    def frames(self) -> int:
        return len(self.memory)

    @property
    def room(self) -> int:
        """The most tokens that a hypothesis may have."""
        return max(1, int(self.options.max_length_ratio * self.frames))

    @torch.inference_mode()
    def start(self, prefix: Tokens, attention: Tensor | None = None) -> Running:
        """One hypothesis with these tokens.

        attention: (L + 1,) their log probabilities by the decoder, as in `Running`; None: not counted.
        """
        # The CTC layer's part only grows. The decoder reads a prefix anew each time: new frames change what its first
        # layer finds in the source, and so all keys and values above it.
        tokens = torch.tensor([prefix], dtype=torch.long, device=self._device)
        state = self.decoder.start()
        if prefix:
            head = torch.tensor([self.sos, *prefix[:-1]], device=self._device)
            _, state = self.decoder.prefill(head, self.memory)
        if attention is None:
            attention = torch.zeros(len(prefix) + 1, dtype=torch.float64, device=self._device)
        prefixes = self._forced = self.ctc.force(prefix, self._forced) if self.ctc else None
        running = Running(tokens, attention[None], state, prefixes, torch.zeros_like(attention[:1]))
        return replace(running, scores=self._scores(running))

    def advance(self, running: Running, exact: bool = True) -> Running:
        """The same hypotheses once frames were appended; exact: see `CTCPrefixScorer.advance`."""
        if self.ctc is None or running.prefixes is None:
            return running
        return replace(running, prefixes=self.ctc.advance(running.prefixes, exact))

    @torch.inference_mode()
    def score(self, running: Running, stop: Stop, given: int = 0) -> Scored:
        """Score continuations of all hypotheses, and gather what STOP needs to know of the best.

        given: how many of their tokens were committed before.
        Raises SimulstError: scores that are not numbers.
        """
        options = self.options
        last = running.tokens[:, -1] if running.tokens.shape[1] else running.tokens.new_full((len(running),), self.sos)
        log_p, state = self.decoder.step(last, running.state, self.memory, attention=stop.needs == "attention")
        if torch.isnan(log_p).any():
            raise SimulstError("the decoder's scores are not numbers (NaN); the checkpoint or the audio is broken.")
        width = min(int(PRE_BEAM * options.beam) if self.ctc else options.beam, log_p.shape[1])
        best, candidates = log_p.topk(width)
        # The end is always a candidate, in a column of its own.
        candidates = torch.cat([candidates, torch.full_like(candidates[:, :1], self.eos)], 1)
        attention = torch.cat([best, log_p[:, self.eos : self.eos + 1]], 1) + running.attention[:, -1:]
        scores = (1 - options.ctc_weight) * attention + options.length_bonus * (running.tokens.shape[1] + 1)
        by_ctc = None
        if self.ctc and running.prefixes:
            complete = running.prefixes.complete[:, None]
            by_ctc = torch.cat([self.ctc.score(running.prefixes, candidates[:, :-1]), complete], 1)
            if options.ctc_weight > 0:
                scores = scores + options.ctc_weight * by_ctc
        scores[:, :-1].masked_fill_(candidates[:, :-1] == self.eos, -torch.inf)
        evidence = self._evidence(running, state, log_p, stop, given)
        return Scored(running, state, candidates, attention, scores, evidence)

    def choose(self, scored: Scored) -> Chosen:
        """The best `beam` continuations of all."""
        running, scores = scored.running, scored.scores
        values, places = scores.flatten().topk(min(self.options.beam, scores.numel()))
        possible = ~torch.isneginf(values)
        values, places = values[possible], places[possible]
        rows, columns = places // scores.shape[1], places % scores.shape[1]
        ends = columns == scores.shape[1] - 1
        goes_on = (~ends).nonzero()[:, 0]
        stays = ends.nonzero()[:, 0]
        tokens = scored.candidates[rows, columns]
        attention = torch.cat([running.attention[rows], scored.attention[rows, columns][:, None]], 1)
        prefixes = None
        if self.ctc and running.prefixes:
            prefixes = self.ctc.extend(running.prefixes, rows[goes_on], tokens[goes_on])
        on = Running(
            tokens=torch.cat([running.tokens[rows[goes_on]], tokens[goes_on][:, None]], 1),
            attention=attention[goes_on],
            state=scored.state[rows[goes_on]],
            prefixes=prefixes,
            scores=values[goes_on],
        )
        # What has ended is only text: it keeps its length and needs no state.
        ended = Running(running.tokens[rows[stays]], attention[stays], None, None, values[stays])
        return Chosen(on, ended, goes_on.tolist(), stays.tolist())

    def _scores(self, running: Running) -> Tensor:
        options = self.options
        scores = (1 - options.ctc_weight) * running.attention[:, -1] + options.length_bonus * running.tokens.shape[1]
        if running.prefixes is not None and options.ctc_weight > 0:
            scores = scores + options.ctc_weight * running.prefixes.score
        return scores

    def _evidence(self, running: Running, state: Any, log_p: Tensor, stop: Stop, given: int) -> Evidence:
        if stop.needs == "tokens":
            return Evidence(tokens=tuple(running.tokens[0, given:].tolist()))
        if stop.needs == "attention":
            weights = state.attention[:, 0]  # of the best hypothesis: (layers, heads, T)
            for dim, name in enumerate(("layers", "heads")):
                weights = _picked(weights, dim, name, getattr(stop, name, ()))
            return Evidence(frames_left=self.frames - 1 - int(weights.mean((0, 1)).argmax()))
        if not stop.needs or self.ctc is None or running.prefixes is None:
            return Evidence()
        best = running.prefixes[:1]
        complete = float(best.complete)
        if complete == -math.inf:
            return Evidence(log_odds_end=-math.inf)
        if stop.needs == "ctc":
            favourite = next(token for token in log_p[0].topk(2).indices if token != self.eos)
            more = float(self.ctc.score(best, favourite[None, None]))
        else:
            # As p(g...) = p(g·<eos>) + Σ_c p(g·c...), the sum over the vocabulary is a difference.
            more = _log_difference(float(best.score), complete)
        return Evidence(log_odds_end=complete - more)


@torch.inference_mode()
def joint_beam_search(
    search: JointSearch, prefix: Tokens, stop: Stop = TO_THE_END, attention: Tensor | None = None
) -> Beam:
    """The best texts that begin with `prefix`, over the frames that `search` has.

    attention: the decoder's log probabilities of the prefix, see `JointSearch.start`.
    Returns at most `options.beam` hypotheses, best first, without <sos> and <eos>; the prefix alone if nothing can
    follow it (no frames, no room, or too few frames for the prefix itself). Scores are given the prefix.
    Raises SimulstError: scores that are not numbers.
    """
    room = search.room - len(prefix)
    room = room if stop.max_new_tokens is None else min(room, stop.max_new_tokens)
    if search.frames == 0 or room < 1:
        return [Hypothesis(prefix)]
    running = search.start(prefix, attention)
    if torch.isneginf(running.scores[0]):
        return [Hypothesis(prefix)]
    given = float(running.scores[0])
    ended: list[Hypothesis] = []
    best_at: dict[int, float] = {}  # step → best score that ended there
    for step in range(room):
        scored = search.score(running, stop, len(prefix))
        if stop.ends(scored.evidence):
            kept = max(len(prefix), running.tokens.shape[1] - stop.discard)
            ended += [replace(h, tokens=h.tokens[:kept]) for h in texts(running)]
            break
        chosen = search.choose(scored)
        running = chosen.running
        if len(chosen.ended):
            ended += texts(chosen.ended)
            best_at[step] = float(chosen.ended.scores[0])
        if not len(running) or is_over(best_at, step) or _are_beaten(running, ended, search.options):
            break
    else:
        if not ended and stop is TO_THE_END:  # while audio is missing, room may be too
            _tell_of_no_end()
        ended += texts(running)
    best = ranked(ended, search.options.beam)
    return [replace(h, score=h.score - given) for h in best] or [Hypothesis(prefix)]


@functools.cache
def _tell_of_no_end() -> None:
    """Once in a process, not at each step."""
    logger.warning(
        "search: no hypothesis ended within max_length_ratio, so the text was cut there; an untrained model does so, "
        "or one that hears what it was not trained on."
    )


def is_over(best_at: dict[int, float], step: int) -> bool:
    """Whether nothing good can still end, after `step` steps of which some ended with these best scores."""
    best = max(best_at.values(), default=0.0)
    return all(best_at.get(step - ago, best) < best - END_GAP for ago in END_STEPS)


def _are_beaten(running: Running, ended: list[Hypothesis], options: JointOptions) -> bool:
    """Whether the result is known already: scores only fall as a text grows, unless length is rewarded."""
    if options.length_bonus > 0 or len(ended) < options.beam:
        return False
    worst = sorted((h.score for h in ended), reverse=True)[options.beam - 1]
    return worst >= float(running.scores[0])


def ranked(hypotheses: Iterable[Hypothesis], beam: int) -> list[Hypothesis]:
    """The best `beam`, best first, each text once: what a search cut short may be what another hypothesis is."""
    best: dict[Tokens, Hypothesis] = {}
    for hypothesis in sorted(hypotheses, key=lambda h: -h.score):
        best.setdefault(hypothesis.tokens, hypothesis)
    return list(best.values())[:beam]


def texts(running: Running) -> list[Hypothesis]:
    """Hypotheses as they leave the search."""
    rows = zip(running.tokens.tolist(), running.scores.tolist(), strict=True)
    return [Hypothesis(tuple(tokens), score) for tokens, score in rows]


def _picked(weights: Tensor, dim: int, name: str, chosen: tuple[int, ...]) -> Tensor:
    if not chosen:
        return weights
    size = weights.shape[dim]
    for number in chosen:
        if not -size <= number < size:
            raise SimulstError(f"stop: {name} names {number}, but the decoder has {size} {name}, counted from 0.")
    return weights.index_select(dim, torch.tensor([number % size for number in chosen], device=weights.device))


def _log_difference(more: float, less: float) -> float:
    """log(e^more - e^less)."""
    if less >= more:
        return -math.inf
    return more + math.log(-math.expm1(less - more))
