import math
from typing import Any

import numpy as np
import pytest
import torch
from fake import opened
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tiny_search import EOS, SIZE, Tiny

from simulst.calls import Batched, run_alone
from simulst.errors import SimulstError, warn_once
from simulst.hypotheses import Hypothesis, Tokens
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.policy.context import WaitToken
from simulst.policy.stop import EndOfSentence, MaxTokens, Token
from simulst.search import JointBeamSearch
from simulst.search.beam import DecoderStep, JointSearch, Running, joint_beam_search, ranked, texts
from simulst.search.ctc import CTCPrefixScorer

torch.set_num_threads(1)  # on so little, threads only wait for each other


@settings(max_examples=30)
@given(
    st.integers(0, 10**6),
    st.integers(1, 24),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.3, 0.5]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([-2.0, 1.0, 4.0]),
)
def test_equal_to_espnet(seed: int, frames: int, beam: int, ctc_weight: float, bonus: float, end: float) -> None:
    """The whole beam is equal, token for token, if the search ends by itself."""
    model = Tiny(seed, end=end)
    memory = model.memory(seed, frames)
    options = JointBeamSearch(beam, ctc_weight, bonus)
    ours, theirs = model.search(memory, options), model.espnet(memory, options)[:beam]
    assert [h.tokens for h in ours] == [text for text, _ in theirs]
    assert [h.score for h in ours] == pytest.approx([score for _, score in theirs], abs=1e-3)


def test_equal_to_espnet_where_the_length_bound_ends_it() -> None:
    model = Tiny(3, end=-100)
    memory = model.memory(0, 12)
    for ratio in (0.1, 0.25, 1.0):
        ours = model.search(memory, JointBeamSearch(5, 0.3, max_length_ratio=ratio))
        theirs = model.espnet(memory, JointBeamSearch(5, 0.3), ratio)
        assert [h.tokens for h in ours] == [text for text, _ in theirs]


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 30), st.lists(st.integers(1, EOS - 1), max_size=8), st.integers(1, 6))
def test_results_begin_with_the_prefix(seed: int, frames: int, prefix: list[int], beam: int) -> None:
    model = Tiny(seed)
    found = model.search(model.memory(seed, frames), JointBeamSearch(beam), tuple(prefix))
    assert 1 <= len(found) <= beam
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    assert len({h.tokens for h in found}) == len(found)
    for hypothesis in found:
        assert hypothesis.tokens[: len(prefix)] == tuple(prefix)
        assert EOS not in hypothesis.tokens and all(isinstance(t, int) for t in hypothesis.tokens)
        assert math.isfinite(hypothesis.score)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(5, 20), st.sampled_from([0.0, 0.3]))
def test_a_prefix_of_the_greedy_text_changes_nothing(seed: int, frames: int, ctc_weight: float) -> None:
    """After forced tokens, the decoder and the CTC scores are the same as if the search had found these tokens."""
    model = Tiny(seed)
    memory = model.memory(seed, frames)
    options = JointBeamSearch(1, ctc_weight)
    whole = model.search(memory, options)[0].tokens
    for length in range(len(whole) + 1):
        assert model.search(memory, options, whole[:length])[0].tokens == whole


class Counted(CachedDecoder):
    """A decoder that counts how often it reads."""

    reads = 0

    def read_together(self, reads: Any) -> Any:
        self.reads += 1
        return super().read_together(reads)


@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.integers(3, 20),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0, 2]),
    st.sampled_from([None, 1, 4]),
    st.data(),
)
def test_a_draft_changes_no_word(
    seed: int, frames: int, ctc_weight: float, bonus: float, ngram: int, most: int | None, data: st.DataObject
) -> None:
    """Whatever the draft is: its right beginning is read at once, and the rest is as if there were none."""
    model = Tiny(seed)
    memory = model.memory(seed, frames)
    options = JointBeamSearch(1, ctc_weight, bonus, no_repeat_ngram=ngram, draft=True)
    prefix = tuple(data.draw(st.lists(st.integers(1, EOS - 1), max_size=3)))
    alone, drafted = Counted(model.decoder), Counted(model.decoder)
    expected = model.search(memory, options, prefix, most, decoder=alone)
    found = expected[0].tokens[len(prefix) :]
    right = data.draw(st.integers(0, len(found)))
    draft = found[:right] + tuple(data.draw(st.lists(st.integers(1, EOS - 1), max_size=4)))
    same = next((i for i, pair in enumerate(zip(draft, found, strict=False)) if pair[0] != pair[1]), right)
    ours = model.search(memory, options, prefix, most, draft, drafted)
    assert [h.tokens for h in ours] == [h.tokens for h in expected]
    assert [h.score for h in ours] == pytest.approx([h.score for h in expected], abs=1e-4)
    assert drafted.reads <= max(min(alone.reads, 1), alone.reads - same)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.integers(6, 12), st.sampled_from([0.0, 0.3, 0.7]), st.booleans())
def test_a_wait_token_ends_the_text_of_a_step(seed: int, frames: int, ctc_weight: float, complete: bool) -> None:
    """All texts that end with it, as scored one by one; the CTC layer knows neither it nor the token of the lag.

    It says how likely nothing more was heard, or only how likely the text was.
    """
    model, wait, lag = Tiny(seed), 7, 5
    memory, prefix = model.memory(seed, frames), (lag, 3, wait, wait, wait)
    decoder, log_probs = CachedDecoder(model.decoder), model.ctc.log_softmax(memory[None])[0].detach()

    def spoken(tokens: Tokens) -> Tokens:
        return tuple(token for token in tokens if token not in (wait, lag))

    most = (len(prefix) + 2.5) / frames
    options = JointBeamSearch(SIZE**2, ctc_weight, max_length_ratio=most, no_repeat_ngram=3)  # waiting may repeat
    search = JointSearch(decoder, options, EOS, EOS, wait=wait, spoken=spoken)
    search.append(memory, log_probs)
    stop = opened(Token(0, complete), wait=WaitToken(wait, {0: (lag,)}, 1.0, 1.0))
    found = {h.tokens: h.score for h in run_alone(joint_beam_search(search, prefix, stop))}
    expected: dict[Tokens, float] = {}
    for new in [(), *((token,) for token in range(1, EOS) if token not in (wait, lag))]:
        score = 0.0
        for place, token in enumerate((*new, wait)):
            log_p, _ = decoder.prefill(torch.tensor([EOS, *prefix, *new[:place]]), search.memory)
            score += float(log_p[0, token])
        text = torch.tensor([spoken(prefix + new)])
        ctc = torch.nn.functional.ctc_loss(log_probs[:, None], text, (frames,), text.shape[1:], reduction="sum")
        if not complete:
            ctc = -CTCPrefixScorer(log_probs).over(text.numpy()).score[0]
        expected[(*prefix, *new, wait)] = (1 - ctc_weight) * score - ctc_weight * float(ctc)
    given = found[*prefix, wait] - expected[*prefix, wait]
    assert {text: found[text] - given for text in expected} == pytest.approx(expected, abs=1e-3)
    for other in (None, opened(MaxTokens(2)), opened(EndOfSentence())):
        found = {h.tokens: h.score for h in run_alone(joint_beam_search(search, prefix, other))}
        assert len(found) > 1 and not any(wait in text[len(prefix) :] for text in found)


def test_nothing_can_follow() -> None:
    model = Tiny(0)
    assert [h.tokens for h in model.search(model.memory(0, 0), JointBeamSearch(), (4, 5))] == [(4, 5)]
    assert [h.tokens for h in model.search(model.memory(0, 2), JointBeamSearch(), (4, 5))] == [(4, 5)]
    # The CTC layer needs a blank between equal tokens: five do not fit into eight frames.
    assert [h.tokens for h in model.search(model.memory(0, 8), JointBeamSearch(), (4,) * 5)] == [(4,) * 5]
    assert len(model.search(model.memory(0, 8), JointBeamSearch(ctc_weight=0.0), (4,) * 5)) > 1


def test_a_beam_wider_than_the_vocabulary() -> None:
    model = Tiny(0)
    memory = model.memory(0, 3)
    assert len(model.search(memory, JointBeamSearch(3 * SIZE))) <= 3 * SIZE
    assert len({h.tokens for h in model.search(memory, JointBeamSearch(3 * SIZE, 0.0))}) > SIZE


def test_a_broken_checkpoint() -> None:
    model = Tiny(0)
    with torch.no_grad():
        model.decoder.output_layer.bias[3] = math.nan
    for ctc_weight in (0.0, 0.3):
        with pytest.raises(SimulstError, match="decoder's scores are not numbers"):
            model.search(model.memory(0, 9), JointBeamSearch(ctc_weight=ctc_weight))
    with pytest.raises(SimulstError, match="CTC layer's scores are not numbers"):
        Tiny(0).search(model.memory(0, 9) * math.nan, JointBeamSearch())


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(8, 40), st.integers(1, 6), st.integers(1, 4))
def test_a_batch_of_hypotheses_is_scored_as_each_alone(seed: int, frames: int, beam: int, steps: int) -> None:
    model = Tiny(seed, end=-4)
    memory = model.memory(seed, frames)
    with torch.no_grad():
        log_probs = model.ctc.log_softmax(memory[None])[0]
    search = JointSearch(CachedDecoder(model.decoder), JointBeamSearch(beam), EOS, EOS)
    search.append(memory, log_probs)
    running = search.start((3,))

    def grown(running: Running) -> dict[tuple[Tokens, bool], float]:
        """The best continuations, and whether they ended: their scores, best first."""
        chosen = run_alone(search.grow(running))
        assert chosen is not None
        parts = ((texts(chosen.running), False), (texts(chosen.ended), True))
        found = {(h.tokens, ends): h.score for part, ends in parts for h in part}
        best = sorted(found, key=lambda text: -found[text])
        assert [ends for _, ends in best] == chosen.ends.tolist()
        return {text: found[text] for text in best}

    for _ in range(steps):
        chosen = run_alone(search.grow(running))
        assert chosen is not None
        running = chosen.running
        assume(len(running))  # a search ends where no hypothesis is left
    together, alone, forced = grown(running), {}, {}
    for row in range(len(running)):
        alone |= grown(running[np.array([row])])
        forced |= grown(search.start(tuple(running.tokens[row].tolist()), running.attention[row]))
    best = sorted(alone.values(), reverse=True)[:beam]
    np.testing.assert_allclose(list(together.values()), best, atol=1e-5, rtol=0)
    for text, score in together.items():
        assert alone[text] == pytest.approx(score, abs=1e-5) and forced[text] == pytest.approx(score, abs=1e-4)


def test_a_text_that_comes_twice_keeps_its_better_place() -> None:
    found = [Hypothesis((2,), -2.0), Hypothesis((1,), -3.0), Hypothesis((1,), -1.0), Hypothesis((3,), -4.0)]
    assert ranked(found, 2) == [Hypothesis((1,), -1.0), Hypothesis((2,), -2.0)]


def test_hypotheses_that_never_end_are_cut_and_told(caplog: pytest.LogCaptureFixture) -> None:
    options = JointBeamSearch(beam=2, ctc_weight=0.0, max_length_ratio=1.0)

    def length(end: float) -> int:
        search = JointSearch(CachedDecoder(Tiny(0, end=end).decoder), options, EOS, EOS)
        search.append(Tiny(0).memory(0, 7))
        return len(run_alone(joint_beam_search(search, ()))[0].tokens)

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name.startswith("simulst")]

    warn_once.cache_clear()
    assert length(-50.0) == length(-50.0) == 7
    [said] = told()
    assert said.startswith("search: no hypothesis ended within max_length_ratio")
    warn_once.cache_clear()
    assert length(50.0) == 0
    assert len(told()) == 1


def test_steps_that_share_a_batch_in_low_precision() -> None:
    """As many rows and as many next tokens: which of equal ones are chosen depends on how many are wanted."""

    class Half:
        most_rows = 16
        together = staticmethod(lambda *_: ())

    def step(rows: int, count: int) -> Batched:
        decoder: Any = Half()
        return DecoderStep(decoder, np.zeros((rows, 1), np.int64), None, None, count, EOS, torch.device("cpu")).call

    keys = [step(rows, count).together for rows, count in ((3, 4), (3, 4), (3, 5), (2, 4), (16, 4), (17, 4))]
    assert keys[0] == keys[1] and len(set(keys)) == len(keys) - 1 and keys[-1] is None
    assert [step(rows, 4).most for rows in (1, 3, 16, 17)] == [16, 5, 1, 1]
