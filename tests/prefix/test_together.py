"""Many utterances searched at once find what each of them finds alone."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_search import EOS, SIZE, WIDTH, Tiny

from simulst.calls import Steps
from simulst.errors import SimulstError
from simulst.hypotheses import Hypothesis, Tokens
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.prefix.align import Hopeless
from simulst.search import JointBeamSearch
from simulst.search.beam import JointSearch, Read, joint_beam_search
from simulst.streams.driver import Driver

utterances = st.lists(
    st.tuples(st.integers(0, 9), st.lists(st.integers(1, SIZE - 2), max_size=4).map(tuple)), min_size=1, max_size=6
)


def search_all(
    decoder: CachedDecoder,
    frames: Sequence[torch.Tensor],
    prefixes: Sequence[Tokens],
    options: JointBeamSearch,
    wanted: Sequence[Tokens | None] | None = None,
    endings: Sequence[int] = (),
) -> list[Tokens]:
    """The best text of each utterance. wanted: see `Hopeless`."""

    def search(row: int) -> Steps[list[Hypothesis]]:
        joint = JointSearch(decoder, options, EOS, EOS)
        joint.append(frames[row])
        want = wanted[row] if wanted else None
        give_up = None if want is None else Hopeless(want, len(prefixes[row]), frozenset(endings), options)
        return joint_beam_search(joint, prefixes[row], results=1, give_up=give_up)

    driver = Driver(longest_wait=math.inf)
    found = [driver.run(search(row)) for row in range(len(frames))]
    driver.finish()
    return [beam.result()[0].tokens for beam in found]


def found_together(
    tiny: Tiny, frames: list[torch.Tensor], prefixes: list[Tokens], options: JointBeamSearch
) -> list[Tokens]:
    return search_all(CachedDecoder(tiny.decoder), frames, prefixes, options)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    some=utterances,
    beam=st.sampled_from([1, 2, 5, 30]),
    bonus=st.sampled_from([0.0, 0.7]),
    ratio=st.sampled_from([0.4, 1.0, 2.0]),
    end=st.sampled_from([-2.0, 1.0, 4.0]),
)
def test_as_one_by_one(
    seed: int, some: list[tuple[int, Tokens]], beam: int, bonus: float, ratio: float, end: float
) -> None:
    tiny = Tiny(seed, end=end)
    options = JointBeamSearch(beam=beam, ctc_weight=0.0, length_bonus=bonus, max_length_ratio=ratio)
    frames = [tiny.memory(seed + i, count) for i, (count, _) in enumerate(some)]
    prefixes = [prefix for _, prefix in some]
    alone = [tiny.search(one, options, prefix)[0].tokens for one, prefix in zip(frames, prefixes, strict=True)]
    assert found_together(tiny, frames, prefixes, options) == alone


def useful(text: Tokens, wanted: Tokens, endings: list[int]) -> bool:
    """Whether it is a prefix of what is wanted, but for endings."""
    return any(
        text[:cut] == wanted[:cut] and set(text[cut:]) <= set(endings) and cut <= len(wanted)
        for cut in range(len(text) + 1)
    )


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    some=st.lists(
        st.tuples(
            st.integers(1, 9),
            st.lists(st.integers(1, SIZE - 2), max_size=2).map(tuple),
            st.integers(0, 9),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    endings=st.lists(st.integers(1, SIZE - 2), max_size=3),
    beam=st.sampled_from([1, 2, 5]),
    bonus=st.sampled_from([0.0, 0.7]),
    end=st.sampled_from([-2.0, 1.0, 4.0]),
)
def test_what_is_wanted_is_found_and_nothing_else_is_taken_for_it(
    seed: int,
    some: list[tuple[int, Tokens, int, bool]],
    endings: list[int],
    beam: int,
    bonus: float,
    end: float,
) -> None:
    tiny = Tiny(seed, end=end)
    options = JointBeamSearch(beam=beam, ctc_weight=0.0, length_bonus=bonus, max_length_ratio=1.5)
    frames = [tiny.memory(seed + i, count) for i, (count, *_) in enumerate(some)]
    prefixes = [prefix for _, prefix, *_ in some]
    free = found_together(tiny, frames, prefixes, options)
    wanted: list[Tokens | None] = []
    for text, (_, prefix, changed, anything) in zip(free, some, strict=True):
        # What would be found, what goes on after it, or what differs from it somewhere.
        other = (*text, 3, 4)
        other = tuple(1 + token % (SIZE - 2) if len(prefix) + changed == i else token for i, token in enumerate(other))
        wanted.append(None if anything else other)
    found = search_all(CachedDecoder(tiny.decoder), frames, prefixes, options, wanted, endings)
    for text, result, prefix, want in zip(free, found, prefixes, wanted, strict=True):
        if want is None or useful(text, want, endings):
            assert result == text
        else:
            assert result in (text, prefix)


def test_a_search_is_given_up_once_nothing_useful_can_win() -> None:
    tiny = Tiny(5, end=-2.0)
    options = JointBeamSearch(beam=2, ctc_weight=0.0, max_length_ratio=2.0)
    frames = [tiny.memory(1, 9)]
    [text] = found_together(tiny, frames, [()], options)
    assert len(text) > 4
    decoder = CachedDecoder(tiny.decoder)
    steps, step = [], decoder.step
    decoder.step = lambda *given, **how: steps.append(1) or step(*given, **how)  # type: ignore[method-assign, func-returns-value]
    wanted = tuple(token for token in range(1, SIZE - 1) if token not in text)[:3]
    assert search_all(decoder, frames, [()], options, [wanted]) == [()]
    assert len(steps) < 3


def test_prefixes_longer_than_the_room_are_left_as_they_are() -> None:
    tiny = Tiny(0)
    options = JointBeamSearch(beam=2, ctc_weight=0.0)
    frames = [tiny.memory(0, 3), torch.zeros(0, WIDTH)]
    assert found_together(tiny, frames, [(1, 2, 3, 4), (5,)], options) == [(1, 2, 3, 4), (5,)]


def test_the_decoder_batched_equals_the_decoder() -> None:
    tiny = Tiny(3)
    decoder = CachedDecoder(tiny.decoder)
    frames = [tiny.memory(seed, count) for seed, count in ((1, 4), (2, 9))]
    prefixes = [(EOS, 3), (EOS, 5, 6, 7)]
    memories = [decoder.memory() for _ in frames]
    for memory, one in zip(memories, frames, strict=True):
        memory.append(one)
    log_p, states = decoder.read_together(
        [Read(torch.tensor(prefix), None, memory, True) for prefix, memory in zip(prefixes, memories, strict=True)]
    )
    tokens, both = torch.tensor([[8, 9], [10, 11]]), torch.tensor([0, 0])
    third = Read(torch.tensor((EOS, 1, 2)), None, memories[0], False)  # one begins while the others go on
    steps = [Read(tokens[row], states[row][both], memories[row], row == 1) for row in range(2)]
    more, after = decoder.read_together([steps[0], third, steps[1]])
    for row, (memory, prefix) in enumerate(zip(memories, prefixes, strict=True)):
        expected, read = decoder.prefill(torch.tensor(prefix), memory, attention=True)
        torch.testing.assert_close(log_p[row : row + 1], expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(states[row].attention, read.attention, atol=1e-5, rtol=1e-5)
        expected, read = decoder.step(tokens[row], read[both], memory, attention=row == 1)
        torch.testing.assert_close(more[3 * row : 3 * row + 2], expected, atol=1e-5, rtol=1e-5)
        if row == 1:
            torch.testing.assert_close(after[2].attention, read.attention, atol=1e-5, rtol=1e-5)
    expected, _ = decoder.prefill(third.tokens, memories[0])
    torch.testing.assert_close(more[2:3], expected, atol=1e-5, rtol=1e-5)


def test_one_of_many_is_not_a_number() -> None:
    """It ends with its error, and the others find what they find alone."""
    tiny = Tiny(0)
    decoder, driver, options = CachedDecoder(tiny.decoder), Driver(math.inf), JointBeamSearch(ctc_weight=0.0)
    frames = [tiny.memory(1, 5), tiny.memory(0, 3) * torch.nan, tiny.memory(2, 7)]
    found = []
    for one in frames:
        search = JointSearch(decoder, options, EOS, EOS)
        search.append(one)
        found.append(driver.run(joint_beam_search(search, ())))
    driver.finish()
    with pytest.raises(SimulstError, match="NaN"):
        found[1].result()
    for place in (0, 2):
        expected = tiny.search(frames[place], options)
        assert [h.tokens for h in found[place].result()] == [h.tokens for h in expected]
        assert [h.score for h in found[place].result()] == pytest.approx([h.score for h in expected], abs=1e-4)
