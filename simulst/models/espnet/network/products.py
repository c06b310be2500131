"""Products of a few rows with a large matrix of weights, compiled for this processor.

A decoder step has as many rows as hypotheses, and a block of the encoder has about 40. Such products take as long as it
takes to read the weights. Libraries reach half of the memory's rate, since they are made for many rows. Here weights
lie in the order in which they are read: in panels of `PANEL` outputs, each input by input. A tile, up to `ROWS` rows by
one panel, is summed in the processor's registers, while weights further on are fetched already. The loop of the tile is
written in LLVM's language, because numba does not keep sums in registers by itself.

With 8-bit weights, inputs are rounded to 16-bit integers, with one scale per row, and sums are exact. So a row's
result never depends on the other rows.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, prange, set_num_threads, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

FEATURES = cpu_target.target_context.codegen().magic_tuple()[2]  # those of the processor, as numba sees them
if "+avx512bw" in FEATURES:
    LANES, VECTORS = 16, 4  # numbers in a register, and registers of a row of a tile
elif "+avx2" in FEATURES:
    LANES, VECTORS = 8, 2
else:
    LANES, VECTORS = 4, 2
ROWS = 6  # of a tile: with ROWS * VECTORS sums, no register is left
PANEL = LANES * VECTORS
AHEAD = 4096  # how many bytes further on weights are fetched
LARGEST = 127  # of 8-bit weights
MOST_THREADS: int = vars(config)["NUMBA_NUM_THREADS"]
WORTH_THREADS = 2**18  # bytes of weights from which on threads share a product

_FLOAT, _BYTE, _SHORT, _INT, _ADDRESS = ir.FloatType(), ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_MULTIPLY_ADD = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"}


def _tile(integers: bool) -> Any:
    """The compiled function that sums a tile.

    Its arguments are addresses and sizes: of the inputs (rows, steps), the bytes from row to row of them, of a panel
    (steps, PANEL), and of the sums (ROWS, PANEL), which it writes; how many rows (1 to ROWS) and steps there are.
    A step is a float32 input, or two int16 inputs with their two weights for each output.
    """
    one = _INT if integers else _FLOAT
    vector, pairs = ir.VectorType(one, LANES), ir.VectorType(_SHORT, 2 * LANES)
    step = PANEL * (2 if integers else 4)  # bytes of weights

    def weights(b: Any, place: Any) -> Any:
        if not integers:
            return b.load(b.bitcast(place, vector.as_pointer()), align=4)
        packed = b.load(b.bitcast(place, ir.VectorType(_BYTE, 2 * LANES).as_pointer()), align=1)
        return b.sext(packed, pairs)

    def added(b: Any, total: Any, x: Any, w: Any) -> Any:
        if not integers:
            return _call(b, f"llvm.fmuladd.v{LANES}f32", vector, x, w, total)
        x = b.bitcast(x, pairs)
        if "+sse2" in FEATURES:
            return b.add(total, _call(b, _MULTIPLY_ADD[LANES], vector, x, w))
        for first in (0, 1):
            some = ir.Constant(ir.VectorType(_INT, LANES), list(range(first, 2 * LANES, 2)))
            halves = [b.sext(b.shuffle_vector(each, each, some), vector) for each in (x, w)]
            total = b.add(total, b.mul(*halves))
        return total

    def of_rows(module: Any, rows: int) -> Any:
        """A function of its own for so many rows, or else the compiler keeps sums in memory."""
        kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _ADDRESS, *[_BYTE.as_pointer()] * 2, _ADDRESS])
        function = ir.Function(module, kind, name=f"simulst_tile_{one}_{rows}")
        function.linkage = "internal"
        function.attributes.add("noinline")
        inputs, stride, panel, sums, steps = function.args
        before, loop, end = (function.append_basic_block(name) for name in ("before", "step", "end"))
        b = ir.IRBuilder(before)
        starts = [b.gep(inputs, [b.mul(stride, _ADDRESS(row))]) for row in range(rows)]
        b.branch(loop)
        b.position_at_end(loop)
        i = b.phi(_ADDRESS)
        totals = [[b.phi(vector) for _ in range(VECTORS)] for _ in range(rows)]
        place = b.gep(panel, [b.mul(i, _ADDRESS(step))])
        w = [weights(b, b.gep(place, [_ADDRESS(v * step // VECTORS)])) for v in range(VECTORS)]
        for line in range(0, step, 64):
            ahead = b.gep(place, [_ADDRESS(AHEAD + line)])
            _call(b, "llvm.prefetch.p0", ir.VoidType(), ahead, _INT(0), _INT(3), _INT(1))  # to read, all caches, data
        nothing, first = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(_INT, LANES), None)
        after = b.add(i, _ADDRESS(1))
        i.add_incoming(_ADDRESS(0), before)
        i.add_incoming(after, loop)
        for row, start in enumerate(starts):
            number = b.load(b.gep(b.bitcast(start, one.as_pointer()), [i]))
            x = b.shuffle_vector(b.insert_element(nothing, number, _INT(0)), nothing, first)  # the same in all lanes
            for v, total in enumerate(totals[row]):
                total.add_incoming(ir.Constant(vector, None), before)
                totals[row][v] = added(b, total, x, w[v])
                total.add_incoming(totals[row][v], loop)
        b.cbranch(b.icmp_unsigned("<", after, steps), loop, end)
        b.position_at_end(end)
        for number, total in enumerate(chain.from_iterable(totals)):
            b.store(total, b.bitcast(b.gep(sums, [_ADDRESS(4 * LANES * number)]), vector.as_pointer()), align=4)
        b.ret_void()
        return function

    @intrinsic
    def tile(context: Any, inputs: Any, stride: Any, panel: Any, sums: Any, rows: Any, steps: Any) -> Any:
        def write(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
            inputs, stride, panel, sums, rows, steps = arguments
            inputs, panel, sums = (b.inttoptr(each, _BYTE.as_pointer()) for each in (inputs, panel, sums))
            done = b.append_basic_block("done")
            cases = b.switch(rows, done)
            for count in range(1, ROWS + 1):
                case = b.append_basic_block(f"rows{count}")
                cases.add_case(_ADDRESS(count), case)
                b.position_at_end(case)
                b.call(of_rows(b.module, count), [inputs, stride, panel, sums, steps])
                b.branch(done)
            b.position_at_end(done)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), write

    return tile


def _call(b: Any, name: str, result: Any, *arguments: Any) -> Any:
    kind = ir.FunctionType(result, [each.type for each in arguments])
    return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name=name), arguments)


_float_tile, _integer_tile = _tile(False), _tile(True)


@njit("f4[:,:,::1](f4[:,::1])", cache=True)
def _in_panels(weight: np.ndarray) -> np.ndarray:
    """(outputs, inputs) → (panels, inputs, PANEL), with zeros for the outputs that fill the last panel."""
    outputs, size = weight.shape
    panels = np.zeros((-(-outputs // PANEL), size, PANEL), np.float32)
    for n in range(outputs):
        for k in range(size):
            panels[n // PANEL, k, n % PANEL] = weight[n, k]
    return panels


@njit("Tuple((i2[:,::1], f4[::1]))(f4[:,::1], i8)", cache=True, nogil=True)
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


@njit("void(f4[:,::1], f4[:,:,::1], f4[::1], f4[:,::1], b1, b1, i8, i8)", cache=True, nogil=True)
def _floats(
    x: np.ndarray, panels: np.ndarray, bias: np.ndarray, y: np.ndarray, relu: bool, adds: bool, first: int, last: int
) -> None:
    """The outputs of panels `first` to `last`; see `Product.__call__`."""
    many, size = x.shape
    sums = np.empty((ROWS, PANEL), np.float32)
    for p in range(first, last):
        start, width = p * PANEL, min(PANEL, y.shape[1] - p * PANEL)
        for row in range(0, many, ROWS):
            rows = min(ROWS, many - row)
            _float_tile(x[row:].ctypes.data, 4 * size, panels[p].ctypes.data, sums.ctypes.data, rows, size)
            for r in range(rows):
                out = y[row + r, start : start + width]
                if adds:
                    for j in range(width):
                        out[j] += sums[r, j] + bias[start + j]
                else:
                    for j in range(width):
                        out[j] = sums[r, j] + bias[start + j]
                if relu:
                    for j in range(width):
                        out[j] = np.float32(0) if out[j] < 0 else out[j]


@njit("void(i2[:,::1], f4[::1], i1[:,:,::1], f4[::1], f4[::1], f4[:,::1], b1, b1, i8, i8)", cache=True, nogil=True)
def _integers(
    x: np.ndarray,
    x_scales: np.ndarray,
    panels: np.ndarray,
    scales: np.ndarray,
    bias: np.ndarray,
    y: np.ndarray,
    relu: bool,
    adds: bool,
    first: int,
    last: int,
) -> None:
    """As `_floats`, whose last loops stand here again: shared, they cost this one a sixth of its speed."""
    many, size = x.shape
    sums = np.empty((ROWS, PANEL), np.int32)
    for p in range(first, last):
        start, width = p * PANEL, min(PANEL, y.shape[1] - p * PANEL)
        for row in range(0, many, ROWS):
            rows = min(ROWS, many - row)
            _integer_tile(x[row:].ctypes.data, 2 * size, panels[p].ctypes.data, sums.ctypes.data, rows, size // 2)
            for r in range(rows):
                out, scale = y[row + r, start : start + width], x_scales[row + r]
                if adds:
                    for j in range(width):
                        out[j] += np.float32(sums[r, j]) * (scale * scales[start + j]) + bias[start + j]
                else:
                    for j in range(width):
                        out[j] = np.float32(sums[r, j]) * (scale * scales[start + j]) + bias[start + j]
                if relu:
                    for j in range(width):
                        out[j] = np.float32(0) if out[j] < 0 else out[j]


@njit("void(f4[:,::1], f4[:,:,::1], f4[::1], f4[:,::1], b1, b1, i8)", cache=True, nogil=True, parallel=True)
def _shared_floats(
    x: np.ndarray, panels: np.ndarray, bias: np.ndarray, y: np.ndarray, relu: bool, adds: bool, threads: int
) -> None:
    for part in prange(threads):
        first, last = part * len(panels) // threads, (part + 1) * len(panels) // threads
        _floats(x, panels, bias, y, relu, adds, first, last)


@njit(
    "void(i2[:,::1], f4[::1], i1[:,:,::1], f4[::1], f4[::1], f4[:,::1], b1, b1, i8)",
    cache=True,
    nogil=True,
    parallel=True,
)
def _shared_integers(
    x: np.ndarray,
    x_scales: np.ndarray,
    panels: np.ndarray,
    scales: np.ndarray,
    bias: np.ndarray,
    y: np.ndarray,
    relu: bool,
    adds: bool,
    threads: int,
) -> None:
    for part in prange(threads):
        first, last = part * len(panels) // threads, (part + 1) * len(panels) // threads
        _integers(x, x_scales, panels, scales, bias, y, relu, adds, first, last)


class Product:
    """x → x Wᵀ + b, on the processor.

    weight: W, (outputs, inputs) float32.
    bias: b, (outputs,) float32.
    integers: whether to keep the weights in 8 bits, with one scale per output.
    """

    def __init__(self, weight: np.ndarray, bias: np.ndarray, integers: bool = False) -> None:
        self.outputs, size = weight.shape
        self._bias = np.ascontiguousarray(bias)
        self._scales: np.ndarray | None = None
        if integers:
            scales = np.maximum(np.abs(weight).max(1), np.float32(1e-12)) / np.float32(LARGEST)
            self._scales = scales
            weight = np.pad(np.rint(weight / scales[:, None]), ((0, 0), (0, size % 2)))
            self._most = min(2**15 - 1, (2**31 - 1) // (LARGEST * weight.shape[1]))  # so that no sum overflows
        self._panels = _in_panels(np.ascontiguousarray(weight, np.float32))
        if integers:  # both weights of a pair beside each other
            pairs = self._panels.reshape(len(self._panels), -1, 2, PANEL).transpose(0, 1, 3, 2)
            with np.errstate(invalid="ignore"):  # weights that are no numbers are told by their scale
                self._panels = pairs.astype(np.int8).reshape(len(pairs), -1, 2 * PANEL)

    def __call__(self, x: np.ndarray, y: np.ndarray, relu: bool = False, adds: bool = False, threads: int = 1) -> None:
        """Write the result for x, (m, inputs), into y, (m, outputs); both float32, row after row.

        adds: whether to add it to what y has.
        relu: whether to apply ReLU to the sum.
        """
        panels = self._panels
        threads = min(threads, len(panels), MOST_THREADS) if panels.nbytes >= WORTH_THREADS else 1
        if threads > 1:
            set_num_threads(threads)
        if self._scales is None:
            if threads > 1:
                _shared_floats(x, panels, self._bias, y, relu, adds, threads)
            else:
                _floats(x, panels, self._bias, y, relu, adds, 0, len(panels))
        else:
            integers, scales = _rounded(x, self._most)
            if threads > 1:
                _shared_integers(integers, scales, panels, self._scales, self._bias, y, relu, adds, threads)
            else:
                _integers(integers, scales, panels, self._scales, self._bias, y, relu, adds, 0, len(panels))
