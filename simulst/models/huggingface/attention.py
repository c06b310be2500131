"""Attention of a decoder that reads one token of each hypothesis at a time, and rows of it that are shown.

Rows are those of chosen heads over the span of positions where the source of a decoder-only model stands: words of a
chat, or places of audio. Fused attention does not tell its weights, so rows are computed again beside it, for the
chosen heads alone (arXiv 2606.03967, section 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from simulst.policy.context import HeadPairs

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
    if (rows := _recorder.get()) is not None:
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


# ---- rows that are shown ----


@dataclass(frozen=True)
class Wanted:
    """Which rows a search wants.

    heads: each as the number of its layer and its number there, counted from 0.
    begin, end: the span of positions whose weights are shown. A row sums to less than 1, as others are attended, too.
    first: the position of the first row: the last of the prompt, at which the first token of the text is chosen.
    """

    heads: HeadPairs
    begin: int
    end: int
    first: int


class Recorder:
    """Takes down rows while a model reads.

    wanted: of each search whose hypotheses are rows of the batch; None: it wants none.
    """

    def __init__(self, wanted: Sequence[Wanted | None]) -> None:
        self._wanted = wanted
        self._seen: list[dict[tuple[int, int], Tensor]] = [{} for _ in wanted]

    def see(
        self, layer: int, searches: Sequence[tuple[Tensor, Tensor]], mask: Tensor | None, scaling: float | None
    ) -> None:
        """What attention is called with, of each search: queries (n, heads, m, d), keys (n or 1, heads or fewer, T, d).

        mask: (n or 1, 1, m, T), whether a key is seen, or what is added to its score; None: each position sees all
            before it.
        """
        for (query, key), wanted, seen in zip(searches, self._wanted, self._seen, strict=True):
            heads = [head for number, head in wanted.heads if number == layer] if wanted else []
            if wanted is None or not heads:
                continue
            before = key.shape[2] - query.shape[2]  # positions that were read earlier
            start = max(0, wanted.first - before)
            keys = key[:, [head * key.shape[1] // query.shape[1] for head in heads]].float()
            factor = query.shape[3] ** -0.5 if scaling is None else scaling
            scores = query[:, heads, start:].float() @ keys.transpose(2, 3) * factor
            if mask is None:
                places = torch.arange(key.shape[2], device=key.device)
                scores = scores.masked_fill(places > places[before + start :, None], -torch.inf)
            elif mask.dtype == torch.bool:
                scores = scores.masked_fill(~mask[..., start:, : key.shape[2]], -torch.inf)
            else:
                scores = scores + mask[..., start:, : key.shape[2]]
            weights = torch.softmax(scores, -1)[..., wanted.begin : wanted.end]
            seen.update({(layer, head): weights[:, place] for place, head in enumerate(heads)})

    def rows(self, number: int) -> Tensor | None:
        """Of one search: (heads, n, positions from `first` on, span) float32; None: it wants none."""
        wanted = self._wanted[number]
        return torch.stack([self._seen[number][pair] for pair in wanted.heads]) if wanted else None


_recorder: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recorded(*wanted: Wanted | None) -> Iterator[Recorder]:
    """Take down rows of what a model reads inside. wanted: see `Recorder`."""
    recorder = Recorder(wanted)
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)
