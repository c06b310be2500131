from __future__ import annotations

import contextlib
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.errors import SimulstError
from simulst.models.espnet.network import blockwise_encoder
from simulst.models.espnet.network.blockwise_encoder import GROUP, BlockwiseEncoder, EncoderState

torch.set_num_threads(1)  # on so little, threads only wait for each other
DIMS, WIDTH = 34, 16
SIZES = {"block_size": 40, "hop_size": 16, "look_ahead": 16}
SMALL_BLOCKS = {"block_size": 20, "hop_size": 8, "look_ahead": 8}
CONFIGS: dict[str, dict[str, Any]] = {
    "conformer": SIZES | {"cnn_module_kernel": 7},
    "macaron": SMALL_BLOCKS | {"cnn_module_kernel": 15, "macaron_style": True},
    "wide kernel": SMALL_BLOCKS | {"cnn_module_kernel": 31, "activation_type": "relu"},
    "narrow kernel": SMALL_BLOCKS | {"cnn_module_kernel": 1, "activation_type": "tanh"},
    "no convolution": SMALL_BLOCKS | {"use_cnn_module": False, "macaron_style": True},
    "contexts without positions": SMALL_BLOCKS | {"ctx_pos_enc": False},
    "conv2d6": SMALL_BLOCKS | {"input_layer": "conv2d6"},
    "conv2d8": SMALL_BLOCKS | {"input_layer": "conv2d8"},
    "no look-ahead": {"block_size": 13, "hop_size": 5, "look_ahead": 0},
    "no past": {"block_size": 11, "hop_size": 7, "look_ahead": 4},
    "no overlap": {"block_size": 8, "hop_size": 8, "look_ahead": 0},
    "one layer": SMALL_BLOCKS | {"num_blocks": 1},
    "transformer": SMALL_BLOCKS,
}


def espnet_encoder(name: str = "conformer", **changes: Any) -> Any:
    """With random weights, biases and statistics of batch norm."""
    with contextlib.redirect_stdout(None):
        from espnet2.asr.encoder.contextual_block_conformer_encoder import ContextualBlockConformerEncoder
        from espnet2.asr.encoder.contextual_block_transformer_encoder import ContextualBlockTransformerEncoder

    make = ContextualBlockTransformerEncoder if name == "transformer" else ContextualBlockConformerEncoder
    options = {"output_size": WIDTH, "attention_heads": 2, "linear_units": 24, "num_blocks": 3}
    torch.manual_seed(len(name))
    encoder = make(DIMS, **options | CONFIGS[name] | changes).eval()
    with torch.no_grad():
        for parameter in encoder.parameters():
            if parameter.dim() == 1:
                parameter += torch.randn_like(parameter) / 5
        for buffer, values in encoder.named_buffers():
            if "running" in buffer:
                values.uniform_(0.3, 2)
    return encoder


@cache
def pair(name: str) -> tuple[Any, BlockwiseEncoder]:
    encoder = espnet_encoder(name)
    return encoder, BlockwiseEncoder(encoder)


def theirs(encoder: Any, features: torch.Tensor, infer: bool = True) -> torch.Tensor:
    """ESPnet's frames, from a whole utterance at once."""
    with torch.no_grad():
        return encoder(features[None], torch.tensor([len(features)]), None, is_final=True, infer_mode=infer)[0][0]


def step(
    encoder: BlockwiseEncoder, features: torch.Tensor, state: EncoderState | None, final: bool
) -> tuple[torch.Tensor, EncoderState | None]:
    [encoded] = encoder.together([(features, state, final)])
    return encoded


def ours(encoder: BlockwiseEncoder, features: torch.Tensor, cuts: list[int]) -> torch.Tensor:
    """Our frames, from features cut at some places."""
    frames, state, start = [], None, 0
    for cut in sorted(cut for cut in cuts if cut <= len(features)):
        output, state = step(encoder, features[None, start:cut], state, False)
        frames.append(output)
        start = cut
    output, state = step(encoder, features[None, start:], state, True)
    assert state is None
    return torch.cat([*frames, output], 1)[0]


def noise(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, DIMS, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=10)
@given(count=st.integers(15, 700), seed=st.integers(0, 99), cuts=st.lists(st.integers(0, 700), max_size=8))
def test_frames_are_espnets(name: str, count: int, seed: int, cuts: list[int]) -> None:
    """Utterances of less than a block to many, in any pieces; ESPnet's training forward agrees with its inference."""
    encoder, fast = pair(name)
    features = noise(count, seed)
    expected = theirs(encoder, features)
    torch.testing.assert_close(ours(fast, features, []), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours(fast, features, cuts), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(theirs(encoder, features, infer=False), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["conformer", "contexts without positions", "transformer"])
@settings(max_examples=10)
@given(count=st.integers(0, 400), cut=st.integers(0, 400), seed=st.integers(0, 99))
def test_several_utterances_at_once(name: str, count: int, cut: int, seed: int) -> None:
    encoder, fast = pair(name)
    features = torch.stack([noise(count, seed + i) for i in range(3)])
    first, state = step(fast, features[:, :cut], None, False)
    assert state is not None
    # One of them ends elsewhere; the others change places.
    last, _ = step(fast, features[[2, 0], cut:], state[[2, 0]], True)
    early, _ = step(fast, features[[1], cut : cut + 5], state[[1]], True)
    for row, rest, size in ((2, last[0], count), (0, last[1], count), (1, early[0], min(count, cut + 5))):
        if size >= fast.least:
            expected = theirs(encoder, features[row, :size])
            torch.testing.assert_close(torch.cat([first[row], rest]), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=10)
@given(
    some=st.lists(st.tuples(st.integers(0, 400), st.lists(st.integers(0, 400), max_size=3)), min_size=1, max_size=5),
    most=st.sampled_from([1, 5, 64]),
)
def test_pieces_of_many_utterances_together(name: str, some: list[tuple[int, list[int]]], most: int) -> None:
    """At different places of their utterances, of different lengths, some of them the last ones."""
    _, fast = pair(name)
    waiting = {}
    for number, (count, cuts) in enumerate(some):
        edges = [0, *sorted(cut for cut in cuts if cut <= count), count]
        features = noise(count, number)
        waiting[number] = [
            (features[None, a:b], b == count and i == len(edges) - 2) for i, (a, b) in enumerate(pairwise(edges))
        ]
    frames: dict[int, list[torch.Tensor]] = {number: [] for number in waiting}
    states: dict[int, EncoderState | None] = dict.fromkeys(waiting)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(blockwise_encoder, "MOST_BLOCKS", most)
        while going := [number for number, parts in waiting.items() if parts]:
            parts = [waiting[number].pop(0) for number in going]
            found = fast.together([(new, states[n], final) for n, (new, final) in zip(going, parts, strict=True)])
            for number, (output, state) in zip(going, found, strict=True):
                frames[number].append(output)
                states[number] = state
    for number, (count, _) in enumerate(some):
        torch.testing.assert_close(
            torch.cat(frames[number], 1)[0], ours(fast, noise(count, number), []), atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("name", CONFIGS)
def test_utterances_that_end_where_a_block_does(name: str) -> None:
    encoder, fast = pair(name)
    block, hop, subsample = fast.block_size, fast.hop_size, fast.subsample
    for frames in (1, 2, hop, block - 1, block, block + 1, block + hop, block + hop + 1, block + 2 * hop):
        for more in (0, subsample - 1):
            features = noise(fast.least + subsample * (frames - 1) + more)
            expected = theirs(encoder, features)
            assert len(expected) == frames
            for cuts in ([], [len(features)], [len(features) - 1], list(range(0, len(features), 9))):
                torch.testing.assert_close(ours(fast, features, cuts), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
def test_frames_come_before_espnets(name: str) -> None:
    """The same frames with every step, but with fewer features: 5 for a subsampling of 4."""
    encoder, fast = pair(name)
    need, theirs_need = fast.first_features, fast.subsample * (fast.block_size + 3)
    assert theirs_need - need == 3 * fast.subsample - fast.least
    features, heard, theirs_heard, states = noise(700), 0, 0, (None, None)
    while theirs_need <= len(features):
        part = features[theirs_heard:theirs_need]
        with torch.no_grad():
            one, _, theirs_next = encoder(
                part[None], torch.tensor([len(part)]), states[0], is_final=False, infer_mode=True
            )
        two, early = step(fast, features[None, heard : need - 1], states[1], False)
        assert two.shape[1] == 0
        two, ours_next = step(fast, features[None, need - 1 : need], early, False)
        assert two.shape[1] > 0
        torch.testing.assert_close(two, one, atol=1e-5, rtol=0)
        heard, theirs_heard, states = need, theirs_need, (theirs_next, ours_next)
        need, theirs_need = (n + fast.subsample * fast.hop_size for n in (need, theirs_need))
    assert heard > 0


def test_hardly_any_features() -> None:
    for name in ("conformer", "conv2d6", "conv2d8"):
        _, fast = pair(name)
        for count in (0, 1, fast.least - 1):
            for cuts in ([], [count], list(range(count))):
                assert ours(fast, noise(count), cuts).shape == (0, WIDTH)


def test_late_positions() -> None:
    """ESPnet's table of positions ends at 5000 and is then made again."""
    encoder, fast = pair("conformer")
    features = noise(4 * 5200)
    expected = theirs(encoder, features)
    torch.testing.assert_close(ours(fast, features, []), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours(fast, features, [4 * 16 * GROUP * 3 + 7]), expected, atol=1e-5, rtol=0)


def test_a_state_is_small_and_can_be_used_again() -> None:
    _, fast = pair("macaron")
    state: EncoderState | None = None
    for number in range(100):
        before, features = state, noise(40, number)[None]
        frames, state = step(fast, features, before, False)
        again, _ = step(fast, features, before, False)
        assert torch.equal(frames, again)
        assert state is not None
        tensors = [t for t in (state.features, state.frames, state.contexts) if t is not None]
        assert sum(t.untyped_storage().nbytes() for t in tensors) < 20000
    assert state is not None and state.blocks == ((100 * 40 - 7) // 4 + 1 - 20 - 1) // 8 + 1


@pytest.mark.parametrize("name", ["macaron", "transformer"])
def test_without_onednn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, _ = pair(name)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    features = noise(400)
    for precision, tolerance in (("float32", 1e-5), ("bfloat16", 0.2), ("float16", 0.03)):
        frames = ours(BlockwiseEncoder(encoder, precision), features, [200])
        torch.testing.assert_close(frames, theirs(encoder, features), atol=tolerance, rtol=0)


@pytest.mark.parametrize("name", ["macaron", "transformer"])
@pytest.mark.parametrize(("precision", "least", "most"), [("bfloat16", 1e-4, 0.03), ("float16", 1e-5, 0.004)])
def test_halves(name: str, precision: str, least: float, most: float) -> None:
    encoder, _ = pair(name)
    features = noise(400)
    difference = ours(BlockwiseEncoder(encoder, precision), features, [200]) - theirs(encoder, features)
    assert least < difference.square().mean().sqrt() < most


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"block_size": 0}, "block_size 0"),
        ({"hop_size": 0}, "hop_size 0"),
        ({"look_ahead": 30}, "look_ahead 30"),
        ({"input_layer": "linear"}, "input_layer: only conv2d"),
        ({"init_average": False}, "init_average: False"),
        ({"normalize_before": False}, "normalize_before: False"),
        ({"concat_after": True}, "concat_after: True"),
        ({"positionwise_layer_type": "conv1d"}, "positionwise_layer_type: only linear"),
        ({"positionwise_layer_type": "conv1d-linear"}, "positionwise_layer_type: only linear"),
    ],
)
def test_what_is_not_implemented(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SimulstError, match=words):
        BlockwiseEncoder(espnet_encoder(**changes))


def test_an_encoder_without_blocks() -> None:
    with contextlib.redirect_stdout(None):
        from espnet2.asr.encoder.transformer_encoder import TransformerEncoder
    with pytest.raises(SimulstError, match="block_size 0"):
        BlockwiseEncoder(TransformerEncoder(DIMS, WIDTH, 2, 24, 2))
