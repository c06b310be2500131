from __future__ import annotations

from dataclasses import replace

import pytest
from games import speech
from hypothesis import given
from hypothesis import strategies as st

from choose import LIKENESS, Dropped, format_dropped, likeness, usable_pairs
from lines import Line
from name_code import UNKNOWN

PAIRS = (("en", "de"), ("en", "es"), ("es", "en"))
TEXTS = {"en": "Where is the key?", "de": "Wo ist der Schlüssel?", "es": "¿Donde esta la llave?"}
LINE = Line("a-1-0001", "a", "1", 1, "a-x", TEXTS, {"en": speech(1, 0), "es": speech(1, 1)})
HEARD = {"en": "Where is the key", "es": "donde esta la llave"}


@pytest.mark.parametrize(
    ("heard", "text", "like"),
    [
        ("Where is the key?", "WHERE is the key?", True),
        ("Where's a key?", "Where is the key?", True),
        ("The key. The key. The key. The key.", "The key!", True),  # as Whisper repeats itself
        ("Nosferatu", "Nos fera tu...", True),
        ("Come on.", "Hello there!", False),
        ("", "Yes.", False),
        ("Ha ha ha ha ha ha", "You fell for it, now you are going to pay", False),
    ],
)
def test_likeness(heard: str, text: str, like: bool) -> None:
    assert (likeness(heard, text) >= LIKENESS) == like


@given(st.text(), st.text(min_size=1))
def test_likeness_is_a_share(heard: str, text: str) -> None:
    assert 0 <= likeness(heard, text) <= 1


def test_a_line_of_use_in_all_pairs() -> None:
    assert usable_pairs(LINE, HEARD, PAIRS) == (list(PAIRS), [])


@pytest.mark.parametrize(
    ("line", "heard", "usable", "dropped"),
    [
        (replace(LINE, texts={**TEXTS, "es": "a " + UNKNOWN}), HEARD, [], [("", "broken text")]),
        (replace(LINE, texts={}), HEARD, [], [("", "no text")]),
        (replace(LINE, texts={**TEXTS, "de": ""}), HEARD, [("en", "es"), ("es", "en")], [("en-de", "no text")]),
        (replace(LINE, texts={**TEXTS, "de": "...!"}), HEARD, [("en", "es"), ("es", "en")], [("en-de", "no text")]),
        (
            replace(LINE, texts={**TEXTS, "de": "WHERE is the 'key'!"}),
            HEARD,
            [("en", "es"), ("es", "en")],
            [("en-de", "equal")],
        ),
        (replace(LINE, texts={**TEXTS, "de": "** unused"}), HEARD, [("en", "es"), ("es", "en")], [("en-de", "note")]),
        (LINE, {**HEARD, "en": "Come on"}, [("es", "en")], [("en", "unlike")]),
        (LINE, {"es": HEARD["es"]}, [("es", "en")], [("en", "unlike")]),
        (replace(LINE, speech={"en": speech(1, 0)}), HEARD, [("en", "de"), ("en", "es")], []),
        (
            replace(LINE, speech={"en": speech(0.1, 0), "es": speech(1, 0)}),
            HEARD,
            [("es", "en")],
            [("en", "short")],
        ),
    ],
)
def test_what_is_left_out(
    line: Line, heard: dict[str, str], usable: list[tuple[str, str]], dropped: list[tuple[str, str]]
) -> None:
    found, faults = usable_pairs(line, heard, PAIRS)
    assert found == usable
    assert [(fault.what, fault.reason) for fault in faults] == dropped


def test_log() -> None:
    log = format_dropped([Dropped("a-1", "", "no text"), Dropped("a-2", "en", "unlike", "0.12: x | heard: y")])
    assert log == "a-1\tall\tno text\t\na-2\ten\tunlike\t0.12: x | heard: y\n"
