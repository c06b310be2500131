"""Prefix pairs against a literal version of the paper's text, and a batched model against one that is asked singly."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_espnet
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.audio.units import FRAME
from simulst.calls import run_alone
from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.models import load_model
from simulst.models.espnet.model import ESPnet
from simulst.opening import Opening
from simulst.prefix.align import Pair, Translator, align
from simulst.search import JointBeamSearch
from simulst.search.beam import JointSearch, joint_beam_search

One = Callable[[int, int, Tokens], Tokens]


def words(tokens: Tokens) -> str:
    """Token 10 n + 0 begins a word, others go on with it."""
    return "".join(f"{' ' if token % 10 == 0 else ''}{token}" for token in tokens)


def spelled(pieces: list[str]) -> Callable[[Tokens], str]:
    """From tokens to text, where each token is one of the pieces."""
    return lambda tokens: "".join(pieces[token] for token in tokens).strip()


def literally(translate: One, row: int, frames: int, tau: int, text: Callable[[Tokens], str]) -> list[Pair]:
    """Section 2.1 of NAIST at IWSLT 2022, sentence by sentence, for one utterance."""
    pairs: list[Pair] = []
    seen = {()}
    forced: Tokens = ()
    for number in range(1, frames // tau + 1):
        prefix = number * tau
        if prefix >= frames:
            continue  # the whole segment is no prefix of itself
        offline = translate(row, frames, forced)  # "update T_offline to extract consistent prefix translations"
        told = translate(row, prefix, forced)  # "a forced decoding with the previously extracted prefix"
        appears = (
            offline[: len(told)] == told and text(offline).split()[: len(text(told).split())] == text(told).split()
        )
        if appears and told not in seen:  # "we just extract the first appearance"
            pairs.append(Pair(prefix, told))
            seen.add(told)
            forced = told
    return pairs


def scripted(seed: int) -> One:
    """A model whose translations of prefixes often, but not always, agree with each other; forced ones never change."""

    def translate(row: int, frames: int, forced: Tokens) -> Tokens:
        tokens = list(forced)
        want = random.Random(f"{seed} {row} {frames} length").randint(0, 1 + frames // 60)
        while len(tokens) < want:
            # Mostly what everyone would say at this place; sometimes what only this prefix, or this history, suggests.
            source = random.Random(f"{seed} {row} {len(tokens)}")
            other = random.Random(f"{seed} {row} {frames} {tokens}")
            tokens.append((other if other.random() < 0.25 else source).randint(1, 40))
        return tuple(tokens)

    return translate


@settings(max_examples=200)
@given(seed=st.integers(0, 10**6), frames=st.lists(st.integers(0, 900), max_size=5), tau=st.sampled_from([48, 100]))
def test_against_the_paper_taken_literally(seed: int, frames: list[int], tau: int) -> None:
    one = scripted(seed)
    found = align(lambda questions: [one(q.row, q.end, q.forced) for q in questions], frames, tau, words)
    assert [a.pairs for a in found] == [literally(one, row, count, tau, words) for row, count in enumerate(frames)]
    for row, (alignment, count) in enumerate(zip(found, frames, strict=True)):
        last = alignment.pairs[-1].tokens if alignment.pairs else ()
        assert alignment.whole == one(row, count, last)
        assert all(pair.frames % tau == 0 and pair.frames < count for pair in alignment.pairs)


@pytest.mark.parametrize("open_end", [False, True])
def test_a_full_stop_behind_a_prefix(open_end: bool) -> None:
    text = spelled([" der", " Chef", ",", " kam", ".", "in"])
    answers = {100: (0, 1, 4), 200: (0, 1, 2, 0, 4), 300: (0, 1, 2, 0, 3, 4), 400: (0, 1, 2, 0, 3, 4)}
    [found] = align(lambda questions: [answers[q.end] for q in questions], [400], 100, text, open_end)
    told = [(pair.frames, text(pair.tokens)) for pair in found.pairs]
    opened = [(100, "der Chef"), (200, "der Chef, der"), (300, "der Chef, der kam")]
    assert told == (opened if open_end else [(300, "der Chef, der kam.")])
    answers[400] = (0, 1, 5, 2, 0, 3, 4)  # "Chefin," is another word
    [found] = align(lambda questions: [answers[q.end] for q in questions], [400], 100, text, open_end)
    assert not found.pairs


def test_a_vowel_sign_is_no_punctuation() -> None:
    """In Hindi it is a character of its own, which belongs to the letter before it."""
    text = spelled([" यह", " हिन्द", "ी", "।", " है"])
    answers = {100: (0, 1, 2, 3), 200: (0, 1, 2, 4, 3)}
    [found] = align(lambda questions: [answers[q.end] for q in questions], [200], 100, text, open_end=True)
    assert [text(pair.tokens) for pair in found.pairs] == ["यह हिन्दी"]


@pytest.mark.parametrize("open_end", [False, True])
def test_a_language_without_spaces(open_end: bool) -> None:
    """Any of its characters may be the last of a pair, but not a part of one (U+FFFD)."""
    pieces = ["", "昨日", "、駅", "で", "\ufffd", "会", "った", "。"]

    def text(tokens: Tokens) -> str:
        return "".join(pieces[token] for token in tokens).replace("\ufffd会", "逢")

    answers = {100: (1, 7), 200: (1, 2), 300: (1, 2, 3, 4), 400: (1, 2, 3, 4, 5), 500: (1, 2, 3, 4, 5, 6, 7)}
    [found] = align(lambda questions: [answers[q.end] for q in questions], [500], 100, text, open_end, "char")
    told = [(pair.frames, text(pair.tokens)) for pair in found.pairs]
    opened = [(100, "昨日"), (200, "昨日、駅"), (300, "昨日、駅で"), (400, "昨日、駅で逢")]
    assert told == (opened if open_end else [opened[1], opened[3]])
    [found] = align(lambda questions: [answers[q.end] for q in questions], [500], 100, text, open_end, "word")
    assert not found.pairs


def test_tokens_without_text_are_no_pair() -> None:
    answers = {100: (1,), 200: (1, 2), 300: (1, 2, 3)}
    text = spelled(["", " ", " Haus", " am See"])
    [found] = align(lambda questions: [answers[q.end] for q in questions], [300], 100, text)
    assert found.pairs == [Pair(200, (1, 2))]


def test_a_model_without_words_has_no_pairs() -> None:
    found = align(lambda questions: [q.forced for q in questions], [500, 50], 100, words)
    assert [(a.pairs, a.whole) for a in found] == [([], ()), ([], ())]


@pytest.fixture(scope="module", params=["transformer", "conformer", "contextual_block_conformer"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ESPnet:
    folder: Path = tmp_path_factory.mktemp(request.param)
    tiny_espnet.write(folder, request.param, seed=4)
    return load_model(folder / "exp" / "st")


@pytest.mark.parametrize("open_end", [False, True])
@pytest.mark.parametrize("beam", [1, 4])
def test_batched_as_prefix_by_prefix(model: ESPnet, beam: int, open_end: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    options = JointBeamSearch(beam=beam, ctc_weight=0.0, max_length_ratio=0.4)
    noise = np.random.default_rng(7)
    audio = [(noise.normal(0, 0.1, n) * np.sin(np.arange(n) / 4000)).astype(np.float32) for n in (70_000, 31_234, 9000)]

    def singly(row: int, frames: int, forced: Tokens) -> Tokens:
        session = model.session(Opening("en", "de"))
        session.extend(audio[row][: frames * FRAME if frames < audio[row].size // FRAME else None], final=True)
        search = JointSearch(model.decoder, options, model.vocabulary.sos, model.vocabulary.eos)
        search.append(tiny_espnet.frames_of(session))
        return run_alone(joint_beam_search(search, forced))[0].tokens

    if open_end:  # the tiny model writes no punctuation: some of its words are made some
        text = type(model).text
        monkeypatch.setattr(type(model), "text", lambda self, tokens: re.sub("[aeu]", ".", text(self, tokens)))
    translator = Translator(model, "de", audio, 48, options, open_end)
    found = align(translator, translator.frames, 48, model.text, open_end)
    expected = align(
        lambda questions: [singly(q.row, q.end, q.forced) for q in questions],
        *(translator.frames, 48, model.text, open_end),
    )
    assert found == expected
    assert any(alignment.whole for alignment in found)
    with pytest.raises(SimulstError, match=r"ctc_weight: 0\.0"):
        Translator(model, "de", audio, 48, JointBeamSearch())
