"""Attention of a decoder that reads one token of each hypothesis at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from simulst.models.huggingface.attention_rows import recorder

STEPPED = "simulst_stepped"  # our name for it in transformers


@dataclass(frozen=True)
class Several:
    """Keys, or values, of several searches whose hypotheses are the rows of one batch. The library hands them on.

    parts: of each search with n hypotheses, (n, heads, length, d), or (1, heads, length, d) if they share them.
    sizes: n of each search.
    """

    parts: tuple[Tensor, ...]
    sizes: tuple[int, ...]

    def longer(self, new: Tensor) -> Several:
        """With those of a new token of each hypothesis, (sum of n, heads, 1, d)."""
        pairs = zip(self.parts, new.split(self.sizes), strict=True)
        return Several(tuple(torch.cat(pair, 2) for pair in pairs), self.sizes)


def stepped_attention(
    module: Any, query: Tensor, key: Any, value: Any, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, tuple[Tensor, ...] | None]:
    """Attention as the library calls it.

    query: (n, heads, m, d). key: (n, heads, T, d). value: (n, heads, T, size). Both may be `Several`, with m = 1. Heads
        of queries may share one of keys and values, which then have fewer.
    Returns: (n, m, heads, size), and the weights of each search, (n, heads, 1, T), or of a single one no weights.

    PyTorch's fused attention is made for many queries. One query is two products of matrices. The encoder's frames are
    the same for all hypotheses, so their queries become those of one hypothesis.
    """
    several = isinstance(key, Several)
    if (rows := recorder()) is not None:
        searches = list(zip(query.split(key.sizes), key.parts, strict=True)) if several else [(query, key)]
        rows.see(module.layer_idx, searches, attention_mask, options.get("scaling"))
    plain = attention_mask is None and options.get("position_bias") is None
    if not (plain and query.shape[2] == 1) or options.get("dropout"):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    scaling = options.get("scaling")
    query = query * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if several:
        parts = zip(query.split(key.sizes), key.parts, value.parts, strict=True)
        found, weights = zip(*(_attend(*part) for part in parts), strict=True)
        return torch.cat(found), weights
    if key.stride(0) == value.stride(0) == 0:
        key, value = key[:1], value[:1]
    return _attend(query, key, value)[0], None


def _attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Scaled queries (n, heads, 1, d), keys (n or 1, heads or fewer, T, d), values of another size.

    Returns: (n, 1, heads, size), and the weights (n, heads, 1, T).
    """
    count, heads = query.shape[:2]
    rows = query.reshape(count, key.shape[1], -1, query.shape[3])  # those that share a head of keys
    shared = len(key) < count
    if shared:
        rows = rows.transpose(0, 1).reshape(1, key.shape[1], -1, query.shape[3])
    weights = torch.softmax(rows @ key.transpose(2, 3), -1, dtype=torch.float32)
    found = weights.to(value.dtype) @ value
    if shared:
        found, weights = (part[0].unflatten(1, (count, -1)).transpose(0, 1) for part in (found, weights))
    return found.reshape(count, 1, heads, -1), weights.reshape(count, heads, 1, -1)


AttentionInterface.register(STEPPED, stepped_attention)
AttentionMaskInterface.register(STEPPED, sdpa_mask)


def attend_by_steps(model: Any) -> None:
    """Have the decoder of a model use this attention, if it uses PyTorch's."""
    decoder = model.get_decoder()
    if decoder.config._attn_implementation == "sdpa":
        decoder.set_attn_implementation(STEPPED)
