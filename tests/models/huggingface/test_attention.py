"""One query at a time: the same as PyTorch's attention, and in use where models let us choose it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from simulst.models.huggingface.attention import STEPPED, stepped_attention
from simulst.models.huggingface.model import HuggingFace


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scaling", [None, 1.0])
@pytest.mark.parametrize(("groups", "size"), [(1, 8), (3, 8), (1, 5)])
def test_it_is_pytorchs(
    queries: int, shared: bool, count: int, masked: bool, scaling: float | None, groups: int, size: int
) -> None:
    """groups: how many heads of queries share one of keys. size: of a head of values."""
    torch.manual_seed(0)
    module: Any = SimpleNamespace(is_causal=False, num_key_value_groups=groups)
    query = torch.randn(count, 2 * groups, queries, 8)
    keys, values = (torch.randn(1 if shared else count, 2, 7, d).expand(count, -1, -1, -1) for d in (8, size))
    mask = (torch.rand(count, 1, queries, 7) < 0.7) | (torch.arange(7) == 0) if masked else None
    ours, theirs = (
        attend(module, query, keys, values, mask, scaling=scaling)[0]
        for attend in (stepped_attention, sdpa_attention_forward)
    )
    assert ours.shape == theirs.shape == (count, queries, 2 * groups, size)
    torch.testing.assert_close(ours, theirs)


def test_models_use_it(models: dict[str, HuggingFace]) -> None:
    """Speech2Text has no attention of PyTorch's to replace."""
    used = {kind: model.architecture.model.get_decoder().config._attn_implementation for kind, model in models.items()}
    assert {kind for kind, name in used.items() if name == STEPPED} == {"whisper", "mbart", "seamless", "canary"}
