"""Joint CTC/attention beam search after a forced prefix (Watanabe et al. 2017, section III).

The score of a hypothesis is (1 - w) log p_attention + w log p_ctc + bonus * length. The decoder chooses the candidates,
and CTC prefix scores are computed for them. Without a prefix the result equals that of ESPnet's BatchBeamSearch.
`JointSearch` has the single step, which blockwise search uses too. `joint_beam_search` is the complete search. The
decoder is called through steps (see calls.py). Everything else is small, and is computed in NumPy and in compiled loops
(ctc.py, choice.py).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from simulst.calls import Alone, Batched, Steps
from simulst.errors import SimulstError, warn_once
from simulst.hypotheses import Hypothesis, Tokens
from simulst.kernels.compiler import build
from simulst.needs import Need
from simulst.policy.context import PLAIN, HeadPairs, Look, TokensView, View
from simulst.policy.stop import Stopping
from simulst.search import CTC_WEIGHT, JointOptions, choice
from simulst.search.ctc import NO_NUMBERS, CTCPrefixes, CTCPrefixScorer
from simulst.search.loops import repeating
from simulst.search.terms import Terms

PRE_BEAM = 1.5  # how many candidates per hypothesis get a CTC score, in units of the beam size
END_GAP = 10.0  # the search is over if all new endings are this much worse than the best (Watanabe et al. 2017, eq. 50)
END_STEPS = (2, 3, 4)  # the steps, counted backwards, for which END_GAP is checked (as in ESPnet)
LEAST_STEPS = 4  # with fewer, a mean and a deviation over the steps say little
SPREAD = 1e-6  # the least deviation of a head's weights; one that hardly moves shows nothing
# What is known only after the decoder has read the last token.
NEXT_STEP = {Need.CTC, Need.ATTENTION, Need.DISTRIBUTION, Need.DIVERGENCE}


class Decoder(Protocol):
    """What a search needs of a decoder; `simulst.models.espnet.network.decoder.CachedDecoder` is one.

    A state holds what n hypotheses have read. It can be indexed with the numbers of hypotheses. Its `attention` is that
    of the heads `shown` to the source, (heads, n, rows, T) float32, if it was asked for: rows of the last token, or of
    all tokens of the text.
    """

    shown: HeadPairs
    """The heads whose attention states have, in their order."""

    def memory(self) -> Any:
        """A container for encoder frames, with `append(frames)` for frames (t, width) and `len()`."""

    def start(self) -> Any:
        """The state of one hypothesis that has read nothing."""

    def step(self, tokens: Tensor, state: Any, memory: Any, *, attention: bool = False) -> tuple[Tensor, Any]:
        """Read one token of each hypothesis, (n,) → log p of the next token, (n, V), and the new state."""

    def prefill(self, tokens: Tensor, memory: Any, *, attention: bool = False) -> tuple[Tensor, Any]:
        """Read several tokens of one hypothesis, (length,) → like `step`, with n = 1.

        A decoder whose session gives `Need.DRAFT` takes `draft`, too: the last tokens, of which each is to be compared
        with the best one. So log p of what follows each of these and what is before them is returned, (draft + 1, V),
        and states have `length` and `cut(length)`.
        """

    # A decoder that also reads for several searches at once has two methods more:
    # together(tokens, state, memory): reads of so many tokens each for which this is equal can be one batch; None: this
    #     one only by itself.
    # read_together(reads): log p of the next token for all hypotheses of all reads, (sum of n, V), and the new states.


class Read(NamedTuple):
    """What a decoder reads for one search.

    tokens: (m,) one token of each hypothesis, or several of one.
    state: the hypotheses' state; None: the tokens are those of one hypothesis, from <sos> on.
    memory, attention: as in `Decoder.step`. draft: as in `Decoder.prefill`.
    """

    tokens: Tensor
    state: Any
    memory: Any
    attention: bool
    draft: int = 0


@dataclass(frozen=True)
class NextTokens:
    """The answer to a decoder's step.

    tokens: (n, k) the most probable next tokens of each hypothesis, best first.
    log_p: (n, k) float64, their log probabilities.
    end: (n,) float64, log p of the end.
    state: the decoder's state, which has read all tokens.
    distribution: (V,) float64, log p of all next tokens of the best hypothesis, if that was asked for.
    """

    tokens: np.ndarray
    log_p: np.ndarray
    end: np.ndarray
    state: Any
    distribution: np.ndarray | None = None


@dataclass(frozen=True)
class DecoderStep:
    """The decoder reads the new tokens of n hypotheses. The answer of its call: the best next tokens of each.

    tokens: (n, m) the tokens that were not read yet: the last token, or for a single hypothesis all from <sos> on.
    state: the decoder's state.
    memory: the decoder's memory.
    count: how many next tokens to return per hypothesis.
    end: the token that ends a text.
    attention: whether the new state must have the source attention.
    adjust: changes log p of the next tokens, (n, V), in place.
    distribution: whether to return the decoder's own log p of all next tokens of the first hypothesis.
    """

    decoder: Any
    tokens: np.ndarray
    state: Any
    memory: Any
    count: int
    end: int
    device: torch.device
    attention: bool = False
    adjust: Callable[[Tensor], None] | None = None
    distribution: bool = False

    @property
    def call(self) -> Batched:
        key, most = (getattr(self.decoder, name, None) for name in ("together", "most_rows"))
        count = len(self.tokens)
        alike = None if key is None else key(self.tokens.shape[1], self.state, self.memory)
        if alike is None or most is None:
            return Batched(decoder_step, self, self.tokens.size, alike)
        # Where two tokens are equal, which is common in low precision, the choice depends on how many are wanted.
        alike = (alike, count, self.count) if count <= most else None
        return Batched(decoder_step, self, self.tokens.size, alike, max(1, most // count))


def decoder_step(steps: Sequence[DecoderStep]) -> list[NextTokens]:
    """Answer calls. Those that share a batch have one decoder, or decoders with the same weights."""
    first = steps[0]
    tokens = torch.from_numpy(np.concatenate([step.tokens.ravel() for step in steps])).to(first.device)
    if len(steps) > 1:
        reads = [
            Read(part, None if step.tokens.shape[1] > 1 else step.state, step.memory, step.attention)
            for step, part in zip(steps, tokens.split([step.tokens.size for step in steps]), strict=True)
        ]
        return chosen(steps, *first.decoder.read_together(reads))
    if first.tokens.shape[1] > 1:
        log_p, state = first.decoder.prefill(tokens, first.memory, attention=first.attention)
    else:
        log_p, state = first.decoder.step(tokens, first.state, first.memory, attention=first.attention)
    return chosen(steps, log_p, [state])


def chosen(steps: Sequence[DecoderStep], log_p: Tensor, states: Sequence[Any]) -> list[NextTokens]:
    """The answers, from log p of all next tokens, (sum of n, V), which may be changed, and the new states.

    Raises SimulstError: a score is NaN.
    """
    own, ends = [], []
    for step, rows in zip(steps, log_p.split([len(step.tokens) for step in steps]), strict=True):
        own.append(rows[0].double().cpu().numpy() if step.distribution else None)
        if step.adjust:
            step.adjust(rows)
        ends.append(rows[:, step.end])
    best, tokens = log_p.topk(min(max(step.count for step in steps), log_p.shape[-1]))
    found = tokens.cpu().numpy(), best.double().cpu().numpy(), torch.cat(ends).double().cpu().numpy()
    if np.isnan(found[1]).any():  # topk ranks NaN first
        raise SimulstError(f"the decoder's {NO_NUMBERS}")
    answers, start = [], 0
    for step, state, distribution in zip(steps, states, own, strict=True):
        new, scores, end = (part[start : start + len(step.tokens)] for part in found)
        answers.append(NextTokens(new[:, : step.count], scores[:, : step.count], end, state, distribution))
        start += len(step.tokens)
    return answers


def draft_step(decoder: Any, tokens: Tensor, memory: Any, draft: int) -> tuple[Tensor, Any]:
    """Read a beginning, from <sos> on, and a draft of so many tokens: see `Decoder.prefill`."""
    return decoder.prefill(tokens, memory, draft=draft)


@dataclass(frozen=True)
class Scored:
    """A draft that the decoder has read.

    text: the beginning and the draft. begin: the length of the beginning.
    log_p: of what follows the beginning and each token of the draft. state: the decoder's, at the end.
    """

    text: Tokens
    begin: int
    log_p: Tensor
    state: Any

    def after(self, running: Running) -> tuple[Tensor, Any] | None:
        """What the decoder answers to a hypothesis that follows the draft so far: log p (1, V), state."""
        place = running.length - self.begin
        if place >= len(self.log_p) or running.cut(running.length) != self.text[: running.length]:
            return None
        ahead = len(self.log_p) - 1 - place
        return self.log_p[place : place + 1].clone(), self.state.cut(self.state.length - ahead)


@dataclass(frozen=True)
class Running:
    """n hypotheses of the same length L, best first. All numbers are float64.

    tokens: (n, L) without <sos>.
    attention: (n, L + 1) the decoder's log probabilities of their first 0..L tokens.
    state: the decoder's state, which has read all but the last token, or nothing at the start of a search.
    prefixes: their CTC prefixes; None if the CTC layer is not used.
    scores: (n,) the scores by which they are ranked.
    starts: whether this is the start of a search.
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
        """Select hypotheses. rows: (m,) their numbers."""
        prefixes = None if self.prefixes is None else self.prefixes[rows]
        state = self.state[torch.from_numpy(rows)]
        return Running(self.tokens[rows], self.attention[rows], state, prefixes, self.scores[rows], self.starts)

    def cut(self, length: int) -> Tokens:
        """The first tokens of the best hypothesis."""
        return tuple(self.tokens[0, :length].tolist())


@dataclass(frozen=True)
class Chosen:
    """The best continuations, best first.

    running: those that go on.
    ended: those that ended, without their <eos>, but with their wait token.
    ends: for each continuation, best first, whether it ended.
    """

    running: Running
    ended: Running
    ends: np.ndarray


@dataclass(eq=False)
class JointSearch:
    """The search of one utterance: its encoder frames so far, and the single step of a beam search.

    Where STOP names a wait token, it ends a step's text as <eos> ends a sentence. The CTC layer knows no such token, so
    the token's CTC score is p(g...), that of the text before it. CTC says which tokens were heard, and the decoder says
    when to wait. If STOP's texts are `complete`, the score is p(g·<eos>): nothing more was said in what was heard. A
    later step has heard more. There the committed wait tokens are left out of the CTC state and the score of g.

    decoder: scores tokens.
    options: weights and sizes.
    sos: id of the start token.
    eos: id of the end token.
    with_ctc: whether to use the CTC layer even if its weight is 0 (for STOP).
    terms: get a bonus.
    alignment_heads: the heads that show at which frame a token begins, if the model names some.
    words: the source word of each frame, counted from 0, if the source is a text; -1: a special token, of no word.
    wait: the wait token, which is written only where STOP names it; None: the model has none.
    spoken: a committed text without the tokens that the CTC layer does not know.
    foresees: from a decoder's state (`hidden`) to the divergence that it expects; None: nothing does.
    end_times: the end time of each token of a hypothesis, in seconds of source; None: the model does not know.
    """

    decoder: Decoder
    options: JointOptions
    sos: int
    eos: int
    with_ctc: bool = False
    terms: Terms | None = None
    alignment_heads: HeadPairs = ()
    end_times: Callable[[Tokens], Sequence[float]] | None = None
    words: Sequence[int] = ()
    wait: int | None = None
    spoken: Callable[[Tokens], Tokens] = lambda tokens: tokens
    foresees: Callable[[Tensor], float] | None = None

    def __post_init__(self) -> None:
        self.ctc_weight = CTC_WEIGHT if self.options.ctc_weight is None else self.options.ctc_weight
        self.length_bonus = self.options.length_bonus or 0.0
        self.memory = self.decoder.memory()
        self.ctc: CTCPrefixScorer | None = None
        self._device = torch.device("cpu")
        self._forced: CTCPrefixes | None = None  # the prefix of the last `start`
        self._draft: Tokens | Scored = ()  # of the same
        self.with_ctc = self.with_ctc or self.ctc_weight > 0

    def append(self, frames: Tensor, log_probs: Tensor | None = None) -> None:
        """Add encoder frames (t, width) and their CTC log posteriors (t, V). None if the CTC layer is not used."""
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
        return max(1, int(self.options.length_ratio * self.frames))

    def start(self, prefix: Tokens, attention: np.ndarray | None = None, draft: Tokens = ()) -> Running:
        """Start from one hypothesis.

        prefix: its L tokens.
        attention: (L + 1,) the decoder's log probabilities, as in `Running`; None: zeros.
        draft: the tokens that a greedy search may find next; see `JointBeamSearch`.
        """
        # The CTC prefix is extended from the last one. The decoder reads the prefix again each time: new frames change
        # its source attention, and with it the keys and values of all later layers.
        tokens = np.array([prefix], dtype=np.int64).reshape(1, len(prefix))
        if attention is None:
            attention = np.zeros(len(prefix) + 1)
        self._draft = draft
        prefixes = self._forced = self.ctc.force(self.spoken(prefix), self._forced) if self.ctc else None
        running = Running(tokens, attention[None], self.decoder.start(), prefixes, np.zeros(1), starts=True)
        return replace(running, scores=self._scores(running))

    def advance(self, running: Running, exact: bool = True) -> Running:
        """The same hypotheses over all frames, after `append`. exact: see `CTCPrefixScorer.advance`."""
        if self.ctc is None or running.prefixes is None:
            return running
        return replace(running, prefixes=self.ctc.advance(running.prefixes, exact))

    def renew(self, running: Running) -> Running:
        """The same hypotheses over the frames of this search, which were encoded again. The decoder's scores stay."""
        renewed = replace(running, prefixes=self.ctc.over(running.tokens) if self.ctc else None)
        scores = self._scores(renewed)
        return replace(renewed, scores=scores)[np.argsort(-scores, kind="stable")]

    def grow(self, running: Running, stop: Stopping | None = None, given: int = 0) -> Steps[Chosen | None]:
        """The best `beam` continuations of all hypotheses. Returns None if STOP ends the search.

        running: the hypotheses.
        stop: None: no STOP.
        given: how many of their tokens were committed before.

        Raises SimulstError: a score is NaN.
        """
        needs = frozenset() if stop is None else stop.options.needs
        # If STOP needs only the tokens, it is asked before the decoder is called.
        if stop is not None and not needs & NEXT_STEP and stop.ends(BestHypothesis(self, running, given)):
            return None
        end, never = self.eos, self.wait
        if stop is not None and stop.end is not None:
            end, never = stop.end, self.eos
        next_tokens = yield from self._read(running, needs, end, never)
        if needs & NEXT_STEP and stop is not None and stop.ends(BestHypothesis(self, running, given, next_tokens)):
            return None
        return self._chosen(running, next_tokens, end, stop is None or stop.complete)

    def _chosen(self, running: Running, found: NextTokens, end: int, complete: bool) -> Chosen:
        """Choose the best continuations. If options.keeps_width, others take the places of those that end.

        complete: whether texts that end are all that was heard.
        """
        options, ctc, prefixes = self.options, self.ctc, running.prefixes
        # Other searches of the batch may have asked for more. A wait token is the end, not the only candidate.
        width = self._width if end == self.eos else max(self._width, 2)
        tokens, log_p = found.tokens[:, :width], found.log_p[:, :width]
        by_ctc, ended_by_ctc = np.zeros(tokens.shape), np.zeros(len(tokens))
        if ctc and prefixes and self.ctc_weight > 0:
            by_ctc = ctc.score(prefixes, tokens)
            ended_by_ctc = prefixes.complete if complete else prefixes.score
        build(choice.__name__)
        rows, ends, longer, attention, scores = choice.best_continuations(
            running.tokens,
            running.attention,
            tokens,
            log_p,
            found.end,
            by_ctc,
            ended_by_ctc,
            self.ctc_weight,
            self.length_bonus * (running.length + 1),
            end,
            options.beam,
            options.keeps_width,
        )
        goes_on, stays = (~ends).nonzero()[0], ends.nonzero()[0]
        rows, tokens = rows[goes_on], longer[goes_on]
        on = Running(
            tokens,
            attention[goes_on],
            found.state[torch.from_numpy(rows)],
            ctc.extend(prefixes, rows, tokens[:, -1]) if ctc and prefixes else None,
            scores[goes_on],
        )
        # Hypotheses that ended need no state. Their length does not count <eos>.
        whole = longer[stays, :-1] if end == self.eos else longer[stays]
        return Chosen(on, Running(whole, attention[stays], None, None, scores[stays]), ends)

    @property
    def _width(self) -> int:
        """How many candidates of each hypothesis are scored."""
        return int(PRE_BEAM * self.options.beam) if self.ctc else self.options.beam

    def _read(self, running: Running, needs: frozenset[Need], end: int, never: int | None) -> Steps[NextTokens]:
        """What may come next, from the draft as long as the search follows it. never: a token that may not."""
        step = self._step(running, needs, end, never)
        if self._draft and running.starts and not (step.attention or Need.DIVERGENCE in needs):
            assert isinstance(self._draft, tuple)
            text = running.cut(running.length) + self._draft
            tokens = torch.tensor([self.sos, *text], device=self._device)
            answer = yield Alone(draft_step, (self.decoder, tokens, self.memory, len(self._draft)))
            self._draft = Scored(text, running.length, *answer)
        known = self._draft.after(running) if isinstance(self._draft, Scored) else None
        if known is not None:
            return chosen([step], known[0], [known[1]])[0]
        self._draft = ()
        return (yield step.call)

    def _step(self, running: Running, needs: frozenset[Need], end: int, never: int | None) -> DecoderStep:
        unread = running.tokens[:, -1:]
        if running.starts:
            unread = np.concatenate([[[self.sos]], running.tokens], 1)
        adjusts = self.options.no_repeat_ngram or self.terms or never is not None
        return DecoderStep(
            self.decoder,
            unread,
            running.state,
            self.memory,
            max(self._width, 2),  # at least one of two tokens is not the end
            end,
            self._device,
            Need.ATTENTION in needs,
            functools.partial(self._adjust, running, never) if adjusts else None,
            Need.DISTRIBUTION in needs,
        )

    @torch.inference_mode()  # what the decoder answers may be changed here alone
    def _adjust(self, running: Running, never: int | None, log_p: Tensor) -> None:
        """Give terms their bonus, forbid a token and repeated n-grams, but no waiting. log_p: of the next, (n, V)."""
        if never is not None:
            log_p[:, never] = -torch.inf
        for row, tokens in enumerate(running.tokens.tolist()):
            if self.terms:
                self.terms.adjust(tuple(tokens), log_p[row])
            if again := repeating(tuple(tokens), self.options.no_repeat_ngram) - {self.wait}:
                log_p[row, list(again)] = -torch.inf

    def _scores(self, running: Running) -> np.ndarray:
        scores = (1 - self.ctc_weight) * running.attention[:, -1] + self.length_bonus * running.length
        if running.prefixes is not None and self.ctc_weight > 0:
            scores = scores + self.ctc_weight * running.prefixes.score
        return scores


class AttendingView(View):
    """A hypothesis whose attention is known.

    attention: at its tokens and at the next one, (heads, tokens + 1, T), or at the next one alone, (heads, 1, T), of
        the heads that the decoder shows. None: it was not asked for.
    """

    def __init__(self, search: JointSearch, tokens: Tokens, attention: Tensor | None) -> None:
        self.search, self.tokens, self.attention = search, tokens, attention

    def frames_left(self, look: Look = PLAIN) -> float:
        if self.attention is None:
            return super().frames_left(look)
        return self.attention.shape[-1] - 1 - attended(self.search, self.attention, look)

    def source_word(self, look: Look = PLAIN) -> int:
        if self.attention is None:
            return super().source_word(look)
        words = self.search.words
        places = [place for place, word in enumerate(words) if word >= 0] or list(range(len(words)))
        return words[places[attended(self.search, self.attention[..., places], look)]]


class BestHypothesis(AttendingView):
    """The best of the running hypotheses, as STOP sees it.

    given: how many of its tokens were committed before.
    next_tokens: the decoder's answer; None if the decoder has not read the last token yet.
    """

    def __init__(
        self, search: JointSearch, running: Running, given: int = 0, next_tokens: NextTokens | None = None
    ) -> None:
        weights = None if next_tokens is None else next_tokens.state.attention
        super().__init__(search, running.cut(running.length)[given:], None if weights is None else weights[:, 0])
        self._running, self._given, self._next = running, given, next_tokens

    def odds_of_end(self, exact: bool = False) -> float:
        ctc, prefixes = self.search.ctc, self._running.prefixes
        if ctc is None or prefixes is None or self._next is None:
            return super().odds_of_end(exact)
        best = prefixes[:1]
        complete = float(best.complete[0])
        if complete == -math.inf:
            return -math.inf
        if exact:
            return complete - going_on(ctc, best, self.search.eos)
        ends = (self.search.eos, self.search.wait)
        favourite = next((token for token in self._next.tokens[0].tolist() if token not in ends), None)
        if favourite is None:
            return math.inf
        return complete - float(ctc.score(best, np.array([[favourite]]))[0, 0])

    def distribution(self) -> np.ndarray:
        known = None if self._next is None else self._next.distribution
        return super().distribution() if known is None else known

    def divergence(self) -> float:
        if self.search.foresees is None or self._next is None:
            return super().divergence()
        return self.search.foresees(self._next.state.hidden[0])

    def end_times(self) -> Sequence[float]:
        if self.search.end_times is None:
            return super().end_times()
        return self.search.end_times(self._running.cut(self._running.length))[self._given :]


def attended(search: JointSearch, weights: Tensor, look: Look) -> int:
    """The frame that the next token attends to most. weights: see `AttendingView`."""
    rows = rows_of(search.decoder, weights, look.heads or search.alignment_heads)
    if look.zscore and rows.shape[1] >= LEAST_STEPS:
        spread = rows.std(1, keepdim=True, correction=0)
        rows = (rows - rows.mean(1, keepdim=True)) / spread.clamp_min(SPREAD)
    last = rows[:, -1]
    if look.median > 1:
        around = torch.nn.functional.pad(last[None], (look.median // 2,) * 2, mode="replicate")[0]
        last = around.unfold(1, look.median, 1).median(-1).values
    return int(last.mean(0).argmax())


def rows_of(decoder: Decoder, weights: Tensor, pairs: HeadPairs) -> Tensor:
    """Those of some heads, (heads, rows, T), of the heads that a decoder shows; no pairs: the mean of all as one."""
    return weights[[decoder.shown.index(pair) for pair in pairs]] if pairs else weights.mean(0, keepdim=True)


def joint_beam_search(
    search: JointSearch,
    prefix: Tokens,
    stop: Stopping | None = None,
    attention: np.ndarray | None = None,
    results: int | None = None,
    give_up: Callable[[Running, list[Hypothesis]], bool] | None = None,
    draft: Tokens = (),
) -> Steps[list[Hypothesis]]:
    """Find the best hypotheses that begin with `prefix`, over the frames of `search`.

    prefix: the committed tokens.
    stop: may end the search. None: search to the end of the sentence.
    attention: the decoder's log probabilities of the prefix, see `JointSearch.start`.
    results: how many hypotheses are wanted; None: options.beam. The search ends once they are known.
    give_up: give_up(running, ended) is asked after each step. If it is true, the search ends without a result.
    draft: what may follow the prefix; see `JointBeamSearch`.
    Returns: at most `results` hypotheses, best first, without <sos> and <eos>. Scores are conditional on the prefix. If
        options.per_token, they are per new token, <eos> included; if `attention` is known, those of the whole text per
        token. If nothing can follow the prefix (no frames, no room, too few frames for the prefix), or after
        `give_up`, the prefix alone. Where STOP names a wait token, it is written also if there is no room for more.

    Raises SimulstError: a score is NaN.
    """
    results, per_token = results or search.options.beam, search.options.per_token
    closing = () if stop is None or stop.end is None else (stop.end,)
    nothing = [Hypothesis(prefix + closing)]
    room = search.room - len(prefix)
    if search.frames == 0 or room < 1:
        return nothing
    running = search.start(prefix, attention, draft[: room - 1])
    if np.isneginf(running.scores[0]):
        return nothing
    given = float(running.scores[0])
    if not per_token:
        rank = texts
    elif attention is None:  # without their scores, the tokens of the prefix must not count either
        rank = functools.partial(_texts_per_token, given=given, count=len(prefix))
    else:
        rank = _texts_per_token
    ended: list[Hypothesis] = []
    best_at: dict[int, float] = {}  # step → best score that ended there
    for step in range(room):
        chosen = yield from search.grow(running, stop, len(prefix))
        if chosen is None:
            assert stop is not None
            kept = max(len(prefix), running.length - stop.discard)
            ended += [replace(h, tokens=h.tokens[:kept]) for h in rank(running)]
            break
        running = chosen.running
        if len(chosen.ended):
            ended += rank(chosen.ended)
            best_at[step] = float(chosen.ended.scores[0])
        if not len(running) or is_over(best_at, step):
            break
        if search.options.keeps_width:
            if len(ended) >= search.options.beam:
                break
        elif not per_token and _are_beaten(running, ended, search.options, results):
            break
        if give_up and give_up(running, ended):
            return nothing
    else:
        if not ended and stop is None:  # before the end of the audio (with STOP) this is normal
            warn_once(
                "search: no hypothesis ended within max_length_ratio, so the text was cut there; the model may be "
                "untrained, or the audio may be unlike its training data."
            )
        ended += [replace(h, tokens=h.tokens + closing) for h in rank(running)]
    best = ranked(ended, results)
    if stop is not None and stop.end is not None and best:
        stop.ends(TokensView(best[0].tokens[len(prefix) :]))  # for whoever watches it
    return [h if per_token else replace(h, score=h.score - given) for h in best] or nothing


def is_over(best_at: dict[int, float], step: int) -> bool:
    """Whether no hypothesis that ends later can be good. best_at: the best score of those that ended at each step."""
    best = max(best_at.values(), default=0.0)
    return all(best_at.get(step - ago, best) < best - END_GAP for ago in END_STEPS)


def _are_beaten(running: Running, ended: list[Hypothesis], options: JointOptions, results: int) -> bool:
    """Whether no running hypothesis can become one of the results. Without a length bonus, scores only fall."""
    if (options.length_bonus or 0) > 0 or len(ended) < results:
        return False
    worst = sorted((h.score for h in ended), reverse=True)[results - 1]
    return worst >= float(running.scores[0])


def ranked(hypotheses: Iterable[Hypothesis], count: int) -> list[Hypothesis]:
    """The best `count` hypotheses, best first, without duplicates. (A hypothesis that was cut may equal another.)"""
    best: dict[Tokens, Hypothesis] = {}
    for hypothesis in sorted(hypotheses, key=lambda h: -h.score):
        best.setdefault(hypothesis.tokens, hypothesis)
    return list(best.values())[:count]


def _texts_per_token(running: Running, given: float = 0.0, count: int = 0) -> list[Hypothesis]:
    """As `texts`, with scores per token. given: the score of the first `count` tokens, which are left out."""
    ended = running.attention.shape[1] - 1 - running.length  # <eos> is a token, too
    size = max(1, running.length + ended - count)
    return texts(replace(running, scores=(running.scores - given) / size))


def texts(running: Running) -> list[Hypothesis]:
    """The running hypotheses as plain hypotheses."""
    rows = zip(running.tokens.tolist(), running.scores.tolist(), strict=True)
    return [Hypothesis(tuple(tokens), score) for tokens, score in rows]


def going_on(ctc: CTCPrefixScorer, prefix: CTCPrefixes, eos: int) -> float:
    """log Σ_c p(g·c...) over all tokens c but <eos> (CUNI-KIT 2023, equation 4). prefix: g, n = 1.

    As p(g...) = p(g·<eos>) + Σ_c p(g·c...), the sum over all labels is a difference. The layer has a label of its own
    for <eos>, as ESPnet's layers have one for each entry of the vocabulary; it is no token of V without <eos>.
    """
    more = log_difference(float(prefix.score[0]), float(prefix.complete[0]))
    return log_difference(more, float(ctc.score(prefix, np.array([[eos]]))[0, 0]))


def log_difference(more: float, less: float) -> float:
    """log(e^more - e^less)."""
    if less >= more:
        return -math.inf
    return more + math.log(-math.expm1(less - more))
