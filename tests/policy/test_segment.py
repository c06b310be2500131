"""Which text stays under `segment: attention`: that of simulstream's own StreamAtt."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from simulstream.server.speech_processors.base_streamatt import (
    FixedCharsTextHistory,
    FixedWordsTextHistory,
    PunctuationTextHistory,
)

from simulst.policy.segment import Attention
from simulst.words import Words

PIECES = ["▁a", "▁is", "▁this", "▁ok", "b", "ing", "."]
SENTENCES = st.lists(
    st.tuples(
        st.sampled_from(PIECES[:4]), st.lists(st.sampled_from(PIECES[4:6]), max_size=2), st.sampled_from(["", "."])
    ),
    min_size=1,
    max_size=30,
)


def kept(segment: Attention, pieces: list[str], unit: str = "word") -> list[str]:
    words = Words(lambda tokens: "".join(pieces[token] for token in tokens).replace("▁", " "), unit)
    return pieces[segment.dropped(tuple(range(len(pieces))), words) :]


@given(SENTENCES, st.integers(1, 12))
def test_what_stays_is_simulstreams(words: list[tuple[str, list[str], str]], number: int) -> None:
    pieces = [piece for begin, more, end in words for piece in (begin, *more, *([end] if end else []))]
    fixed = FixedWordsTextHistory(SimpleNamespace(history_words=number)).select_text_history(pieces)
    assert kept(Attention(number), pieces) == fixed
    sentence = PunctuationTextHistory(SimpleNamespace()).select_text_history(pieces)
    assert kept(Attention(100, sentence=True), pieces) == sentence
    assert kept(Attention(number, sentence=True), pieces) == min(fixed, sentence, key=len)


@given(st.text("你好吗世界。", min_size=1), st.integers(1, 9))
def test_characters(text: str, number: int) -> None:
    chars = FixedCharsTextHistory(SimpleNamespace(history_chars=number)).select_text_history([*text])
    assert kept(Attention(number), [*text], "char") == chars
