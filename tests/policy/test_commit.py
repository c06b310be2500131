import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.policy.commit import All, Commit, Hold, LocalAgreement, SharedPrefix
from simulst.words import Words


def beam(*hypotheses: Tokens) -> Beam:
    return [Hypothesis(tokens, -float(i)) for i, tokens in enumerate(hypotheses)]


A, B = beam((1, 2, 3), (1, 2, 4)), beam((1, 2, 3, 5), (1, 9))
BEAMS = st.lists(st.lists(st.integers(0, 1), max_size=4).map(tuple), max_size=3).map(lambda texts: beam(*texts))


def common(texts: list[Tokens]) -> Tokens:
    columns = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False))
    return tuple(column[0] for column in columns)


@settings(max_examples=200)
@given(st.lists(BEAMS, min_size=1, max_size=4), st.integers(1, 4))
def test_what_is_stable_by_definition(beams: list[Beam], n: int) -> None:
    """Equations 1 to 3: of the best hypothesis all but n tokens; what n best ones share; what n beams share."""
    texts = [[hypothesis.tokens for hypothesis in beam] or [()] for beam in beams]
    last = texts[-1][0]
    assert All().stable(beams) == last
    assert Hold(n).stable(beams) == last[: max(0, len(last) - n)]
    enough = len(beams) >= n
    assert LocalAgreement(n).stable(beams) == (common([one[0] for one in texts[-n:]]) if enough else ())
    assert SharedPrefix(n).stable(beams) == (common([text for one in texts[-n:] for text in one]) if enough else ())


@settings(max_examples=200)
@given(st.lists(BEAMS, min_size=1, max_size=3), st.integers(1, 3), st.integers(0, 3))
@pytest.mark.parametrize("inner", [All(), Hold(1), LocalAgreement(2), SharedPrefix(2)])
def test_whole_words_of_any_commit(inner: Commit, beams: list[Beam], n: int, known: int) -> None:
    """The most stable tokens after which a word begins in all that COMMIT compares. Token 1 goes on a word."""
    inner = inner if isinstance(inner, All) else replace(inner, n=n)  # type: ignore[call-arg]
    words = Words(lambda tokens: "".join(" a" if token == 0 else "b" for token in tokens))
    commit = replace(inner, whole_words=True)
    stable, compared = inner.stable(beams), inner.compared(beams)
    assert (commit.window, commit.stable(beams), commit.ends_word) == (inner.window, stable, True)
    new, after = stable[known:], [tokens[len(stable) :] for tokens in compared]
    assert inner.release(new, words, after) == new
    ends = [0, *(e for e in range(known + 1, len(stable) + 1) if all(text[e : e + 1] == (0,) for text in compared))]
    assert commit.release(new, words, after) == stable[known : max(ends)]
