"""The key of a session with a window: equal only where a search sees the same audio and the same text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulst.audio.units import SAMPLE_RATE
from simulst.calls import run_alone
from simulst.hypotheses import Found, Hypothesis, Tokens
from simulst.meter import Memo, Meter
from simulst.models.window import WindowedSession
from simulst.search import BeamSearch

HALF = SAMPLE_RATE // 2


class Plain(WindowedSession):
    """Each token was spoken in half a second. What it finds tells all that its window holds."""

    def __init__(self, meter: Meter, before: Tokens) -> None:
        super().__init__(5.0, meter)
        self._before = before

    def _end_times(self, tokens: Tokens) -> Sequence[float]:
        return [0.5 * (place + 1) for place in range(len(tokens))]

    def _begins_word(self, tokens: Tokens, place: int) -> bool:
        return True

    def text(self, tokens: Tokens) -> str:
        return "".join(f" {token}" for token in tokens)

    @property
    def holds(self) -> Any:
        """The audio (in which each half second has its number), and the text before it."""
        return tuple(self._audio[::HALF].tolist()), self._before, self._evicted, self._shown

    def search(self, committed: Tokens, *_: Any) -> Found:
        return Found([Hypothesis(committed, hash(self.holds))])


def session(memo: Memo | None, before: Tokens, steps: list[tuple[str, int]]) -> tuple[Plain, Tokens]:
    """A session after some steps, and its committed tokens."""
    one, halves = Plain(Meter(memo), before), 0
    committed: Tokens = ()
    for what, number in steps:
        if what == "extend":
            one.extend(np.repeat(np.arange(halves, halves + number, dtype=np.float32), HALF))
            halves += number
        elif what == "commit":
            committed += tuple(range(number))
        elif what == "slide":
            one.slide(committed)
        else:
            one.restart(committed, one.length)
    return one, committed


STEPS = st.lists(
    st.tuples(st.sampled_from(["extend", "extend", "commit", "slide", "restart"]), st.integers(1, 3)), max_size=6
)
BEFORE = st.sampled_from([(), (1,), (1, 2)])


@given(BEFORE, STEPS, BEFORE, STEPS)
def test_sessions_share_only_what_both_hold(
    before: Tokens, steps: list[tuple[str, int]], other_before: Tokens, other_steps: list[tuple[str, int]]
) -> None:
    memo = Memo()
    (one, committed), (other, others) = session(memo, before, steps), session(memo, other_before, other_steps)
    same = one.holds == other.holds and one.length == other.length
    assert (one.key == other.key) == same
    if committed == others:
        found = [run_alone(each.find_steps(committed, BeamSearch(), None)) for each in (one, other)]
        assert (found[0] is found[1]) == same
        assert found[1].beam[0].score == hash(other.holds)
