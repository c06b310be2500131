"""The stepped decoder gives what the library's own forward pass gives, however it gets there."""

import copy
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest
import tiny_huggingface
import torch
from fake import noted
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_huggingface import KINDS, noise
from transformers.models.parakeet.modeling_parakeet import ParakeetEncoderModelOutput

from simulst.hypotheses import Tokens
from simulst.models.cascade.huggingface import HuggingFaceText
from simulst.models.huggingface.architectures import Architecture
from simulst.models.huggingface.decoder import ROWS, Memory, State, SteppedDecoder
from simulst.models.huggingface.model import HuggingFace
from simulst.opening import Opening
from simulst.search.beam import Read

PROMPT = (2, 7)
close = torch.testing.assert_close


def tokens_of(architecture: Architecture, count: int, seed: int = 0) -> Tokens:
    return tuple(np.random.default_rng(seed).integers(5, 60, count).tolist())


def opened(architecture: Architecture, seconds: float = 1.3, prompt: Tokens = PROMPT) -> tuple[SteppedDecoder, Memory]:
    encoded = architecture.encode(noise(seconds))
    decoder = SteppedDecoder(architecture.model, prompt, heard=encoded.heard)
    memory = decoder.memory()
    memory.append(encoded.frames)
    return decoder, memory


def read(decoder: SteppedDecoder, tokens: Tokens, memory: Memory) -> tuple[torch.Tensor, State]:
    return decoder.prefill(torch.tensor([0, *tokens]), memory)


def plain(architecture: Architecture, tokens: Tokens, memory: Memory) -> torch.Tensor:
    """Log p after the prompt and tokens, (1, V), by the library alone and without a cache."""
    assert memory.frames is not None
    with torch.inference_mode():
        output = architecture.model(
            encoder_outputs=ParakeetEncoderModelOutput(memory.frames),  # it has all that some decoder asks for
            decoder_input_ids=torch.tensor([[*PROMPT, *tokens]]),
            use_cache=False,
        )
    return torch.log_softmax(output.logits[:, -1], -1)


def test_at_once_and_step_by_step(architecture: Architecture) -> None:
    decoder, memory = opened(architecture)
    tokens = tokens_of(architecture, 6)
    log_p, state = decoder.step(torch.tensor([0]), decoder.start(), memory)
    for end in range(len(tokens) + 1):
        expected = plain(architecture, tokens[:end], memory)
        close(log_p, expected, atol=1e-4, rtol=1e-4)
        close(read(decoder, tokens[:end], opened(architecture)[1])[0], expected, atol=1e-4, rtol=1e-4)
        if end < len(tokens):
            log_p, state = decoder.step(torch.tensor([tokens[end]]), state, memory)
    assert state.length == len(PROMPT) + len(tokens)


@pytest.mark.parametrize("kept", [0, 1, 4, 8])
def test_a_cache_that_is_cut_back(architecture: Architecture, kept: int) -> None:
    """Equal to a run from scratch, also when the new hypothesis is the old one, or shorter."""
    decoder, memory = opened(architecture)
    before = tokens_of(architecture, 8)
    read(decoder, before, memory)
    for after in (before[:kept], (*before[:kept], 61, *tokens_of(architecture, 3, seed=1))):
        close(read(decoder, after, memory)[0], read(decoder, after, opened(architecture)[1])[0], atol=1e-4, rtol=1e-4)


def test_only_what_is_new_is_read(architecture: Architecture, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, memory = opened(architecture)
    lengths = noted(monkeypatch, SteppedDecoder, "_called", lambda self, tokens, *_, **__: tokens.shape[1])
    tokens = tokens_of(architecture, 5)
    for end in (3, 5, 5, 2):
        read(decoder, tokens[:end], memory)
    assert lengths == [len(PROMPT) + 3, 2, 1, 1]


def test_hypotheses_in_another_order(architecture: Architecture) -> None:
    decoder, memory = opened(architecture)
    _, one = read(decoder, (), memory)
    _, two = decoder.step(torch.tensor([5, 9]), one[torch.tensor([0, 0])], memory)
    log_p, three = decoder.step(torch.tensor([11, 12, 13]), two[torch.tensor([1, 0, 1])], memory)
    for row, tokens in enumerate([(9, 11), (5, 12), (9, 13)]):
        close(log_p[row : row + 1], plain(architecture, tokens, memory), atol=1e-4, rtol=1e-4)
    again, _ = decoder.step(torch.tensor([11, 12, 13]), two[torch.tensor([1, 0, 1])], memory)
    close(again, log_p)
    assert (one.length, two.length, three.length) == (2, 3, 4)


def test_attention(architecture: Architecture) -> None:
    """It is that of the last token, sums to 1 over the frames (but for Whisper's padding), and changes no scores."""
    decoder, memory = opened(architecture)
    tokens = tokens_of(architecture, 3)
    log_p, state = decoder.prefill(torch.tensor([0, *tokens]), memory, attention=True)
    close(log_p, read(decoder, tokens, opened(architecture)[1])[0], atol=1e-4, rtol=1e-4)
    assert state.attention is not None and state.attention.shape == (4, 1, 1, len(memory))
    total = state.attention.sum(-1)
    if memory.frames is not None and memory.frames.shape[1] == len(memory):
        close(total, torch.ones_like(total))
    else:
        assert (total < 1).all() and (total > 0).all()
    close(decoder.spoken((*tokens, 9), memory)[:, -1:], state.attention[:, 0])
    _, after = decoder.step(torch.tensor([4, 5]), state[torch.tensor([0, 0])], memory)
    assert after.attention is None


def test_what_is_never_written(architecture: Architecture) -> None:
    _, memory = opened(architecture)
    decoder = SteppedDecoder(architecture.model, PROMPT, never=(5, 6), never_first=(8,))
    first, state = read(decoder, (), memory)
    assert first[0, [5, 6, 8]].isneginf().all() and first.isfinite().sum() == first.shape[1] - 3
    second, _ = decoder.step(torch.tensor([9]), state, memory)
    assert second[0, [5, 6]].isneginf().all() and second[0, 8].isfinite()


def test_hypotheses_that_go_on_over_new_frames(architecture: Architecture) -> None:
    """As in BWBS. The frames' keys and values are computed once, and not for each hypothesis."""
    decoder, memory = opened(architecture, 0.7)
    state = read(decoder, tokens_of(architecture, 3), memory)[1][torch.tensor([0, 0, 0])]
    tokens = torch.tensor(tokens_of(architecture, 3, seed=1))
    together = opened(architecture, 1.9)[1]
    log_p, after = decoder.step(tokens, state, together)
    assert all(keys.shape[0] == 1 for keys, _ in together.pairs) and after.length == state.length + 1
    for row in range(3):
        one = torch.tensor([row])
        alone, _ = decoder.step(tokens[one], state[one], opened(architecture, 1.9)[1])
        close(log_p[row], alone[0], atol=1e-4, rtol=1e-4)


@pytest.fixture(scope="module")
def decoders(models: dict[str, HuggingFace], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model of each kind, of speech and of text."""
    found, place = {kind: model.architecture.model for kind, model in models.items()}, tmp_path_factory.mktemp("text")
    for kind in ("marian", "m2m", "mbart", "t5"):
        folder = tiny_huggingface.write_text_model(place / kind, kind)
        translation: Any = HuggingFaceText(str(folder)).load(folder / "cascade.yaml", 1)(Opening("en", "de"))
        found[f"{kind} of text"] = translation._parts.model
    return found


ALONE = {"speech_to_text", "t5 of text"}  # their attention is their own


@settings(max_examples=25)
@given(
    kind=st.sampled_from([*KINDS, *(f"{kind} of text" for kind in ("marian", "m2m", "mbart", "t5"))]),
    searches=st.lists(
        st.tuples(
            st.integers(1, 9),  # frames
            st.integers(0, 4),  # tokens read before
            st.integers(1, 3),  # hypotheses
            st.booleans(),  # whether attention is asked for
        ),
        min_size=2,
        max_size=4,
    ),
)
def test_several_searches_at_once(decoders: dict[str, Any], kind: str, searches: list[Any]) -> None:
    """As each alone, whatever was read before; nothing is changed, so that they can be answered again."""
    keys, reads, alone = set[Hashable](), [], []
    for seed, (frames, length, count, attention) in enumerate(searches):
        decoder = SteppedDecoder(decoders[kind], PROMPT, never=(5, 6))
        memory = decoder.memory()
        memory.append(torch.randn(frames, 16, generator=torch.Generator().manual_seed(seed)))
        before = read(decoder, tuple(range(10, 10 + length)), memory)[1]
        state = decoder.step(torch.arange(8, 8 + count), before[torch.zeros(count, dtype=torch.int64)], memory)[1]
        assert decoder.together(1, decoder.start(), memory) is decoder.together(2, state, memory) is None
        assert decoder.together(1, state, decoder.memory()) is None  # of new frames
        keys.add(decoder.together(1, state, memory))
        reads.append(Read(torch.arange(20, 20 + count), state, memory, attention))
        alone.append(decoder.step(reads[-1].tokens, state, memory, attention=attention))
    assert len(keys) == 1 and (keys == {None}) == (kind in ALONE)
    if kind in ALONE:
        return
    for _ in range(2):
        log_p, states = decoder.read_together(reads)
        close(log_p, torch.cat([one for one, _ in alone]), atol=1e-4, rtol=1e-4)
        for found, (_, expected) in zip(states, alone, strict=True):
            assert found.length == expected.length
            close(found.pairs, expected.pairs, atol=1e-4, rtol=1e-4)
            close(found.attention, expected.attention, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("asks", [(False,) * 4, (True, False, True, False)])
def test_half_precisions_have_the_bits_of_a_search_alone(
    decoders: dict[str, Any], dtype: torch.dtype, asks: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """asks: of four searches, which ask for attention."""
    monkeypatch.setattr("simulst.models.huggingface.decoder.is_fast", lambda precision: True)
    for kind in decoders.keys() - ALONE:
        model, reads, alone, keys = copy.deepcopy(decoders[kind]).to(dtype), [], [], set[Hashable]()
        for seed, asked in enumerate(asks):
            decoder = SteppedDecoder(model, PROMPT, never=(5, 6))
            memory = decoder.memory()
            memory.append(torch.randn(3 + 7 * seed, 16, generator=torch.Generator().manual_seed(seed)).to(dtype))
            before = read(decoder, tuple(range(10, 10 + seed)), memory)[1]
            state = decoder.step(torch.arange(8, 11), before[torch.zeros(3, dtype=torch.int64)], memory)[1]
            reads.append(Read(torch.arange(20, 23), state, memory, asked))
            alone.append(decoder.step(reads[-1].tokens, state, memory, attention=asked))
            keys.add(decoder.together(1, state, memory))
            wide = state[torch.arange(ROWS + 1) % 3]
            assert len(decoder.step(torch.arange(20, 21 + ROWS), wide, memory)[0]) == ROWS + 1
        log_p, states = decoder.read_together(reads)
        assert len(keys) == 1 and None not in keys
        close(log_p, torch.cat([one for one, _ in alone]), atol=0, rtol=0)
        for found, (_, expected) in zip(states, alone, strict=True):
            close((found.pairs, found.attention), (expected.pairs, expected.attention), atol=0, rtol=0)
