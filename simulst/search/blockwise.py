"""Blockwise search: hypotheses that live on from one encoder block to the next.

BWBS keeps a beam over the blocks (Tsunoo et al. 2021), IBWBS a single hypothesis, from which each block is searched
again (CUNI-KIT 2023, algorithm 1). Both look at all encoder frames so far. Neither decides what is committed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simulst.policy.stop import Stopping
from simulst.search import BWBS, IBWBS, Found, Hypothesis, Tokens
from simulst.search.beam import JointSearch, Running, is_over, joint_beam_search, ranked, texts
from simulst.search.calls import Steps


class BlockwiseBeamSearch:
    """BWBS as ESPnet's BatchBeamSearchOnline does it, so that the two can be compared token for token.

    What is kept of a hypothesis, in the decoder and in the CTC layer, is what it was when its tokens were found; CTC
    scores are carried into new frames by blanks alone (`CTCPrefixScorer.advance`, exact=False).
    """

    def __init__(self, search: JointSearch, options: BWBS) -> None:
        self._search = search
        self._options = options
        self._running: Running | None = None
        self._past: list[Running] = []  # what they grew from, each a token longer than the one before

    def step(self, committed: Tokens, stop: Stopping | None, final: bool) -> Steps[Found]:
        """Search on, once frames were appended to the `JointSearch`.

        committed: hypotheses that do not begin with these tokens are dropped. final: no frames come after these.
        stop: ends the block before <eos> or a repetition would; None: nothing else does. Tokens that are given up are
        searched again in the next block: one after <eos> or a repetition, `stop.discard` after STOP.
        """
        search = self._search
        if search.frames == 0:
            return Found([Hypothesis(committed)])
        if self._running is None:
            self._running = search.start(())
        self._keep(committed)
        self._running = search.advance(self._running, exact=False)
        ended: list[Hypothesis] = []
        best_at: dict[int, float] = {}
        while self._running.length < search.room:
            scored = yield from search.grow(self._running, None if final else stop, len(committed))
            if scored is None:
                assert stop is not None
                return self._back(min(stop.discard, self._running.length - len(committed)))
            chosen = search.choose(scored)
            if final and is_over(best_at, self._running.length):
                return Found(ranked(ended, self._options.beam))
            if not final and (len(chosen.ended) or (self._options.repetition and repeats(chosen.running).any())):
                # What ended or repeated is not taken, and the tokens before it go, too, but not the first (as in
                # ESPnet).
                break
            if len(chosen.ended):
                ended += texts(chosen.ended)
                best_at[self._running.length] = float(chosen.ended.scores[0])
            if not len(chosen.running):
                return Found(ranked(ended, self._options.beam) or [Hypothesis(committed)])
            self._past = [*self._past, self._running][-max(1, stop.discard if stop else 0) :]
            self._running = chosen.running
        if final:
            return Found(ranked([*ended, *texts(self._running)], self._options.beam))
        return self._back(1 if self._past and self._running.length > 1 else 0)

    def _back(self, count: int) -> Found:
        """Step back by so many tokens: to what was running then, or if that is gone, to the best hypothesis alone."""
        assert self._running is not None
        if count:
            if count <= len(self._past):
                self._running = self._past[-count]
            else:
                length = self._running.length - count
                best, attention = self._running.cut(length), self._running.attention[0, : length + 1]
                self._running = self._search.start(best, attention)
            self._past = []
        return Found(texts(self._running))

    def _keep(self, committed: Tokens) -> None:
        """Drop what does not begin with the committed tokens; begin with them if nothing does."""
        assert self._running is not None
        if not committed:
            return
        if self._running.length >= len(committed):
            fits = np.flatnonzero((self._running.tokens[:, : len(committed)] == committed).all(1))
            if len(fits):
                self._running = self._running if len(fits) == len(self._running) else self._running[fits]
                self._past = []
                return
        self._running, self._past = self._search.start(committed), []


@dataclass(frozen=True)
class _Stopped:
    """A hypothesis that left a block's search.

    ended: by <eos>. rank: score per token. attention: as in `Running`. held_back: tokens to step back by, if it is the
    best.
    """

    tokens: Tokens
    ended: bool
    score: float
    rank: float
    held_back: int
    attention: np.ndarray


class IncrementalBlockwiseBeamSearch:
    """IBWBS. Each block is searched from the committed tokens on, which are read again over all frames.

    In algorithm 1 the active hypothesis is what the policy leaves of the best one (line 19), less two tokens (line 20).
    As nothing is taken back here, these two are not committed either: see `Found.held_back`. Where STOP ended the
    search, STOP's word holds instead.
    """

    def __init__(self, search: JointSearch, options: IBWBS) -> None:
        self._search = search
        self._options = options
        self._best: _Stopped | None = None  # of the last block
        self._seen: set[Tokens] = set()  # what stopped without <eos>

    def step(self, committed: Tokens, stop: Stopping | None, final: bool) -> Steps[Found]:
        """Search the frames so far; see `BlockwiseBeamSearch.step`. The best comes first by score per token.

        stop: ends the block's search with its best hypothesis. The final block is searched to the end of the sentence.
        """
        search = self._search
        attention = self._attention(committed)
        if final:
            return Found((yield from joint_beam_search(search, committed, attention=attention)))
        if search.frames == 0 or search.room <= len(committed):
            return Found([Hypothesis(committed)])
        stopped = yield from self._stopped(search.start(committed, attention), len(committed), stop)
        if not stopped:  # there are too few frames for the committed tokens
            return Found([Hypothesis(committed)])
        self._seen |= {s.tokens for s in stopped if not s.ended}
        stopped.sort(key=lambda s: -s.rank)
        self._best = stopped[0]
        beam = ranked([Hypothesis(s.tokens, s.rank) for s in stopped], self._options.beam)
        return Found(beam, stopped[0].held_back)

    def _attention(self, committed: Tokens) -> np.ndarray | None:
        """The decoder's scores of the committed tokens, as they were found."""
        best = self._best
        if best is None or best.tokens[: len(committed)] != committed:
            return None
        return best.attention[: len(committed) + 1]

    def _stopped(self, running: Running, given: int, stop: Stopping | None) -> Steps[list[_Stopped]]:
        """Lines 4 to 15 of algorithm 1: all hypotheses that leave the search, one after the other."""
        search = self._search
        stopped: list[_Stopped] = []
        least = -np.inf  # minScore
        while len(running) and running.length < search.room:
            scored = yield from search.grow(running, stop, given)
            if scored is None:
                assert stop is not None
                kept = max(given, running.length - stop.discard)
                best = self._leave(running)[0]
                best = replace(best, tokens=best.tokens[:kept], held_back=0, attention=best.attention[: kept + 1])
                return [*stopped, best]
            chosen = search.choose(scored)
            leaves, stays = [*self._leave(chosen.ended, ended=True), *self._leave(chosen.running)], []
            repeated = repeats(chosen.running).tolist() if self._options.repetition else [False] * len(chosen.running)
            ranks = [*chosen.ended_ranks, *chosen.ranks]
            for place in sorted(range(len(ranks)), key=ranks.__getitem__):
                b = leaves[place]
                row = place - len(chosen.ended)
                ends = row < 0
                if ends or repeated[row] or (b.score <= least and b.tokens not in self._seen):
                    least = max(least, b.score)
                    stopped.append(b)
                else:
                    stays.append(row)
            running = chosen.running[np.array(stays, dtype=np.int64)]
        return stopped + self._leave(running)

    def _leave(self, running: Running, ended: bool = False) -> list[_Stopped]:
        size = max(1, running.length + ended)
        held_back = max(0, self._options.step_back - ended)
        rows = zip(running.tokens.tolist(), running.scores.tolist(), running.attention, strict=True)
        return [
            _Stopped(tuple(tokens), ended, score, score / size, held_back, attention)
            for tokens, score, attention in rows
        ]


def repeats(running: Running) -> np.ndarray:
    """(n,) whether the last token stands in the hypothesis before (Tsunoo et al. 2021, equation 11)."""
    return (running.tokens[:, :-1] == running.tokens[:, -1:]).any(1)
