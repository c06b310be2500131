import math

import pytest
from fake import Asks, opened

from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.needs import Need
from simulst.policy.context import PLAIN, Look, TokensView, View
from simulst.policy.stop import (
    CTC,
    AlignAtt,
    AnyOf,
    EndOfSentence,
    MaxTokens,
    MaxWords,
    Stop,
    Stopping,
    end_of,
)
from simulst.words import Words

PIECES = [" a", " b", "c", " d"]


def open_stop(stop: Stop, layers: int = 2, heads: int = 4) -> Stopping:
    words = Words(lambda tokens: "".join(PIECES[token] for token in tokens))
    return opened(stop, words=words, layers=layers, heads=heads)


class Known(View):
    """A view that answers everything, and records what it was asked."""

    def __init__(self, tokens: Tokens = (), odds: float = math.nan, left: float = math.nan) -> None:
        self.tokens, self.odds, self.left = tokens, odds, left
        self.asked: list[object] = []

    def odds_of_end(self, exact: bool = False) -> float:
        self.asked.append(exact)
        return self.odds

    def frames_left(self, look: Look = PLAIN) -> float:
        self.asked.append(look)
        return self.left


def test_max_tokens() -> None:
    stop = open_stop(MaxTokens(3))
    assert (stop.options.label, stop.options.enough_tokens, stop.first((1, 2, 3, 4))) == ("N3", 3, (1, 2, 3))
    assert [stop.ends(TokensView((0,) * n)) for n in range(5)] == [False] * 3 + [True] * 2


def test_max_words() -> None:
    """A word counts when the next one has begun."""
    stop = open_stop(MaxWords(2))
    assert (stop.options.label, stop.options.whole_words) == ("W2", True)
    texts = [(), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 0)]
    assert [stop.ends(TokensView(text)) for text in texts] == [False] * 4 + [True] * 2
    assert [stop.first(text) for text in texts] == [*texts[:4], (0, 1, 2), (0, 1, 2)]


def test_ctc() -> None:
    stop = open_stop(CTC(-0.5))
    assert (stop.options.label, stop.options.needs, stop.discard) == ("CTC-0.5", {Need.CTC, Need.STEPS}, 1)
    assert CTC(2.0, exact=True).label == "CTC-exact+2"
    odds = [-math.inf, -0.6, -0.5, -0.4999, math.inf, math.nan]
    assert [stop.ends(Known(odds=x)) for x in odds] == [False, False, False, True, True, False]
    for exact in (False, True):
        view = Known(odds=1.0)
        open_stop(CTC(0.0, exact)).ends(view)
        assert view.asked == [exact]


def test_align_att() -> None:
    stop = open_stop(AlignAtt(4, (-2,), (0, -1)))
    assert (stop.options.label, stop.options.needs, stop.discard) == ("AlignAtt4-L-2-H0+-1", {Need.ATTENTION}, 0)
    assert AlignAtt(4).label == "AlignAtt4"
    assert [stop.ends(Known(left=x)) for x in (0, 3, 4, 9, math.nan)] == [True, True, False, False, False]
    view = Known(left=1.0)
    stop.ends(view)
    assert view.asked == [Look([(0, 0), (0, 3)])] and stop.attends == [(0, 0), (0, 3)]


@pytest.mark.parametrize(
    ("stop", "named"),
    [
        (AlignAtt(1, (2,)), "layers names 2.*has 2"),
        (AlignAtt(1, (-3,)), "layers names -3.*has 2"),
        (AlignAtt(1, (), (0, -5)), "heads names -5.*has 4"),
    ],
)
def test_layers_and_heads_that_are_not_there(stop: Stop, named: str) -> None:
    """The error comes when the stream is opened, not when the first audio is decoded."""
    with pytest.raises(SimulstError, match=named):
        open_stop(stop)


def test_any_of() -> None:
    """The search ends with the first STOP that ends it, and drops as many tokens as that STOP says."""
    stop = AnyOf((MaxWords(2), CTC(0.0), MaxTokens(9)))
    assert stop.label == "W2+CTC+0+N9"
    assert (stop.needs, stop.whole_words, stop.enough_tokens) == ({Need.CTC, Need.STEPS}, True, 9)
    opened = open_stop(stop)
    assert opened.options is stop
    for view, ends, discard in (
        (Known((0,), odds=-1.0), False, 0),
        (Known((0,), odds=1.0), True, 1),
        (Known((0, 1, 3), odds=-1.0), True, 0),
        (Known((2,) * 9, odds=-1.0), True, 0),
        (Known((0, 1, 3), odds=1.0), True, 1),
        (Known((0,), odds=-1.0), False, 0),
    ):
        assert (opened.ends(view), opened.discard) == (ends, discard)
    assert opened.first((0, 1, 2, 3, 0)) == (0, 1, 2)
    assert opened.first((2,) * 12) == (2,) * 9
    with pytest.raises(SimulstError, match="stop: any_of names no STOP"):
        AnyOf(())


def test_where_stop_would_have_ended_a_search() -> None:
    """As if it had been asked before each token, and before <eos>."""
    text = (0, 1, 2, 3)
    assert end_of(open_stop(EndOfSentence()), text) is None
    assert [end_of(open_stop(MaxTokens(n)), text) for n in (1, 3, 4, 5)] == [1, 3, 4, None]
    left = (9.0, 7.0, 2.0, 8.0, 1.0)  # of each token, and of <eos>
    stops = [AlignAtt(1), AlignAtt(2), AlignAtt(3), AlignAtt(8)]
    found = [end_of(open_stop(stop), text, lambda tokens: TokensView(tokens, left)) for stop in stops]
    assert found == [None, 4, 2, 1]
    for asked, kept in ((0, 0), (1, 0), (3, 2), (4, 3)):
        stop = Asks(lambda view: len(view.tokens) == asked, discard=1)  # noqa: B023
        assert end_of(open_stop(stop), text) == kept


def test_what_was_not_declared_cannot_be_asked_for() -> None:
    for ask in (View.odds_of_end, View.frames_left, View.end_times):
        with pytest.raises(NotImplementedError, match="was not declared in STOP's needs"):
            ask(TokensView(()))


def test_why_a_search_ended() -> None:
    for stop, view, why in (
        (EndOfSentence(), Known(), ""),
        (MaxTokens(2), Known((0, 1)), "2 new tokens, most 2"),
        (MaxWords(1), Known((0, 1)), "1 new words, most 1"),
        (CTC(0.5), Known(odds=1.25), "log odds of the end +1.25, threshold 0.5"),
        (AlignAtt(25), Known(left=12), "12 frames left, least 25"),
        (AlignAtt(25), Known(left=math.inf), "all frames left, least 25"),
        (AnyOf((MaxTokens(9), CTC(0.0))), Known(odds=2.0), "log odds of the end +2.00, threshold 0"),
        (
            AnyOf((MaxTokens(9), CTC(0.0))),
            Known(odds=-2.0),
            "0 new tokens, most 9; log odds of the end -2.00, threshold 0",
        ),
    ):
        stop_ = open_stop(stop)
        stop_.ends(view)
        assert stop_.why() == why
