"""Decoder-only models that read token by token: scores and attention of a full pass, whatever was read before."""

from collections.abc import Hashable
from typing import Any

import pytest
import tiny_huggingface
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.models.huggingface.attention import Wanted, attend_by_steps
from simulst.models.huggingface.causal import CausalDecoder
from simulst.models.huggingface.decoder import ROWS, Memory
from simulst.search.beam import Read

KINDS = ("llama", "qwen3")
HEADS = ((1, 0), (0, 1), (1, 1))
close = torch.testing.assert_close


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Models by kind, and by kind and "eager", which tell all their attention."""
    models = {}
    for kind in KINDS:
        folder = tiny_huggingface.write_language_model(tmp_path_factory.mktemp("llm") / kind, kind)
        load = transformers.AutoModelForCausalLM.from_pretrained
        models[kind], models[kind + "eager"] = load(folder).eval(), load(folder, attn_implementation="eager").eval()
        attend_by_steps(models[kind])
    return models


def full(model: Any, text: tuple[int, ...], wanted: Wanted) -> tuple[torch.Tensor, torch.Tensor]:
    """log p (V,) after a text, where 2 and 3 end it and 4 is never written, and rows (heads, rows, span)."""
    with torch.inference_mode():
        output = model(input_ids=torch.tensor([text]), output_attentions=True)
    p = output.logits[0, -1].softmax(-1)
    p[2], p[3], p[4] = p[2] + p[3], 0, 0
    rows = torch.stack([output.attentions[layer][0, head] for layer, head in wanted.heads])
    return p.log(), rows[:, wanted.first :, wanted.begin : wanted.end]


SOURCES = st.sampled_from([(5, 6, 7), (5, 6), (5, 6, 7, 8), (9,)])


@settings(max_examples=30)
@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(SOURCES, st.lists(st.integers(5, 7), max_size=4).map(tuple), st.booleans()), max_size=4),
)
def test_scores_and_rows_are_those_of_a_full_pass(
    loaded: dict[str, Any], kind: str, searches: list[tuple[tuple[int, ...], tuple[int, ...], bool]]
) -> None:
    """A chat about a source that changes, whose answer begins with a prefix: read at once, in steps, in batches."""
    model, known = loaded[kind], Memory()
    keys, reads, expected = set[Hashable](), [], []
    for source, prefix, asked in [*searches, ((5, 6, 7), (5,), True)]:
        prompt = (8, 9, *source, 10)
        wanted = Wanted(HEADS, 2, 2 + len(source), len(prompt) - 1)
        decoder = CausalDecoder(model, prompt, (2, 3), (4,), known, wanted)
        known = memory = decoder.memory()
        first, state = decoder.prefill(torch.tensor([0, *prefix]), memory, attention=asked)
        close(first[0], full(loaded[kind + "eager"], (*prompt, *prefix), wanted)[0], atol=1e-4, rtol=1e-4)
        assert (state.attention is not None) == asked
        beam = state[torch.tensor([0, 0])]
        assert decoder.together(1, decoder.start(), memory) is decoder.together(2, beam, memory) is None
        keys.add(decoder.together(1, beam, memory))
        log_p, stepped = decoder.step(torch.tensor([11, 12]), beam, memory, attention=asked)
        texts = [(*prompt, *prefix, token) for token in (11, 12)]
        scores, rows = zip(*(full(loaded[kind + "eager"], text, wanted) for text in texts), strict=True)
        close(log_p, torch.stack(scores), atol=1e-4, rtol=1e-4)
        if stepped.attention is not None:
            close(stepped.attention, torch.stack(rows, 1), atol=1e-5, rtol=1e-4)
            close(stepped[torch.tensor([1])].attention, rows[1][:, None], atol=1e-5, rtol=1e-4)
        reads.append(Read(torch.tensor([11, 12]), beam, memory, asked))
        expected.append((log_p, stepped))
    assert len(keys) == 1 and None not in keys
    for _ in range(2):  # nothing is changed, so that they can be answered again
        log_p, states = decoder.read_together([*reads, reads[-1]._replace(attention=False)])
        close(log_p, torch.cat([one for one, _ in [*expected, expected[-1]]]), atol=1e-4, rtol=1e-4)
        assert states[-1].attention is None
        for one, (_, alone) in zip(states, expected, strict=False):
            close(one.pairs, alone.pairs, atol=1e-4, rtol=1e-4)
            close(one.attention, alone.attention, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precisions_have_the_bits_of_a_search_alone(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """On some processors, products of this width differ by the number of their rows."""
    monkeypatch.setattr("simulst.models.huggingface.decoder.is_fast", lambda precision: True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = {"hidden_size": 256, "intermediate_size": 4861, "num_attention_heads": 4, "num_key_value_heads": 2}
        config = transformers.LlamaConfig(**sizes, vocab_size=97, num_hidden_layers=1, initializer_range=0.1)
        model = transformers.LlamaForCausalLM(config).to(dtype).eval()
    attend_by_steps(model)
    reads, alone = [], []
    for number in range(ROWS):
        prompt = tuple(range(10, 14 + number))
        wanted = Wanted(((0, 1), (0, 3)), 1, 3, len(prompt) - 1)
        decoder = CausalDecoder(model, prompt, (2, 3, 5), (4,), None, wanted)
        memory, asked = decoder.memory(), number % 2 == 0
        _, state = decoder.prefill(torch.tensor([0, 20]), memory, attention=asked)
        reads.append(Read(torch.tensor([21 + number]), state, memory, asked))
        alone.append(decoder.step(reads[-1].tokens, state, memory, attention=asked))
    for part in (slice(2), slice(3, 10), slice(ROWS)):
        log_p, states = decoder.read_together(reads[part])
        close(log_p, torch.cat([one for one, _ in alone[part]]), atol=0, rtol=0)
        for found, (_, expected) in zip(states, alone[part], strict=True):
            close((found.pairs, found.attention), (expected.pairs, expected.attention), atol=0, rtol=0)
