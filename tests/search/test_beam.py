import logging
import math
from typing import Any

import pytest
import torch
from espnet2.asr.ctc import CTC
from hypothesis import given, settings
from hypothesis import strategies as st

logging.disable(logging.WARNING)
from espnet.nets.batch_beam_search import BatchBeamSearch  # noqa: E402
from espnet.nets.scorers.ctc import CTCPrefixScorer  # noqa: E402
from espnet.nets.scorers.length_bonus import LengthBonus  # noqa: E402
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder  # noqa: E402

logging.disable(logging.NOTSET)

from simulst.errors import SimulstError  # noqa: E402
from simulst.search import Beam, JointBeamSearch, Tokens  # noqa: E402
from simulst.search.beam import joint_beam_search  # noqa: E402

WIDTH, SIZE = 16, 20
torch.set_num_threads(1)  # on so little, threads only wait for each other
EOS = SIZE - 1


class Tiny:
    """A random decoder and CTC layer. sharp: how far their scores lie apart; end: added to the score of <eos>."""

    def __init__(self, seed: int, sharp: float = 6.0, end: float = 1.0) -> None:
        torch.manual_seed(seed)
        self.decoder = TransformerDecoder(SIZE, WIDTH, attention_heads=2, linear_units=32, num_blocks=2).eval()
        self.ctc = CTC(SIZE, WIDTH).eval()
        with torch.no_grad():
            self.decoder.output_layer.weight *= sharp
            self.decoder.output_layer.bias[EOS] += end
            self.ctc.ctc_lo.weight *= sharp
            self.ctc.ctc_lo.bias[0] += 2

    def memory(self, seed: int, frames: int) -> torch.Tensor:
        return torch.randn(frames, WIDTH, generator=torch.Generator().manual_seed(seed))

    def search(
        self, memory: torch.Tensor, options: JointBeamSearch, prefix: Tokens = (), max_new: int | None = None
    ) -> Beam:
        with torch.no_grad():
            log_probs = self.ctc.log_softmax(memory[None])[0]
        return joint_beam_search(memory, log_probs, self.decoder, prefix, options, EOS, EOS, max_new)

    def espnet(self, memory: torch.Tensor, options: JointBeamSearch, max_length_ratio: float = 0.0) -> list[Any]:
        """Texts and scores as ESPnet's st_inference finds them."""
        w = options.ctc_weight
        search = BatchBeamSearch(
            scorers={
                "decoder": self.decoder,
                "ctc": CTCPrefixScorer(self.ctc, EOS),
                "length_bonus": LengthBonus(SIZE),
            },
            weights={"decoder": 1 - w, "ctc": w, "length_bonus": options.length_bonus},
            beam_size=options.beam,
            vocab_size=SIZE,
            sos=EOS,
            eos=EOS,
            pre_beam_score_key="full",
        )
        with torch.no_grad():
            found = search(memory, maxlenratio=max_length_ratio)
        # The impossible, which ESPnet keeps with a score of -1e10, is none of our results.
        texts = [(tuple(t for t in h.yseq.tolist() if t != EOS), float(h.score)) for h in found]
        return [(text, score) for text, score in texts if score > -1e8]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.3, 0.5]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([-2.0, 1.0, 4.0]),
)
def test_equal_to_espnet(seed: int, frames: int, beam: int, ctc_weight: float, bonus: float, end: float) -> None:
    """The whole beam, token for token, where the search ends by itself."""
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


@settings(max_examples=30, deadline=None)
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


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(5, 20), st.sampled_from([0.0, 0.3]))
def test_a_prefix_of_the_greedy_text_changes_nothing(seed: int, frames: int, ctc_weight: float) -> None:
    """Forced tokens leave the decoder and the CTC scores where the same tokens, found by search, leave them."""
    model = Tiny(seed)
    memory = model.memory(seed, frames)
    options = JointBeamSearch(1, ctc_weight)
    whole = model.search(memory, options)[0].tokens
    for length in range(len(whole) + 1):
        assert model.search(memory, options, whole[:length])[0].tokens == whole


@pytest.mark.parametrize("max_new", [1, 2, 5])
def test_at_most_so_many_new_tokens(max_new: int) -> None:
    model = Tiny(1, end=-100)
    found = model.search(model.memory(0, 30), JointBeamSearch(4), (5, 6), max_new)
    assert [len(h.tokens) for h in found] == [2 + max_new] * 4


def test_the_ctc_layer_alone() -> None:
    """With a weight of 1, the text is the most probable one by the CTC layer among the decoder's candidates."""
    model = Tiny(2, sharp=0.01)
    memory = model.memory(0, 6)
    log_probs = torch.full((6, SIZE), -20.0)
    for frame, token in enumerate([3, 3, 0, 3, 4, 0]):
        log_probs[frame, token] = 0.0
    found = joint_beam_search(memory, log_probs, model.decoder, (), JointBeamSearch(SIZE, 1.0), EOS, EOS)
    assert found[0].tokens == (3, 3, 4)


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


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 0},
        {"ctc_weight": -0.1},
        {"ctc_weight": 1.1},
        {"ctc_weight": math.nan},
        {"length_bonus": math.inf},
        {"max_length_ratio": 0.0},
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(SimulstError, match=next(iter(options))):
        JointBeamSearch(**options)


def test_labels() -> None:
    assert JointBeamSearch().label == ""
    assert JointBeamSearch(1, 0.0, 0.5).label == "beam1-ctc0-bonus0.5"
