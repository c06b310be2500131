"""Blockwise search: hypotheses are kept from one encoder block to the next.

BWBS keeps a beam (Tsunoo et al. 2021). IBWBS keeps one hypothesis, from which it searches each block (CUNI-KIT 2023,
algorithm 1). Both see all encoder frames so far. Neither of them decides what is committed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simulst.calls import Steps
from simulst.errors import SimulstError
from simulst.hypotheses import END, Found, Hypothesis, Tokens
from simulst.policy.stop import Stopping
from simulst.search import BWBS, IBWBS
from simulst.search.beam import JointSearch, Running, is_over, joint_beam_search, ranked, texts


class BlockwiseBeamSearch:
    """BWBS, implemented like ESPnet's BatchBeamSearchOnline, so that the two can be compared token for token.

    The decoder states and CTC scores of a hypothesis stay as they were when its tokens were found. In new frames, CTC
    scores are extended by blanks only (`CTCPrefixScorer.advance`, exact=False). If all frames were encoded again, CTC
    scores are computed again, over all of them.

    search: the frames so far. If they are encoded again at each step, set it before each step.
    """

    def __init__(self, search: JointSearch, options: BWBS) -> None:
        self.search = search
        self._options = options
        self._last: JointSearch | None = None  # that of the last step
        self._running: Running | None = None
        self._past: list[Running] = []  # the hypotheses that they grew from; each item is one token longer

    def step(self, committed: Tokens, stop: Stopping | None, final: bool) -> Steps[Found]:
        """Continue the search, after frames were appended to the `JointSearch`.

        The search of a block ends at <eos> or at a repetition, or before if STOP ends it. Then the last tokens are
        dropped and searched again in the next block: one token after <eos> or a repetition, `stop.discard` after STOP.

        committed: the committed tokens. Hypotheses that do not begin with them are dropped.
        stop: may end the search of the block. None: no STOP.
        final: whether these are the last frames.
        """
        search = self.search
        if search.frames == 0:
            return Found([Hypothesis(committed)])
        if self._running is None:
            self._running = search.start(())
        elif self._last is not search:
            self._running = search.renew(self._running)
        self._last = search
        self._keep(committed)
        self._running = search.advance(self._running, exact=False)
        ended: list[Hypothesis] = []
        best_at: dict[int, float] = {}
        while self._running.length < search.room:
            chosen = yield from search.grow(self._running, None if final else stop, len(committed))
            if chosen is None:
                assert stop is not None
                return self._back(min(stop.discard, self._running.length - len(committed)))
            if final and is_over(best_at, self._running.length):
                return Found(ranked(ended, self._options.beam))
            if not final and (len(chosen.ended) or (self._options.repetition and repeats(chosen.running).any())):
                # These continuations are not taken. The last token before them is dropped as well, unless it is the
                # first token (as in ESPnet).
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
        """Step back by `count` tokens: to the beam of that time, or if it is not kept, to the best hypothesis only."""
        assert self._running is not None
        if count:
            if count <= len(self._past):
                self._running = self._past[-count]
            else:
                length = self._running.length - count
                best, attention = self._running.cut(length), self._running.attention[0, : length + 1]
                self._running = self.search.start(best, attention)
            self._past = []
        return Found(texts(self._running))

    def _keep(self, committed: Tokens) -> None:
        """Drop hypotheses that do not begin with the committed tokens. If none is left, start from these tokens."""
        assert self._running is not None
        if not committed:
            return
        if self._running.length >= len(committed):
            fits = np.flatnonzero((self._running.tokens[:, : len(committed)] == committed).all(1))
            if len(fits):
                self._running = self._running if len(fits) == len(self._running) else self._running[fits]
                self._past = []
                return
        self._running, self._past = self.search.start(committed), []


@dataclass(frozen=True)
class _Stopped:
    """A hypothesis that left the search of a block.

    ended: whether it ended with <eos>.
    rank: its score per token.
    held_back: how many tokens are held back if it is the best.
    attention: as in `Running`.
    """

    tokens: Tokens
    ended: bool
    score: float
    rank: float
    held_back: int
    attention: np.ndarray


class IncrementalBlockwiseBeamSearch:
    """IBWBS. Each block is searched from the committed tokens on. The decoder reads them again, over all frames.

    In algorithm 1 the active hypothesis is the part of the best one that the policy keeps (line 19), without its last
    two tokens (line 20). Committed tokens are final here, so these two are not committed (see `Found.held_back`). <eos>
    is one of the two only if the policy keeps it. If STOP ended the search, `stop.discard` tokens are dropped instead.

    search: the frames so far. If they are encoded again at each step, set it before each step.
    """

    def __init__(self, search: JointSearch, options: IBWBS) -> None:
        self.search = search
        self._options = options
        self._best: _Stopped | None = None  # the best hypothesis of the last block
        self._seen: set[Tokens] = set()  # hypotheses that left a search without <eos>

    def step(self, committed: Tokens, stop: Stopping | None, final: bool) -> Steps[Found]:
        """Search the frames so far. The arguments are those of `BlockwiseBeamSearch.step`.

        If STOP ends the search of a block, the best hypothesis is kept. The final block is searched to the end of the
        sentence, unless it is searched like the others (options.final). The beam is ranked by score per token.
        """
        search = self.search
        attention = self._attention(committed)
        if final and self._options.final != "literal":
            return Found((yield from joint_beam_search(search, committed, attention=attention)))
        if search.frames == 0 or search.room <= len(committed):
            return Found([Hypothesis(committed)])
        stop = None if final else stop
        repetition = bool(self._options.repetition) and not final
        stopped = yield from self._stopped(search.start(committed, attention), len(committed), stop, repetition)
        if not stopped:  # there are too few frames for the committed tokens
            return Found([Hypothesis(committed)])
        self._seen |= {s.tokens for s in stopped if not s.ended}
        stopped.sort(key=lambda s: -s.rank)
        self._best = stopped[0]
        if final:  # all of it is the result
            return Found(ranked([Hypothesis(s.tokens, s.rank) for s in stopped], self._options.beam))
        seen = [Hypothesis(s.tokens + (END,) * s.ended, s.rank) for s in stopped]  # for COMMIT, <eos> is a token
        return Found(ranked(seen, self._options.beam), stopped[0].held_back)

    def forget(self, committed: Tokens, first: int, count: int) -> None:
        """Forget tokens that have left the window. The others keep their scores, as they were found.

        committed: the committed tokens.
        first: the number of the first token that is forgotten.
        count: how many are forgotten.
        """
        self._seen = set()
        if self._best is None or self._attention(committed) is None:
            self._best = None
            return
        tokens, attention, last = self._best.tokens, self._best.attention, first + count
        kept = attention[last + 1 :] - attention[last] + attention[first]
        self._best = replace(
            self._best, tokens=tokens[:first] + tokens[last:], attention=np.append(attention[: first + 1], kept)
        )

    def _attention(self, committed: Tokens) -> np.ndarray | None:
        """The decoder's scores of the committed tokens, from the search that found them."""
        best = self._best
        if best is None or best.tokens[: len(committed)] != committed:
            return None
        return best.attention[: len(committed) + 1]

    def _stopped(self, running: Running, given: int, stop: Stopping | None, repetition: bool) -> Steps[list[_Stopped]]:
        """Lines 4 to 15 of algorithm 1: all hypotheses that leave the search, one after the other."""
        search = self.search
        stopped: list[_Stopped] = []
        least = -np.inf  # minScore
        while len(running) and running.length < search.room:
            chosen = yield from search.grow(running, stop, given)
            if chosen is None:
                assert stop is not None
                kept = max(given, running.length - stop.discard)
                best = self._leave(running)[0]
                best = replace(best, tokens=best.tokens[:kept], held_back=0, attention=best.attention[: kept + 1])
                return [*stopped, best]
            ended, going_on = iter(self._leave(chosen.ended, ended=True)), enumerate(self._leave(chosen.running))
            repeated = repeats(chosen.running).tolist() if repetition else [False] * len(chosen.running)
            stays = []
            for ends in chosen.ends.tolist():
                row, b = (-1, next(ended)) if ends else next(going_on)
                if ends or repeated[row] or (b.score <= least and b.tokens not in self._seen):
                    least = max(least, b.score)
                    stopped.append(b)
                else:
                    stays.append(row)
            running = chosen.running[np.array(stays, dtype=np.int64)]
        return stopped + self._leave(running)

    def _leave(self, running: Running, ended: bool = False) -> list[_Stopped]:
        size = max(1, running.length + ended)
        held_back = self._options.step_back
        rows = zip(running.tokens.tolist(), running.scores.tolist(), running.attention, strict=True)
        return [
            _Stopped(tuple(tokens), ended, score, score / size, held_back, attention)
            for tokens, score, attention in rows
        ]


class KeptSearch:
    """BWBS or IBWBS of one session, from step to step and from window to window."""

    def __init__(self) -> None:
        self._kept: BlockwiseBeamSearch | IncrementalBlockwiseBeamSearch | None = None

    def step(
        self, search: JointSearch, options: BWBS | IBWBS, committed: Tokens, stop: Stopping | None, final: bool
    ) -> Steps[Found]:
        """The next step, over the frames of `search`. The other arguments are those of `BlockwiseBeamSearch.step`."""
        if stop is not None and stop.end is not None:
            raise SimulstError("stop: token ends each step's text by itself; write 'search: {type: joint_beam}'.")
        if self._kept is None:
            if isinstance(options, IBWBS):
                self._kept = IncrementalBlockwiseBeamSearch(search, options)
            else:
                self._kept = BlockwiseBeamSearch(search, options)
        self._kept.search = search
        return self._kept.step(committed, stop, final)

    def slide(self, committed: Tokens, first: int, count: int) -> None:
        """Forget tokens that leave the window. The arguments are those of `IncrementalBlockwiseBeamSearch.forget`."""
        if isinstance(self._kept, IncrementalBlockwiseBeamSearch):
            self._kept.forget(committed, first, count)
        else:
            self._kept = None  # its decoder states have read what leaves


def repeats(running: Running) -> np.ndarray:
    """(n,) whether the last token is in the hypothesis already (Tsunoo et al. 2021, equation 11)."""
    return (running.tokens[:, :-1] == running.tokens[:, -1:]).any(1)
