"""Loops, and searches that may not repeat n-grams."""

import itertools
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_search import EOS, Tiny

from simulst.calls import run_alone
from simulst.hypotheses import Hypothesis, Tokens
from simulst.search import BeamSearch, JointBeamSearch
from simulst.search.loops import loops, repeating, without_loops

torch.set_num_threads(1)


def spelled(text: str) -> Tokens:
    """Each word, sign or half of a character is a token."""
    return tuple(PIECES.setdefault(piece, len(PIECES)) for piece in re.findall(r"\w+|[^\w\s]", text))


PIECES: dict[str, int] = {}


def text_of(tokens: Tokens) -> str:
    return "".join(f" {list(PIECES)[token]}" for token in tokens)


@pytest.mark.parametrize("words", ["for you", "thank you so much", "お 願 い", "धन्यवाद जी", "1 2"])
def test_signs_do_not_hide_a_loop(words: str) -> None:
    """Neither those between the repetitions, nor those that close them, nor the words that follow."""
    ends = ("", ".", "!", "...", "?!", " …", '."', "。", "¡", "—")
    for between, end, after in itertools.product(("", ",", ".", " -", "! ¡"), ends, ("", " and then it ends.")):
        for times in (2, 3):
            text = f"It is {between.join([f' {words}'] * times)}{end}{after}"
            assert loops(spelled(text), text_of) == (times == 3), text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("please, please, please, please.", True),
        ("no, no, no.", True),
        ("no, no, no, I will not.", False),
        ("no, no, no, no, I will not.", True),
        ("wait ... and see.", False),
        ("one, two, three, four, five, six.", False),
        ("he said, she said, they said, we said.", False),
        ("so......", True),
        ("a b a b \ufffd", False),
    ],
)
def test_loops_in_texts(text: str, found: bool) -> None:
    assert loops(spelled(text), text_of) is found


def test_what_was_committed_is_no_reason_to_search_again() -> None:
    tokens = spelled("for you, for you, for you, for you. And then")
    whole = len(tokens)
    assert loops(tokens, text_of) and loops(tokens, text_of, given=10)
    assert not loops(tokens, text_of, given=whole - 3) and not loops(tokens, text_of, given=whole)


few = st.lists(st.integers(0, 3), max_size=9)
repeating_itself = st.builds(lambda a, b, times, c: [*a, *b * times, *c], few, few, st.integers(2, 5), few)


@settings(max_examples=100)
@given(st.lists(st.integers(0, 3), max_size=30) | repeating_itself, st.integers(0, 30))
def test_loops_by_definition(tokens: list[int], given_: int) -> None:
    found = False
    for end, size in itertools.product(range(given_ + 1, len(tokens) + 1), range(1, 9)):
        times = 4 if size == 1 and end < len(tokens) else 3
        block = tokens[max(0, end - size) : end]
        found |= end >= times * size and tokens[end - times * size : end] == block * times
    assert loops(tuple(tokens), given=given_) is found


@given(st.lists(st.integers(0, 2), max_size=12), st.integers(0, 4))
def test_repeating_by_definition(tokens: list[int], size: int) -> None:
    def ngrams(text: list[int]) -> list[tuple[int, ...]]:
        return [tuple(text[i : i + size]) for i in range(len(text) - size + 1)] if size else []

    for token in range(3):
        again = len(tokens) + 1 >= size > 0 and ngrams([*tokens, token])[-1] in ngrams(tokens)
        assert (token in repeating(tuple(tokens), size)) is again


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.sampled_from([0.0, 0.3]))
def test_no_ngram_comes_twice(seed: int, beam: int, size: int, ctc_weight: float) -> None:
    """With a model that never ends; the prefix, which is forced, may have what it has."""
    model = Tiny(seed, end=-100)
    prefix = (3, 3, 3, 3)
    options = JointBeamSearch(beam, ctc_weight, max_length_ratio=1.0, no_repeat_ngram=size)
    for hypothesis in model.search(model.memory(seed, 24), options, prefix):
        text = hypothesis.tokens
        assert text[:4] == prefix and EOS not in text
        found = [text[i : i + size] for i in range(len(text) - size + 1)]
        new = found[max(0, 4 - size + 1) :]
        assert len(set(new)) == len(new) and not set(new) & set(found[: max(0, 4 - size + 1)])


def test_greedy_search_takes_the_next_best() -> None:
    """Against a search by hand: the best token that does not repeat a bigram."""
    model = Tiny(5, end=-100)
    memory = model.memory(1, 12)
    [found] = model.search(memory, JointBeamSearch(1, 0.0, no_repeat_ngram=2))
    text: list[int] = []
    with torch.no_grad():
        for _ in range(12):
            ids = torch.tensor([[EOS, *text]])
            mask = torch.ones(1, len(text) + 1, len(text) + 1, dtype=torch.bool).tril()
            scores = model.decoder.forward_one_step(ids, mask, memory[None])[0][0]
            scores[EOS] = -torch.inf
            seen = list(itertools.pairwise(text))
            for token in scores.argsort(descending=True).tolist():
                if not text or (text[-1], token) not in seen:
                    text.append(token)
                    break
    assert found.tokens == tuple(text)


@pytest.mark.parametrize("options", [BeamSearch(), JointBeamSearch()])
def test_loops_are_searched_again(options: BeamSearch | JointBeamSearch) -> None:
    asked = []

    def search(used):  # type: ignore[no-untyped-def]
        yield from ()
        asked.append(used.no_repeat_ngram)
        return [Hypothesis((1, 2, 3) if used.no_repeat_ngram else (7, 7, 7))]

    assert run_alone(without_loops(options, search, str, 0))[0].tokens == (1, 2, 3)
    assert asked == [0, 3]


def test_waiting_again_and_again_is_no_loop() -> None:
    """Over a pause, each step adds a wait token; words before it may still be a loop."""

    def searches(text: Tokens) -> int:
        asked = []

        def search(used):  # type: ignore[no-untyped-def]
            asked.append(used)
            yield from ()
            return [Hypothesis(text)]

        run_alone(without_loops(JointBeamSearch(), search, lambda tokens: "" if tokens == (9,) else "a", 5, 9))
        return len(asked)

    assert searches((9,) * 6) == 1
    assert searches((9,) * 5 + (7, 7, 7, 9)) == 2
