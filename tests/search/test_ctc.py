import itertools
import math

import pytest
import torch
from espnet.nets.ctc_prefix_score import CTCPrefixScoreTH
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.errors import SimulstError
from simulst.search.ctc import CTCPrefixScorer

VOCABULARY = 4  # blank and three labels


def posteriors(seed: int, frames: int, size: int = VOCABULARY, sharp: float = 2.0) -> torch.Tensor:
    scores = torch.randn(frames, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.log_softmax(scores * sharp, -1)


def collapse(alignment: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(label for label, _ in itertools.groupby(alignment) if label)


def enumerated(log_probs: torch.Tensor) -> dict[tuple[int, ...], float]:
    """The probability of each text, over all alignments."""
    texts: dict[tuple[int, ...], float] = {}
    for alignment in itertools.product(range(log_probs.shape[1]), repeat=log_probs.shape[0]):
        p = math.exp(sum(float(log_probs[t, label]) for t, label in enumerate(alignment)))
        texts[collapse(alignment)] = texts.get(collapse(alignment), 0.0) + p
    return texts


def log(p: float) -> float:
    return math.log(p) if p > 0 else -math.inf


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.lists(st.integers(1, 3), max_size=4))
def test_equal_to_enumeration(seed: int, frames: int, prefix: list[int]) -> None:
    log_probs = posteriors(seed, frames)
    texts = enumerated(log_probs)
    scorer = CTCPrefixScorer(log_probs)
    given = scorer.force(tuple(prefix))
    assert given.complete[0] == pytest.approx(log(texts.get(tuple(prefix), 0.0)), abs=1e-9)
    extended = scorer.extend(given, torch.tensor([[1, 2, 3, 0]]))
    for column in range(3):
        wanted = (*prefix, column + 1)
        p = sum(p for text, p in texts.items() if text[: len(wanted)] == wanted)
        assert extended.score[0, column] == pytest.approx(log(p), abs=1e-9)
        assert extended.complete[0, column] == pytest.approx(log(texts.get(wanted, 0.0)), abs=1e-9)
    assert extended.score[0, 3] == -math.inf


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 5), st.integers(1, 8), st.integers(0, 6))
def test_equal_to_espnet(seed: int, frames: int, hypotheses: int, candidates: int, length: int) -> None:
    """Prefix scores and <eos>, for several hypotheses and candidates, `length` tokens long and growing by one more."""
    size, eos = 11, 10
    random = torch.Generator().manual_seed(seed)
    log_probs = posteriors(seed, frames, size)
    theirs = CTCPrefixScoreTH(log_probs[None].clone(), torch.tensor([frames]), 0, eos)
    ours = CTCPrefixScorer(log_probs)
    texts = torch.full((hypotheses, 1), eos)
    prefixes = ours.start()[torch.zeros(hypotheses, dtype=torch.long)]
    state = None
    for _ in range(length + 1):
        ids = torch.stack([torch.randperm(eos - 1, generator=random)[:candidates] + 1 for _ in range(hypotheses)])
        local, (r, s, f_min, f_max, idmap) = theirs(texts, state, ids)
        extended = ours.extend(prefixes, ids)
        possible = extended.score > -math.inf
        assert torch.equal(possible, s.gather(1, ids) > -1e9)
        torch.testing.assert_close(extended.score[possible], s.gather(1, ids)[possible], atol=1e-6, rtol=0)
        ended = prefixes.complete > -math.inf
        torch.testing.assert_close(prefixes.complete[ended], s[ended, eos], atol=1e-6, rtol=0)
        step = (extended.score - prefixes.score[:, None])[possible]
        torch.testing.assert_close(step, local.gather(1, ids)[possible], atol=1e-6, rtol=0)
        if not possible[:, 0].all():
            return
        rows = torch.arange(hypotheses)
        r = torch.stack([r[:, :, i, idmap[i, ids[i, 0]]] for i in range(hypotheses)], 2)
        s = torch.stack([s[i, ids[i, 0]].expand(size) for i in range(hypotheses)])
        state = (r, s, f_min, f_max)
        texts = torch.cat([texts, ids[:, :1]], 1)
        prefixes = extended[rows, 0]


def test_single_precision_and_many_frames() -> None:
    """As in decoding: posteriors are float32, and an utterance has hundreds of frames."""
    log_probs = posteriors(0, 800, 50, sharp=8)
    text = tuple(range(1, 30))
    exact, single = CTCPrefixScorer(log_probs).force(text), CTCPrefixScorer(log_probs.float()).force(text)
    assert float(exact.score[0]) == pytest.approx(float(single.score[0]), abs=1e-2)
    loss = torch.nn.functional.ctc_loss(
        log_probs[:, None], torch.tensor([text]), torch.tensor([800]), torch.tensor([len(text)]), reduction="sum"
    )
    assert float(exact.complete[0]) == pytest.approx(-float(loss), abs=1e-9 * float(loss))


def test_impossible_labels() -> None:
    """Probabilities of exactly zero make no NaN."""
    log_probs = torch.full((3, 3), -math.inf)
    log_probs[:, 1] = 0.0
    scorer = CTCPrefixScorer(log_probs)
    scores = scorer.extend(scorer.start(), torch.tensor([[1, 2]])).score
    assert scores[0, 0] == pytest.approx(0.0)
    assert scores[0, 1].exp() == 0.0
    assert scorer.force((1,)).complete[0] == pytest.approx(0.0)
    assert scorer.force((1, 1)).score.exp() == 0.0


def test_more_tokens_than_frames() -> None:
    scorer = CTCPrefixScorer(posteriors(0, 2))
    assert scorer.force((1, 2)).score.isfinite().all()
    assert scorer.force((1, 1)).score[0] == -math.inf
    assert scorer.force((1, 2, 3)).score[0] == -math.inf
    assert scorer.extend(scorer.force((1, 2, 3)), torch.tensor([[1, 2, 3]])).score.isneginf().all()


def test_not_a_number() -> None:
    log_probs = posteriors(0, 4)
    log_probs[2, 1] = math.nan
    with pytest.raises(SimulstError, match="NaN"):
        CTCPrefixScorer(log_probs)
