"""A search is given up only if it can find nothing that is wanted."""

import math
from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_search import EOS, SIZE, Tiny

from simulst.calls import Steps
from simulst.hypotheses import Hypothesis, Tokens
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.prefix.align import Hopeless
from simulst.search import JointBeamSearch
from simulst.search.beam import JointSearch, joint_beam_search
from simulst.streams.driver import Driver


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
    free = search_all(CachedDecoder(tiny.decoder), frames, prefixes, options)
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
    decoder = CachedDecoder(tiny.decoder)
    [text] = search_all(decoder, frames, [()], options)
    assert len(text) > 4
    steps, step = [], decoder.step
    decoder.step = lambda *given, **how: steps.append(1) or step(*given, **how)  # type: ignore[method-assign, func-returns-value]
    wanted = tuple(token for token in range(1, SIZE - 1) if token not in text)[:3]
    assert search_all(decoder, frames, [()], options, [wanted]) == [()]
    assert len(steps) < 3
