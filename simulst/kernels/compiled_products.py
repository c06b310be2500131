"""Products of a few rows with a large matrix of weights, compiled for this processor.

A decoder step has as many rows as hypotheses, and a block of the encoder has about 40. The former takes as long as it
takes to read the weights, the latter somewhat longer. Libraries reach half of the memory's rate, since they are made
for many rows. Here weights lie in the order in which they are read: in panels of `PANEL` outputs, each input by input.
A tile, up to `ROWS` rows by one panel, is summed in the processor's registers. Tiles take `BLOCK` inputs of a panel in
turn, and meanwhile each fetches its share of the next block, so that memory and processor work at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config, prange, set_num_threads

from simulst.kernels.compiler import compiled
from simulst.kernels.products import rounded
from simulst.kernels.tiles import AHEAD, PANEL, ROWS, add_floats, add_pairs, finish_pairs

BLOCK = 128  # inputs that all rows take before the next ones
NOTHING = np.empty((0, PANEL), np.float32)  # the spare memory of a product whose last panel is full
MOST_THREADS: int = vars(config)["NUMBA_NUM_THREADS"]
WORTH_BYTES = 2**18  # of weights, from which on threads share the work
WORTH_MULTIPLICATIONS = 2**21  # from which on they share it with fewer bytes, too


@compiled("i1[::1](i8)")
def aligned(size: int) -> np.ndarray:
    """Memory that begins with a line of the caches; other memory takes up to twice as long to load."""
    memory = np.empty(size + 64, np.int8)
    return memory[-memory.ctypes.data % 64 :][:size]


@compiled("f4[:,:,::1](f4[:,::1])")
def _in_panels(weight: np.ndarray) -> np.ndarray:
    """(outputs, inputs) → (panels, inputs, PANEL), with zeros for the outputs that fill the last panel."""
    outputs, size = weight.shape
    shape = -(-outputs // PANEL), size, PANEL
    panels = aligned(4 * shape[0] * size * PANEL).view(np.float32).reshape(shape)
    panels[-1:] = 0
    for n in range(outputs):
        for k in range(size):
            panels[n // PANEL, k, n % PANEL] = weight[n, k]
    return panels


@compiled("Tuple((i2[:,::1], f4[::1]))(f4[:,::1], i8)")
def _rounded(x: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (m, inputs) as integers up to `most`, in pairs of which the last may have a zero, and each row's scale."""
    many, size = x.shape
    integers = np.zeros((many, size + size % 2), np.int16)
    scales = np.empty(many, np.float32)
    for row in range(many):
        bits = x[row].view(np.int32)
        largest = np.int32(0)
        for k in range(size):  # as integers, since the largest float (NaN, if there is one) is not found in vectors
            largest = max(largest, bits[k] & np.int32(0x7FFFFFFF))
        bits = np.full(1, largest, np.int32)
        scales[row] = bits.view(np.float32)[0] / np.float32(most)
        times = np.float32(1) / scales[row] if scales[row] > 0 else np.float32(0)
        for k in range(size):
            integers[row, k] = np.int16(np.rint(x[row, k] * times))
    return integers, scales


@compiled("void(f4[:,::1], f4[:,:,::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8, i8)")
def _of_floats(
    x: np.ndarray,
    panels: np.ndarray,
    bias: np.ndarray,
    y: np.ndarray,
    spare: np.ndarray,
    relu: bool,
    adds: bool,
    first: int,
    last: int,
) -> None:
    """The outputs of panels `first` to `last`, summed up where they belong; see `Product`.

    spare: what belongs to the last panel if `y` does not have all of its outputs, (m, PANEL).
    """
    many, size = x.shape
    tiles = -(-many // ROWS)
    for p in range(first, last):
        start = p * PANEL
        sums, column = (y, start) if start + PANEL <= y.shape[1] else (spare, 0)
        for row in range(many):
            out = sums[row, column : column + PANEL]
            for j in range(PANEL):
                out[j] = (out[j] if adds else np.float32(0)) + bias[start + j]
        for k in range(0, size, BLOCK):
            steps = min(BLOCK, size - k)
            weights = panels[p, k].ctypes.data
            if tiles == 1:
                later, share = weights + AHEAD, 4 * PANEL
            else:
                more = p + 1 < last or k + steps < size
                later, share = weights + 4 * PANEL * steps, -(-4 * PANEL // tiles) if more else 0
            for row in range(0, many, ROWS):
                place, total = x[row, k:].ctypes.data, sums[row, column:].ctypes.data
                rows = min(ROWS, many - row)
                add_floats(place, 4 * size, weights, total, 4 * sums.shape[1], later, share, steps, rows)
                later += share * steps
        if relu:
            for row in range(many):
                out = sums[row, column : column + PANEL]
                for j in range(PANEL):
                    out[j] = np.float32(0) if out[j] < 0 else out[j]


@compiled("void(i2[:,::1], f4[::1], i1[:,:,::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8, i8)")
def _of_pairs(
    x: np.ndarray,
    x_scales: np.ndarray,
    panels: np.ndarray,
    scales: np.ndarray,
    bias: np.ndarray,
    y: np.ndarray,
    spare: np.ndarray,
    relu: bool,
    adds: bool,
    first: int,
    last: int,
) -> None:
    many, size = x.shape
    tiles, steps = -(-many // ROWS), size // 2
    sums = np.empty((ROWS, PANEL), np.int32)
    for p in range(first, last):
        start = p * PANEL
        out, column = (y, start) if start + PANEL <= y.shape[1] else (spare, 0)
        weights = panels[p].ctypes.data
        if tiles == 1:
            later, share = weights + AHEAD, 2 * PANEL
        else:
            later, share = weights + 2 * PANEL * steps, -(-2 * PANEL // tiles) if p + 1 < last else 0
        for row in range(0, many, ROWS):
            rows = min(ROWS, many - row)
            sums[:] = 0
            add_pairs(x[row].ctypes.data, 2 * size, weights, sums.ctypes.data, 4 * PANEL, later, share, steps, rows)
            later += share * steps
            finish_pairs(
                sums.ctypes.data,
                x_scales[row:].ctypes.data,
                scales[start:].ctypes.data,
                bias[start:].ctypes.data,
                out[row, column:].ctypes.data,
                4 * out.shape[1],
                np.int64(adds),
                np.int64(relu),
                rows,
            )


@compiled("void(f4[:,::1], f4[:,:,::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8)", parallel=True)
def _shared_floats(
    x: np.ndarray,
    panels: np.ndarray,
    bias: np.ndarray,
    y: np.ndarray,
    spare: np.ndarray,
    relu: bool,
    adds: bool,
    threads: int,
) -> None:
    for part in prange(threads):
        first, last = part * len(panels) // threads, (part + 1) * len(panels) // threads
        _of_floats(x, panels, bias, y, spare, relu, adds, first, last)


@compiled(
    "void(i2[:,::1], f4[::1], i1[:,:,::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8)",
    parallel=True,
)
def _shared_pairs(
    x: np.ndarray,
    x_scales: np.ndarray,
    panels: np.ndarray,
    scales: np.ndarray,
    bias: np.ndarray,
    y: np.ndarray,
    spare: np.ndarray,
    relu: bool,
    adds: bool,
    threads: int,
) -> None:
    for part in prange(threads):
        first, last = part * len(panels) // threads, (part + 1) * len(panels) // threads
        _of_pairs(x, x_scales, panels, scales, bias, y, spare, relu, adds, first, last)


class FloatProduct:
    """See `Product`."""

    def __init__(self, weight: np.ndarray, bias: np.ndarray) -> None:
        self.outputs = len(weight)
        self._bias = np.pad(bias, (0, -self.outputs % PANEL))
        self._panels = self._laid_out(weight)

    def _laid_out(self, weight: np.ndarray) -> np.ndarray:
        return _in_panels(np.ascontiguousarray(weight, np.float32))

    def _with(self, x: np.ndarray) -> tuple[Callable[..., None], Callable[..., None], tuple[Any, ...]]:
        """The functions for one thread and for several, and what they take."""
        return _of_floats, _shared_floats, (x, self._panels)

    def __call__(self, x: np.ndarray, y: np.ndarray, relu: bool = False, adds: bool = False, threads: int = 1) -> None:
        if not len(x):
            return
        panels, left = self._panels, self.outputs % PANEL
        spare = np.empty((len(x), PANEL), np.float32) if left else NOTHING
        if left and adds:
            spare[:, :left] = y[:, -left:]
        alone, shared, given = self._with(x)
        worth = panels.nbytes >= WORTH_BYTES or len(x) * panels.size >= WORTH_MULTIPLICATIONS
        threads = min(threads, len(panels), MOST_THREADS) if worth else 1
        if threads > 1:
            set_num_threads(threads)
            shared(*given, self._bias, y, spare, relu, adds, threads)
        else:
            alone(*given, self._bias, y, spare, relu, adds, 0, len(panels))
        if left:
            y[:, -left:] = spare[:, :left]


class PairProduct(FloatProduct):
    """The same with weights in 8 bits."""

    def _laid_out(self, weight: np.ndarray) -> np.ndarray:
        integers, scales, self._most = rounded(weight)
        self._scales = np.pad(scales, (0, -self.outputs % PANEL))
        size = integers.shape[1]  # both weights of a pair lie beside each other
        padded = np.pad(integers, ((0, -self.outputs % PANEL), (0, size % 2)))
        panels = padded.reshape(-1, PANEL, -(-size // 2), 2).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(panels).reshape(*panels.shape[:2], 2 * PANEL)

    def _with(self, x: np.ndarray) -> tuple[Callable[..., None], Callable[..., None], tuple[Any, ...]]:
        return _of_pairs, _shared_pairs, (*_rounded(x, self._most), self._panels, self._scales)
