from __future__ import annotations

from dataclasses import replace

import pytest
from games import speech

from choose import Dropped, format_dropped, usable_pairs
from lines import Line
from name_code import UNKNOWN

PAIRS = (("en", "de"), ("en", "es"), ("es", "en"))
TEXTS = {"en": "Where is the key?", "de": "Wo ist der Schlüssel?", "es": "¿Donde esta la llave?"}
LINE = Line("a-1-0001", "a", "1", 1, "a-x", TEXTS, {"en": speech(1, 0), "es": speech(1, 1)})


def german(text: str) -> Line:
    return replace(LINE, texts={**TEXTS, "de": text})


@pytest.mark.parametrize(
    ("line", "unlike", "usable", "dropped"),
    [
        (LINE, (), list(PAIRS), []),
        (replace(LINE, texts={**TEXTS, "es": "a " + UNKNOWN}), (), [], [("", "broken text")]),
        (replace(LINE, texts={}), (), [], [("", "no text")]),
        (german(""), (), [("en", "es"), ("es", "en")], [("en-de", "no text")]),
        (german("...!"), (), [("en", "es"), ("es", "en")], [("en-de", "no text")]),
        (german("WHERE is the 'key'!"), (), [("en", "es"), ("es", "en")], [("en-de", "equal")]),
        (german("** unused"), (), [("en", "es"), ("es", "en")], [("en-de", "note")]),
        (LINE, ("en",), [("es", "en")], [("en", "unlike")]),
        (replace(LINE, speech={"en": speech(1, 0)}), (), [("en", "de"), ("en", "es")], []),
        (replace(LINE, speech={"en": speech(0.1, 0), "es": speech(1, 0)}), (), [("es", "en")], [("en", "short")]),
    ],
)
def test_what_is_left_out(
    line: Line, unlike: tuple[str, ...], usable: list[tuple[str, str]], dropped: list[tuple[str, str]]
) -> None:
    found, faults = usable_pairs(line, unlike, PAIRS)
    assert found == usable
    assert [(fault.what, fault.reason) for fault in faults] == dropped


def test_log() -> None:
    log = format_dropped([Dropped("a-1", "", "no text"), Dropped("a-2", "en", "unlike", "x")])
    assert log == "a-1\tall\tno text\t\na-2\ten\tunlike\tx\n"
