from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truecase import (
    Truecaser,
    begins_sentence,
    fold,
    is_capitals,
    shared_words,
    usual_forms,
    without_accents,
)

ENGLISH = ["I will ask Rob about the card.", "So I'll go to Overmann.", "The card is his.", "He and I don't know."]
GERMAN = ["Ich sehe die Karte nicht.", "Da ist sie nun.", "Hier ist sie, und die Tür ist zu."]


@pytest.mark.parametrize(
    ("text", "cased"),
    [
        ("I'll ask about the CARD.", "I'll ask about the card."),
        ("CARD? I DON'T KNOW, ROB!", "Card? I don't know, Rob!"),
        ("I'LL GO TO OVERMANN", "I'll go to Overmann"),
        ("...AND THE CARD. HE KNOWS", "...and the card. He knows"),
        ("The LINC-SPACE and a D-LINC.", "The LINC-space and a D-LINC."),
        ("Well... THE card!", "Well... the card!"),
        ('He said: "THE CARD"', 'He said: "The card"'),
        ("HE SAW ZZZXX", "He saw zzzxx"),
        ("Nothing to do here.", "Nothing to do here."),
        ("OK.", "Ok."),
        ("", ""),
    ],
)
def test_english(text: str, cased: str) -> None:
    words = ("about", "ask", "card", "space", "knows", "saw", "to", "go", "Rob", "ok")
    caser = Truecaser("en", ENGLISH, words, names=(), acronyms=("LINC",))
    assert caser(text) == cased


@pytest.mark.parametrize(
    ("text", "cased"),
    [
        ("DIE KARTE IST ZU", "Die Karte ist zu"),
        ("Hier ist die SCHLÜSSELKARTE.", "Hier ist die Schlüsselkarte."),  # by its end
        ("Das SCHWARZE BRETT", "Das schwarze Brett"),  # by the list; of a noun and a verb the noun
        ("DAS HaeNDLERBRETT, MoeCHTE ICH", "Das Haendlerbrett, moechte ich"),
        ("Er ist GROSS.", "Er ist gross."),
        ("ueBRIGENS, ICH SEHE", "Uebrigens, ich sehe"),
    ],
)
def test_german(text: str, cased: str) -> None:
    words = ("schwarze", "Brett", "brett", "groß", "möchte", "das", "er", "Händler", "übrigens", "Schwarzes")
    assert Truecaser("de", GERMAN, words)(text) == cased


@pytest.mark.parametrize(
    ("language", "words", "text", "cased"),
    [
        ("fr", "école est très", "L'ÉCOLE EST çA, TRèS", "L'école est ça, très"),
        ("es", "que no si esta", "¿QUE? ¡NO! SI, ¿ESTA?", "¿Que? ¡No! Si, ¿esta?"),
        ("pt", "o nível", "O NíVEL", "O nível"),
    ],
)
def test_other_languages(language: str, words: str, text: str, cased: str) -> None:
    assert Truecaser(language, [], words.split())(text) == cased


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_order_of_the_list_does_not_matter(language: str) -> None:
    words = ["schon", "Schön", "schön", "Schoen", "Aerger", "ärger", "Arger"]
    capitals = {tuple(sorted(Truecaser(language, [], order)._capitals.items())) for order in permutations(words)}
    assert len(capitals) == 1


def test_the_texts_are_stronger_than_the_list() -> None:
    assert Truecaser("en", ["Go to the Gap now."], ["gap", "THE"])("Go to THE GAP.") == "Go to the Gap."


def test_names_of_other_languages() -> None:
    texts = {
        "en": ["Ask DANIELLE about LINC.", "The hand."],
        "fr": ["Demande à Danielle et LINC."],
        "de": ["Die Hand von LINC."],
        "sv": ["Fråga LINC nu."],
    }
    names, acronyms = shared_words(texts, {"en": ["ask"]})
    assert "danielle" in names and "hand" not in names
    assert acronyms == {"LINC"}
    assert Truecaser("en", texts["en"], ["ask", "about"], names, acronyms)(texts["en"][0]) == "Ask Danielle about LINC."


def test_what_counts_as_capitals() -> None:
    texts = ("CARD", "MoeCHTE", "A", "I I", "Card", "I'LL", "K.O.", "", "12")
    assert [text for text in texts if is_capitals(text)] == ["CARD", "MoeCHTE", "I'LL"]


def test_beginnings_of_sentences() -> None:
    begins, goes_on = ["", "Yes. ", "No! (", "¿", "Er... what? ¡", '"', "Look: "], ["Yes, ", "...", "Er... ", "a "]
    assert [before for before in (*begins, *goes_on, "a-", "l'", "Si, ¿") if begins_sentence(before)] == begins


def test_forms_within_sentences() -> None:
    forms = usual_forms(["The card. The CARD, the Card and Rob", "ALL THE CARDS"])
    assert dict(forms["card"]) == {"card": 1, "Card": 1} and dict(forms["the"]) == {"the": 1}
    assert "cards" not in forms and "all" not in forms


@given(st.text(alphabet="abcABCßÄöéI'.-?¿ …"))
def test_only_the_case_changes(text: str) -> None:
    cased = Truecaser("de", GERMAN, ["Ab", "bc", "aö"])(text)
    assert len(cased) == len(text) and cased.lower() == text.lower()


def test_words_without_accents() -> None:
    words = ["también", "más", "mas", "für", "Größe"]
    found = without_accents(["Tambien mas FUER", "groesse, también"], words)
    assert found == {("tambien", "también"): 1, ("fuer", "für"): 1, ("groesse", "größe"): 1}
    assert fold("Größe, Ñandú") == "Grosse, Nandu"
