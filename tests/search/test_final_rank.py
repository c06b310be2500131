"""How finished hypotheses are ranked: by score, or by score per token; against all texts there are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import END, A, B, C, Scores, Script

from simulst.calls import run_alone
from simulst.hypotheses import Beam, Tokens
from simulst.search import IBWBS, JointBeamSearch, JointOptions
from simulst.search.beam import JointSearch, joint_beam_search
from simulst.search.blockwise import IncrementalBlockwiseBeamSearch

KINDS: dict[str, Any] = {"joint_beam": JointBeamSearch, "ibwbs": IBWBS}


def found(script: Any, options: JointOptions, prefix: Tokens = ()) -> Beam:
    """What a search of one frame ends with; of IBWBS, its last block."""
    search = JointSearch(Script(script), options, END, END)
    search.append(torch.zeros(1, 1))
    if isinstance(options, IBWBS):
        return run_alone(IncrementalBlockwiseBeamSearch(search, options).step(prefix, None, True)).beam
    return run_alone(joint_beam_search(search, prefix))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(st.integers(0, 10**9), st.sampled_from(["raw", "per_token"]), st.sampled_from([(), (B,), (C, A)]))
def test_ranked_as_it_is_told(kind: str, seed: int, final: str, prefix: Tokens) -> None:
    """Over all texts; the beam holds all of them. The prefix has no known scores, so its tokens do not count."""
    script, longest = Scores(seed), len(prefix) + 3
    ranks: dict[Tokens, float] = {}
    for new in range(4):
        for more in itertools.product((A, B, C), repeat=new):
            text = prefix + more
            score = sum(script[text[:n]][text[n]] for n in range(len(prefix), len(text)))
            ended = len(text) < longest  # or else it was cut before <eos>
            score += script[text][END] if ended else 0.0
            ranks[text] = score / (max(1, new + ended) if final == "per_token" else 1)
    beam = found(script, KINDS[kind](200, 0.0, max_length_ratio=longest, final=final), prefix)
    best = sorted(ranks, key=lambda text: -ranks[text])
    assert [h.tokens for h in beam[:4]] == best[:4]
    assert [h.score for h in beam[:4]] == pytest.approx([ranks[text] for text in best[:4]], abs=1e-4)


@pytest.mark.parametrize("beam", [2, 3, 4])
def test_a_text_that_repeats_itself_does_not_win(beam: int) -> None:
    """Its score per token rises with each repetition. The search ends once as many texts have ended as it is wide."""
    again = {A: -0.02, END: -4.0, B: -6.0, C: -6.0}
    script: dict[Tokens, dict[int, float]] = {(A,) * n: again for n in range(1, 60)}
    script[()] = {A: -0.1, B: -0.2, C: -0.3}
    script |= {(B,): {END: -0.2}, (C,): {END: -0.3}, (A, B): {END: -0.1}}
    best = found(script, JointBeamSearch(beam, 0.0, max_length_ratio=50.0, final="per_token"))[0].tokens
    assert len(best) < 5
