"""Attention of a decoder's few rows, to the tokens of their hypotheses and to encoder frames: the contract.

`ByTorch` computes it search by search, on any device. `compiled_attention` has the same for the processor, in float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from simulst.errors import warn_once
from simulst.kernels.compiler import build

LEAST_SLOTS = 64  # the least capacity of a pool of tokens; smaller pools would be copied too often


class Slots:
    """Keys and values of all layers.

    data: (layers, 2, heads, capacity, d_k).
    used: how many slots are filled, from the first on.
    """

    def __init__(self, data: Tensor, used: int = 0) -> None:
        self.data = data
        self.used = used

    def has_room(self, count: int) -> bool:
        return self.used + count <= self.data.shape[3]

    def moved(self, kept: Tensor, room: int) -> Slots:
        """A copy of some slots (layers, 2, heads, n, d_k), with room for twice as many and `room`."""
        count = kept.shape[3]
        capacity = max(LEAST_SLOTS, 2 * (count + room))
        # Zeros, because torch multiplies what a mask hides, and slots stay empty if a batch fails.
        data = self.data.new_zeros((*self.data.shape[:3], capacity, self.data.shape[4]))
        data[:, :, :, :count] = kept
        return Slots(data, count)

    def take(self, count: int) -> int:
        """The first of `count` slots, which nobody else gets."""
        self.used += count
        return self.used - count


class Memory:
    """The encoder frames that the decoder attends to, projected once to the keys and values of all layers."""

    def __init__(self, project: Callable[[Tensor], Tensor], empty: Tensor) -> None:
        self._project = project
        self._slots = Slots(empty)

    def __len__(self) -> int:
        return self._slots.used

    @torch.inference_mode()
    def append(self, frames: Tensor) -> None:
        """More encoder frames, (t, width)."""
        count = frames.shape[0]
        if not count:
            return
        if not self._slots.has_room(count):
            self._slots = self._slots.moved(self.keys_values, count)
        slots = self._slots
        layers, _, heads, _, d_k = slots.data.shape
        projected = self._project(frames.to(slots.data)).view(count, layers, 2, heads, d_k)
        slots.data[:, :, :, slots.used : slots.used + count] = projected.permute(1, 2, 3, 0, 4)
        slots.used += count

    @property
    def keys_values(self) -> Tensor:
        """The filled part, (layers, 2, heads, T, d_k); a view."""
        return self._slots.data[:, :, :, : self._slots.used]


@dataclass(frozen=True)
class Search:
    """What one search's rows of a batch attend to.

    first, rows: its rows, `rows` of them.
    starts: whether they are a prefix, from <sos> on; otherwise, each is the next token of a hypothesis.
    slots: the pool of its tokens.
    slot: the slot of the first row; those of the others follow.
    places: (rows, ·) the slots of each hypothesis's tokens with the new ones, or if `starts`, of the prefix (1, rows).
    memory: its encoder frames.
    seen: (rows, T) which of them each row sees; None: all.
    weights: for the source attention (layers * heads, n, 1, T), if it is asked for.
    """

    first: int
    rows: int
    starts: bool
    slots: Slots
    slot: int
    places: Tensor
    memory: Any
    seen: Tensor | None
    weights: Tensor | None


class ByTorch:
    """Attention of the rows of all searches, by torch's functions."""

    def __init__(self, searches: Sequence[Search], heads: int) -> None:
        self._heads, self._searches, self._sizes = heads, searches, [search.rows for search in searches]
        self._masks = [self._mask(search) for search in searches]

    @staticmethod
    def _mask(search: Search) -> Tensor:
        """(rows, slots) 0 where a row sees a slot, else -inf; other states may have added to the pool meanwhile."""
        mask = search.slots.data.new_full((search.rows, search.slot + search.rows), -torch.inf)
        return mask.triu_(1) if search.starts else mask.scatter_(1, search.places, 0)

    def to_tokens(self, layer: int, qkv: Tensor) -> Tensor:
        """Add keys and values to the pools, and attend to what each row sees: (m, 3 * width) → (m, width)."""
        found = []
        qkv = qkv.unflatten(1, (3, self._heads, -1)).permute(1, 2, 0, 3)
        queries, more = qkv[0].split(self._sizes, 1), qkv[1:].split(self._sizes, 2)
        for search, mask, query, new in zip(self._searches, self._masks, queries, more, strict=True):
            own, last = search.slots.data[layer], search.slot + search.rows
            own[:, :, search.slot : last] = new
            found.append(_attend(query, own[:, :, :last], mask))
        return torch.cat(found) if len(found) > 1 else found[0]

    def to_frames(self, layer: int, queries: Tensor) -> Tensor:
        """Source attention of queries: (m, width) → (m, width)."""
        found = []
        queries = queries.unflatten(1, (self._heads, -1)).transpose(0, 1)
        for search, query in zip(self._searches, queries.split(self._sizes, 1), strict=True):
            source = search.memory.keys_values[layer]
            if search.weights is not None:
                here = slice(layer * self._heads, (layer + 1) * self._heads)
                search.weights[here, :, 0] = _weights(query[:, -1:] if search.starts else query, source[0])
            found.append(_attend(query, source, search.seen))
        return torch.cat(found) if len(found) > 1 else found[0]


def _attend(query: Tensor, key_value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of queries (heads, m, d_k) over shared keys and values (2, heads, T, d_k) → (m, heads * d_k)."""
    key, value = key_value.unsqueeze(1)
    found = functional.scaled_dot_product_attention(query[None], key, value, mask)
    return found[0].transpose(0, 1).flatten(1)


def _weights(query: Tensor, key: Tensor) -> Tensor:
    """Queries (heads, n, d_k), keys (heads, T, d_k) → attention weights (heads, n, T) float32."""
    scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])
    return torch.softmax(scores, -1, dtype=torch.float32)


@functools.cache
def compiled_attention() -> Any:
    """The module with `Compiled`, which is as `ByTorch` for arrays, `PanelMemory` and `normed`; None: use torch."""
    kernels = build("simulst.kernels.compiled_attention")
    if kernels and not _agrees(kernels):
        warn_once("compiled attention does not agree with torch's here; torch computes it, which is slower.")
        return None
    return kernels


@torch.inference_mode()
def _agrees(kernels: Any) -> bool:
    """For a prefix of three tokens, and two hypotheses of two; with more frames than a panel has."""
    heads, size, frames = 2, 8, 150
    width, ones = heads * size, torch.ones(heads * size)
    random = torch.Generator().manual_seed(0)
    weight, x, qkv, queries, seen = (
        torch.randn(shape, generator=random)
        for shape in ((width, 2 * width), (frames, width), (5, 3 * width), (5, width), (3, frames))
    )
    empty = torch.zeros(1, 2, heads, 0, size)
    normed = kernels.normed(queries.numpy(), ones.numpy(), ones.numpy(), 1e-5)
    found = [[functional.layer_norm(queries, [width], ones, ones)], [torch.from_numpy(normed)]]
    memories = Memory(lambda x: x @ weight, empty), kernels.PanelMemory(lambda x: x @ weight, 1, heads, size)
    for results, memory, by_torch in zip(found, memories, (True, False), strict=True):
        memory.append(x)
        weights = [torch.empty(heads, rows, 1, frames) for rows in (1, 2)]
        new, old = Slots(empty).moved(empty, 3), Slots(empty).moved(torch.ones(1, 2, heads, 2, size), 2)
        searches = [
            Search(0, 3, True, new, new.take(3), torch.arange(3)[None], memory, seen > 0, weights[0]),
            Search(3, 2, False, old, old.take(2), torch.tensor([[0, 2], [1, 3]]), memory, None, weights[1]),
        ]
        attend = ByTorch(searches, heads) if by_torch else kernels.Compiled(searches, heads)
        rows: Any = (qkv, queries) if by_torch else (qkv.numpy(), queries.numpy())
        results += [torch.as_tensor(attend.to_tokens(0, rows[0])), torch.as_tensor(attend.to_frames(0, rows[1]))]
        results += weights[1:]
    return all(torch.allclose(ours, other, atol=1e-5) for ours, other in zip(*found, strict=True))
