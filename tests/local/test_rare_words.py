"""Rare words as terms: which they are, and that a recording's own are hidden among others."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rare_words import frequent_words, write_rare_words
from simulst.background import read_backgrounds
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError

COUNTED = ["the house and the garden", "the House, and a dog"]


def test_frequent_words() -> None:
    assert frequent_words(COUNTED, 0.0) == set()
    assert frequent_words(COUNTED, 0.3) == {"the"}
    assert frequent_words(COUNTED, 0.7) == {"the", "and", "house"}
    assert frequent_words(COUNTED, 1.0) == {"the", "and", "house", "garden", "a", "dog"}


@given(st.lists(st.text("abcd ", max_size=20)), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_has_more_words(lines: list[str], one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert frequent_words(lines, less) <= frequent_words(lines, more)


def test_the_table(tmp_path: Path) -> None:
    texts = {"a": "The Zebra's house, the zebra's!", "b": "An old house", "c": "Turtle and walrus, x2 owl"}
    utterances = [Utterance(name, Path(f"{name}.wav"), text) for name, text in texts.items()]
    path = tmp_path / "context.tsv"
    assert write_rare_words(path, utterances, COUNTED, share=0.7, others=0) == 3
    own = {name: known.target_terms for name, known in read_backgrounds(path).items()}
    assert own == {"a": ("zebra's",), "b": (), "c": ("Turtle", "walrus")}
    write_rare_words(path, utterances, COUNTED, share=0.7, others=1)
    shown = {name: known.target_terms for name, known in read_backgrounds(path).items()}
    for name, terms in shown.items():
        assert set(own[name]) <= set(terms) and len(terms) == len(own[name]) + 1
        assert [term.lower() for term in terms] == sorted(term.lower() for term in terms)
    first = path.read_bytes()
    write_rare_words(path, utterances, COUNTED, share=0.7, others=1)
    assert path.read_bytes() == first
    with pytest.raises(SimulstError, match="the references have no rare words"):
        write_rare_words(
            path, [Utterance("b", Path("b.wav"), "An old house"), Utterance("d", Path("d"), None)], COUNTED
        )
