"""BWBS against ESPnet's; algorithm 1 (IBWBS) line by line on scripted scores; STOP inside both."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from fake import Asks, opened
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scripted import END, A, B, C, D, Script, texts_of
from tiny_search import EOS, Tiny

logging.disable(logging.WARNING)
from espnet.nets.batch_beam_search_online import BatchBeamSearchOnline  # noqa: E402

logging.disable(logging.NOTSET)

from simulst.calls import run_alone  # noqa: E402
from simulst.hypotheses import END as EOS_SEEN  # noqa: E402
from simulst.hypotheses import (  # noqa: E402
    Beam,
    Found,
    Hypothesis,
    Tokens,
    without_end,
)
from simulst.models.espnet.network.decoder import CachedDecoder  # noqa: E402
from simulst.needs import Need  # noqa: E402
from simulst.policy.context import Look  # noqa: E402
from simulst.policy.stop import CTC, AlignAtt, AnyOf, MaxTokens, Stop  # noqa: E402
from simulst.search import BWBS, IBWBS, JointBeamSearch, JointOptions, ctc  # noqa: E402
from simulst.search.beam import JointSearch, Running, joint_beam_search  # noqa: E402
from simulst.search.blockwise import BlockwiseBeamSearch, KeptSearch  # noqa: E402

torch.set_num_threads(1)
BLOCKS = [24, *[16] * 8]


def log_probs_of(model: Tiny, memory: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.ctc.log_softmax(memory[None])[0]


def pieces(memory: torch.Tensor) -> list[torch.Tensor]:
    """Frames in blocks, as the encoder writes them. The last piece may be longer, as at the end of the audio."""
    sizes = []
    left = len(memory)
    for size in BLOCKS:
        if left <= size:
            break
        sizes.append(size)
        left -= size
    return list(memory.split([*sizes, left]))


def ours(model: Tiny, memory: torch.Tensor, options: BWBS, keep: Callable[[Beam], Tokens]) -> tuple[list[Beam], Beam]:
    """The beams of all blocks but the last, and that of the last. keep: the tokens of a beam that are committed."""
    search = JointSearch(CachedDecoder(model.decoder), options, EOS, EOS)
    blockwise = BlockwiseBeamSearch(search, options)
    committed: Tokens = ()
    beams = []
    for piece in pieces(memory)[:-1]:
        search.append(piece, log_probs_of(model, piece))
        beams.append(run_alone(blockwise.step(committed, None, final=False)).beam)
        committed = keep(beams[-1])
    last = pieces(memory)[-1]
    search.append(last, log_probs_of(model, last))
    return beams, run_alone(blockwise.step(committed, None, final=True)).beam


def espnet(model: Tiny, memory: torch.Tensor, options: BWBS, incremental: bool) -> list[tuple[Tokens, float]]:
    search = BatchBeamSearchOnline(
        **model.for_espnet(options), disable_repetition_detection=not options.repetition, incremental_decode=incremental
    )
    with torch.no_grad():
        found = search(memory, is_final=True)
    return [(tuple(t for t in h.yseq.tolist() if t != EOS), float(h.score)) for h in found]


@settings(max_examples=8)
@given(
    st.integers(0, 10**6),
    st.integers(1, 56),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([-1.0, 1.0, 3.0]),
    st.booleans(),
    st.booleans(),
)
def test_bwbs_is_espnets(
    seed: int, frames: int, beam: int, ctc_weight: float, end: float, repetition: bool, incremental: bool
) -> None:
    """Equal token for token, with the beam kept over the blocks, and with only its best (which is committed then)."""
    model = Tiny(seed, end=end)
    memory = model.memory(seed, frames)
    options = BWBS(beam, ctc_weight, repetition=repetition)
    beams, found = ours(model, memory, options, lambda beam: beam[0].tokens if incremental else ())
    # Here the bound on the length counts the frames so far. In ESPnet it counts all frames that it got at once.
    sizes = [sum(BLOCKS[: n + 1]) for n in range(len(beams))]
    assume(all(len(b[0].tokens) < size - 1 for b, size in zip(beams, sizes, strict=True)))
    theirs = [h for h in espnet(model, memory, options, incremental) if h[1] > -1e8]
    assume(theirs and len(theirs[0][0]) < frames - 1)
    assert found[0].tokens == theirs[0][0]
    assert found[0].score == pytest.approx(theirs[0][1], abs=1e-3)


class ExactAdvance(JointSearch):
    """A search whose CTC scores in new frames are exact, and rank the hypotheses."""

    def advance(self, running: Running, exact: bool = True) -> Running:
        del exact
        advanced = super().advance(running)
        scores = self._scores(advanced)
        return replace(advanced, scores=scores)[np.argsort(-scores, kind="stable")]


@settings(max_examples=12)
@given(
    st.integers(0, 10**6),
    st.integers(1, 64),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 3),
    st.booleans(),
)
def test_bwbs_goes_on_over_frames_that_were_encoded_again(
    seed: int, frames: int, beam: int, ctc_weight: float, hold: int, repetition: bool
) -> None:
    """If the old frames come out the same again, so do the beams."""
    model = Tiny(seed)
    memory = model.memory(seed, frames)
    options = BWBS(beam, ctc_weight, repetition=repetition)

    def opened() -> JointSearch:
        return ExactAdvance(CachedDecoder(model.decoder), options, EOS, EOS)

    kept, again = BlockwiseBeamSearch(opened(), options), BlockwiseBeamSearch(opened(), options)
    committed: Tokens = ()
    parts = pieces(memory)
    for number, piece in enumerate(parts):
        kept.search.append(piece, log_probs_of(model, piece))
        so_far = torch.cat(parts[: number + 1])
        again.search = opened()
        again.search.append(so_far, log_probs_of(model, so_far))
        final = number == len(parts) - 1
        found, same = (run_alone(search.step(committed, None, final)).beam for search in (kept, again))
        assert [h.tokens for h in found] == [h.tokens for h in same]
        assert [h.score for h in found] == pytest.approx([h.score for h in same], abs=1e-3)
        best = found[0].tokens
        committed = max(committed, best[: max(0, len(best) - hold)], key=len)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 64), st.integers(1, 5), st.integers(0, 4), st.booleans())
def test_results_begin_with_what_is_committed(seed: int, frames: int, beam: int, hold: int, improved: bool) -> None:
    model = Tiny(seed)
    memory = model.memory(seed, frames)
    options = IBWBS(beam) if improved else BWBS(beam)
    search = JointSearch(CachedDecoder(model.decoder), options, EOS, EOS)
    kept = KeptSearch()
    committed: Tokens = ()
    parts = pieces(memory)
    for number, piece in enumerate(parts):
        search.append(piece, log_probs_of(model, piece))
        found = run_alone(kept.step(search, options, committed, None, number == len(parts) - 1)).beam
        assert 1 <= len(found) <= beam
        assert len({h.tokens for h in found}) == len(found)
        for hypothesis in found[: None if improved else 1]:
            assert hypothesis.tokens[: len(committed)] == committed
            assert EOS not in hypothesis.tokens and len(without_end(hypothesis.tokens)) <= search.room
        best = without_end(found[0].tokens)
        committed = max(committed, best[: max(0, len(best) - hold)], key=len)


# ---- scripted scores ----


class Run:
    """A search over scripted blocks, each of one frame."""

    def __init__(self, options: Any, *blocks: Mapping[Tokens, Mapping[int, float]], ctc: bool = False) -> None:
        self.options, self.kept = options, KeptSearch()
        self.search = JointSearch(Script(*blocks), options, END, END, ctc)

    def found(self, committed: Tokens = (), final: bool = False, stop: Any = None, ctc: Any = None) -> Found:
        """ctc: log posteriors of the block's frames, if there is more than one."""
        self.search.append(torch.zeros(1 if ctc is None else len(ctc), 1), ctc)
        stop = opened(stop) if stop else None
        if isinstance(self.options, JointBeamSearch):
            return Found(run_alone(joint_beam_search(self.search, committed, stop)))
        return run_alone(self.kept.step(self.search, self.options, committed, stop, final))

    def block(self, committed: Tokens = (), final: bool = False, stop: Any = None, ctc: Any = None) -> list[Tokens]:
        """Their texts: without the <eos> that COMMIT sees."""
        return [without_end(h.tokens) for h in self.found(committed, final, stop, ctc).beam]


def at(count: int, discard: int = 0) -> Stop:
    """A STOP that ends the search at a given number of new tokens."""
    return Asks(lambda view: len(view.tokens) >= count, discard=discard)


def options(beam: int = 2, step_back: int = 2, repetition: bool = False) -> IBWBS:
    return IBWBS(beam, ctc_weight=0.0, max_length_ratio=9.0, step_back=step_back, repetition=repetition)


def test_a_tie_stops_too() -> None:
    """Line 9, <=. (B C D) scores what (A) ended with, -1.0 exactly."""
    script: dict[Tokens, dict[int, float]] = {
        (): {A: -0.5, B: -0.5},
        (A,): {END: -0.5},
        (B,): {C: -0.25},
        (B, C): {D: -0.25},
        (B, C, D): {A: -0.25},
    }
    assert set(Run(options(), script).block()) == {(A,), (B, C, D)}


ABC: dict[Tokens, dict[int, float]] = {(): {A: -0.1}, (A,): {B: -0.1}, (A, B): {C: -0.1}, (A, B, C): {END: -0.1}}


@pytest.mark.parametrize("step_back", [0, 1, 2, 3])
def test_the_last_two_tokens_are_held_back(step_back: int) -> None:
    """Line 20; COMMIT sees <eos>, which counts as a token. If STOP ended the search, nothing is held back."""
    found = Run(options(1, step_back), ABC).found()
    assert (found.best, found.held_back) == ((A, B, C, EOS_SEEN), step_back)
    for stop in (MaxTokens(2), at(2), at(3, discard=1)):
        found = Run(options(1, step_back), ABC).found(stop=stop)
        assert (found.best, found.held_back) == ((A, B), 0)
    found = Run(options(1, step_back), ABC).found(stop=MaxTokens(4))
    assert (found.best, found.held_back) == ((A, B, C, EOS_SEEN), step_back)
    # The bound on the length is not a STOP.
    found = Run(replace(options(1, step_back), max_length_ratio=2.0), ABC).found(stop=MaxTokens(3))
    assert (found.best, found.held_back) == ((A, B), step_back)


KINDS: list[JointOptions] = [
    JointBeamSearch(1, 0.0, max_length_ratio=9.0),
    BWBS(1, 0.0, max_length_ratio=9.0, repetition=False),
    IBWBS(1, 0.0, max_length_ratio=9.0),
]


@pytest.mark.parametrize("kind", KINDS, ids=["joint", "BWBS", "IBWBS"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_each_block_writes_as_many_tokens_as_max_tokens_says(kind: JointOptions, n: int) -> None:
    endless: dict[Tokens, dict[int, float]] = {(A,) * length: {A: -0.1} for length in range(30)}
    run = Run(kind, *[endless] * 3)
    committed: Tokens = ()
    for block in range(1, 4):
        found = run.found(committed, stop=MaxTokens(n))
        committed = found.best[: len(found.best) - found.held_back]
        assert committed == (A,) * (n * block)


@pytest.mark.parametrize("kind", KINDS, ids=["joint", "BWBS", "IBWBS"])
@pytest.mark.parametrize("discard", range(5))
@pytest.mark.parametrize("committed", [(), (A,), (A, B)])
def test_stop_gives_up_what_it_says(kind: JointOptions, discard: int, committed: Tokens) -> None:
    """Committed tokens are not dropped. Dropped tokens are searched again, here with another result."""
    again: dict[Tokens, dict[int, float]] = {text: {D: -0.1} for text in ABC}
    run = Run(kind, ABC, again)
    kept = (A, B, C)[: max(len(committed), 3 - discard)]
    found = run.found(committed, stop=at(3 - len(committed), discard))
    assert (found.best, found.held_back) == (kept, 0)
    # Only BWBS continues from its own beam. The others continue from the committed tokens.
    begun = kept if isinstance(kind, BWBS) else committed
    assert run.block(committed, stop=at(len(kept) + 1 - len(committed))) == [(*begun, D)]


@pytest.mark.parametrize("kind", [JointBeamSearch, BWBS, IBWBS])
@pytest.mark.parametrize("exact", [False, True])
def test_the_ctc_policy_discards_the_last_token(kind: Any, exact: bool) -> None:
    """The CTC layer predicts A B C and no more, so the search ends after A B C, and STOP drops C."""
    heard = torch.full((8, END + 1), 0.02)
    for frame, label in enumerate([A, A, 0, B, 0, C, C, 0]):
        heard[frame, label] = 1 - 0.02 * END
    script = {**ABC, (A, B, C): {D: -0.1}, (A, B, C, D): {A: -0.1}}
    run = Run(kind(1, 0.0, max_length_ratio=9.0), script, ctc=True)
    assert run.block(stop=CTC(0.0, exact), ctc=heard.log()) == [(A, B)]


def test_what_stopped_before_competes_with_what_stop_ended() -> None:
    """(A) ended in the first step; STOP ends the search at (B C)."""
    script: dict[Tokens, dict[int, float]] = {
        (): {A: -0.5, B: -0.25},
        (A,): {END: -0.5},
        (B,): {C: -0.25},
        (B, C): {D: -0.25},
    }
    assert Run(options(), script).block(stop=at(2)) == [(B, C), (A,)]
    # Once seen, the worse one by score per token may be what STOP ends.
    script[()] = {A: -0.5, B: -2.0}
    run = Run(options(), script, script)
    assert run.block() == [(A,), (B, C)]
    assert run.block(stop=at(3)) == [(A,), (B, C, D)]


BACK = BWBS(1, 0.0, max_length_ratio=9.0, repetition=True)


def test_bwbs_gives_up_tokens_and_keeps_its_beam() -> None:
    """STOP drops two tokens, so the beam is that of the time when (A) and (B) were running."""
    script: dict[Tokens, dict[int, float]] = {(): {A: -0.1, B: -0.2}, (A,): {C: -0.1}, (B,): {C: -0.1}}
    script |= {(A, C): {D: -0.1}, (B, C): {D: -0.1}, (A, C, D): {A: -0.1}, (B, C, D): {A: -0.1}}
    run = Run(replace(BACK, beam=2), script)
    assert run.block(stop=at(3, discard=2)) == [(A,), (B,)]


def test_bwbs_gives_up_tokens_of_earlier_blocks_too() -> None:
    """When (A) is committed, the beams before (A B C) are dropped. The search starts again from the best hypothesis."""
    run = Run(BACK, ABC, ABC, {**ABC, (A, B): {D: -0.1}})
    assert run.block(stop=at(3)) == [(A, B, C)]
    assert run.block((A,), stop=at(2, discard=1)) == [(A, B)]
    assert run.block((A,), stop=at(2)) == [(A, B, D)]


@pytest.mark.parametrize(("first", "kept", "score"), [(0, (B, C), -0.2 - 0.4), (1, (A, C), -0.1 - 0.4)])
def test_scores_stay_when_tokens_leave_the_window(first: int, kept: Tokens, score: float) -> None:
    """One of the committed tokens A, B and C leaves: the first, or the one after a token of the language."""
    script: dict[Tokens, dict[int, float]] = {(): {A: -0.1}, (A,): {B: -0.2}, (A, B): {C: -0.4}}
    run = Run(options(1), script, {kept: {D: -0.8}, (*kept, D): {END: -1.6}})
    assert run.block() == [(A, B, C)]
    run.kept.slide((A, B, C), first, 1)
    [found] = run.found(kept).beam
    assert (without_end(found.tokens), found.score) == ((*kept, D), pytest.approx((score - 0.8 - 1.6) / 4))


def test_scores_of_other_tokens_are_forgotten() -> None:
    """If the committed tokens are not those that the search found, their scores are unknown."""
    run = Run(options(1), ABC, {(C,): {D: -0.8}, (C, D): {END: -1.6}})
    run.block()
    run.kept.slide((B, C), 0, 1)
    [found] = run.found((C,)).beam
    assert found.score == pytest.approx((-0.8 - 1.6) / 3)


def counting(grown: list[int]) -> Callable[..., Any]:
    """`ctc._follow_all`, which also tells over how many frames it goes."""
    follow_all = ctc._follow_all

    def counted(forward: np.ndarray, *args: Any) -> Any:
        grown.append(forward.shape[2] - 1)
        return follow_all(forward, *args)

    return counted


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.lists(st.tuples(st.integers(1, 20), st.integers(0, 3)), min_size=1, max_size=6))
def test_the_ctc_layer_reads_committed_tokens_once(seed: int, blocks: list[tuple[int, int]]) -> None:
    """A block costs only its own frames, and its states equal those of a search that starts with this block."""
    model = Tiny(seed)
    memory = model.memory(seed, sum(frames for frames, _ in blocks))
    search = JointSearch(CachedDecoder(model.decoder), IBWBS(), EOS, EOS)
    committed: Tokens = ()
    for frames, tokens in blocks:
        piece = memory[search.frames : search.frames + frames]
        search.append(piece, log_probs_of(model, piece))
        grown: list[int] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ctc, "_follow_all", counting(grown))
            prefixes = search.start(committed).prefixes
        assert sum(grown) == frames and prefixes is not None
        fresh = JointSearch(CachedDecoder(model.decoder), IBWBS(), EOS, EOS)
        heard = memory[: search.frames]
        fresh.append(heard, log_probs_of(model, heard))
        wanted = fresh.start(committed).prefixes
        assert wanted is not None
        for field in ("tokens", "score", "forward", "frontier"):
            np.testing.assert_allclose(getattr(prefixes, field), getattr(wanted, field), atol=1e-5, rtol=1e-5)
        committed += tuple(range(1 + len(committed), 1 + len(committed) + tokens))


@pytest.mark.parametrize("options", [BWBS(), IBWBS()])
@pytest.mark.parametrize("final", [False, True])
def test_too_few_frames_for_the_committed_tokens(options: BWBS | IBWBS, final: bool) -> None:
    """The CTC layer needs a blank between equal tokens: five do not fit into eight frames."""
    model = Tiny(0)
    search, kept = JointSearch(CachedDecoder(model.decoder), options, EOS, EOS), KeptSearch()
    for frames, last in ((8, final), (30, True)):
        memory = model.memory(0, frames)
        search.append(memory, log_probs_of(model, memory))
        found = run_alone(kept.step(search, options, (4,) * 5, None, last)).beam
        assert all(h.tokens[:5] == (4,) * 5 for h in found)
        if frames == 8:
            assert found == [Hypothesis((4,) * 5)]
        if final:
            return


# ---- STOP ----


def brute_odds(log_probs: torch.Tensor, text: Tokens, favourite: int | None) -> float:
    """log Odds_end by enumeration of all alignments."""
    texts, place = texts_of(log_probs), len(text)
    longer = [(one[place], p) for one, p in texts.items() if len(one) > place and one[:place] == text]
    # Without a favourite: any token but the layer's own <sos/eos>.
    more = sum(p for token, p in longer if (token != END if favourite is None else token == favourite))
    return math.log(texts[text]) - math.log(more)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 3), max_size=2))
def test_the_odds_of_the_ctc_policy(seed: int, text: list[int]) -> None:
    """Equations 4 and 5 against enumeration."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(5, END + 1, generator=generator)
    log_probs = torch.log_softmax(scores.double(), -1)  # sums in float32 differ by more than 1e-6
    script: dict[Tokens, dict[int, float]] = {tuple(text): {END: -0.1, C: -0.5, B: -0.9}}
    if text and text[-1] == text[0] and len(text) == 2:
        text = text[:1]
        script = {tuple(text): {END: -0.1, C: -0.5, B: -0.9}}
    for stop, favourite in ((CTC(0.0), C), (CTC(0.0, exact=True), None)):
        search = JointSearch(Script(*[script] * 5), options(1), END, END, with_ctc=True)
        search.append(torch.zeros(5, 1), log_probs)
        running = search.start(tuple(text))
        # One append is one block to the script.
        odds = brute_odds(log_probs, tuple(text), favourite)
        seen: list[float] = []
        look = Asks(lambda view: seen.append(view.odds_of_end(stop.exact)), frozenset({Need.CTC}))  # noqa: B023
        run_alone(search.grow(running, opened(look)))
        assert seen == pytest.approx([odds], abs=1e-6)
        # The policy stops if the threshold is a little lower than the odds, and not if it is a little higher.
        assert run_alone(search.grow(running, opened(replace(stop, threshold=odds - 0.01)))) is None
        assert run_alone(search.grow(running, opened(replace(stop, threshold=odds + 0.01)))) is not None


def test_align_att_stops_before_the_token_that_looks_at_the_last_frames() -> None:
    model = Tiny(7, end=-100)
    memory = model.memory(2, 40)
    search = JointSearch(CachedDecoder(model.decoder), JointBeamSearch(1, 0.0), EOS, EOS)
    search.append(memory)
    whole = run_alone(joint_beam_search(search, (), opened(MaxTokens(12))))[0].tokens
    positions: list[float] = []
    look = Asks(lambda view: positions.append(view.frames_left(Look(((1, 0),)))), frozenset({Need.ATTENTION}))
    for length in range(12):
        run_alone(search.grow(search.start(whole[:length]), opened(look)))
    for frames in (1, 5, 20, 40):
        first = next((i for i, left in enumerate(positions) if left < frames), 12)
        stop = opened(AnyOf((AlignAtt(frames, (-1,), (0,)), MaxTokens(12))), layers=2, heads=2)
        assert run_alone(joint_beam_search(search, (), stop))[0].tokens == whole[:first]
