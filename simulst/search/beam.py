"""Joint CTC/attention beam search after a forced prefix (Watanabe et al. 2017, section III).

A hypothesis' score is (1 - w) log p_attention + w log p_ctc + bonus * length. The decoder picks the candidates; of
them, CTC prefix scores are computed. Without a prefix this finds what ESPnet's BatchBeamSearch does.
`JointSearch` is one step of it, which blockwise search shares; `joint_beam_search` is the whole. The decoder's work is
asked for, see calls.py; what is done here is bookkeeping, in NumPy, as it is small.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from simulst.errors import SimulstError
from simulst.needs import Need
from simulst.policy.context import View
from simulst.policy.stop import Stopping
from simulst.search import Hypothesis, JointOptions, Tokens
from simulst.search.calls import Steps
from simulst.search.ctc import CTCPrefixes, CTCPrefixScorer

logger = logging.getLogger(__name__)

PRE_BEAM = 1.5  # candidates per hypothesis that get a CTC score, in beams
END_GAP = 10.0  # Watanabe et al. 2017, equation 50: the search is over once what ends is this much worse than the best
END_STEPS = (2, 3, 4)  # ... at each of these many steps ago (ESPnet looks so far back)
NEXT_STEP = {Need.CTC, Need.ATTENTION}  # what STOP can know only once the decoder has read the last token


class Decoder(Protocol):
    """What a search asks of a decoder; `simulst.models.espnet.decoder.CachedDecoder` is one.

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
class NextTokens:
    """The answer to a `DecoderStep`.

    tokens: (n, k) the most probable next tokens of each hypothesis, best first. log_p: (n, k) of these. end: (n,) log p
    of <eos>. state: the decoder's, which has read all tokens.
    """

    tokens: np.ndarray
    log_p: np.ndarray
    end: np.ndarray
    state: Any

    @staticmethod
    def of(log_p: Tensor, state: Any, count: int, eos: int) -> NextTokens:
        """From log p of all tokens, (n, V).

        Raises SimulstError: scores that are not numbers.
        """
        best, tokens = log_p.topk(min(count, log_p.shape[-1]))
        found = NextTokens(tokens.cpu().numpy(), best.cpu().numpy(), log_p[..., eos].cpu().numpy(), state)
        if np.isnan(found.log_p).any():  # NaN counts as the greatest
            raise SimulstError("the decoder's scores are not numbers (NaN); the checkpoint or the audio is broken.")
        return found


@dataclass(frozen=True)
class DecoderStep:
    """A call: have the decoder read what n hypotheses have added, and tell the `count` best next tokens of each.

    tokens: (n, m) what is not read yet: the last token; or, of a single hypothesis, all from <sos> on.
    state, memory: the decoder's. attention: whether the new state must have the source attention.
    """

    decoder: Decoder
    tokens: np.ndarray
    state: Any
    memory: Any
    count: int
    eos: int
    device: torch.device
    attention: bool = False

    def answer(self) -> NextTokens:
        tokens = torch.from_numpy(self.tokens).to(self.device)
        if tokens.shape[1] > 1:
            log_p, state = self.decoder.prefill(tokens[0], self.memory, attention=self.attention)
        else:
            log_p, state = self.decoder.step(tokens[:, 0], self.state, self.memory, attention=self.attention)
        return NextTokens.of(log_p, state, self.count, self.eos)


@dataclass(frozen=True)
class Running:
    """n hypotheses of one length L, best first.

    tokens: (n, L) without <sos>. attention: (n, L + 1) log probabilities by the decoder of their first 0..L tokens.
    state: of the decoder, which has read all but the last token, or nothing at the start of a search.
    prefixes: of the CTC layer, if it takes part. scores: (n,) as they are ranked. All numbers are float64.
    """

    tokens: np.ndarray
    attention: np.ndarray
    state: Any
    prefixes: CTCPrefixes | None
    scores: np.ndarray
    starts: bool = False

    def __len__(self) -> int:
        return self.tokens.shape[0]

    @property
    def length(self) -> int:
        return self.tokens.shape[1]

    def __getitem__(self, rows: np.ndarray) -> Running:
        """Hypotheses by their numbers, (m,)."""
        index = torch.from_numpy(rows)
        prefixes = None if self.prefixes is None else self.prefixes[index.to(self.prefixes.score.device)]
        return Running(
            self.tokens[rows], self.attention[rows], self.state[index], prefixes, self.scores[rows], self.starts
        )

    def cut(self, length: int) -> Tokens:
        """The first tokens of the best hypothesis."""
        return tuple(self.tokens[0, :length].tolist())


@dataclass(frozen=True)
class Scored:
    """Running hypotheses with the scores of their continuations, (n, k): k - 1 candidate tokens, then the end."""

    running: Running
    state: Any
    candidates: np.ndarray
    attention: np.ndarray
    scores: np.ndarray


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
        self.ctc: CTCPrefixScorer | None = None
        self._device = torch.device("cpu")
        self._forced: CTCPrefixes | None = None  # the prefix of the last `start`
        self.with_ctc = with_ctc or options.ctc_weight > 0

    def append(self, frames: Tensor, log_probs: Tensor | None = None) -> None:
        """More encoder frames (t, width) with their CTC log posteriors (t, V), which may be missing if unused."""
        self.memory.append(frames)
        self._device = frames.device
        if not self.with_ctc:
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

    def start(self, prefix: Tokens, attention: np.ndarray | None = None) -> Running:
        """One hypothesis with these tokens.

        attention: (L + 1,) their log probabilities by the decoder, as in `Running`; None: not counted.
        """
        # The CTC layer's part only grows. The decoder reads a prefix again each time: new frames change what its first
        # layer finds in the source, and so all keys and values after it.
        tokens = np.array([prefix], dtype=np.int64).reshape(1, len(prefix))
        if attention is None:
            attention = np.zeros(len(prefix) + 1)
        with torch.inference_mode():
            prefixes = self._forced = self.ctc.force(prefix, self._forced) if self.ctc else None
        running = Running(tokens, attention[None], self.decoder.start(), prefixes, np.zeros(1), starts=True)
        return replace(running, scores=self._scores(running))

    def advance(self, running: Running, exact: bool = True) -> Running:
        """The same hypotheses once frames were appended; exact: see `CTCPrefixScorer.advance`."""
        if self.ctc is None or running.prefixes is None:
            return running
        return replace(running, prefixes=self.ctc.advance(running.prefixes, exact))

    def grow(self, running: Running, stop: Stopping | None = None, given: int = 0) -> Steps[Scored | None]:
        """Score continuations of all hypotheses; None where STOP ends the search before.

        given: how many of their tokens were committed before. stop: None asks nobody.
        Raises SimulstError: scores that are not numbers.
        """
        needs = frozenset() if stop is None else stop.options.needs
        # What STOP can say of the tokens alone, it is asked before the decoder has worked.
        if stop is not None and not needs & NEXT_STEP and stop.ends(BestHypothesis(self, running, given)):
            return None
        next_tokens = yield self._step(running, needs)
        if needs & NEXT_STEP and stop is not None and stop.ends(BestHypothesis(self, running, given, next_tokens)):
            return None
        return self._scored(running, next_tokens)

    def choose(self, scored: Scored) -> Chosen:
        """The best `beam` continuations of all."""
        running, scores = scored.running, scored.scores
        places = np.argsort(-scores, axis=None, kind="stable")[: self.options.beam]
        values = scores.reshape(-1)[places]
        places, values = places[values > -np.inf], values[values > -np.inf]
        rows, columns = np.divmod(places, scores.shape[1])
        ends = columns == scores.shape[1] - 1
        goes_on, stays = np.flatnonzero(~ends), np.flatnonzero(ends)
        tokens = scored.candidates[rows, columns]
        attention = np.concatenate([running.attention[rows], scored.attention[rows, columns][:, None]], 1)
        on_rows, on_tokens = rows[goes_on], tokens[goes_on]
        index = torch.from_numpy(on_rows)
        prefixes = None
        if self.ctc and running.prefixes:
            with torch.inference_mode():
                prefixes = self.ctc.extend(
                    running.prefixes, index.to(self._device), torch.from_numpy(on_tokens).to(self._device)
                )
        on = Running(
            tokens=np.concatenate([running.tokens[on_rows], on_tokens[:, None]], 1),
            attention=attention[goes_on],
            state=scored.state[index],
            prefixes=prefixes,
            scores=values[goes_on],
        )
        # What has ended is only text: it keeps its length and needs no state.
        ended = Running(running.tokens[rows[stays]], attention[stays], None, None, values[stays])
        return Chosen(on, ended, goes_on.tolist(), stays.tolist())

    def _step(self, running: Running, needs: frozenset[Need]) -> DecoderStep:
        unread = running.tokens[:, -1:]
        if running.starts:
            unread = np.concatenate([[[self.sos]], running.tokens], 1)
        width = int(PRE_BEAM * self.options.beam) if self.ctc else self.options.beam
        return DecoderStep(
            self.decoder,
            unread,
            running.state,
            self.memory,
            max(width, 2),  # of two, one is no <eos>
            self.eos,
            self._device,
            Need.ATTENTION in needs,
        )

    def _scored(self, running: Running, found: NextTokens) -> Scored:
        options = self.options
        width = int(PRE_BEAM * options.beam) if self.ctc else options.beam
        tokens, best = found.tokens[:, :width], found.log_p[:, :width]
        # The end is always a candidate, in a column of its own.
        candidates = np.concatenate([tokens, np.full_like(tokens[:, :1], self.eos)], 1)
        attention = np.concatenate([best, found.end[:, None]], 1) + running.attention[:, -1:]
        scores = (1 - options.ctc_weight) * attention + options.length_bonus * (running.length + 1)
        if self.ctc and running.prefixes and options.ctc_weight > 0:
            scores = scores + options.ctc_weight * self._by_ctc(running.prefixes, tokens)
        scores[:, :-1][tokens == self.eos] = -np.inf
        return Scored(running, found.state, candidates, attention, scores)

    def _by_ctc(self, prefixes: CTCPrefixes, tokens: np.ndarray) -> np.ndarray:
        assert self.ctc is not None
        with torch.inference_mode():
            more = self.ctc.score(prefixes, torch.from_numpy(tokens).to(self._device))
            return torch.cat([more, prefixes.complete[:, None]], 1).cpu().numpy()

    def _scores(self, running: Running) -> np.ndarray:
        options = self.options
        scores = (1 - options.ctc_weight) * running.attention[:, -1] + options.length_bonus * running.length
        if running.prefixes is not None and options.ctc_weight > 0:
            scores = scores + options.ctc_weight * running.prefixes.score.cpu().numpy()
        return scores


class BestHypothesis(View):
    """What STOP may ask of the best of running hypotheses.

    given: tokens that were committed before. next_tokens: once the decoder has read the last token.
    """

    def __init__(
        self, search: JointSearch, running: Running, given: int = 0, next_tokens: NextTokens | None = None
    ) -> None:
        self._search, self._running, self._given, self._next = search, running, given, next_tokens

    @property
    def tokens(self) -> Tokens:
        return tuple(self._running.tokens[0, self._given :].tolist())

    def odds_of_end(self, exact: bool = False) -> float:
        ctc, prefixes = self._search.ctc, self._running.prefixes
        if ctc is None or prefixes is None or self._next is None:
            return super().odds_of_end(exact)
        with torch.inference_mode():
            best = prefixes[:1]
            complete = float(best.complete)
            if complete == -math.inf:
                return -math.inf
            if exact:
                # As p(g...) = p(g·<eos>) + Σ_c p(g·c...), the sum over the vocabulary is a difference.
                return complete - _log_difference(float(best.score), complete)
            favourite = next(token for token in self._next.tokens[0].tolist() if token != self._search.eos)
            return complete - float(ctc.score(best, torch.tensor([[favourite]], device=ctc.device)))

    def frames_left(self, layers: Sequence[int] = (), heads: Sequence[int] = ()) -> float:
        if self._next is None or self._next.state.attention is None:
            return super().frames_left(layers, heads)
        weights = self._next.state.attention[:, 0]  # of the best hypothesis: (layers, heads, T)
        for dim, chosen in enumerate((layers, heads)):
            if chosen:
                size = weights.shape[dim]
                numbers = torch.tensor([number % size for number in chosen], device=weights.device)
                weights = weights.index_select(dim, numbers)
        return self._search.frames - 1 - int(weights.mean((0, 1)).argmax())


def joint_beam_search(
    search: JointSearch,
    prefix: Tokens,
    stop: Stopping | None = None,
    attention: np.ndarray | None = None,
    results: int | None = None,
    give_up: Callable[[Running, list[Hypothesis]], bool] | None = None,
) -> Steps[list[Hypothesis]]:
    """The best texts that begin with `prefix`, over the frames that `search` has.

    stop: None searches to the end of the sentence.
    attention: the decoder's log probabilities of the prefix, see `JointSearch.start`.
    results: how many hypotheses are wanted [options.beam]; the search is over once they are known.
    give_up: asked after each step, of the running hypotheses and those that have ended, whether to end in vain.
    Returns at most `results` hypotheses, best first, without <sos> and <eos>; the prefix alone if nothing can
    follow it (no frames, no room, or too few frames for the prefix itself). Scores are given the prefix.
    Raises SimulstError: scores that are not numbers.
    """
    results = results or search.options.beam
    room = search.room - len(prefix)
    if search.frames == 0 or room < 1:
        return [Hypothesis(prefix)]
    running = search.start(prefix, attention)
    if np.isneginf(running.scores[0]):
        return [Hypothesis(prefix)]
    given = float(running.scores[0])
    ended: list[Hypothesis] = []
    best_at: dict[int, float] = {}  # step → best score that ended there
    for step in range(room):
        scored = yield from search.grow(running, stop, len(prefix))
        if scored is None:
            assert stop is not None
            kept = max(len(prefix), running.length - stop.discard)
            ended += [replace(h, tokens=h.tokens[:kept]) for h in texts(running)]
            break
        chosen = search.choose(scored)
        running = chosen.running
        if len(chosen.ended):
            ended += texts(chosen.ended)
            best_at[step] = float(chosen.ended.scores[0])
        if not len(running) or is_over(best_at, step) or _are_beaten(running, ended, search.options, results):
            break
        if give_up and give_up(running, ended):
            return [Hypothesis(prefix)]
    else:
        if not ended and stop is None:  # while audio is missing, room may be too
            _tell_of_no_end()
        ended += texts(running)
    best = ranked(ended, results)
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


def _are_beaten(running: Running, ended: list[Hypothesis], options: JointOptions, results: int) -> bool:
    """Whether the results are known already: scores only fall as a text grows, unless length is rewarded."""
    if options.length_bonus > 0 or len(ended) < results:
        return False
    worst = sorted((h.score for h in ended), reverse=True)[results - 1]
    return worst >= float(running.scores[0])


def ranked(hypotheses: Iterable[Hypothesis], count: int) -> list[Hypothesis]:
    """The best `count`, best first, each text once: what a search cut short may be what another hypothesis is."""
    best: dict[Tokens, Hypothesis] = {}
    for hypothesis in sorted(hypotheses, key=lambda h: -h.score):
        best.setdefault(hypothesis.tokens, hypothesis)
    return list(best.values())[:count]


def texts(running: Running) -> list[Hypothesis]:
    """Hypotheses as they leave the search."""
    rows = zip(running.tokens.tolist(), running.scores.tolist(), strict=True)
    return [Hypothesis(tuple(tokens), score) for tokens, score in rows]


def _log_difference(more: float, less: float) -> float:
    """log(e^more - e^less)."""
    if less >= more:
        return -math.inf
    return more + math.log(-math.expm1(less - more))
