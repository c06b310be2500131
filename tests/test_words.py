"""From committed tokens to words and characters."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fake import CHARS, WORDS
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer, decoders, models

from simulst.hypotheses import Tokens
from simulst.words import Words, split


def words_of(vocabulary: Sequence[bytes], unit: str = "word") -> Words:
    return Words(lambda tokens: b"".join(vocabulary[t] for t in tokens).decode("utf-8", errors="replace"), unit)


# In WORDS: 0 " the", 1 " c", 2 "at", 3 " sat", 4 "s", 5 " on", 6 " un", 7 "believ", 8 "able", 9 ",", 11 "."


@pytest.mark.parametrize(
    ("tokens", "count", "whole"),
    [((), 0, 0), ((0,), 0, 0), ((0, 1), 1, 1), ((0, 1, 2), 1, 1), ((0, 1, 2, 3), 2, 3), ((6, 7, 8, 9), 0, 0)],
)
def test_a_word_is_whole_once_another_begins(tokens: Tokens, count: int, whole: int) -> None:
    words = words_of(WORDS)
    assert (words.count(tokens), words.whole(tokens)) == (count, whole)


def test_a_space_ends_a_word_too() -> None:
    words = words_of([b"the ", b"c", b"at "])
    assert [words.whole(tokens) for tokens in ((0,), (0, 1), (0, 1, 2))] == [1, 1, 3]


@pytest.mark.parametrize(
    ("tokens", "most", "first"),
    [((0, 1, 2), 1, 1), ((0, 1, 2), 2, 3), ((0, 1, 2), 3, 3), ((6, 7, 8), 1, 3), ((), 1, 0), ((0, 1, 2, 3, 5), 3, 4)],
)
def test_the_first_words(tokens: Tokens, most: int, first: int) -> None:
    assert words_of(WORDS).first(tokens, most) == first


def test_a_token_of_two_characters_cannot_be_divided() -> None:
    words = words_of(["好吗".encode(), "你".encode(), b"\xe4\xb8", b"\x96"], "char")
    assert [words.first(tokens, 1) for tokens in ((0,), (0, 1), (1, 0), (2, 3, 1))] == [1, 1, 1, 2]


def test_what_is_left_without_punctuation_and_halves() -> None:
    words = words_of(WORDS)
    assert [words.without_punctuation(tokens) for tokens in ((0, 11), (11, 9), (0, 9, 1), ())] == [1, 0, 3, 0]
    chars = words_of([b"a", b"\xf0\x9f", b"\x98", b"\x80"])
    assert [chars.whole_characters(tokens) for tokens in ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (1,))] == [
        1,
        1,
        1,
        4,
        0,
    ]


def test_spaces_stay() -> None:
    words = words_of(WORDS)
    assert words.write((0, 1)) == ["the"]
    assert words.write((0, 1, 2, 3)) == [" cat"]
    assert words.write((0, 1, 2, 3), ends_word=True) == [" sat"]
    assert words.write((0, 1, 2, 3, 4, 9), ends_word=True) == ["s,"], "what goes on with a written word has no space"
    assert words.write((0, 1, 2, 3, 4, 9, 5), final=True) == [" on"]
    assert words.write((0, 1, 2, 3, 4, 9, 5), final=True) == []


def test_spaces_at_the_end_wait_for_the_next_word() -> None:
    words = words_of([b"the ", b"cat", b"  ", b"sat \n"])
    assert words.write((0,)) == ["the"]
    assert words.write((0, 1, 2)) == [" cat"]
    assert words.write((0, 1, 2, 3)) == ["  sat"]
    assert words.write((0, 1, 2, 3, 3), final=True) == [" \nsat"]


def test_what_ends_within_a_character_waits_for_its_rest() -> None:
    """A window that slides may commit half of a character, under a COMMIT of whole words, too."""
    words = words_of([b" the", b" \xe0\xa4", b"\xb9\xe0", b"\xa5\x88"])
    assert words.write((0, 1), ends_word=True) == ["the"]
    assert words.write((0, 1, 2), ends_word=True) == []
    assert words.write((0, 1, 2, 3), ends_word=True) == [" है"]


def test_rare_characters_in_a_row() -> None:
    """Llama's tokens: where single bytes begin or end within a character, none of those in a row is decoded."""
    said = "的璀璨夺目璎珞的"
    vocabulary = {"<unk>": 0, "的": 1, **{f"<0x{byte:02X}>": 2 + byte for byte in range(256)}}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokens = tuple(tokenizer.encode(said).ids)
    words = Words(lambda some: tokenizer.decode(list(some)), "char")
    written = [words.write(tokens[:end], final=end == len(tokens)) for end in range(1, len(tokens) + 1)]
    assert [word for some in written for word in some] == list(said)


def test_characters_have_plain_spaces() -> None:
    """A scorer counts characters without plain spaces, so a wide space would be one."""
    words = words_of([text.encode() for text in ("你好", "\u3000吗", "\u00a0", "？")], "char")
    assert words.write((0, 1, 2, 3), final=True) == ["你", "好", " 吗", " ？"]


@settings(max_examples=200)
@given(
    st.sampled_from([("word", WORDS), ("char", CHARS), ("char", WORDS)]),
    st.lists(st.integers(0, 11), max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=6),
)
def test_all_of_it_together_is_the_text(
    kind: tuple[str, Sequence[bytes]], tokens: list[int], steps: list[tuple[int, bool]]
) -> None:
    """However the tokens are committed, and whatever is said of their ends; words and characters come one by one."""
    unit, vocabulary = kind
    words = words_of(vocabulary, unit)
    written: list[str] = []
    for end, ends_word in [*sorted(steps), (len(tokens), False)]:
        written += words.write(tuple(tokens[:end]), ends_word, final=end >= len(tokens))
    text = b"".join(vocabulary[t] for t in tokens).decode("utf-8", errors="replace").strip()
    assert "".join(written) == text or "\N{REPLACEMENT CHARACTER}" in text
    assert all(piece.strip() and not piece[-1].isspace() for piece in written)
    if unit == "char":
        assert all(len(piece.strip()) == 1 for piece in written)
    if not any(ends for _, ends in steps):
        assert [piece.strip() for piece in written] == [
            piece.strip() for piece in split(text, unit)
        ] or "\ufffd" in text


def test_sentencepiece_drops_the_first_space_only(tmp_path_factory: pytest.TempPathFactory) -> None:
    """decode_pieces gives no space before the first piece that it is given, so the tokens before are given again."""
    import tiny_pieces

    pieces: SentencePieceProcessor = tiny_pieces.train(tmp_path_factory.mktemp("pieces"))
    tokens = pieces.encode("der hund sieht die katze im garten und die alte frau", out_type=str)
    words = Words(lambda ids: pieces.decode_pieces([tokens[i] for i in ids]))
    written = [word for end in range(len(tokens) + 1) for word in words.write(tuple(range(end)))]
    written += words.write(tuple(range(len(tokens))), final=True)
    assert "".join(written) == "der hund sieht die katze im garten und die alte frau"
    assert [word.strip() for word in written] == "".join(written).split()
