"""The code of Sky's texts: the table, and its derivation on texts in a code made here."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from fractions import Fraction

import pytest
from games import encode

from derive_code import END, complete_tree, learn_words, sure_words
from name_code import (
    UNKNOWN,
    Row,
    format_table,
    heard_lines,
    name_letters,
    parse_table,
    sky_code,
)
from simulst.errors import SimulstError

TEXT = """
the a this that it is was not on in at to of and or he she they we you have had has will can see saw look take took door
room key card robot light machine water paper window street city police computer old new red small great open closed
broken some any more less here there where when why who what how tell said say ask find found give get good bad best man
woman boy girl house time day night year hand head eye work place thing people sleep coffee next pocket
"""
WORDS = TEXT.split()


def sentences(n: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    found = []
    for _ in range(n):
        text = " ".join(chance.choices(WORDS, k=chance.randint(2, 6)))
        found.append(text.capitalize() + chance.choice("..?"))
    return found


def huffman(counts: Counter[str]) -> dict[str, str]:
    """Character → word. END is among the words, for the empty string."""
    heap = [(n, i, (c,)) for i, (c, n) in enumerate(sorted(counts.items()))]
    words = dict.fromkeys(counts, "")
    heapq.heapify(heap)
    while len(heap) > 1:
        (n, i, first), (m, _, second) = heapq.heappop(heap), heapq.heappop(heap)
        for side, part in (("0", first), ("1", second)):
            for c in part:
                words[c] = side + words[c]
        heapq.heappush(heap, (n + m, i, first + second))
    return words


def code_with_end(texts: list[str]) -> dict[str, str]:
    """A code of these texts in which END stands for their end, under a node that was a leaf's."""
    for weight in range(1, 400):
        words = huffman(Counter("".join(texts)) + Counter({"": weight * len(texts) // 20}))
        if len(words[""]) == len(END):
            flip = {i for i, (a, b) in enumerate(zip(words[""], END, strict=True)) if a != b}
            return {
                c: "".join(str(int(bit) ^ (i in flip and word[:i] == words[""][:i])) for i, bit in enumerate(word))
                for c, word in words.items()
            }
    raise AssertionError


def letters(n: int, seed: int) -> list[str]:
    """Texts of letters that come as often as Zipf's law says."""
    chance = random.Random(seed)
    alphabet = " etaoinshrdlcumwfgypbvkjxqz.,ETAOINS"
    weights = [1 / rank for rank in range(2, len(alphabet) + 2)]
    return ["".join(chance.choices(alphabet, weights, k=chance.randint(4, 30))) for _ in range(n)]


def padded(bits: str) -> str:
    return bits + "0" * (-len(bits) % (2 if len(bits) < 256 else 16))


# ---- the table ----


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


@pytest.mark.parametrize(
    "text",
    [
        "Grüße, Jörg!",
        "Él canta ñu... ¿sí?",
        "Où êtes-vous, à l'île?",
        "Åsa är född här",
        "Não, são õ.",
        "96% of 40 / $2 (x)",
    ],
)
def test_texts_of_all_languages_fit_the_code(text: str) -> None:
    assert "".join(sky_code().decode(encode(text), "x").symbols) == text


def test_table_as_text() -> None:
    rows = [
        Row("0", " ", 9, "speech", "sure"),
        Row("10", "", 3, "speech", "ends"),
        Row("11", UNKNOWN, 1, "reading", "?"),
    ]
    assert parse_table(format_table(rows)) == rows
    with pytest.raises(SimulstError, match="line 2: not code, character"):
        parse_table("code\tcharacter\n012\ta\t1\tx\ty\n")


# ---- the derivation ----


def test_learns_words_from_what_was_heard() -> None:
    texts = sentences(250, seed=1)
    words = code_with_end(texts)
    chance = random.Random(2)
    # One letter in thirty was heard wrong, and what was written in capitals sounds the same.
    heard = ["".join(chance.choice("aeiostn") if chance.random() < 1 / 30 else c for c in text) for text in texts]
    lines = [("".join(words[c] for c in text), sound) for text, sound in zip(texts, heard, strict=True)]
    sure = sure_words(learn_words(lines, rounds=8))
    assert len(sure) >= 15
    assert all(words[character] == word for word, character in sure.items())


def test_completes_the_tree() -> None:
    texts = letters(3000, seed=3)
    words = code_with_end(texts)
    messages = [padded("".join(words[c] for c in (*text, ""))) for text in texts]
    known = [words[c] for c in " etaoinshrd"]
    codes, wrong = complete_tree(messages, known)
    assert wrong == 0 and set(codes) == set(words.values())


def test_a_message_with_an_end_within_does_no_harm() -> None:
    texts = letters(3000, seed=3)
    words = code_with_end(texts)
    messages = [padded("".join(words[c] for c in (*text, ""))) for text in texts]
    odd = padded("".join(words[c] for c in ("w", "", "x", ""))) if "x" in words else padded(words["w"] + 2 * END)
    codes, wrong = complete_tree([*messages, odd], [words[c] for c in " etaoinshrd"])
    assert wrong == 1 and set(codes) == set(words.values())


def test_names_letters_by_lists_of_words() -> None:
    texts = sentences(800, seed=4)
    words = code_with_end(texts)
    known = {words[c]: c for c in " etaoin.?"}
    found = name_letters({"en": [[words[c] for c in text] for text in texts]}, known, {"en": WORDS})
    assert all(words[named.letter] == code for code, named in found.items())
    assert {named.letter for named in found.values()} >= set("shrdlcugpm")
    assert all(named.hits > 2 * named.next_hits for named in found.values())


def test_lines_for_learning() -> None:
    messages = {0: ["01" + END + "0", "1111" + END, "000000"]}
    heard = {"sky-0-0001": "b", "sky-0-0000": "a", "sky-0-0002": "c", "sky-0-0009": "d", "sky-5-0000": "e"}
    assert heard_lines(messages, heard) == [("01", "a"), ("1111", "b")]
