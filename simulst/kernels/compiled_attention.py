"""Attention of a decoder's few rows, compiled for this processor.

Between its products, a decoder step computes little, but in many pieces. Each call of torch costs more than the
arithmetic of a piece. It costs still more after a product, whose weights drive everything else out of the near caches.
Here one call computes a layer's attention for all rows of all searches. Encoder frames lie in the order in which
products read weights (see products.py), since keys and values are weights of the queries.

All numbers are float32. The searches of a call are an array of `Record`s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from numba import carray, from_dtype, prange, set_num_threads, types
from numba.extending import intrinsic
from torch import Tensor

from simulst.kernels.attention import Search
from simulst.kernels.compiled_products import MOST_THREADS
from simulst.kernels.compiler import compiled
from simulst.kernels.tiles import AHEAD, PANEL, ROWS, add_floats

WORTH_MULTIPLICATIONS = 2**19  # from which on threads share the attention of many searches
SUMS = {"reassoc", "contract", "nsz"}  # what the compiler may do to sums: they need no order


class Record(NamedTuple):
    """What one search's rows attend to. Addresses are of float32, row after row.

    first, rows: its rows among those of all searches, as many as `rows`.
    starts: 1 if they are a prefix, each row a token that sees the ones before it; 0 if each is a hypothesis's next.
    pool: address of the keys and values of tokens (layers, 2, heads, capacity, d_k).
    capacity: how many slots the pool has.
    slot: the slot of the first row; those of the others follow.
    places: address (int64) of the slots of each hypothesis's tokens with the new ones, (rows or 1, length).
    length: how many tokens each hypothesis has then.
    keys, values: addresses of those of frames, as `place` lays them out.
    room, frames: how many frames the memory has room for, and how many it has.
    seen: address (bytes) of which frames each row sees, (rows, frames); 0: all.
    weights: address for source attention (layers * heads, rows or 1, 1, frames) of all rows or, if `starts`, of the
        last; 0: it is not wanted.
    """

    first: int
    rows: int
    starts: int
    pool: int
    capacity: int
    slot: int
    places: int
    length: int
    keys: int
    values: int
    room: int
    frames: int
    seen: int
    weights: int


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


@compiled("void(i8, i8, i8, f4[:,::1], i8, i8)")
def _tile(inputs: int, stride: int, panel: int, sums: np.ndarray, rows: int, steps: int) -> None:
    """As a function, since LLVM's code of a tile may stand only once in a module."""
    for row in range(rows):
        for i in range(PANEL):
            sums[row, i] = 0
    add_floats(inputs, stride, panel, sums.ctypes.data, 4 * PANEL, panel + AHEAD, 4 * PANEL, steps, rows)


@compiled("f4[:,::1](f4[:,::1], f4[::1], f4[::1], f4)", fastmath=SUMS)
def normed(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    """Layer norm of rows (m, width)."""
    many, width = x.shape
    y = np.empty_like(x)
    for row in range(many):
        total = np.float32(0)
        for i in range(width):
            total += x[row, i]
        mean = total / np.float32(width)
        total = np.float32(0)
        for i in range(width):
            total += (x[row, i] - mean) * (x[row, i] - mean)
        scale = np.float32(1) / np.sqrt(total / np.float32(width) + eps)
        for i in range(width):
            y[row, i] = (x[row, i] - mean) * scale * weight[i] + bias[i]
    return y


@compiled("f4(f4[::1])", fastmath=SUMS)
def _sum(numbers: np.ndarray) -> np.float32:
    total = np.float32(0)
    for i in range(len(numbers)):
        total += numbers[i]
    return total


@compiled("f4(f4[::1], f4[::1])")
def _largest(numbers: np.ndarray, lanes: np.ndarray) -> np.float32:
    """The largest number. lanes: room for the largest of every 16th, as the compiler makes vectors only of these."""
    lanes[:] = -np.inf
    last = len(numbers) - len(numbers) % 16
    for start in range(0, last, 16):
        for lane in range(16):
            number = numbers[start + lane]
            lanes[lane] = number if number > lanes[lane] else lanes[lane]
    largest = np.float32(-np.inf)
    for number in lanes:
        largest = max(largest, number)
    for number in numbers[last:]:
        largest = max(largest, number)
    return largest


@compiled("f4(f4[::1], f4, f4[::1])")
def _exponentials(scores: np.ndarray, largest: np.float32, powers: np.ndarray) -> np.float32:
    """Replace scores by exp(score - largest), and return their sum. powers: room of the same size.

    exp x = 2ⁿ eʳ with |r| ≤ ln 2 / 2. If 1.5 * 2²³ is added, a number is rounded to an integer n, which is in the last
    bits then. eʳ is Cephes' polynomial. The compiler makes vectors of this, and not of the C library's function.
    """
    size = len(scores)
    rounds = np.float32(3 << 22)
    for i in range(size):
        x = scores[i] - largest
        least = x < np.float32(-87)  # what is less is 0 as a float32
        x = np.float32(-87) if least else x
        powers[i] = x * np.float32(1.44269504088896341) + rounds
        n = powers[i] - rounds
        r = x - n * np.float32(0.693359375) - n * np.float32(-2.12194440e-4)
        p = np.float32(1.9875691500e-4)
        p = p * r + np.float32(1.3981999507e-3)
        p = p * r + np.float32(8.3334519073e-3)
        p = p * r + np.float32(4.1665795894e-2)
        p = p * r + np.float32(1.6666665459e-1)
        p = p * r + np.float32(5.0000001201e-1)
        p = p * r * r + r + np.float32(1)
        scores[i] = np.float32(0) if least else p
    bits = powers.view(np.int32)
    for i in range(size):
        bits[i] = (bits[i] << np.int32(23)) + np.int32(127 << 23)
    for i in range(size):
        scores[i] *= powers[i]
    return _sum(scores)


@compiled(_attending, fastmath=SUMS)
def _to_tokens(qkv: np.ndarray, searches: np.ndarray, layer: int, heads: int, found: np.ndarray) -> None:
    width = qkv.shape[1] // 3
    size = width // heads
    scale = np.float32(1 / np.sqrt(size))
    for search in searches:
        first, rows, starts, length = search.first, search.rows, search.starts, search.length
        pool = search.pool + 4 * layer * 2 * heads * search.capacity * size
        keys_values = carray(_floats_at(pool), (2, heads, search.capacity, size))
        for row in range(rows):
            for part in range(2):
                for head in range(heads):
                    start = (1 + part) * width + head * size
                    for k in range(size):
                        keys_values[part, head, search.slot + row, k] = qkv[first + row, start + k]
        slots = carray(_integers_at(search.places), (1 if starts else rows, length))
        scores, powers = np.empty(length, np.float32), np.empty(length, np.float32)
        for head in range(heads):
            keys, values = keys_values[0, head], keys_values[1, head]
            for row in range(rows):
                count, seen = row + 1 if starts else length, slots[0 if starts else row]
                query, largest = qkv[first + row, head * size : (head + 1) * size], np.float32(-np.inf)
                for i in range(count):
                    key, score = keys[seen[i]], np.float32(0)
                    for k in range(size):
                        score += query[k] * key[k]
                    scores[i] = score * scale
                    largest = max(largest, scores[i])
                times = np.float32(1) / _exponentials(scores[:count], largest, powers[:count])
                out = found[first + row, head * size : (head + 1) * size]
                for k in range(size):
                    out[k] = 0
                for i in range(count):
                    value, weight = values[seen[i]], scores[i] * times
                    for k in range(size):
                        out[k] += weight * value[k]


@compiled(_attending)
def _to_frames(queries: np.ndarray, searches: np.ndarray, layer: int, heads: int, found: np.ndarray) -> None:
    width = queries.shape[1]
    size = width // heads
    scale, beside, panels = np.float32(1 / np.sqrt(size)), max(1, PANEL // size), -(-size // PANEL)
    sums, lanes = np.empty((ROWS, PANEL), np.float32), np.empty(16, np.float32)
    for search in searches:
        first, rows, room, frames = search.first, search.rows, search.room, search.frames
        keys = search.keys + 4 * layer * heads * room * size
        values = search.values + 4 * layer * -(-heads // beside) * panels * room * PANEL
        shown = (1 if search.starts else rows) if search.weights else 0
        weights = carray(_floats_at(search.weights + 4 * layer * shown * heads * frames), (heads, shown, frames))
        seen = carray(_bytes_at(search.seen), (rows if search.seen else 0, frames))
        scores, powers = np.empty((ROWS, -(-frames // PANEL) * PANEL), np.float32), np.empty(frames, np.float32)
        for head in range(heads):
            for start in range(0, rows, ROWS):
                count = min(ROWS, rows - start)
                query = queries[first + start, head * size :].ctypes.data
                for t in range(0, frames, PANEL):
                    panel = keys + 4 * (head * room + t) * size
                    _tile(query, 4 * width, panel, sums, count, size)
                    for r in range(count):
                        for j in range(PANEL):
                            scores[r, t + j] = sums[r, j] * scale
                for r in range(count):
                    row = scores[r, :frames]
                    if search.seen:
                        for t in range(frames):
                            if not seen[start + r, t]:
                                row[t] = -np.inf
                    times = np.float32(1) / _exponentials(row, _largest(row, lanes), powers)
                    for t in range(frames):
                        row[t] *= times
                    if start + r >= rows - shown:
                        out = weights[head, start + r - (rows - shown)]
                        for t in range(frames):
                            out[t] = row[t]
                for p in range(panels):
                    panel = values + 4 * (head // beside * panels + p) * room * PANEL
                    _tile(scores.ctypes.data, 4 * scores.shape[1], panel, sums, count, frames)
                    left, some = head % beside * size, min(PANEL, size - p * PANEL)
                    for r in range(count):
                        out = found[first + start + r, head * size + p * PANEL :]
                        for j in range(some):
                            out[j] = sums[r, left + j]


@compiled(types.void(types.boolean, *_attending.args, types.int64), parallel=True)
def _shared(
    frames: bool, rows: np.ndarray, searches: np.ndarray, layer: int, heads: int, found: np.ndarray, threads: int
) -> None:
    for part in prange(threads):
        some = searches[part * len(searches) // threads : (part + 1) * len(searches) // threads]
        if frames:
            _to_frames(rows, some, layer, heads, found)
        else:
            _to_tokens(rows, some, layer, heads, found)


@compiled("void(f4[:,::1], f4[:,:,:,:,::1], f4[:,:,:,::1], i8, i8)")
def place(projected: np.ndarray, keys: np.ndarray, values: np.ndarray, used: int, size: int) -> None:
    """Write keys and values of new frames behind those that are there.

    projected: (t, layers * 2 * heads * d_k).
    keys: (layers, heads, room / PANEL, d_k, PANEL).
    values: (layers, panels, room, PANEL). The values of a head are in several panels, or are a part of one.
    used: how many frames are there.
    size: d_k.
    """
    layers, heads = keys.shape[:2]
    beside, panels = max(1, PANEL // size), -(-size // PANEL)
    for t in range(len(projected)):
        place = used + t
        for layer in range(layers):
            for head in range(heads):
                start, left = (2 * layer * heads + head) * size, head % beside * size
                for k in range(size):
                    keys[layer, head, place // PANEL, k, place % PANEL] = projected[t, start + k]
                start += heads * size
                for k in range(size):
                    panel = head // beside * panels + k // PANEL
                    values[layer, panel, place, left + k % PANEL] = projected[t, start + k]


class PanelMemory:
    """As `Memory`, for compiled attention.

    keys, values: see `place`.
    addresses: of both.
    """

    def __init__(self, project: Callable[[Tensor], Tensor], layers: int, heads: int, size: int) -> None:
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
        projected = self._project(frames.detach().float()).numpy()
        place(projected, self.keys, self.values, self._used, self._size)
        self._used = count


class Compiled:
    """Attention of the rows of all searches, compiled."""

    def __init__(self, searches: Sequence[Search], heads: int) -> None:
        self._heads, self._searches = heads, searches  # addresses are valid as long as their owners live
        self._table = table = np.array([self._row(search) for search in searches], RECORD)
        self._width = heads * searches[0].slots.data.shape[-1]
        tokens, frames = (self._width * int(table["rows"] @ table[seen]) for seen in ("length", "frames"))
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
        """As that of `ByTorch`."""
        return self._attend(_to_tokens, layer, qkv, self._threads[0])

    def to_frames(self, layer: int, queries: np.ndarray) -> np.ndarray:
        """As that of `ByTorch`."""
        return self._attend(_to_frames, layer, queries, self._threads[1])

    def _attend(self, alone: Any, layer: int, rows: np.ndarray, threads: int) -> np.ndarray:
        """Attention by `alone`, _to_tokens or _to_frames. Up to `threads` threads share the searches."""
        found = np.empty((len(rows), self._width), np.float32)
        threads = min(threads, len(self._table), MOST_THREADS)
        if threads > 1:
            set_num_threads(threads)
            _shared(alone is _to_frames, rows, self._table, layer, self._heads, found, threads)
        else:
            alone(rows, self._table, layer, self._heads, found)
        return found
