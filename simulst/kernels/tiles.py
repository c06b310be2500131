"""Tiles of matrix products in LLVM's language, for numba.

numba by itself does not keep sums in registers.
"""

from __future__ import annotations

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

NOTHING, FLOAT, BYTE, SHORT = ir.VoidType(), ir.FloatType(), ir.IntType(8), ir.IntType(16)
INT, ADDRESS, PLACE = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
FLOATS, INTS = ir.VectorType(FLOAT, LANES), ir.VectorType(INT, LANES)
_MULTIPLY_ADD = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"}


def call(b: Any, name: str, result: Any, *arguments: Any) -> Any:
    kind = ir.FunctionType(result, [each.type for each in arguments])
    return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name=name), arguments)


def fetch(b: Any, place: Any) -> None:
    call(b, "llvm.prefetch.p0", NOTHING, place, INT(0), INT(2), INT(1))  # to read, all caches but the first, data


def load(b: Any, place: Any, offset: int, kind: Any) -> Any:
    return b.load(b.bitcast(b.gep(place, [ADDRESS(offset)]), kind.as_pointer()), align=4)


def store(b: Any, value: Any, place: Any, offset: int) -> None:
    b.store(value, b.bitcast(b.gep(place, [ADDRESS(offset)]), value.type.as_pointer()), align=4)


def in_all_lanes(b: Any, number: Any) -> Any:
    vector = ir.VectorType(number.type, LANES)
    alone = b.insert_element(ir.Constant(vector, ir.Undefined), number, INT(0))
    return b.shuffle_vector(alone, ir.Constant(vector, ir.Undefined), ir.Constant(INTS, None))


def new_function(module: Any, name: str, kinds: list[Any]) -> tuple[Any, Any, Any, Any]:
    """A function of its own, or else the compiler keeps sums in memory; and its blocks: before, in, after a loop."""
    function = ir.Function(module, ir.FunctionType(NOTHING, kinds), name=f"simulst_{name}")
    function.linkage = "internal"
    function.attributes.add("noinline")
    return (function, *(function.append_basic_block(name) for name in ("before", "step", "end")))


def next_step(b: Any, before: Any) -> tuple[Any, Any]:
    """The number of a step of a loop, and the next one."""
    i = b.phi(ADDRESS)
    after = b.add(i, ADDRESS(1))
    i.add_incoming(ADDRESS(0), before)
    i.add_incoming(after, b.block)
    return i, after


def called(arguments: int, places: tuple[int, ...], function: Any, most: int = 0) -> Any:
    """What numba calls: a function of addresses and sizes, `function(module)`.

    places: which of the arguments are addresses.
    most: if it is not 0, there is one more argument, a count from 1 to `most`, and the function is
        `function(module, count)`.
    """

    def write(context: Any, b: Any, signature: Any, given: Any) -> Any:
        counts, given = given[arguments:], list(given[:arguments])
        for place in places:
            given[place] = b.inttoptr(given[place], PLACE)
        if not counts:
            b.call(function(b.module), given)
            return context.get_dummy_value()
        done = b.append_basic_block("done")
        cases = b.switch(counts[0], done)
        for count in range(1, most + 1):
            case = b.append_basic_block(f"count{count}")
            cases.add_case(ADDRESS(count), case)
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
        (INT if integers else FLOAT),
        INTS if integers else FLOATS,
        ir.VectorType(SHORT, 2 * LANES),
    )
    step = PANEL * (2 if integers else 4)  # bytes of weights

    def weights(b: Any, place: Any, v: int) -> Any:
        if not integers:
            return load(b, place, v * step // VECTORS, vector)
        packed = b.gep(place, [ADDRESS(v * step // VECTORS)])
        return b.sext(b.load(b.bitcast(packed, ir.VectorType(BYTE, 2 * LANES).as_pointer()), align=1), pairs)

    def added(b: Any, total: Any, x: Any, w: Any) -> Any:
        if not integers:
            return call(b, f"llvm.fmuladd.v{LANES}f32", vector, x, w, total)
        x = b.bitcast(x, pairs)
        if "+sse2" in FEATURES:
            return b.add(total, call(b, _MULTIPLY_ADD[LANES], vector, x, w))
        for first in (0, 1):
            some = ir.Constant(INTS, list(range(first, 2 * LANES, 2)))
            halves = [b.sext(b.shuffle_vector(each, each, some), vector) for each in (x, w)]
            total = b.add(total, b.mul(*halves))
        return total

    def of_rows(module: Any, rows: int) -> Any:
        kinds = [PLACE, ADDRESS, PLACE, PLACE, ADDRESS, PLACE, ADDRESS, ADDRESS]
        function, before, loop, end = new_function(module, f"tile_{one}_{rows}", kinds)
        inputs, stride, panel, sums, sums_stride, later, share, steps = function.args
        b = ir.IRBuilder(before)
        starts = [b.gep(inputs, [b.mul(stride, ADDRESS(row))]) for row in range(rows)]
        outs = [b.gep(sums, [b.mul(sums_stride, ADDRESS(row))]) for row in range(rows)]
        first = [[load(b, out, 4 * LANES * v, vector) for v in range(VECTORS)] for out in outs]
        lines = [b.udiv(b.mul(share, ADDRESS(line)), ADDRESS(step)) for line in range(0, step, 64)]
        b.branch(loop)
        b.position_at_end(loop)
        totals = [[b.phi(vector) for _ in range(VECTORS)] for _ in range(rows)]
        i, after = next_step(b, before)
        place = b.gep(panel, [b.mul(i, ADDRESS(step))])
        w = [weights(b, place, v) for v in range(VECTORS)]
        later = b.gep(later, [b.mul(i, share)])
        for line in lines:
            fetch(b, b.gep(later, [line]))
        for row, start in enumerate(starts):
            x = in_all_lanes(b, b.load(b.gep(b.bitcast(start, one.as_pointer()), [i])))
            for v, total in enumerate(totals[row]):
                total.add_incoming(first[row][v], before)
                totals[row][v] = added(b, total, x, w[v])
                total.add_incoming(totals[row][v], loop)
        b.cbranch(b.icmp_unsigned("<", after, steps), loop, end)
        b.position_at_end(end)
        for out, found in zip(outs, totals, strict=True):
            for v, total in enumerate(found):
                store(b, total, out, 4 * LANES * v)
        b.ret_void()
        return function

    return of_rows


def _adder(integers: bool) -> Any:
    def add(
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

        integers: the sums are int32; a step is a pair of int16 inputs, and of int8 weights for each output.
        """
        return called(8, (0, 2, 3, 5), _tile(integers), ROWS)

    return intrinsic(add)


add_floats, add_pairs = _adder(False), _adder(True)


def _finish(module: Any) -> Any:
    """See `finish_pairs`."""
    kinds = [*[PLACE] * 5, *[ADDRESS] * 4]
    function, before, loop, end = new_function(module, "finish_pairs", kinds)
    sums, x_scales, scales, bias, out, stride, adds, relu, rows = function.args
    b = ir.IRBuilder(before)
    adds, relu = (b.icmp_unsigned("!=", each, ADDRESS(0)) for each in (adds, relu))
    relu = in_all_lanes(b, relu)
    nothing = ir.Constant(FLOATS, None)
    b.branch(loop)
    b.position_at_end(loop)
    i, after = next_step(b, before)
    scale = in_all_lanes(b, b.load(b.gep(b.bitcast(x_scales, FLOAT.as_pointer()), [i])))
    found, place = b.gep(sums, [b.mul(i, ADDRESS(4 * PANEL))]), b.gep(out, [b.mul(i, stride)])
    for v in range(VECTORS):
        offset = 4 * LANES * v
        y = b.sitofp(load(b, found, offset, INTS), FLOATS)
        y = b.fmul(y, b.fmul(scale, load(b, scales, offset, FLOATS)))
        y = b.fadd(y, load(b, bias, offset, FLOATS))
        y = b.fadd(y, b.select(adds, load(b, place, offset, FLOATS), nothing))
        negative = b.and_(relu, b.fcmp_ordered("<", y, nothing))
        store(b, b.select(negative, nothing, y), place, offset)
    b.cbranch(b.icmp_unsigned("<", after, rows), loop, end)
    b.position_at_end(end)
    b.ret_void()
    return function


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
    return called(9, (0, 1, 2, 3, 4), _finish)
