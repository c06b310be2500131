"""The alignment of tokens to frames against all alignments there are."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.models.huggingface.model import monotonic_frames


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 10**6))
@settings(max_examples=60)
def test_the_best_of_all(tokens: int, frames: int, seed: int) -> None:
    weights = np.random.default_rng(seed).random((tokens, frames)) + 0.01

    def score(places: tuple[int, ...]) -> float:
        return sum(np.log(weights[token, frame]) for token, frame in enumerate(places))

    found = tuple(monotonic_frames(weights))
    assert found == tuple(sorted(found)) and len(found) == tokens
    best = max(score(places) for places in itertools.combinations_with_replacement(range(frames), tokens))
    np.testing.assert_allclose(score(found), best)


def test_attention_that_jumps() -> None:
    """A single token that looks at the end does not take the others with it."""
    weights = np.full((4, 10), 0.01)
    for token, frame in enumerate((1, 9, 3, 5)):
        weights[token, frame] = 0.9
    assert [monotonic_frames(weights)[token] for token in (0, 2, 3)] == [1, 3, 5]


def test_nothing() -> None:
    assert monotonic_frames(np.zeros((0, 5))) == []
    assert monotonic_frames(np.zeros((3, 1))) == [0, 0, 0]
