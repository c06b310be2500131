"""The bonus of terms against its definition, on tiny vocabularies."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_search import EOS, Tiny

from simulst.background import Background
from simulst.calls import run_alone
from simulst.hypotheses import Tokens
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.search import JointBeamSearch
from simulst.search.beam import JointSearch, joint_beam_search
from simulst.search.terms import Terms, terms_of

torch.set_num_threads(1)
V = 5
GOES_ON = 4  # in the tests of the trie, this token goes on with a word
spelling = st.lists(st.integers(0, V - 1), min_size=1, max_size=3).map(tuple)


def terms(spellings: list[Tokens], bonus: float = 0.5, goes_on: int = GOES_ON) -> Terms:
    return Terms(spellings, bonus, lambda: [goes_on])


def by_definition(spellings: list[Tokens], text: Tokens, ended: bool) -> int:
    covered = set()
    for start, end in itertools.combinations(range(len(text) + 1), 2):
        part = text[start:end]
        for term in spellings:
            if end < len(text):
                counts = part == term and text[end] != GOES_ON
            else:
                counts = part == term if ended else part == term[: len(part)]
            covered |= set(range(start, end)) if counts else set()
    return len(covered)


def covered(terms: Terms, text: Tokens, ended: bool = False) -> int:
    return terms._covered(text, ended, not ended)[0]


@settings(max_examples=60)
@given(st.lists(spelling, min_size=1, max_size=4), st.lists(st.integers(0, V - 1), max_size=14).map(tuple))
def test_each_token_gets_what_it_changes(spellings: list[Tokens], text: Tokens) -> None:
    """The last row is <eos>, which is no token of a term: with it, only whole terms count."""
    trie = Terms(spellings, 0.5, lambda: [GOES_ON])
    log_p = torch.arange(V + 1.0)
    trie.adjust(text, log_p)
    now = by_definition(spellings, text, False)
    for token in range(V):
        change = by_definition(spellings, (*text, token), False) - now
        assert log_p[token] == pytest.approx(token + 0.5 * change)
    assert log_p[V] == pytest.approx(V + 0.5 * (by_definition(spellings, text, True) - now))


@pytest.mark.parametrize("seed", range(3))
def test_a_search_ranks_by_score_and_bonus(seed: int) -> None:
    """A beam as wide as all texts of up to 2 tokens: each has its own score, plus the bonus of its terms.

    Texts of 2 tokens have no room for <eos>, so a term may have begun in them.
    """
    model = Tiny(seed, sharp=2.0, end=2.0)
    memory, options = model.memory(seed, 2), JointBeamSearch(400, 0.0, max_length_ratio=1.0)
    spellings: list[Tokens] = [(3, 7), (5,), (7, 2)]

    def found(with_terms: Terms | None) -> dict[Tokens, float]:
        search = JointSearch(CachedDecoder(model.decoder), options, EOS, EOS, terms=with_terms)
        search.append(memory)
        return {h.tokens: h.score for h in run_alone(joint_beam_search(search, ()))}

    plain, biased = found(None), found(terms(spellings, 1.5, goes_on=2))
    assert plain.keys() == biased.keys() and len(plain) == 1 + 19 + 19 * 19
    trie = terms(spellings, 1.5, goes_on=2)
    for text, score in plain.items():
        assert biased[text] == pytest.approx(score + 1.5 * covered(trie, text, len(text) < 2), abs=1e-3)


def test_spelling() -> None:
    """A vocabulary of letters, with a space of their own, and one whose words begin with one."""

    def letters(tokens: Tokens) -> str:
        return "".join(map(chr, tokens))

    def words(tokens: Tokens) -> str:
        return " ".join(letters((token,)) for token in tokens)

    def found(term: str, language: str, spell: Any, text: Any) -> Terms:
        terms = terms_of(Background(terms=(("", term),)), JointBeamSearch(terms_bonus=1.0), language, spell, text, 128)
        assert terms is not None
        return terms

    def numbers(text: str) -> Tokens:
        return tuple(map(ord, text))

    one = found("bc", "en", numbers, letters)
    assert covered(one, numbers("a bc"), True) == 3 and covered(one, numbers("abc"), True) == 0
    assert covered(one, numbers("a bcd")) == 0 and covered(one, numbers("a bc d")) == 3
    two = found("b c", "en", lambda text: numbers("".join(text.split())), words)
    assert covered(two, numbers("abcd"), True) == 2
    assert covered(found("bc", "zh", numbers, letters), numbers("abcd"), True) == 2
    assert terms_of(Background(terms=(("a", "a"),)), JointBeamSearch(), "en", numbers, letters, 128) is None
