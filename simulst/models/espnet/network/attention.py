"""What a decoder's rows attend to: the tokens of their hypotheses, and encoder frames.

On the processor, in float32 and int8, attention is compiled (`Compiled`); elsewhere torch computes it, search by search
(`ByTorch`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from simulst.models.espnet.network.compiled_attention import RECORD, Record, attend_to_frames, attend_to_tokens, place
from simulst.models.espnet.network.linear import Linear
from simulst.models.espnet.network.tiles import PANEL

WORTH_MULTIPLICATIONS = 2**19  # from which on threads share the attention of many searches
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

    def __init__(self, project: Linear, empty: Tensor) -> None:
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


class PanelMemory:
    """As `Memory`, for compiled attention.

    keys, values: see `place`.
    addresses: of both.
    """

    def __init__(self, project: Linear, layers: int, heads: int, size: int) -> None:
        self._project, self._size, self._used = project, size, 0
        panels = -(-heads // max(1, PANEL // size)) * -(-size // PANEL)
        self.keys = np.zeros((layers, heads, 0, size, PANEL), np.float32)
        self.values = np.zeros((layers, panels, 0, PANEL), np.float32)
        self.addresses = 0, 0

    def __len__(self) -> int:
        return self._used

    @property
    def room(self) -> int:
        return self.values.shape[2]

    def append(self, frames: Any) -> None:
        """More encoder frames, a tensor (t, width)."""
        count = self._used + len(frames)
        if count == self._used:
            return
        if count > self.room:
            more = -(-2 * count // PANEL) * PANEL - self.room
            self.keys = np.pad(self.keys, ((0, 0), (0, 0), (0, more // PANEL), (0, 0), (0, 0)))
            self.values = np.pad(self.values, ((0, 0), (0, 0), (0, more), (0, 0)))
            self.addresses = self.keys.ctypes.data, self.values.ctypes.data
        projected = self._project.rows(np.ascontiguousarray(frames.detach().float().numpy()))
        place(projected, self.keys, self.values, self._used, self._size)
        self._used = count


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
    weights: for the source attention (layers, n, heads, T), if it is asked for.
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


class Compiled:
    """Attention of the rows of all searches, compiled."""

    def __init__(self, searches: Sequence[Search], heads: int) -> None:
        self._heads, self._searches = heads, searches  # addresses are valid as long as their owners live
        self._table = table = np.array([self._row(search) for search in searches], RECORD)
        width = heads * searches[0].slots.data.shape[-1]
        tokens, frames = (width * int(table["rows"] @ table[seen]) for seen in ("length", "frames"))
        self._threads = self.threads(tokens), self.threads(frames)

    @staticmethod
    def threads(multiplications: int) -> int:
        """How many threads share the attention of all searches."""
        return torch.get_num_threads() if multiplications >= WORTH_MULTIPLICATIONS else 1

    @staticmethod
    def _row(search: Search) -> Record:
        data, memory = search.slots.data, search.memory
        return Record(
            first=search.first,
            rows=search.rows,
            starts=search.starts,
            pool=data.data_ptr(),
            capacity=data.shape[3],
            slot=search.slot,
            places=search.places.data_ptr(),
            length=search.places.shape[1],
            keys=memory.addresses[0],
            values=memory.addresses[1],
            room=memory.room,
            frames=len(memory),
            seen=0 if search.seen is None else search.seen.data_ptr(),
            weights=0 if search.weights is None else search.weights.data_ptr(),
        )

    def to_tokens(self, layer: int, qkv: np.ndarray) -> np.ndarray:
        return attend_to_tokens(qkv, self._table, layer, self._heads, self._threads[0])

    def to_frames(self, layer: int, queries: np.ndarray) -> np.ndarray:
        return attend_to_frames(queries, self._table, layer, self._heads, self._threads[1])


class ByTorch:
    """As `Compiled`, by torch's functions."""

    def __init__(self, searches: Sequence[Search], heads: int) -> None:
        self._heads, self._searches, self._sizes = heads, searches, [search.rows for search in searches]
        self._masks = [self._mask(search) for search in searches]

    @staticmethod
    def _mask(search: Search) -> Tensor:
        """(rows, slots) 0 where a row sees a slot, else -inf; other states may have added to the pool meanwhile."""
        mask = search.slots.data.new_full((search.rows, search.slot + search.rows), -torch.inf)
        return mask.triu_(1) if search.starts else mask.scatter_(1, search.places, 0)

    def to_tokens(self, layer: int, qkv: Tensor) -> Tensor:
        found = []
        qkv = qkv.unflatten(1, (3, self._heads, -1)).permute(1, 2, 0, 3)
        queries, more = qkv[0].split(self._sizes, 1), qkv[1:].split(self._sizes, 2)
        for search, mask, query, new in zip(self._searches, self._masks, queries, more, strict=True):
            own, last = search.slots.data[layer], search.slot + search.rows
            own[:, :, search.slot : last] = new
            found.append(_attend(query, own[:, :, :last], mask))
        return torch.cat(found) if len(found) > 1 else found[0]

    def to_frames(self, layer: int, queries: Tensor) -> Tensor:
        found = []
        queries = queries.unflatten(1, (self._heads, -1)).transpose(0, 1)
        for search, query in zip(self._searches, queries.split(self._sizes, 1), strict=True):
            source = search.memory.keys_values[layer]
            if search.weights is not None:
                search.weights[layer] = _weights(query[:, -1:] if search.starts else query, source[0])
            found.append(_attend(query, source, search.seen))
        return torch.cat(found) if len(found) > 1 else found[0]


def _attend(query: Tensor, key_value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of queries (heads, m, d_k) over shared keys and values (2, heads, T, d_k) → (m, heads * d_k)."""
    key, value = key_value.unsqueeze(1)
    found = functional.scaled_dot_product_attention(query[None], key, value, mask)
    return found[0].transpose(0, 1).flatten(1)


def _weights(query: Tensor, key: Tensor) -> Tensor:
    """Queries (heads, n, d_k), keys (heads, T, d_k) → attention weights (n, heads, T) float32."""
    scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])
    return torch.softmax(scores, -1, dtype=torch.float32).transpose(0, 1)
