import math

import pytest

from simulst.errors import SimulstError
from simulst.policy.stop import CTC, AlignAtt, EndOfSentence, EnoughWords, Evidence, MaxTokens, MaxWords
from simulst.search import BeamSearch


def test_end_of_sentence() -> None:
    assert (EndOfSentence().label, EndOfSentence().max_new_tokens) == ("", None)


def test_max_tokens() -> None:
    assert (MaxTokens(3).label, MaxTokens(3).max_new_tokens) == ("N3", 3)


@pytest.mark.parametrize("n", [0, -2])
def test_bad_max_tokens(n: int) -> None:
    with pytest.raises(SimulstError, match=f"stop: n is {n}"):
        MaxTokens(n)


def test_max_words() -> None:
    assert (MaxWords(2).label, MaxWords(2).max_new_words, MaxWords(2).max_new_tokens) == ("W2", 2, None)
    for n in (0, -2):
        with pytest.raises(SimulstError, match=f"stop: n is {n}; at least one word"):
            MaxWords(n)


def test_enough_words() -> None:
    stop = EnoughWords(2, "word", lambda tokens: len(tokens) // 2)
    assert [stop.ends(Evidence(tokens=(7,) * n)) for n in range(6)] == [False] * 4 + [True] * 2
    # As the key of what is shared: the same in every session, but not for words and characters.
    assert repr(stop) == repr(EnoughWords(2, "word", len)) == "EnoughWords(n=2, unit='word')"


def test_ctc() -> None:
    stop = CTC(-0.5)
    assert (stop.label, stop.needs, stop.discard, stop.max_new_tokens) == ("CTC-0.5", "ctc", 1, None)
    assert (CTC(2.0, exact=True).label, CTC(2.0, exact=True).needs) == ("CTC-exact+2", "ctc_exact")
    odds = [-math.inf, -0.6, -0.5, -0.4, math.inf, math.nan]
    assert [stop.ends(Evidence(log_odds_end=x)) for x in odds] == [False, False, False, True, True, False]
    with pytest.raises(SimulstError, match="stop: threshold is not a number"):
        CTC(math.nan)


def test_align_att() -> None:
    stop = AlignAtt(4, (-1,), (0, 2))
    assert (stop.label, stop.needs, stop.discard) == ("AlignAtt4-L-1-H0+2", "attention", 0)
    assert AlignAtt(4).label == "AlignAtt4"
    assert [stop.ends(Evidence(frames_left=x)) for x in (0, 3, 4, 9, math.nan)] == [True, True, False, False, False]
    with pytest.raises(SimulstError, match="stop: frames is 0"):
        AlignAtt(0)


@pytest.mark.parametrize("stop", [EndOfSentence(), MaxTokens(2), MaxWords(2)])
def test_the_plain_ones_look_at_nothing(stop: EndOfSentence | MaxTokens | MaxWords) -> None:
    assert stop.needs == "" and stop.discard == 0
    assert not stop.ends(Evidence(math.inf, 0))


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 0},
        {"no_repeat_ngram": -1},
        {"length_penalty": math.nan},
        {"max_tokens_per_second": 0.0},
        {"max_tokens_per_second": math.nan},
        {"max_tokens_per_second": math.inf},
    ],
)
def test_bad_search(options: dict[str, float]) -> None:
    [(name, value)] = options.items()
    with pytest.raises(SimulstError, match=f"search: {name} is {value:g}; "):
        BeamSearch(**options)  # type: ignore[arg-type]
