"""Algorithm 1 of CUNI-KIT 2023 (IBWBS) against a literal transcription, on scripted scores.

For an encoder that works in blocks, whose frames stay, and for one that encodes each chunk again with all before it.
"""

from __future__ import annotations

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

from simulst.hypotheses import Found, Tokens
from simulst.meter import Meter
from simulst.models.espnet.session import ESPnetSession
from simulst.search import IBWBS, JointBeamSearch
from simulst.search.beam import JointSearch
from simulst.search.blockwise import IncrementalBlockwiseBeamSearch
from simulst.search.calls import run_alone

LONGEST = 3  # tokens of a hypothesis, at most, for each block so far


def transcription(blocks: list[Scores], beam: int, hold: int, repetition: bool, step_back: int = 2) -> list[Tokens]:
    """The active beam after each block, which is all that algorithm 1 hands on; the policy is hold-n.

    A hypothesis keeps its <eos> here. The score of what is active stays as it was found.
    """
    seen: set[Tokens] = set()
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
                repeats = repetition and b[-1] in b[:-1]
                if b[-1] == END or repeats or (score <= min_score and b not in seen):
                    min_score = max(min_score, score)
                    stopped[b] = score
                else:
                    found[b] = score
        stopped |= found  # what is too long
        seen |= set(stopped)
        best_one = min(stopped, key=lambda b: -stopped[b] / len(b))
        text = best_one[:-1] if best_one[-1] == END else best_one
        stable = max(active, text[: max(0, len(text) - hold)], key=len)
        # <eos> is one of the last two tokens.
        less = max(0, step_back - (best_one[-1] == END))
        active = max(active, stable[: max(0, len(stable) - less)], key=len)
        scores = {best_one[:n]: prefix_scores.get(best_one[:n], 0.0) for n in range(len(best_one) + 1)}
        actives.append(active)
    return actives


def in_blocks(blocks: list[Scores], how: IBWBS, hold: int) -> list[Tokens]:
    """Ours, where a block is one more frame."""
    search = JointSearch(Script(*blocks), how, END, END)
    incremental = IncrementalBlockwiseBeamSearch(search, how)
    actives: list[Tokens] = [()]
    for _ in blocks:
        search.append(torch.zeros(1, 1))
        actives.append(committed(actives[-1], run_alone(incremental.step(actives[-1], None, False)), hold))
    return actives[1:]


class Frames(list[torch.Tensor]):
    """A memory whose length is that of all frames, however they came."""

    def append(self, frames: torch.Tensor) -> None:
        self.extend(frames)


def encoded_again(blocks: list[Scores], how: IBWBS, hold: int) -> list[Tokens]:
    """Ours, where the encoder sees everything: it makes a frame of each 1000 samples, all of them again each time."""
    model: Any = SimpleNamespace(
        decoder=Script(*blocks),
        vocabulary=SimpleNamespace(sos=END, eos=END, spell=None, tokens=()),
        **full_context(1000),
        has_ctc=False,
        text=None,
        window_frames=0,
        search=JointBeamSearch(),
    )
    model.decoder.attentions = 1, 1
    model.decoder.memory = Frames
    session = ESPnetSession(model, (), Meter())
    actives: list[Tokens] = [()]
    for _ in blocks:
        session.extend(np.zeros(1000, dtype=np.float32))
        actives.append(committed(actives[-1], session.search(actives[-1], how, None), hold))
    return actives[1:]


def committed(active: Tokens, found: Found, hold: int) -> Tokens:
    """As the loop commits under hold-n: see `Stream._step`."""
    stable = found.best[: max(0, len(found.best) - hold)]
    return max(active, stable[: max(0, len(stable) - found.held_back)], key=len)


@pytest.mark.parametrize("ours", [in_blocks, encoded_again])
@settings(max_examples=150)
@given(
    seed=st.integers(0, 10**9),
    count=st.integers(1, 6),
    beam=st.integers(1, 5),
    hold=st.integers(0, 2),
    repetition=st.booleans(),
    step_back=st.integers(0, 3),
)
def test_every_block_hands_on_what_the_algorithm_says(
    ours: Any, seed: int, count: int, beam: int, hold: int, repetition: bool, step_back: int
) -> None:
    blocks = [Scores(seed + number) for number in range(count)]
    how = IBWBS(beam, 0.0, max_length_ratio=LONGEST, step_back=step_back, repetition=repetition)
    assert ours(blocks, how, hold) == transcription(blocks, beam, hold, repetition, step_back)


def test_the_transcription_is_not_trivial() -> None:
    """Its lines matter: other settings hand on other texts, and texts grow over the blocks."""
    found = [
        tuple(transcription([Scores(seed + n) for n in range(5)], beam, hold, repetition))
        for seed in range(40)
        for beam, hold, repetition in ((1, 0, False), (3, 0, False), (3, 1, False), (3, 0, True))
    ]
    assert all(len({found[i + k] for i in range(0, 160, 4)}) > 10 for k in range(4))
    assert sum(found[i] != found[i + 1] for i in range(0, 160, 4)) > 5
    assert sum(found[i + 1] != found[i + 2] for i in range(0, 160, 4)) > 5
    assert sum(found[i + 1] != found[i + 3] for i in range(0, 160, 4)) > 5
