"""Tiles of matrix products in LLVM's language, for numba.

numba by itself does not keep sums in registers, and does not know the matrix unit (AMX) of newer Intel processors. That
unit multiplies 8-bit integers and sums them in 32 bits: up to 16 rows of 64 inputs with the weights of 16 outputs.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core.registry import cpu_target

intrinsic: Any = extending.intrinsic

FEATURES = cpu_target.target_context.codegen().magic_tuple()[2]  # those of the processor, as numba sees them
if "+avx512bw" in FEATURES:
    LANES, VECTORS = 16, 4  # numbers in a register, and registers of a row of a tile
elif "+avx2" in FEATURES:
    LANES, VECTORS = 8, 2
else:
    LANES, VECTORS = 4, 2
ROWS = 6  # of a tile: with ROWS * VECTORS sums, no register is left
PANEL = LANES * VECTORS  # outputs whose weights lie together
AHEAD = 8192  # how many bytes further on weights are fetched, if nothing else is to be done meanwhile

UNIT_ROWS, UNIT_OUTPUTS, UNIT_INPUTS = 16, 16, 64  # of a tile of the matrix unit
UNIT_TILES = 3  # of rows that are summed at once: two registers of sums for each, one of inputs and one of weights
UNIT_REGISTERS = 2 * UNIT_TILES + 2

_NOTHING, _FLOAT, _BYTE, _SHORT = ir.VoidType(), ir.FloatType(), ir.IntType(8), ir.IntType(16)
_INT, _ADDRESS, _PLACE = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
_FLOATS, _INTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES)
_MULTIPLY_ADD = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"}


def _has_matrix_unit() -> bool:
    """Whether there is a matrix unit, and Linux lets this process use it."""
    if "+amx-int8" not in FEATURES or LANES != 16 or not sys.platform.startswith("linux"):
        return False
    arch_prctl, permission, tiles = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, permission, tiles) == 0


MATRIX_UNIT = _has_matrix_unit()


def forget_older(source: Path) -> None:
    """Delete what numba has compiled beside a file before the file changed.

    Compiled functions hold the tiles, but numba looks only at the time of each function's own file.
    """
    changed = source.stat().st_mtime
    for index in (source.parent / "__pycache__").glob("*.nbi"):
        with suppress(OSError):  # another process has deleted it, or it lies where nobody may write
            if index.stat().st_mtime < changed:
                index.unlink()


forget_older(Path(__file__))


def _call(b: Any, name: str, result: Any, *arguments: Any) -> Any:
    kind = ir.FunctionType(result, [each.type for each in arguments])
    return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name=name), arguments)


def _fetch(b: Any, place: Any) -> None:
    _call(b, "llvm.prefetch.p0", _NOTHING, place, _INT(0), _INT(2), _INT(1))  # to read, all caches but the first, data


def _load(b: Any, place: Any, offset: int, kind: Any) -> Any:
    return b.load(b.bitcast(b.gep(place, [_ADDRESS(offset)]), kind.as_pointer()), align=4)


def _store(b: Any, value: Any, place: Any, offset: int) -> None:
    b.store(value, b.bitcast(b.gep(place, [_ADDRESS(offset)]), value.type.as_pointer()), align=4)


def _in_all_lanes(b: Any, number: Any) -> Any:
    vector = ir.VectorType(number.type, LANES)
    alone = b.insert_element(ir.Constant(vector, ir.Undefined), number, _INT(0))
    return b.shuffle_vector(alone, ir.Constant(vector, ir.Undefined), ir.Constant(_INTS, None))


def _function(module: Any, name: str, kinds: list[Any]) -> tuple[Any, Any, Any, Any]:
    """A function of its own, or else the compiler keeps sums in memory; and its blocks: before, in, after a loop."""
    function = ir.Function(module, ir.FunctionType(_NOTHING, kinds), name=f"simulst_{name}")
    function.linkage = "internal"
    function.attributes.add("noinline")
    return (function, *(function.append_basic_block(name) for name in ("before", "step", "end")))


def _steps(b: Any, before: Any) -> tuple[Any, Any]:
    """The number of a step of a loop, and the next one."""
    i = b.phi(_ADDRESS)
    after = b.add(i, _ADDRESS(1))
    i.add_incoming(_ADDRESS(0), before)
    i.add_incoming(after, b.block)
    return i, after


def _called(arguments: int, places: tuple[int, ...], function: Any, most: int = 0) -> Any:
    """What numba calls: a function of addresses and sizes, `function(module)`.

    places: which of the arguments are addresses.
    most: if it is not 0, there is one more argument, a count from 1 to `most`, and the function is
        `function(module, count)`.
    """

    def write(context: Any, b: Any, signature: Any, given: Any) -> Any:
        counts, given = given[arguments:], list(given[:arguments])
        for place in places:
            given[place] = b.inttoptr(given[place], _PLACE)
        if not counts:
            b.call(function(b.module), given)
            return context.get_dummy_value()
        done = b.append_basic_block("done")
        cases = b.switch(counts[0], done)
        for count in range(1, most + 1):
            case = b.append_basic_block(f"count{count}")
            cases.add_case(_ADDRESS(count), case)
            b.position_at_end(case)
            b.call(function(b.module, count), given)
            b.branch(done)
        b.position_at_end(done)
        return context.get_dummy_value()

    return types.void(*[types.int64] * (arguments + (most > 0))), write


def _tile(integers: bool) -> Any:
    """A function that adds up a tile, in place.

    A step is a float32 input, or two int16 inputs with their two weights for each output.
    """
    one, vector, pairs = (
        (_INT if integers else _FLOAT),
        _INTS if integers else _FLOATS,
        ir.VectorType(_SHORT, 2 * LANES),
    )
    step = PANEL * (2 if integers else 4)  # bytes of weights

    def weights(b: Any, place: Any, v: int) -> Any:
        if not integers:
            return _load(b, place, v * step // VECTORS, vector)
        packed = b.gep(place, [_ADDRESS(v * step // VECTORS)])
        return b.sext(b.load(b.bitcast(packed, ir.VectorType(_BYTE, 2 * LANES).as_pointer()), align=1), pairs)

    def added(b: Any, total: Any, x: Any, w: Any) -> Any:
        if not integers:
            return _call(b, f"llvm.fmuladd.v{LANES}f32", vector, x, w, total)
        x = b.bitcast(x, pairs)
        if "+sse2" in FEATURES:
            return b.add(total, _call(b, _MULTIPLY_ADD[LANES], vector, x, w))
        for first in (0, 1):
            some = ir.Constant(_INTS, list(range(first, 2 * LANES, 2)))
            halves = [b.sext(b.shuffle_vector(each, each, some), vector) for each in (x, w)]
            total = b.add(total, b.mul(*halves))
        return total

    def of_rows(module: Any, rows: int) -> Any:
        kinds = [_PLACE, _ADDRESS, _PLACE, _PLACE, _ADDRESS, _PLACE, _ADDRESS, _ADDRESS]
        function, before, loop, end = _function(module, f"tile_{one}_{rows}", kinds)
        inputs, stride, panel, sums, sums_stride, later, share, steps = function.args
        b = ir.IRBuilder(before)
        starts = [b.gep(inputs, [b.mul(stride, _ADDRESS(row))]) for row in range(rows)]
        outs = [b.gep(sums, [b.mul(sums_stride, _ADDRESS(row))]) for row in range(rows)]
        first = [[_load(b, out, 4 * LANES * v, vector) for v in range(VECTORS)] for out in outs]
        lines = [b.udiv(b.mul(share, _ADDRESS(line)), _ADDRESS(step)) for line in range(0, step, 64)]
        b.branch(loop)
        b.position_at_end(loop)
        totals = [[b.phi(vector) for _ in range(VECTORS)] for _ in range(rows)]
        i, after = _steps(b, before)
        place = b.gep(panel, [b.mul(i, _ADDRESS(step))])
        w = [weights(b, place, v) for v in range(VECTORS)]
        later = b.gep(later, [b.mul(i, share)])
        for line in lines:
            _fetch(b, b.gep(later, [line]))
        for row, start in enumerate(starts):
            x = _in_all_lanes(b, b.load(b.gep(b.bitcast(start, one.as_pointer()), [i])))
            for v, total in enumerate(totals[row]):
                total.add_incoming(first[row][v], before)
                totals[row][v] = added(b, total, x, w[v])
                total.add_incoming(totals[row][v], loop)
        b.cbranch(b.icmp_unsigned("<", after, steps), loop, end)
        b.position_at_end(end)
        for out, found in zip(outs, totals, strict=True):
            for v, total in enumerate(found):
                _store(b, total, out, 4 * LANES * v)
        b.ret_void()
        return function

    return of_rows


@intrinsic
def add_floats(
    context: Any,
    inputs: Any,
    stride: Any,
    panel: Any,
    sums: Any,
    sums_stride: Any,
    later: Any,
    share: Any,
    steps: Any,
    rows: Any,
) -> Any:
    """Add the products of a tile to its sums.

    inputs, stride: where the inputs are, (rows, steps) float32, and the bytes from row to row.
    panel: where the weights are, (steps, PANEL) float32.
    sums, sums_stride: where the sums are, (rows, PANEL) float32, and the bytes from row to row.
    later, share: from where on other weights are fetched meanwhile, and how many bytes in each step.
    rows: 1 to ROWS.
    """
    return _called(8, (0, 2, 3, 5), _tile(False), ROWS)


@intrinsic
def add_pairs(
    context: Any,
    inputs: Any,
    stride: Any,
    panel: Any,
    sums: Any,
    sums_stride: Any,
    later: Any,
    share: Any,
    steps: Any,
    rows: Any,
) -> Any:
    """As `add_floats`, with int32 sums; a step is a pair of int16 inputs, and of int8 weights for each output."""
    return _called(8, (0, 2, 3, 5), _tile(True), ROWS)


def _split_row(module: Any) -> Any:
    kinds = [_PLACE, _PLACE, _ADDRESS, _PLACE, _ADDRESS, _ADDRESS]
    function, before, loop, end = _function(module, "split_row", kinds)
    inputs, out, stride, scale_place, most, steps = function.args
    rounding, done = (function.append_basic_block(name) for name in ("rounding", "done"))
    places = [4 * LANES * v for v in range(UNIT_INPUTS // LANES)]

    def row(b: Any, i: Any) -> Any:
        return b.gep(inputs, [b.mul(i, _ADDRESS(4 * UNIT_INPUTS))])

    b = ir.IRBuilder(before)
    b.branch(loop)
    b.position_at_end(loop)
    largest = b.phi(_INTS)
    i, after = _steps(b, before)
    largest.add_incoming(ir.Constant(_INTS, None), before)
    found = largest
    for place in places:  # as integers, since NaN, if there is one, is not found among floats
        bits = b.and_(_load(b, row(b, i), place, _INTS), ir.Constant(_INTS, [0x7FFFFFFF] * LANES))
        found = b.select(b.icmp_signed(">", bits, found), bits, found)
    largest.add_incoming(found, loop)
    b.cbranch(b.icmp_unsigned("<", after, steps), loop, end)
    b.position_at_end(end)
    bits = _call(b, f"llvm.vector.reduce.smax.v{LANES}i32", _INT, found)
    scale = b.fdiv(b.bitcast(bits, _FLOAT), b.uitofp(most, _FLOAT))
    _store(b, scale, scale_place, 0)
    positive = b.fcmp_ordered(">", scale, _FLOAT(0))
    times = _in_all_lanes(b, b.select(positive, b.fdiv(_FLOAT(1), scale), _FLOAT(0)))
    b.branch(rounding)
    b.position_at_end(rounding)
    i, after = _steps(b, end)
    target = b.gep(out, [b.mul(i, stride)])
    bytes_ = ir.VectorType(_BYTE, LANES)
    for place in places:
        x = b.fmul(_load(b, row(b, i), place, _FLOATS), times)
        integers = b.fptosi(_call(b, f"llvm.rint.v{LANES}f32", _FLOATS, x), _INTS)
        _store(b, b.trunc(b.ashr(integers, ir.Constant(_INTS, [8] * LANES)), bytes_), target, place // 4)
        _store(b, b.trunc(integers, bytes_), target, UNIT_ROWS * UNIT_INPUTS + place // 4)
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
    return _called(6, (0, 1, 3), _split_row)


@intrinsic
def configure_unit(context: Any, configuration: Any) -> Any:
    """Set the sizes of the matrix unit's registers. configuration: where they are written, as LDTILECFG reads them."""

    def write(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        _call(b, "llvm.x86.ldtilecfg", _NOTHING, b.inttoptr(arguments[0], _PLACE))
        return context.get_dummy_value()

    return types.void(types.int64), write


@intrinsic
def release_unit(context: Any) -> Any:
    def write(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        _call(b, "llvm.x86.tilerelease", _NOTHING)
        return context.get_dummy_value()

    return types.void(), write


def _unit_tiles(module: Any, count: int) -> Any:
    """A function that sums so many tiles of rows by one tile of outputs."""
    function, before, loop, end = _function(module, f"unit_{count}", [_PLACE, _ADDRESS, _PLACE, _PLACE, _ADDRESS])
    inputs, stride, weights, sums, steps = function.args
    x_register, w_register = _BYTE(2 * UNIT_TILES), _BYTE(2 * UNIT_TILES + 1)
    b = ir.IRBuilder(before)
    for n in range(2 * count):
        _call(b, "llvm.x86.tilezero", _NOTHING, _BYTE(n))
    b.branch(loop)
    b.position_at_end(loop)
    i, after = _steps(b, before)
    w = b.gep(weights, [b.mul(i, _ADDRESS(UNIT_INPUTS * UNIT_OUTPUTS))])
    for line in range(0, UNIT_INPUTS * UNIT_OUTPUTS, 64):
        _fetch(b, b.gep(w, [_ADDRESS(AHEAD + line)]))
    _call(b, "llvm.x86.tileloadd64", _NOTHING, w_register, w, _ADDRESS(4 * UNIT_OUTPUTS))
    x = b.gep(inputs, [b.mul(i, stride)])
    for n in range(2 * count):
        half = b.gep(x, [_ADDRESS(n * UNIT_ROWS * UNIT_INPUTS)])
        _call(b, "llvm.x86.tileloadd64", _NOTHING, x_register, half, _ADDRESS(UNIT_INPUTS))
        product = "llvm.x86.tdpbusd" if n % 2 else "llvm.x86.tdpbssd"  # the lower half has no sign
        _call(b, product, _NOTHING, _BYTE(n), x_register, w_register)
    b.cbranch(b.icmp_unsigned("<", after, steps), loop, end)
    b.position_at_end(end)
    for n in range(2 * count):
        place = b.gep(sums, [_ADDRESS(4 * UNIT_ROWS * PANEL * n)])
        _call(b, "llvm.x86.tilestored64", _NOTHING, _BYTE(n), place, _ADDRESS(4 * PANEL))
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
    return _called(5, (0, 2, 3), _unit_tiles, UNIT_TILES)


def _finish(halves: bool) -> Any:
    def of(module: Any) -> Any:
        kinds = [*[_PLACE] * 5, *[_ADDRESS] * 4]
        function, before, loop, end = _function(module, "finish_halves" if halves else "finish_pairs", kinds)
        sums, x_scales, scales, bias, out, stride, adds, relu, rows = function.args
        b = ir.IRBuilder(before)
        adds, relu = (b.icmp_unsigned("!=", each, _ADDRESS(0)) for each in (adds, relu))
        relu = _in_all_lanes(b, relu)
        nothing = ir.Constant(_FLOATS, None)
        b.branch(loop)
        b.position_at_end(loop)
        i, after = _steps(b, before)
        scale = _in_all_lanes(b, b.load(b.gep(b.bitcast(x_scales, _FLOAT.as_pointer()), [i])))
        found, place = b.gep(sums, [b.mul(i, _ADDRESS(4 * PANEL))]), b.gep(out, [b.mul(i, stride)])
        for v in range(VECTORS):
            offset = 4 * LANES * v
            total = _load(b, found, offset, _INTS)
            if halves:
                lower = _load(b, found, offset + 4 * UNIT_ROWS * PANEL, _INTS)
                total = b.add(b.shl(total, ir.Constant(_INTS, [8] * LANES)), lower)
            y = b.fmul(b.sitofp(total, _FLOATS), b.fmul(scale, _load(b, scales, offset, _FLOATS)))
            y = b.fadd(y, _load(b, bias, offset, _FLOATS))
            y = b.fadd(y, b.select(adds, _load(b, place, offset, _FLOATS), nothing))
            negative = b.and_(relu, b.fcmp_ordered("<", y, nothing))
            _store(b, b.select(negative, nothing, y), place, offset)
        b.cbranch(b.icmp_unsigned("<", after, rows), loop, end)
        b.position_at_end(end)
        b.ret_void()
        return function

    return _called(9, (0, 1, 2, 3, 4), of)


@intrinsic
def finish_pairs(
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
    """Write the results for the sums of a tile, (rows, PANEL) int32.

    x_scales, scales, bias: where they are for these rows and these outputs, float32.
    out, stride: where the results are written, (rows, PANEL) float32, and the bytes from row to row.
    adds: whether they are added to what is there. relu: whether to apply ReLU to that.
    """
    return _finish(False)


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
    return _finish(True)
