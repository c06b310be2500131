"""Products in 8 bits on the matrix unit (AMX) of newer Intel processors.

It multiplies 8-bit integers and sums them in 32 bits: up to 16 rows of 64 inputs with the weights of 16 outputs. An
input of 16 bits is two halves, x = 256 a + b, whose sums are put together at the end. So results are those of pairs.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import prange, types

from simulst.kernels.compiled_products import PairProduct, aligned
from simulst.kernels.compiler import compiled
from simulst.kernels.tiles import (
    ADDRESS,
    AHEAD,
    BYTE,
    FEATURES,
    FLOAT,
    FLOATS,
    INT,
    INTS,
    LANES,
    NOTHING,
    PANEL,
    PLACE,
    call,
    called,
    fetch,
    finish,
    in_all_lanes,
    intrinsic,
    load,
    new_function,
    next_step,
    store,
)

UNIT_ROWS, UNIT_OUTPUTS, UNIT_INPUTS = 16, 16, 64  # of a tile of the matrix unit
UNIT_TILES = 3  # of rows that are summed at once: two registers of sums for each, one of inputs and one of weights
UNIT_REGISTERS = 2 * UNIT_TILES + 2


@functools.cache
def is_there() -> bool:
    """Whether there is a matrix unit, and Linux lets this process use it."""
    if "+amx-int8" not in FEATURES or LANES != 16 or not sys.platform.startswith("linux"):
        return False
    arch_prctl, permission, tiles = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, permission, tiles) == 0


def _split_row(module: Any) -> Any:
    kinds = [PLACE, PLACE, ADDRESS, PLACE, ADDRESS, ADDRESS]
    function, before, loop, end = new_function(module, "split_row", kinds)
    inputs, out, stride, scale_place, most, steps = function.args
    rounding, done = (function.append_basic_block(name) for name in ("rounding", "done"))
    places = [4 * LANES * v for v in range(UNIT_INPUTS // LANES)]

    def row(b: Any, i: Any) -> Any:
        return b.gep(inputs, [b.mul(i, ADDRESS(4 * UNIT_INPUTS))])

    b = ir.IRBuilder(before)
    b.branch(loop)
    b.position_at_end(loop)
    largest = b.phi(INTS)
    i, after = next_step(b, before)
    largest.add_incoming(ir.Constant(INTS, None), before)
    found = largest
    for place in places:  # as integers, since NaN, if there is one, is not found among floats
        bits = b.and_(load(b, row(b, i), place, INTS), ir.Constant(INTS, [0x7FFFFFFF] * LANES))
        found = b.select(b.icmp_signed(">", bits, found), bits, found)
    largest.add_incoming(found, loop)
    b.cbranch(b.icmp_unsigned("<", after, steps), loop, end)
    b.position_at_end(end)
    bits = call(b, f"llvm.vector.reduce.smax.v{LANES}i32", INT, found)
    scale = b.fdiv(b.bitcast(bits, FLOAT), b.uitofp(most, FLOAT))
    store(b, scale, scale_place, 0)
    positive = b.fcmp_ordered(">", scale, FLOAT(0))
    times = in_all_lanes(b, b.select(positive, b.fdiv(FLOAT(1), scale), FLOAT(0)))
    b.branch(rounding)
    b.position_at_end(rounding)
    i, after = next_step(b, end)
    target = b.gep(out, [b.mul(i, stride)])
    bytes_ = ir.VectorType(BYTE, LANES)
    for place in places:
        x = b.fmul(load(b, row(b, i), place, FLOATS), times)
        integers = b.fptosi(call(b, f"llvm.rint.v{LANES}f32", FLOATS, x), INTS)
        store(b, b.trunc(b.ashr(integers, ir.Constant(INTS, [8] * LANES)), bytes_), target, place // 4)
        store(b, b.trunc(integers, bytes_), target, UNIT_ROWS * UNIT_INPUTS + place // 4)
    b.cbranch(b.icmp_unsigned("<", after, steps), rounding, done)
    b.position_at_end(done)
    b.ret_void()
    return function


@intrinsic
def split_row(context: Any, inputs: Any, out: Any, stride: Any, scale: Any, most: Any, steps: Any) -> Any:
    """Round a row of inputs to integers up to `most`, and write both halves of them and the row's scale.

    inputs: where they are, (steps, UNIT_INPUTS) float32.
    out, stride: where the halves are written, (2, UNIT_ROWS, UNIT_INPUTS) for a step, of which they take one row; and
        the bytes from step to step. The upper half is the first of the two.
    scale: where the scale is written, float32.
    """
    return called(6, (0, 1, 3), _split_row)


@intrinsic
def configure_unit(context: Any, configuration: Any) -> Any:
    """Set the sizes of the matrix unit's registers. configuration: where they are written, as LDTILECFG reads them."""

    def write(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        call(b, "llvm.x86.ldtilecfg", NOTHING, b.inttoptr(arguments[0], PLACE))
        return context.get_dummy_value()

    return types.void(types.int64), write


@intrinsic
def release_unit(context: Any) -> Any:
    def write(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        call(b, "llvm.x86.tilerelease", NOTHING)
        return context.get_dummy_value()

    return types.void(), write


def _unit_tiles(module: Any, count: int) -> Any:
    """A function that sums so many tiles of rows by one tile of outputs."""
    function, before, loop, end = new_function(module, f"unit_{count}", [PLACE, ADDRESS, PLACE, PLACE, ADDRESS])
    inputs, stride, weights, sums, steps = function.args
    x_register, w_register = BYTE(2 * UNIT_TILES), BYTE(2 * UNIT_TILES + 1)
    b = ir.IRBuilder(before)
    for n in range(2 * count):
        call(b, "llvm.x86.tilezero", NOTHING, BYTE(n))
    b.branch(loop)
    b.position_at_end(loop)
    i, after = next_step(b, before)
    w = b.gep(weights, [b.mul(i, ADDRESS(UNIT_INPUTS * UNIT_OUTPUTS))])
    for line in range(0, UNIT_INPUTS * UNIT_OUTPUTS, 64):
        fetch(b, b.gep(w, [ADDRESS(AHEAD + line)]))
    call(b, "llvm.x86.tileloadd64", NOTHING, w_register, w, ADDRESS(4 * UNIT_OUTPUTS))
    x = b.gep(inputs, [b.mul(i, stride)])
    for n in range(2 * count):
        half = b.gep(x, [ADDRESS(n * UNIT_ROWS * UNIT_INPUTS)])
        call(b, "llvm.x86.tileloadd64", NOTHING, x_register, half, ADDRESS(UNIT_INPUTS))
        product = "llvm.x86.tdpbusd" if n % 2 else "llvm.x86.tdpbssd"  # the lower half has no sign
        call(b, product, NOTHING, BYTE(n), x_register, w_register)
    b.cbranch(b.icmp_unsigned("<", after, steps), loop, end)
    b.position_at_end(end)
    for n in range(2 * count):
        place = b.gep(sums, [ADDRESS(4 * UNIT_ROWS * PANEL * n)])
        call(b, "llvm.x86.tilestored64", NOTHING, BYTE(n), place, ADDRESS(4 * PANEL))
    b.ret_void()
    return function


@intrinsic
def sum_halves(context: Any, inputs: Any, stride: Any, weights: Any, sums: Any, steps: Any, count: Any) -> Any:
    """Sum up tiles of rows by UNIT_OUTPUTS outputs, on the matrix unit.

    inputs, stride: where the inputs are, (steps, ·, 2, UNIT_ROWS, UNIT_INPUTS), as `split_row` writes them, and the
        bytes from step to step.
    weights: where the weights are, (steps, UNIT_INPUTS / 4, UNIT_OUTPUTS, 4) int8.
    sums: where the sums are written, (count, 2, UNIT_ROWS, PANEL) int32, a column of UNIT_OUTPUTS outputs.
    count: tiles of rows, 1 to UNIT_TILES.
    """
    return called(5, (0, 2, 3), _unit_tiles, UNIT_TILES)


@intrinsic
def finish_halves(
    context: Any,
    sums: Any,
    x_scales: Any,
    scales: Any,
    bias: Any,
    out: Any,
    stride: Any,
    adds: Any,
    relu: Any,
    rows: Any,
) -> Any:
    """As `finish_pairs`, for a tile of the matrix unit: (2, UNIT_ROWS, PANEL) sums of upper and lower halves."""
    return finish(4 * UNIT_ROWS * PANEL)


@compiled("void(f4[:,:], f4[:,:])")
def _copy(old: np.ndarray, new: np.ndarray) -> None:
    """Copy what both have. To assign a slice would take seconds to compile."""
    for row in range(min(len(old), len(new))):
        for column in range(min(old.shape[1], new.shape[1])):
            new[row, column] = old[row, column]


@compiled("Tuple((i1[:,:,:,:,::1], f4[::1]))(f4[:,::1], i8)")
def _halves(x: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """As `_rounded`, in tiles of the matrix unit, (steps, tiles, 2, UNIT_ROWS, UNIT_INPUTS), upper halves first.

    All tiles have about the same number of rows.
    """
    many, size = x.shape
    tiles, steps = -(-many // UNIT_ROWS), -(-size // UNIT_INPUTS)
    high = -(-many // tiles)
    halves = aligned(steps * tiles * 2 * UNIT_ROWS * UNIT_INPUTS).reshape((steps, tiles, 2, UNIT_ROWS, UNIT_INPUTS))
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


@compiled("void(i1[:,:,:,:,::1], f4[::1], i1[:,:,:,::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8, i8)")
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
    sums = aligned(4 * UNIT_TILES * 2 * UNIT_ROWS * PANEL).view(np.int32).reshape((UNIT_TILES, 2, UNIT_ROWS, PANEL))
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


@compiled(
    "void(i1[:,:,:,:,::1], f4[::1], i1[:,:,:,::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], b1, b1, i8)",
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


class UnitProduct(PairProduct):
    """See `Product`."""

    def _in_panels(self, integers: np.ndarray) -> np.ndarray:
        """(panels, PANEL / UNIT_OUTPUTS, steps, UNIT_INPUTS / 4, UNIT_OUTPUTS, 4)"""
        size = integers.shape[1]
        tiles = np.pad(integers, ((0, -self.outputs % PANEL), (0, -size % UNIT_INPUTS)))
        tiles = tiles.reshape(-1, PANEL // UNIT_OUTPUTS, UNIT_OUTPUTS, -(-size // UNIT_INPUTS), UNIT_INPUTS // 4, 4)
        panels = tiles.transpose(0, 1, 3, 4, 2, 5)
        laid_out = aligned(panels.size).reshape(*panels.shape[:2], -1, UNIT_INPUTS * UNIT_OUTPUTS)
        laid_out.reshape(panels.shape)[:] = panels
        return laid_out

    def _with(self, x: np.ndarray) -> tuple[Callable[..., None], Callable[..., None], tuple[Any, ...]]:
        return _of_halves, _shared_halves, (*_halves(x, self._most), self._panels, self._scales)
