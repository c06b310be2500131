"""Attention of a decoder that reads one token of each hypothesis at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

STEPPED = "simulst_stepped"  # our name for it in transformers


def stepped_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Attention as the library calls it.

    query: (n, heads, m, d). key, value: (n, heads, T, d). Returns: (n, m, heads, d), and no weights.

    PyTorch's fused attention is made for many queries. One query is two products of matrices. The encoder's frames are
    the same for all hypotheses, so their queries become those of one hypothesis.
    """
    plain = attention_mask is None and options.get("position_bias") is None and query.shape[1] == key.shape[1]
    if not (plain and query.shape[2] == 1) or options.get("dropout"):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    shared = key.stride(0) == value.stride(0) == 0
    if shared:
        query, key, value = query.transpose(0, 2), key[:1], value[:1]
    scaling = options.get("scaling")
    scores = (query * (query.shape[-1] ** -0.5 if scaling is None else scaling)) @ key.transpose(2, 3)
    found = torch.softmax(scores, -1, dtype=torch.float32).to(value.dtype) @ value
    return (found.permute(2, 0, 1, 3) if shared else found.transpose(1, 2)), None


AttentionInterface.register(STEPPED, stepped_attention)
AttentionMaskInterface.register(STEPPED, sdpa_mask)


def attend_by_steps(model: Any) -> None:
    """Have the decoder of a model use this attention, if it uses PyTorch's."""
    decoder = model.get_decoder()
    if decoder.config._attn_implementation == "sdpa":
        decoder.set_attn_implementation(STEPPED)
