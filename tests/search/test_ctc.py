import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from espnet.nets.ctc_prefix_score import CTCPrefixScoreTH
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import texts_of

from simulst.errors import SimulstError
from simulst.search.ctc import CTCPrefixes, CTCPrefixScorer

VOCABULARY = 4  # blank and three labels
EOS = 10  # of the larger vocabulary that is compared with ESPnet

seeds = st.integers(0, 10**6)


def posteriors(seed: int, frames: int, size: int = VOCABULARY, sharp: float = 2.0) -> torch.Tensor:
    scores = torch.randn(frames, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.log_softmax(scores * sharp, -1)


def all_scores(scorer: CTCPrefixScorer, prefixes: CTCPrefixes) -> np.ndarray:
    """Each prefix followed by each token of the vocabulary, (n, V)."""
    size = len(scorer._posteriors)
    return scorer.score(prefixes, np.tile(np.arange(size), (len(prefixes.score), 1)))


def log_sum(texts: dict[tuple[int, ...], float], begin: tuple[int, ...]) -> float:
    p = math.fsum(p for text, p in texts.items() if text[: len(begin)] == begin)
    return math.log(p) if p > 0 else -math.inf


def assert_equal(ours: Any, wanted: Any, atol: float = 1e-9) -> None:
    """Compare log probabilities; -inf equals -inf."""
    np.testing.assert_allclose(ours, wanted, atol=atol, rtol=1e-12, equal_nan=False)


def assert_same(ours: CTCPrefixes, wanted: CTCPrefixes) -> None:
    assert np.array_equal(ours.tokens, wanted.tokens)
    for field in ("score", "forward", "frontier", "complete"):
        assert_equal(getattr(ours, field), getattr(wanted, field))


def extended(scorer: CTCPrefixScorer, prefixes: CTCPrefixes, token: int) -> CTCPrefixes:
    count = len(prefixes.score)
    return scorer.extend(prefixes, np.arange(count), np.full(count, token))


@settings(max_examples=60)
@given(seeds, st.integers(0, 6), st.lists(st.integers(1, 3), max_size=4), st.data())
def test_equal_to_enumeration(seed: int, frames: int, prefix: list[int], data: st.DataObject) -> None:
    """The order does not matter: some frames, some tokens, then the rest of both."""
    log_probs = posteriors(seed, frames)
    texts, text = texts_of(log_probs), tuple(prefix)
    cut = data.draw(st.integers(0, frames))
    forced, chosen = (data.draw(st.integers(0, len(text))) for _ in range(2))
    scorer = CTCPrefixScorer(log_probs[:cut])
    prefixes = scorer.force(text[:forced])
    for token in text[forced : max(forced, chosen)]:
        prefixes = extended(scorer, prefixes, token)
    scorer.append(log_probs[cut:])
    prefixes = scorer.advance(prefixes)
    for token in text[max(forced, chosen) :]:
        prefixes = extended(scorer, prefixes, token)
    assert tuple(prefixes.tokens[0].tolist()) == text and prefixes.frames == frames
    assert prefixes.score[0] == pytest.approx(log_sum(texts, text), abs=1e-9)
    assert prefixes.complete[0] == pytest.approx(math.log(texts[text]) if text in texts else -math.inf, abs=1e-9)
    wanted = [-math.inf] + [log_sum(texts, (*text, label)) for label in range(1, VOCABULARY)]
    assert scorer.score(prefixes, np.arange(VOCABULARY)[None])[0].tolist() == pytest.approx(wanted, abs=1e-9)
    assert all_scores(scorer, prefixes)[0].tolist() == pytest.approx(wanted, abs=1e-9)


@settings(max_examples=30)
@given(seeds, st.integers(1, 40), st.integers(1, 3), st.lists(st.integers(0, 40), max_size=6), st.data())
def test_any_cut_of_the_frames(seed: int, frames: int, count: int, cuts: list[int], data: st.DataObject) -> None:
    """Tokens that were added at any time, in a re-ordered beam, score as if all frames had been there at first."""
    log_probs = posteriors(seed, frames, 5)
    cuts = sorted(min(cut, frames) for cut in cuts)
    scorer = CTCPrefixScorer(log_probs[:0])
    prefixes = scorer.force(())[[0] * count]
    for first, end in itertools.pairwise([0, *cuts, frames]):
        scorer.append(log_probs[first:end])
        prefixes = scorer.advance(prefixes)
        for _ in range(data.draw(st.integers(0, 2))):
            choice = st.lists(st.integers(0, count - 1), min_size=count, max_size=count)
            rows, tokens = np.array(data.draw(choice)), np.array(data.draw(choice)) + 1
            prefixes = scorer.extend(prefixes, rows, tokens)
    whole = CTCPrefixScorer(log_probs)
    for row, tokens in enumerate(prefixes.tokens.tolist()):
        assert_same(prefixes[row : row + 1], whole.force(tuple(tokens)))


@settings(max_examples=40)
@given(
    seeds, st.lists(st.tuples(st.integers(0, 12), st.lists(st.integers(0, 3), max_size=4), st.booleans()), max_size=7)
)
def test_a_forced_prefix_grows(seed: int, blocks: list[tuple[int, list[int], bool]]) -> None:
    """Frames and tokens are added in turns, and sometimes the text changes. The result equals forcing from scratch."""
    log_probs = posteriors(seed, sum(frames for frames, _, _ in blocks))
    scorer = CTCPrefixScorer(log_probs[:0])
    text: tuple[int, ...] = ()
    known = None
    for frames, tokens, again in blocks:
        scorer.append(log_probs[scorer.frames : scorer.frames + frames])
        text = tuple(tokens) if again else (*text, *tokens)
        known = scorer.force(text, known)
        assert_same(known, CTCPrefixScorer(log_probs[: scorer.frames]).force(text))


@settings(max_examples=40)
@given(seeds, st.integers(1, 200), st.lists(st.integers(1, 19), max_size=8), st.sampled_from([0.5, 3, 10]))
def test_what_follows_sums_to_the_prefix(seed: int, frames: int, prefix: list[int], sharp: float) -> None:
    """p(g...) = p(g·<eos>) + Σ_c p(g·c...)."""
    scorer = CTCPrefixScorer(posteriors(seed, frames, 20, sharp))
    prefixes = scorer.force(tuple(prefix))
    parts = np.append(all_scores(scorer, prefixes), prefixes.complete[:, None], 1)
    assert_equal(np.logaddexp.reduce(parts, 1), prefixes.score)


class ESPnet:
    """ESPnet's scorer of the same frames. Its states are kept and selected as in ESPnet's beam search."""

    def __init__(self, log_probs: torch.Tensor) -> None:
        self.scorer = CTCPrefixScoreTH(log_probs[None].clone(), torch.tensor([len(log_probs)]), 0, EOS)
        self.states: list[Any] | None = None

    def append(self, log_probs: torch.Tensor) -> None:
        """log_probs: log posteriors of all frames, old and new."""
        self.scorer.extend_prob(log_probs[None].clone())
        self.states = self.states and [self.scorer.extend_state(state) for state in self.states]

    def score(self, texts: np.ndarray, candidates: torch.Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n, k) total scores, (n, k) scores relative to the prefixes', (n,) those of <eos>."""
        states = self.states
        if states:
            states = [torch.stack([s[0] for s in states], 2), torch.stack([s[1] for s in states]), 0, 0]
        texts = torch.nn.functional.pad(torch.from_numpy(texts), (1, 0), value=EOS)
        gained, self.new = self.scorer(texts, states, candidates)
        total = self.new[1]
        return tuple(
            part.numpy() for part in (total.gather(1, candidates), gained.gather(1, candidates), total[:, EOS])
        )

    def extend(self, rows: list[int], tokens: list[int]) -> None:
        r, s, f_min, f_max, places = self.new
        self.states = [
            (r[:, :, row, places[row, token]], s[row, token].expand(s.shape[1]), f_min, f_max)
            for row, token in zip(rows, tokens, strict=True)
        ]


@settings(max_examples=25)
@given(
    seeds, st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 8), st.integers(0, 3)
)
def test_equal_to_espnet(seed: int, blocks: list[int], count: int, width: int, length: int) -> None:
    """Scores, scores of <eos>, and gains of hypotheses that grow by `length` tokens in each block of frames."""
    random = torch.Generator().manual_seed(seed)
    log_probs = posteriors(seed, sum(blocks), EOS + 1)
    heard = blocks[0]
    ours, theirs = CTCPrefixScorer(log_probs[:heard]), ESPnet(log_probs[:heard])
    prefixes = ours.force(())[[0] * count]
    for block in [0, *blocks[1:]]:
        ours.append(log_probs[heard : heard + block])
        heard += block
        theirs.append(log_probs[:heard])
        prefixes = ours.advance(prefixes, exact=False)
        for _ in range(length + 1):
            ids = torch.stack([torch.randperm(EOS - 1, generator=random)[:width] + 1 for _ in range(count)])
            total, gained, end = theirs.score(prefixes.tokens, ids)
            scores = ours.score(prefixes, ids.numpy())
            possible, ended = scores > -math.inf, prefixes.complete > -math.inf
            assert np.array_equal(possible, total > -1e9) and np.array_equal(ended, end > -1e9)
            assert_equal(scores[possible], total[possible], atol=1e-6)
            assert_equal(prefixes.complete[ended], end[ended], atol=1e-6)
            assert_equal((scores - prefixes.score[:, None])[possible], gained[possible], atol=1e-6)
            rows = torch.randint(count, (count,), generator=random).numpy()
            if not possible[rows, 0].all():
                return
            added = ids.numpy()[rows, 0]
            prefixes = ours.extend(prefixes, rows, added)
            theirs.extend(rows.tolist(), added.tolist())


def test_what_espnet_loses_at_the_border_of_a_block() -> None:
    """The label is in the last old frame, the blank in the first new one. ESPnet misses this alignment."""
    log_probs = torch.full((2, 3), -math.inf)
    log_probs[0, 1] = log_probs[1, 0] = 0.0
    scorer = CTCPrefixScorer(log_probs[:1])
    prefixes = scorer.force((1,))
    scorer.append(log_probs[1:])
    assert np.exp(scorer.advance(prefixes).complete) == 1.0
    silent = scorer.advance(prefixes, exact=False)
    assert np.exp(silent.complete) == 0.0 and np.exp(silent.score) == 1.0
    assert_equal(silent.frontier[:, 1, -1], silent.forward[:, 1, -1])
    assert_equal(silent.frontier[:, 1, 0], scorer.force(()).forward[:, 1, -1])
    assert np.isneginf(silent.frontier[:, 0]).all()
    assert_same(scorer.advance(CTCPrefixScorer(log_probs[:1]).force(()), exact=False), scorer.force(()))


def test_prefixes_keep_to_the_frames_they_know() -> None:
    log_probs = posteriors(0, 12)
    scorer, before = CTCPrefixScorer(log_probs[:5]), CTCPrefixScorer(log_probs[:5])
    prefixes = scorer.force((1, 2))
    scorer.append(log_probs[5:])
    assert prefixes.frames == 5 and scorer.frames == 12
    assert_same(extended(scorer, prefixes, 3), before.force((1, 2, 3)))
    assert_equal(all_scores(scorer, prefixes), all_scores(before, prefixes))
    assert_same(scorer.advance(extended(scorer, prefixes, 3)), scorer.force((1, 2, 3)))
    assert_same(scorer.advance(scorer.advance(prefixes)), scorer.force((1, 2)))


def test_single_precision_and_many_frames() -> None:
    """As in decoding, posteriors are float32 or less precise, and an utterance has hundreds of frames."""
    log_probs = posteriors(0, 800, 50, sharp=8)
    text = tuple(range(1, 30))
    exact = CTCPrefixScorer(log_probs).force(text)
    loss = torch.nn.functional.ctc_loss(
        log_probs[:, None], torch.tensor([text]), torch.tensor([800]), torch.tensor([len(text)]), reduction="sum"
    )
    assert float(exact.complete[0]) == pytest.approx(-float(loss), abs=1e-9 * float(loss))
    single = CTCPrefixScorer(log_probs.float()).force(text)
    assert float(exact.score[0]) == pytest.approx(float(single.score[0]), abs=1e-2)
    half = log_probs.bfloat16()
    assert_same(CTCPrefixScorer(half).force(text), CTCPrefixScorer(half.float()).force(text))


@pytest.mark.parametrize("least", [-1e4, -math.inf])
def test_impossible_labels(least: float) -> None:
    """Probabilities of exactly zero do not lead to NaN."""
    log_probs = torch.full((4, 3), least)
    log_probs[:, 1] = 0.0
    scorer = CTCPrefixScorer(log_probs)
    scores = scorer.score(scorer.force(()), np.array([[1, 2, 0]]))[0]
    assert scores[0] == pytest.approx(0.0) and np.exp(scores[1]) == 0.0 and scores[2] == -math.inf
    assert_equal(all_scores(scorer, scorer.force(()))[0], scores[[2, 0, 1]])
    assert scorer.force((1,)).complete[0] == pytest.approx(0.0)
    for text in [(1, 1), (2,), (2, 1), (1, 2, 1)]:
        assert np.exp(scorer.force(text).score) == 0.0


def test_probabilities_too_small_for_a_float() -> None:
    """The probability of a text may be; that of a label counts as 0 below e^-700."""
    log_probs = torch.tensor([[0.0, -600.0, -500.0, -800.0]] * 3)
    scorer = CTCPrefixScorer(log_probs)
    assert np.isneginf(scorer.score(scorer.force(()), np.array([[3]])))
    for text, p in [((), -600.0), ((2,), -1100.0)]:  # of token 1 after the text, in each of its places
        places = math.comb(3, len(text) + 1)
        scores = scorer.score(scorer.force(text), np.array([[1]]))
        assert scores[0, 0] == pytest.approx(p + math.log(places))


def test_no_survivors() -> None:
    scorer = CTCPrefixScorer(posteriors(0, 3))
    nothing = np.zeros(0, dtype=np.int64)
    prefixes = scorer.extend(scorer.force((1,)), nothing, nothing)
    assert prefixes.tokens.shape == (0, 2) and prefixes.complete.shape == (0,)
    assert all_scores(scorer, prefixes).shape == (0, VOCABULARY)


def test_in_and_out_of_inference_mode() -> None:
    log_probs = posteriors(0, 6)
    with torch.inference_mode():
        scorer = CTCPrefixScorer(log_probs[:3])
        prefixes = scorer.force((1,))
    scorer.append(log_probs[3:].clone().requires_grad_())
    assert_same(scorer.advance(prefixes), CTCPrefixScorer(log_probs).force((1,)))


def test_not_a_number() -> None:
    log_probs = posteriors(0, 4)
    scorer = CTCPrefixScorer(log_probs)
    log_probs[2, 1] = math.nan
    with pytest.raises(SimulstError, match="NaN"):
        CTCPrefixScorer(log_probs)
    with pytest.raises(SimulstError, match="NaN"):
        scorer.append(log_probs)
    assert scorer.frames == 4
