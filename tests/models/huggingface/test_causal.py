"""Attention rows of decoder-only models that read token by token: those of a full pass, whatever was read before."""

from typing import Any

import pytest
import tiny_huggingface
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.models.huggingface.attention import attend_by_steps
from simulst.models.huggingface.attention_rows import Wanted
from simulst.models.huggingface.causal import CausalDecoder, Kept
from simulst.search.beam import Read

KINDS = ("llama", "qwen3")
HEADS = ((1, 0), (0, 1), (1, 1))


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


def full(model: Any, text: tuple[int, ...], wanted: Wanted) -> torch.Tensor:
    """(heads, rows, span) of one pass over all tokens."""
    with torch.inference_mode():
        attention = model(input_ids=torch.tensor([text]), output_attentions=True).attentions
    return torch.stack([attention[layer][0, head] for layer, head in wanted.heads])[
        :, wanted.first :, wanted.begin : wanted.end
    ]


SOURCES = st.sampled_from([(5, 6, 7), (5, 6), (5, 6, 7, 8), (9,)])


@settings(max_examples=30)
@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(SOURCES, st.lists(st.integers(5, 7), max_size=4).map(tuple), st.booleans()), max_size=4),
)
def test_rows_are_those_of_a_full_pass(
    loaded: dict[str, Any], kind: str, searches: list[tuple[tuple[int, ...], tuple[int, ...], bool]]
) -> None:
    """A chat about a source that changes, whose answer begins with a prefix: read at once, in steps, in batches."""
    model, known = loaded[kind], Kept()
    reads, expected = [], []
    for source, prefix, asked in [*searches, ((5, 6, 7), (5,), True)]:
        prompt = (8, 9, *source, 10)
        wanted = Wanted(HEADS, 2, 2 + len(source), len(prompt) - 1)
        decoder = CausalDecoder(model, prompt, (2,), (), known, wanted)
        known = memory = decoder.memory()
        _, state = decoder.prefill(torch.tensor([0, *prefix]), memory, attention=asked)
        assert (state.attention is not None) == asked
        if not asked:
            continue
        beam = state[torch.tensor([0, 0])]
        _, stepped = decoder.step(torch.tensor([11, 12]), beam, memory, attention=True)
        assert stepped.attention is not None
        rows = [full(loaded[kind + "eager"], (*prompt, *prefix, token), wanted) for token in (11, 12)]
        torch.testing.assert_close(stepped.attention, torch.stack(rows, 1), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(stepped[torch.tensor([1])].attention, rows[1][:, None], atol=1e-5, rtol=1e-4)
        reads.append(Read(torch.tensor([11, 12]), beam, memory, True))
        expected.append(stepped.attention)
    _, states = decoder.read_together([*reads, reads[0]._replace(attention=False)])
    for one, attention in zip(states, [*expected, None], strict=True):
        torch.testing.assert_close(one.attention, attention, atol=1e-5, rtol=1e-4)
