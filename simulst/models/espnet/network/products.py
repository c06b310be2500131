"""Products of a few rows with a large matrix of weights, compiled for this processor.

A decoder step has as many rows as hypotheses, and a block of the encoder has about 40. The former takes as long as it
takes to read the weights, the latter somewhat longer. Libraries reach half of the memory's rate, since they are made
for many rows. Here weights lie in the order in which they are read: in panels of `PANEL` outputs, each input by input.
A tile, up to `ROWS` rows by one panel, is summed in the processor's registers. Tiles take `BLOCK` inputs of a panel in
turn, and meanwhile each fetches its share of the next block, so that memory and processor work at the same time.

With 8-bit weights, inputs are rounded to 16-bit integers, with one scale per row, and sums are exact. So a row's
result never depends on the other rows. The matrix unit, if there is one, multiplies 8-bit integers only; there, an
input is two halves, x = 256 a + b, whose sums are put together at the end. The result is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config, njit, prange, set_num_threads

from simulst.models.espnet.network.tiles import (
    AHEAD,
    MATRIX_UNIT,
    PANEL,
    ROWS,
    UNIT_INPUTS,
    UNIT_OUTPUTS,
    UNIT_REGISTERS,
    UNIT_ROWS,
    UNIT_TILES,
    add_floats,
    add_pairs,
    configure_unit,
    finish_halves,
    finish_pairs,
    release_unit,
    split_row,
    sum_halves,
)

BLOCK = 128  # inputs that all rows take before the next ones
LARGEST = 127  # of 8-bit weights
NOTHING = np.empty((0, PANEL), np.float32)  # the spare memory of a product whose last panel is full
MOST_THREADS: int = vars(config)["NUMBA_NUM_THREADS"]
WORTH_BYTES = 2**18  # of weights, from which on threads share the work
WORTH_MULTIPLICATIONS = 2**21  # from which on they share it with fewer bytes, too


def _compiled(signature: str, needed: bool = True, parallel: bool = False) -> Callable[[Any], Any]:
    return njit(signature, cache=True, nogil=True, parallel=parallel) if needed else lambda function: function


@_compiled("i1[::1](i8)")
def _aligned(size: int) -> np.ndarray:
    """Memory that begins with a line of the caches; other memory takes up to twice as long to load."""
    memory = np.empty(size + 64, np.int8)
    return memory[-memory.ctypes.data % 64 :][:size]


@_compiled("void(f4[:,:], f4[:,:])")
def _copy(old: np.ndarray, new: np.ndarray) -> None:
    """Copy what both have. To assign a slice would take seconds to compile."""
    for row in range(min(len(old), len(new))):
        for column in range(min(old.shape[1], new.shape[1])):
            new[row, column] = old[row, column]


@_compiled("f4[:,:,::1](f4[:,::1])")
def _in_panels(weight: np.ndarray) -> np.ndarray:
    """(outputs, inputs) → (panels, inputs, PANEL), with zeros for the outputs that fill the last panel."""
    outputs, size = weight.shape
    shape = -(-outputs // PANEL), size, PANEL
    panels = _aligned(4 * shape[0] * size * PANEL).view(np.float32).reshape(shape)
    panels[-1:] = 0
    for n in range(outputs):
        for k in range(size):
            panels[n // PANEL, k, n % PANEL] = weight[n, k]
    return panels


@_compiled("Tuple((i2[:,::1], f4[::1]))(f4[:,::1], i8)", not MATRIX_UNIT)
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


@_compiled("Tuple((i1[:,:,:,:,::1], f4[::1]))(f4[:,::1], i8)", MATRIX_UNIT)
def _halves(x: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """As `_rounded`, in tiles of the matrix unit, (steps, tiles, 2, UNIT_ROWS, UNIT_INPUTS), upper halves first.

    All tiles have about the same number of rows.
    """
    many, size = x.shape
    tiles, steps = -(-many // UNIT_ROWS), -(-size // UNIT_INPUTS)
    high = -(-many // tiles)
    halves = _aligned(steps * tiles * 2 * UNIT_ROWS * UNIT_INPUTS).reshape((steps, tiles, 2, UNIT_ROWS, UNIT_INPUTS))
    scales = np.empty(many, np.float32)
    line = np.zeros((1, steps * UNIT_INPUTS), np.float32)
    for row in range(many):
        inputs = x[row].ctypes.data
        if size < line.shape[1]:
            _copy(x[row : row + 1], line)
            inputs = line.ctypes.data
        out = halves[0, row // high, 0, row % high].ctypes.data
        split_row(inputs, out, 2 * UNIT_ROWS * UNIT_INPUTS * tiles, scales[row:].ctypes.data, most, steps)
    return halves, scales


@_compiled("void(f4[:,::1], f4[:,:,::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8, i8)")
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
    """The outputs of panels `first` to `last`, summed up where they belong; see `Product.__call__`.

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


@_compiled(
    "void(i2[:,::1], f4[::1], i1[:,:,::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8, i8)", not MATRIX_UNIT
)
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


@_compiled(
    "void(i1[:,:,:,:,::1], f4[::1], i1[:,:,:,::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8, i8)", MATRIX_UNIT
)
def _of_halves(
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
    """As `_of_pairs`, on the matrix unit."""
    steps, tiles, many = x.shape[0], x.shape[1], len(y)
    high = -(-many // tiles)
    sizes = np.zeros(64, np.uint8)
    sizes[0] = 1
    for register in range(UNIT_REGISTERS):
        sizes[16 + 2 * register] = 64  # bytes of a row
        sizes[48 + register] = high if register + 1 < UNIT_REGISTERS else UNIT_INPUTS // 4  # rows; the last has weights
    sums = _aligned(4 * UNIT_TILES * 2 * UNIT_ROWS * PANEL).view(np.int32).reshape((UNIT_TILES, 2, UNIT_ROWS, PANEL))
    configure_unit(sizes.ctypes.data)
    for p in range(first, last):
        start = p * PANEL
        out, column = (y, start) if start + PANEL <= y.shape[1] else (spare, 0)
        for tile in range(0, tiles, UNIT_TILES):
            count = min(UNIT_TILES, tiles - tile)
            inputs, stride = x[0, tile].ctypes.data, 2 * UNIT_ROWS * UNIT_INPUTS * tiles
            for c in range(PANEL // UNIT_OUTPUTS):
                total = sums[0, 0, 0, c * UNIT_OUTPUTS :].ctypes.data
                sum_halves(inputs, stride, panels[p, c].ctypes.data, total, steps, count)
            for t in range(count):
                row = (tile + t) * high
                finish_halves(
                    sums[t].ctypes.data,
                    x_scales[row:].ctypes.data,
                    scales[start:].ctypes.data,
                    bias[start:].ctypes.data,
                    out[row, column:].ctypes.data,
                    4 * out.shape[1],
                    np.int64(adds),
                    np.int64(relu),
                    min(high, many - row),
                )
    release_unit()


@_compiled("void(f4[:,::1], f4[:,:,::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8)", parallel=True)
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


@_compiled(
    "void(i2[:,::1], f4[::1], i1[:,:,::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8)",
    not MATRIX_UNIT,
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


@_compiled(
    "void(i1[:,:,:,:,::1], f4[::1], i1[:,:,:,::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8)",
    MATRIX_UNIT,
    parallel=True,
)
def _shared_halves(
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
        _of_halves(x, x_scales, panels, scales, bias, y, spare, relu, adds, first, last)


class Product:
    """x → x Wᵀ + b, on the processor.

    weight: W, (outputs, inputs) float32.
    bias: b, (outputs,) float32.
    integers: whether to keep the weights in 8 bits, with one scale per output.
    """

    def __init__(self, weight: np.ndarray, bias: np.ndarray, integers: bool = False) -> None:
        self.outputs, size = weight.shape
        spare = (0, -self.outputs % PANEL)
        self._bias = np.pad(bias, spare)
        self._scales: np.ndarray | None = None
        if not integers:
            self._panels = _in_panels(np.ascontiguousarray(weight, np.float32))
            return
        scales = np.maximum(np.abs(weight).max(1), np.float32(1e-12)) / np.float32(LARGEST)
        self._scales = np.pad(scales, spare)
        self._most = min(2**15 - 1, (2**31 - 1) // (LARGEST * (size + size % 2)))  # so that no sum overflows
        with np.errstate(invalid="ignore"):  # weights that are no numbers are told by their scale
            rounded = np.rint(weight / scales[:, None]).astype(np.int8)
        if MATRIX_UNIT:  # (panels, PANEL / UNIT_OUTPUTS, steps, UNIT_INPUTS / 4, UNIT_OUTPUTS, 4)
            tiles = np.pad(rounded, (spare, (0, -size % UNIT_INPUTS)))
            tiles = tiles.reshape(-1, PANEL // UNIT_OUTPUTS, UNIT_OUTPUTS, -(-size // UNIT_INPUTS), UNIT_INPUTS // 4, 4)
            panels = tiles.transpose(0, 1, 3, 4, 2, 5)
            self._panels = _aligned(panels.size).reshape(*panels.shape[:2], -1, UNIT_INPUTS * UNIT_OUTPUTS)
            self._panels.reshape(panels.shape)[:] = panels
        else:  # both weights of a pair beside each other
            panels = np.pad(rounded, (spare, (0, size % 2))).reshape(-1, PANEL, -(-size // 2), 2).transpose(0, 2, 1, 3)
            self._panels = np.ascontiguousarray(panels).reshape(*panels.shape[:2], 2 * PANEL)

    def __call__(self, x: np.ndarray, y: np.ndarray, relu: bool = False, adds: bool = False, threads: int = 1) -> None:
        """Write the result for x, (m, inputs), into y, (m, outputs); both float32, row after row.

        adds: whether to add it to what y has.
        relu: whether to apply ReLU to the sum.
        """
        if not len(x):
            return
        panels, left = self._panels, self.outputs % PANEL
        spare = np.empty((len(x), PANEL), np.float32) if left else NOTHING
        if left and adds:
            spare[:, :left] = y[:, -left:]
        given: tuple[np.ndarray, ...]
        if self._scales is None:
            alone, shared, given = _of_floats, _shared_floats, (x, panels)
        elif MATRIX_UNIT:
            alone, shared, given = _of_halves, _shared_halves, (*_halves(x, self._most), panels, self._scales)
        else:
            alone, shared, given = _of_pairs, _shared_pairs, (*_rounded(x, self._most), panels, self._scales)
        worth = panels.nbytes >= WORTH_BYTES or len(x) * panels.size >= WORTH_MULTIPLICATIONS
        threads = min(threads, len(panels), MOST_THREADS) if worth else 1
        if threads > 1:
            set_num_threads(threads)
            shared(*given, self._bias, y, spare, relu, adds, threads)
        else:
            alone(*given, self._bias, y, spare, relu, adds, 0, len(panels))
        if left:
            y[:, -left:] = spare[:, :left]
