from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefix_code import END, Decoded, PrefixCode
from simulst.errors import SimulstError

CODE = PrefixCode({"0": "a", "10": "b", "110": END})


def test_decodes_up_to_the_end() -> None:
    assert CODE.decode("010011000", "x") == Decoded(("a", "b", "a"), 7)
    assert CODE.decode("110", "x") == Decoded((), 3)


@given(st.text(alphabet="ab"), st.text(alphabet="01"))
def test_decodes_what_was_encoded(text: str, rest: str) -> None:
    bits = "".join({"a": "0", "b": "10"}[c] for c in text) + "110"
    assert CODE.decode(bits + rest, "x") == Decoded(tuple(text), len(bits))


@pytest.mark.parametrize("bits", ["", "0", "0101011", "0" * 1000])
def test_a_message_that_never_ends(bits: str) -> None:
    with pytest.raises(SimulstError, match=r"^message 3: the message never ends"):
        CODE.decode(bits, "message 3")


def test_an_unknown_word() -> None:
    with pytest.raises(SimulstError, match=r"^message 3: 111 is no word of the code"):
        CODE.decode("0111", "message 3")


def test_the_space_that_words_take() -> None:
    assert CODE.space == 1 - 1 / 8
    assert PrefixCode({"0": "a", "1": END}).space == 1


def test_no_code() -> None:
    with pytest.raises(SimulstError, match="the code word 1 begins another"):
        PrefixCode({"1": "a", "10": "b", "0": END})
    with pytest.raises(SimulstError, match="no word for the end"):
        PrefixCode({"1": "a"})
