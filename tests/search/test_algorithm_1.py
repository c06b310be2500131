"""Algorithm 1 of CUNI-KIT 2023 (IBWBS) against a literal transcription, on scripted scores.

For an encoder that works in blocks, whose frames stay, and for one that encodes each chunk again with all before it;
with hold-n and local agreement; in the last block, too, if it is searched as the algorithm says.
"""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fake import full_context
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import END, Scores, Script

from simulst.calls import Steps, run_alone
from simulst.config import Decoding
from simulst.hypotheses import Beam, Found, Tokens, without_end
from simulst.models.espnet.session import ESPnetSession
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.commit import All, Commit, Hold, LocalAgreement
from simulst.policy.read import Chunk
from simulst.policy.stop import Stopping
from simulst.search import IBWBS, JointBeamSearch, SearchOptions
from simulst.search.beam import JointSearch
from simulst.search.blockwise import IncrementalBlockwiseBeamSearch
from simulst.session import Session, Traits
from simulst.stream import Stream

LONGEST = 3  # tokens of a hypothesis, at most, for each block so far
SIZE = 8000  # samples of a block of the loop, which begins with no less than 100 ms


def prefix_of(policy: Commit, bests: list[Tokens]) -> Tokens:
    """`prefix(W)` of CUNI-KIT 2022, equations 1 and 2, of the best hypotheses so far with their <eos>."""
    if isinstance(policy, LocalAgreement):
        if len(bests) < policy.n:
            return ()
        columns = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*bests[-policy.n :], strict=False))
        return tuple(column[0] for column in columns)
    return bests[-1][: max(0, len(bests[-1]) - (policy.n if isinstance(policy, Hold) else 0))]


def transcription(
    blocks: list[Scores], beam: int, policy: Commit, repetition: bool, step_back: int = 2, last: bool = False
) -> list[Tokens]:
    """The active beam after each block, which is all that algorithm 1 hands on.

    A hypothesis keeps its <eos> here. The score of what is active stays as it was found. last: whether the source ends
    with the last block; then the best hypothesis is the text.
    """
    seen: set[Tokens] = set()
    bests: list[Tokens] = []
    active: Tokens = ()
    scores: dict[Tokens, float] = {(): 0.0}  # of the best hypothesis' beginnings
    actives = []
    for number, block in enumerate(blocks, 1):
        stopped: dict[Tokens, float] = {}
        min_score = -math.inf
        found = {active: scores[active]}
        prefix_scores = dict(scores)
        while found and len(next(iter(found))) < LONGEST * number:
            extended = {(*b, token): score + log_p for b, score in found.items() for token, log_p in block[b].items()}
            best = sorted(extended, key=lambda b: -extended[b])[:beam]
            found = {}
            for b in best:
                score = prefix_scores[b] = extended[b]
                repeats = repetition and b[-1] in b[:-1] and not (last and number == len(blocks))
                if b[-1] == END or repeats or (score <= min_score and b not in seen):
                    min_score = max(min_score, score)
                    stopped[b] = score
                else:
                    found[b] = score
        stopped |= found  # what is too long
        seen |= set(stopped)
        best_one = min(stopped, key=lambda b: -stopped[b] / len(b))
        if last and number == len(blocks):
            return [*actives, max(best_one[:-1] if best_one[-1] == END else best_one, active, key=len)]
        bests.append(best_one)
        stable = prefix_of(policy, bests)
        stable = stable[: max(0, len(stable) - step_back)]
        active = max(active, stable[:-1] if stable[-1:] == (END,) else stable, key=len)
        scores = {best_one[:n]: prefix_scores.get(best_one[:n], 0.0) for n in range(len(best_one) + 1)}
        actives.append(active)
    return actives


class Blocks(Session):
    """A session in which a block is SIZE samples, and one frame."""

    traits = Traits(frozenset({Need.STEPS, Need.INCREMENTAL}))

    def __init__(self, blocks: list[Scores], how: IBWBS) -> None:
        super().__init__(Opening("en", "de"))
        self._over = JointSearch(Script(*blocks), how, END, END)
        self._incremental = IncrementalBlockwiseBeamSearch(self._over, how)
        self._final = False

    @property
    def length(self) -> int:
        return SIZE * self._over.frames

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        self._over.append(torch.zeros(len(samples) // SIZE, 1))
        self._final = final

    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        return self._incremental.step(committed, stop, self._final)

    def text(self, tokens: Tokens) -> str:
        return "".join(f" {token}" for token in tokens)


def in_the_loop(blocks: list[Scores], how: IBWBS, policy: Commit) -> list[Tokens]:
    """Ours, to the end of the source."""
    stream = Stream(Blocks(blocks, how), Decoding(Chunk(SIZE / 16), policy, search=how))
    actives = []
    for number in range(1, len(blocks) + 1):
        stream.push(np.zeros(SIZE, np.float32), finished=number == len(blocks))
        actives.append(stream.committed)
    return actives


def in_blocks(blocks: list[Scores], how: IBWBS, policy: Commit) -> list[Tokens]:
    """Ours, where a block is one more frame."""
    search = JointSearch(Script(*blocks), how, END, END)
    incremental = IncrementalBlockwiseBeamSearch(search, how)
    actives, beams = [()], []
    for _ in blocks:
        search.append(torch.zeros(1, 1))
        actives.append(committed(actives[-1], run_alone(incremental.step(actives[-1], None, False)), policy, beams))
    return actives[1:]


class Frames(list[torch.Tensor]):
    """A memory whose length is that of all frames, however they came."""

    def append(self, frames: torch.Tensor) -> None:
        self.extend(frames)


def encoded_again(blocks: list[Scores], how: IBWBS, policy: Commit) -> list[Tokens]:
    """Ours, where the encoder sees everything: it makes a frame of each 1000 samples, all of them again each time."""
    model: Any = SimpleNamespace(
        decoder=Script(*blocks),
        vocabulary=SimpleNamespace(sos=END, eos=END, spell=None, tokens=(), wait=None, spoken=tuple),
        **full_context(1000),
        has_ctc=False,
        text=None,
        window_frames=0,
        search=JointBeamSearch(),
    )
    model.decoder.attentions = 1, 1
    model.alignment_heads, model.head = (), None
    model.decoder.memory = Frames
    session = ESPnetSession(model, Opening("en", "de"), ())
    actives, beams = [()], []
    for _ in blocks:
        session.extend(np.zeros(1000, dtype=np.float32))
        actives.append(committed(actives[-1], run_alone(session.search(actives[-1], how, None)), policy, beams))
    return actives[1:]


def committed(active: Tokens, found: Found, policy: Commit, beams: list[Beam]) -> Tokens:
    """As the loop commits: see `Stream._step`."""
    beams.append(found.beam)
    stable = policy.stable(beams[-policy.window :])
    return max(active, without_end(stable[: max(0, len(stable) - found.held_back)]), key=len)


POLICIES = st.sampled_from([All(), Hold(1), Hold(2), LocalAgreement(2), LocalAgreement(3)])


@pytest.mark.parametrize(("ours", "last"), [(in_blocks, False), (encoded_again, False), (in_the_loop, True)])
@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**9),
    count=st.integers(1, 6),
    beam=st.integers(1, 5),
    policy=POLICIES,
    repetition=st.booleans(),
    step_back=st.integers(0, 3),
)
def test_every_block_hands_on_what_the_algorithm_says(
    ours: Any, last: bool, seed: int, count: int, beam: int, policy: Commit, repetition: bool, step_back: int
) -> None:
    """Blocks as they come, encoded again each time, and in the loop to the end."""
    blocks = [Scores(seed + number) for number in range(count)]
    how = IBWBS(beam, 0.0, max_length_ratio=LONGEST, step_back=step_back, repetition=repetition, final="literal")
    assert ours(blocks, how, policy) == transcription(blocks, beam, policy, repetition, step_back, last)
