"""The CTC guide on hand-made vocabularies, by enumeration of all alignments."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fake import context_of, full_context
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scripted import texts_of

from simulst.calls import run_alone
from simulst.config import Decoding, parse_decoding
from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.meter import Meter
from simulst.models.espnet.guide import ESPnetGuide
from simulst.models.espnet.vocabulary import Vocabulary
from simulst.policy import ctc_guide
from simulst.policy.commit import All, common_prefix
from simulst.policy.context import TokensView
from simulst.policy.ctc_guide import CTCGuide, Guided, GuidedCharacters
from simulst.policy.read import Chunk
from simulst.policy.stop import AnyOf, MaxTokens
from simulst.words import Words

FRAME = 100  # samples
# The large model's vocabulary, and the guide's: words split differently, in another case, without é and full stops.
LARGE = (" ab", " a", "b", " B", "a", ".", " é", " aé")
LETTERS = ("<blank>", "<unk>", "a", "b", "<space>", "<sos/eos>")
SPACED = ("a ", "b ", "ab ", "é ")


def guide_of(
    log_probs: torch.Tensor, tokens: tuple[str, ...] = LETTERS, kind: str = "char", pieces: Any = None
) -> ESPnetGuide:
    """A guide that hears a frame every 100 samples, with these log posteriors (T, V)."""
    model: Any = SimpleNamespace(
        **full_context(FRAME),
        ctc_together=lambda parts: [log_probs[: len(frames)] for frames in parts],
        vocabulary=Vocabulary(tokens, kind, pieces, "<sos/eos>", "<sos/eos>"),
    )
    return ESPnetGuide(model, (), Meter())


def opened(
    kind: type[Guided], guide: ESPnetGuide, words: Words, options: CTCGuide, frames: int, committed: Tokens = ()
) -> Guided:
    """A guided stream that has heard `frames` frames."""
    context = context_of(words=words, committed=lambda: committed)
    stopping = kind(options, context, guide)
    run_alone(stopping.hear(np.zeros(frames * FRAME, np.float32), False))
    return stopping


def searched(stopping: Guided, new: Tokens) -> Tokens:
    """What greedy search keeps of the tokens that it finds, as it asks before each token and at the end."""
    for length in range(len(new) + 1):
        if stopping.ends(TokensView(new[:length])):
            return new[: length - stopping.discard]
    return new


def posteriors(seed: int, frames: int, size: int = len(LETTERS)) -> torch.Tensor:
    # In float64: where hardly anything can go on, the odds show by how much rows in float32 miss a sum of 1.
    return torch.log_softmax(3 * torch.randn(frames, size, generator=torch.Generator().manual_seed(seed)).double(), -1)


def enumerated(log_probs: torch.Tensor, tokens: Tokens, given: int, exact: bool) -> list[float]:
    """The odds by their definition: over all alignments of T frames. The layer's own <sos/eos> is no way to go on."""
    own_end = log_probs.shape[1] - 1
    p_of, odds = texts_of(log_probs), []
    for place in range(given, len(tokens)):
        start, more = tokens[:place], tokens[: place + 1]
        p_more = sum(p for w, p in p_of.items() if w[: len(more)] == more)
        if exact:
            p_more = sum(
                p for w, p in p_of.items() if w[:place] == start and w[place : place + 1] not in ((), (own_end,))
            )
        odds.append(math.log(p_of.get(start, 0.0) / p_more) if p_more else math.inf)
    return odds


@settings(max_examples=30)
@example(660, 2, [2, 2], True)
@given(st.integers(0, 10**6), st.integers(0, 4), st.lists(st.integers(2, 4), min_size=1, max_size=3), st.booleans())
def test_odds(seed: int, frames: int, tokens: list[int], exact: bool) -> None:
    """Also before the first frame, with more tokens than frames, and asked again after more frames."""
    log_probs = posteriors(seed, frames)
    guide = guide_of(log_probs)
    for cut in (frames // 2, frames):
        new = np.zeros(cut * FRAME if cut < frames else (frames - frames // 2) * FRAME, np.float32)
        run_alone(guide.hear(new))
        for first in range(len(tokens)):
            found = guide.odds_of_end(tuple(tokens), first, exact)
            assert found == pytest.approx(enumerated(log_probs[:cut], tuple(tokens), first, exact), abs=1e-4)


def literal(new: str, before: str, odds_of: Any, threshold: float) -> str:
    """The words that a step writes by the rule: those before the word in which the speech ends, if it ends."""
    old, words = len(before.split()), (before + new).split()
    whole = len(words) - (not new.endswith(" "))
    for number in range(old, whole):
        known, more = letters(words[:number]), letters(words[: number + 1])
        for heard, odds in enumerate(odds_of(more, len(known))):
            if odds > threshold:
                last = number if heard else number - 1
                return " ".join(words[old : max(old, last)])
    return " ".join(words[old:whole])


def letters(words: list[str]) -> Tokens:
    """A text in LETTERS, by hand."""
    kept = ["".join(c for c in word.lower() if c in "ab") for word in words]
    spaced = "_".join(word for word in kept if word)
    return tuple(LETTERS.index("<space>" if c == "_" else c) for c in spaced)


@settings(max_examples=150)
@given(
    st.integers(0, 10**6),
    st.integers(0, 4),
    st.lists(st.integers(0, 7), min_size=1, max_size=6),
    st.integers(0, 2),
    st.sampled_from([-2.0, 0.0, 2.0]),
    st.booleans(),
    st.booleans(),
)
def test_a_step_writes_what_the_guide_has_heard(
    seed: int, frames: int, tokens: list[int], known: int, threshold: float, exact: bool, spaced: bool
) -> None:
    """For any two vocabularies: of the large model's, words begin with spaces, or end with them."""
    pieces = SPACED if spaced else LARGE
    committed, new = split(tuple(token % len(pieces) for token in tokens), known, pieces)
    log_probs = posteriors(seed, frames)
    guide = guide_of(log_probs)
    words = Words(lambda tokens: "".join(pieces[token] for token in tokens))
    options = CTCGuide("exp/st", threshold, exact)
    stopping = opened(Guided, guide, words, options, frames, committed)
    kept = searched(stopping, new)
    written = words.text(All(whole_words=True).release(kept, words, [()])).strip()
    expected = literal(
        words.text(new), words.text(committed), lambda more, n: enumerated(log_probs, more, n, exact), threshold
    )
    assert written == " ".join(expected.split())
    # It follows from tokens and audio alone, so that it may be asked in any order.
    whole, fresh = stopping.ends(TokensView(new)), opened(Guided, guide, words, options, 0, committed)
    assert whole == fresh.ends(TokensView(new)) == (kept is not new)
    assert not whole or len(new) - fresh.discard == len(kept)


def split(tokens: Tokens, known: int, pieces: tuple[str, ...]) -> tuple[Tokens, Tokens]:
    """The first tokens as committed ones, up to the end of a word."""
    while 0 < known < len(tokens) and not (pieces[tokens[known - 1]] + pieces[tokens[known]]).strip().count(" "):
        known += 1
    return (tokens[:known], tokens[known:]) if known < len(tokens) else ((), tokens)


PIECES = ("<blank>", "<unk>", "▁", "a", "b", "ab", "<sos/eos>")
CHARACTERS = ("a", "b", "ab", "ba", "é", "aa")


class Longest:
    """SentencePiece, as far as the guide needs it: the longest piece first, so "b" may change the "a" before it."""

    def encode(self, word: str, out_type: Any = str) -> list[str]:
        found, rest = [], "▁" + word
        while rest:
            piece = next((rest[:n] for n in (2, 1) if rest[:n] in PIECES), rest[0])
            found.append(piece)
            rest = rest[len(piece) :]
        return found


def spelled(text: str) -> Tokens:
    """A text in PIECES, by hand."""
    known = ["▁"] if text else []
    for character in text:
        known[-1:] = ["ab"] if (known[-1], character) == ("a", "b") else [known[-1], character]
    return tuple(PIECES.index(piece) for piece in known if piece in PIECES) if {*text} & {*"ab"} else ()


def longest_heard(ends: list[int], text: str, heard: Tokens) -> int:
    return max([ends[0], *(end for end in ends[1:] if spelled(text[:end]) == heard[: len(spelled(text[:end]))])])


def literal_characters(pieces: list[str], before: str, odds_of: Any, threshold: float) -> str:
    """What a step writes of a language without spaces, where a word is a character. pieces: of the new text."""

    def heard(old: Tokens, new: Tokens) -> Tokens | None:
        """The tokens that are heard, without the last one; None: all are heard."""
        same = len(common_prefix([old, new]))
        unheard = [n for n, odds in enumerate(odds_of(new, same), same) if odds > threshold]
        return new[: unheard[0]][:-1] if unheard else None

    ends = [len(before)]
    whole = [len(before + "".join(pieces[:n])) for n in range(1, len(pieces))]  # a last one is not whole
    text, kept = before + "".join(pieces), whole[-1:] or ends
    for end in whole:
        if (sure := heard(spelled(text[: ends[-1]])[:-1], spelled(text[:end])[:-1])) is not None:
            kept = [longest_heard(ends, text, sure)]
            break
        ends.append(end)
    if (sure := heard(spelled(before), spelled(text[: kept[0]]))) is not None:
        ends = [len(before), *(end for end in whole if end < kept[0])]
        kept = [longest_heard(ends, text, sure)]
    return text[len(before) : kept[0]]


@settings(max_examples=200)
@given(
    st.integers(0, 10**6),
    st.integers(0, 4),
    st.lists(st.integers(0, len(CHARACTERS) - 1), min_size=1, max_size=5),
    st.integers(0, 2),
    st.sampled_from([-2.0, 0.0, 2.0]),
    st.booleans(),
)
def test_characters_are_written_as_the_guide_has_heard_them(
    seed: int, frames: int, tokens: list[int], known: int, threshold: float, exact: bool
) -> None:
    """A token of the guide is asked about once another one follows, as "a" may still become "ab"."""
    committed, new = (tuple(tokens[:known]), tuple(tokens[known:])) if known < len(tokens) else ((), tuple(tokens))
    log_probs = posteriors(seed, frames, len(PIECES))
    guide = guide_of(log_probs, PIECES, "bpe", Longest())
    words = Words(lambda tokens: "".join(CHARACTERS[token] for token in tokens), "char")
    options = CTCGuide("exp/st", threshold, exact)
    stopping = opened(GuidedCharacters, guide, words, options, frames, committed)
    kept = searched(stopping, new)
    written = words.text(stopping.first(All(whole_words=True).release(kept, words, [()])))
    expected = literal_characters(
        [CHARACTERS[token] for token in new],
        words.text(committed),
        lambda more, n: enumerated(log_probs, more, n, exact),
        threshold,
    )
    assert written == expected
    whole, fresh = stopping.ends(TokensView(new)), opened(GuidedCharacters, guide, words, options, 0, committed)
    assert whole == fresh.ends(TokensView(new)) == (kept is not new)


def test_a_word_that_never_completes_is_never_asked_about() -> None:
    words = Words(lambda tokens: "".join(LARGE[token] for token in tokens))
    stopping = Guided(CTCGuide("exp/st", -math.inf), context_of(words=words), guide_of(posteriors(0, 3)))
    endless = (1, *[2, 4] * 20)
    assert not any(stopping.ends(TokensView(endless[:n])) for n in range(len(endless)))
    assert All(whole_words=True).release(endless, words, [()]) == ()
    assert stopping.ends(TokensView((*endless, 1)))


def test_words_without_tokens_pass_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    words = Words(lambda tokens: "".join(LARGE[token] for token in tokens))
    context = context_of(words=words)
    ctc_guide._WARNED.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            stopping = Guided(CTCGuide("exp/st", -math.inf), context, guide_of(posteriors(0, 3)))
            assert not stopping.ends(TokensView((6, 6, 5, 6)))
            assert stopping.ends(TokensView((6, 0, 0)))
    assert [record.message for record in caplog.records] == [
        "stop: the guide exp/st has no tokens for 'é', so such words pass unheard; if there are many, give a guide "
        "that was trained on text of the same kind."
    ]


def test_options() -> None:
    raw = {
        "read": {"type": "chunk", "ms": 1000},
        "stop": {"type": "ctc_guide", "model": "exp/st", "threshold": -0.5},
        "commit": {"type": "all", "whole_words": True},
    }
    how = parse_decoding(raw, "here")
    assert (
        how.files == ("exp/st",) == Decoding(Chunk(1000), All(whole_words=True), AnyOf((how.stop, MaxTokens(3)))).files
    )
    assert CTCGuide("exp/st", 0.0, checkpoint="chosen.pth").files == ("exp/st/chosen.pth",)
    for changes, words in (
        ({"name": "a/b"}, "its label 'allw_guide-a/b-0.5_1000ms' can't name a folder"),
        ({"model": 3}, "option 'model': Input should be a valid string"),
    ):
        with pytest.raises(SimulstError, match=words):
            parse_decoding({**raw, "stop": {**raw["stop"], **changes}}, "here")
    with pytest.raises(SimulstError, match=r"write 'whole_words: true' under commit"):
        parse_decoding({**raw, "commit": {"type": "all"}}, "here")
