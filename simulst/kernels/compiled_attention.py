"""Attention of a decoder's few rows, compiled for this processor.

Between its products, a decoder step computes little, but in many pieces. Each call of torch costs more than the
arithmetic of a piece. It costs still more after a product, whose weights drive everything else out of the near caches.
Here one call computes a layer's attention for all rows of all searches.

All numbers are float32. What the searches of a call attend to is an array of `Record`s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from numba import carray, from_dtype, prange, set_num_threads, types
from numba.extending import intrinsic
from torch import Tensor

from simulst.kernels.attention import Search, Slots
from simulst.kernels.compiled_products import MOST_THREADS
from simulst.kernels.compiler import compiled

WORTH_MULTIPLICATIONS = 2**19  # from which on threads share the attention of many searches
SUMS = {"reassoc", "contract", "nsz"}  # what the compiler may do to sums: they need no order


class Record(NamedTuple):
    """What one search's rows attend to: its tokens, or its frames. Addresses are of float32, row after row.

    first, rows: its rows among those of all searches, as many as `rows`.
    data, capacity: address of the keys and values (layers, 2, heads, capacity, d_k).
    slot: where those of the rows themselves are written, one after the other; -1: they are there.
    places, step: address (int64) of the slots that the rows may see, and from those of a row to those of the next one.
    length: how many slots.
    seen: address (bytes) of which of them each row sees, (rows, length); 0: all.
    weights, shown: address for the weights (layers, shown, heads, length) of the last `shown` rows.
    """

    first: int
    rows: int
    data: int
    capacity: int
    slot: int
    places: int
    step: int
    length: int
    seen: int
    weights: int
    shown: int


RECORD = np.dtype([(name, np.int64) for name in Record._fields])
_rows, _searches = types.float32[:, ::1], from_dtype(RECORD)[::1]
_attending = types.void(_rows, _searches, types.int64, types.int64, _rows)


def _pointer(kind: Any, element: Any) -> Any:
    """The compiled function that makes a pointer of an address."""

    @intrinsic
    def pointer(context: Any, address: Any) -> Any:
        def write(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
            return b.inttoptr(arguments[0], element.as_pointer())

        return types.CPointer(kind)(types.int64), write

    return pointer


_floats_at = _pointer(types.float32, ir.FloatType())
_integers_at = _pointer(types.int64, ir.IntType(64))
_bytes_at = _pointer(types.uint8, ir.IntType(8))


@compiled(_attending, fastmath=SUMS)
def _attend(given: np.ndarray, searches: np.ndarray, layer: int, heads: int, found: np.ndarray) -> None:
    """given: (m, width) the queries; or (m, 3 * width) with the keys and values of the rows, too."""
    width = found.shape[1]
    size = width // heads
    scale = np.float32(1 / np.sqrt(size))
    for search in searches:
        first, rows, length, step, shown = search.first, search.rows, search.length, search.step, search.shown
        data = search.data + 4 * layer * 2 * heads * search.capacity * size
        keys_values = carray(_floats_at(data), (2, heads, search.capacity, size))
        places = carray(_integers_at(search.places), step * (rows - 1) + length)
        seen = carray(_bytes_at(search.seen), (rows if search.seen else 0, length))
        weights = carray(_floats_at(search.weights + 4 * layer * shown * heads * length), (shown, heads, length))
        scores = np.empty((rows, length), np.float32)
        for head in range(heads):
            keys, values = keys_values[0, head], keys_values[1, head]
            start = head * size
            if search.slot >= 0:
                for row in range(rows):
                    for k in range(size):
                        keys[search.slot + row, k] = given[first + row, width + start + k]
                        values[search.slot + row, k] = given[first + row, 2 * width + start + k]
            for i in range(length):
                for row in range(rows):
                    query, key = given[first + row, start:], keys[places[step * row + i]]
                    score = np.float32(0)
                    for k in range(size):
                        score += query[k] * key[k]
                    scores[row, i] = score * scale if not search.seen or seen[row, i] else -np.inf
            for row in range(rows):
                largest, total = np.float32(-np.inf), np.float32(0)
                for i in range(length):
                    largest = max(largest, scores[row, i])
                for i in range(length):
                    scores[row, i] = math.exp(scores[row, i] - largest)
                    total += scores[row, i]
                for i in range(length):
                    scores[row, i] /= total
                if row >= rows - shown:
                    weights[row - (rows - shown), head] = scores[row]
                found[first + row, start : start + size] = 0
            for i in range(length):
                for row in range(rows):
                    out, value = found[first + row, start:], values[places[step * row + i]]
                    weight = scores[row, i]
                    for k in range(size):
                        out[k] += weight * value[k]


@compiled(types.void(*_attending.args, types.int64), parallel=True)
def _shared(given: np.ndarray, searches: np.ndarray, layer: int, heads: int, found: np.ndarray, threads: int) -> None:
    for part in prange(threads):
        some = searches[part * len(searches) // threads : (part + 1) * len(searches) // threads]
        _attend(given, some, layer, heads, found)


class Compiled:
    """Attention of the rows of all searches, compiled."""

    def __init__(self, searches: Sequence[Search], heads: int) -> None:
        self._heads, self._width = heads, heads * searches[0].slots.data.shape[-1]
        self._owners: list[Any] = list(searches)  # addresses are valid as long as their owners live
        numbers = torch.arange(max(len(search.memory) for search in searches))[None]
        self._tokens, self._frames = np.empty((2, len(searches)), RECORD)
        for place, search in enumerate(searches):
            earlier = torch.ones(search.rows, search.rows, dtype=torch.bool).tril_() if search.starts else None
            self._owners += [earlier, numbers]
            slots, memory = search.slots, search.memory
            length = search.places.shape[1]
            self._tokens[place] = _record(search, slots, search.slot, search.places, length, earlier, None)
            self._frames[place] = _record(search, memory.slots, -1, numbers, len(memory), search.seen, search.weights)
        counts = [self._width * int(table["rows"] @ table["length"]) for table in (self._tokens, self._frames)]
        self._threads = [min(self.threads(count), len(searches), MOST_THREADS) for count in counts]

    @staticmethod
    def threads(multiplications: int) -> int:
        """How many threads share the attention of all searches."""
        return torch.get_num_threads() if multiplications >= WORTH_MULTIPLICATIONS else 1

    def to_tokens(self, layer: int, qkv: Tensor) -> Tensor:
        """As that of `ByTorch`."""
        return self._found(self._tokens, self._threads[0], layer, qkv)

    def to_frames(self, layer: int, queries: Tensor) -> Tensor:
        """As that of `ByTorch`."""
        return self._found(self._frames, self._threads[1], layer, queries)

    def _found(self, searches: np.ndarray, threads: int, layer: int, given: Tensor) -> Tensor:
        found = np.empty((len(given), self._width), np.float32)
        if threads > 1:
            set_num_threads(threads)
            _shared(given.numpy(), searches, layer, self._heads, found, threads)
        else:
            _attend(given.numpy(), searches, layer, self._heads, found)
        return torch.from_numpy(found)


def _record(
    search: Search, slots: Slots, slot: int, places: Tensor, length: int, seen: Tensor | None, weights: Tensor | None
) -> Record:
    return Record(
        first=search.first,
        rows=search.rows,
        data=slots.data.data_ptr(),
        capacity=slots.data.shape[3],
        slot=slot,
        places=places.data_ptr(),
        step=length if len(places) > 1 else 0,
        length=length,
        seen=0 if seen is None else seen.data_ptr(),
        weights=0 if weights is None else weights.data_ptr(),
        shown=0 if weights is None else weights.shape[1],
    )
