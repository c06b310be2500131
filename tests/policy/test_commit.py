from dataclasses import replace

import pytest

from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.policy.commit import All, Commit, Hold, LocalAgreement, SharedPrefix
from simulst.words import Words


def beam(*hypotheses: Tokens) -> Beam:
    return [Hypothesis(tokens, -float(i)) for i, tokens in enumerate(hypotheses)]


A, B, C = beam((1, 2, 3), (1, 2, 4)), beam((1, 2, 3, 5), (1, 9)), beam((1, 2, 7), (1, 2))
EOS, EMPTY = beam((), (1,)), beam()


@pytest.mark.parametrize(
    ("policy", "beams", "expected"),
    [
        (All(), [A], (1, 2, 3)),
        (All(), [A, B], (1, 2, 3, 5)),
        (All(), [EOS], ()),
        (All(), [EMPTY], ()),
        # Equation 1: nothing if the hypothesis has n tokens or fewer.
        (Hold(1), [A], (1, 2)),
        (Hold(2), [A], (1,)),
        (Hold(3), [A], ()),
        (Hold(4), [A], ()),
        (Hold(3), [A, B], (1,)),
        (Hold(1), [EOS], ()),
        (Hold(1), [EMPTY], ()),
        # Equation 2: only the best hypotheses count; nothing before the n-th step.
        (LocalAgreement(1), [A], (1, 2, 3)),
        (LocalAgreement(2), [A], ()),
        (LocalAgreement(2), [A, B], (1, 2, 3)),
        (LocalAgreement(2), [B, A], (1, 2, 3)),
        (LocalAgreement(2), [A, A], (1, 2, 3)),
        (LocalAgreement(2), [A, B, C], (1, 2)),
        (LocalAgreement(3), [A, B, C], (1, 2)),
        (LocalAgreement(3), [A, B], ()),
        (LocalAgreement(9), [A, B, C], ()),
        (LocalAgreement(2), [A, EOS], ()),
        (LocalAgreement(2), [EMPTY, A], ()),
        (LocalAgreement(2), [A, EMPTY], ()),
        (LocalAgreement(2), [beam((1,)), beam((2,))], ()),
        # Equation 3: all beam items of the last n steps.
        (SharedPrefix(1), [A], (1, 2)),
        (SharedPrefix(1), [beam((1, 2, 3))], (1, 2, 3)),
        (SharedPrefix(1), [beam((1, 2), (1, 2))], (1, 2)),
        (SharedPrefix(2), [A], ()),
        (SharedPrefix(2), [A, A], (1, 2)),
        (SharedPrefix(2), [A, B], (1,)),
        (SharedPrefix(2), [A, C], (1, 2)),
        (SharedPrefix(2), [beam((1, 2, 3)), beam((1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3))], (1, 2, 3)),
        (SharedPrefix(9), [A, B, C], ()),
        (SharedPrefix(1), [EOS], ()),
        (SharedPrefix(1), [EMPTY], ()),
        (SharedPrefix(2), [A, EMPTY], ()),
    ],
)
def test_stable(policy: Commit, beams: list[Beam], expected: Tokens) -> None:
    assert policy.stable(beams) == expected


@pytest.mark.parametrize("kind", [Hold, LocalAgreement, SharedPrefix])
@pytest.mark.parametrize("n", [0, -1])
def test_bad_n(kind: type, n: int) -> None:
    with pytest.raises(SimulstError, match=f"n is {n}; it must be at least 1"):
        kind(n)


@pytest.mark.parametrize("inner", [All(), Hold(2), LocalAgreement(2), SharedPrefix(1)])
def test_whole_words_of_any_commit(inner: Commit) -> None:
    """It finds the same tokens stable, and releases the complete words."""
    words = Words(lambda tokens: "".join([" a", " b", "c", " d"][token] for token in tokens))
    commit = replace(inner, whole_words=True)
    assert (commit.window, commit.stable([A, B]), commit.ends_word) == (inner.window, inner.stable([A, B]), True)
    for new, released in (((0, 1), (0,)), ((0, 1, 2), (0,)), ((0, 1, 2, 3), (0, 1, 2)), ((0,), ()), ((), ())):
        assert commit.release(new, words) == released
        assert inner.release(new, words) == new
