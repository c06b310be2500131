"""The code of Sky's texts."""

from __future__ import annotations

from fractions import Fraction

import pytest

from name_code import sky_code


def test_the_table_is_a_whole_code() -> None:
    code = sky_code()
    assert len(code.words) == 122 and code.space == Fraction(1)
    assert len(set(code.words.values())) == 122
    letters = {c for c in code.words.values() if c.isalpha()}
    assert set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") <= letters
    assert set("äöüßÄÖÜåÅéèêàâçîïôûùñÑóúáíãõìò") <= letters
    assert set("0123456789.,!?¿¡'\"-:()") <= set(code.words.values())


@pytest.mark.parametrize(
    ("bits", "heard"),
    [
        ("111101011100001110110100001011010000101011100101000000", "Why not?"),
        ("1111010111000010010011100100001001111011100010100111100101000000", "Where am I?"),
        ("11111000100100100111101010001100110100000001000010110110001100011001000000", "Yes, go on..."),
    ],
)
def test_bits_of_the_game_are_what_is_heard(bits: str, heard: str) -> None:
    assert "".join(sky_code().decode(bits, "x").symbols).lower() == heard.lower()
