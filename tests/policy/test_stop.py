import math

import pytest

from simulst.errors import SimulstError
from simulst.policy.stop import EndOfSentence, MaxTokens
from simulst.search import BeamSearch


def test_end_of_sentence() -> None:
    assert (EndOfSentence().label, EndOfSentence().max_new_tokens) == ("", None)


def test_max_tokens() -> None:
    assert (MaxTokens(3).label, MaxTokens(3).max_new_tokens) == ("N3", 3)


@pytest.mark.parametrize("n", [0, -2])
def test_bad_max_tokens(n: int) -> None:
    with pytest.raises(SimulstError, match=f"stop: n is {n}"):
        MaxTokens(n)


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
