"""Products of few rows with a matrix of weights: the contract, and who fulfils it here.

Compiled ones must agree with those by torch, which are the way round where nothing can be compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch

from simulst.errors import warn_once
from simulst.kernels.compiler import build

LARGEST = 127  # of 8-bit weights
Made = Callable[[np.ndarray, np.ndarray], "Product"]


class Product(Protocol):
    """x → x Wᵀ + b, on the processor. A row's result does not depend on the other rows, nor on threads.

    In 8 bits, weights have one scale per output; inputs are rounded to 16-bit integers, with one scale per row; and
    sums are exact.
    """

    outputs: int

    def __call__(self, x: np.ndarray, y: np.ndarray, relu: bool = False, adds: bool = False, threads: int = 1) -> None:
        """Write the result for x, (m, inputs), into y, (m, outputs); both float32, row after row.

        adds: whether to add it to what y has.
        relu: whether to apply ReLU to the sum.
        threads: how many may share the work.
        """


def rounded(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Weights (outputs, inputs) in 8 bits, each output's scale, and up to which integers inputs are rounded.

    So many inputs with the largest numbers have a sum that does not overflow 32 bits.
    """
    scales = np.maximum(np.abs(weight).max(1), np.float32(1e-12)) / np.float32(LARGEST)
    with np.errstate(invalid="ignore"):  # weights that are no numbers are told by their scale
        integers = np.rint(weight / scales[:, None]).astype(np.int8)
    size = weight.shape[1]
    return integers, scales, min(2**15 - 1, (2**31 - 1) // (LARGEST * (size + size % 2)))


class ByTorch:
    """See `Product`.

    Sums are in float64: integers are exact then, and other sums depend on the number of rows and of threads only where
    their last bit is rounded away.
    """

    def __init__(self, weight: np.ndarray, bias: np.ndarray, integers: bool = False) -> None:
        self.outputs, self._most = len(weight), 0
        if integers:
            weight, scales, self._most = rounded(weight)
            self._scales = torch.from_numpy(scales)
        self._weight, self._bias = torch.from_numpy(weight).double().T, torch.from_numpy(np.array(bias))

    def __call__(self, x: np.ndarray, y: np.ndarray, relu: bool = False, adds: bool = False, threads: int = 1) -> None:
        """See `Product`. The number of threads is torch's."""
        rows, out = torch.from_numpy(x), torch.from_numpy(y)
        if self._most and len(x):
            scales = rows.abs().amax(1, keepdim=True) / self._most
            integers = torch.round(rows * torch.where(scales > 0, 1 / scales, 0))
            found = (integers.double() @ self._weight).float() * (scales * self._scales) + self._bias
        else:
            found = (rows.double() @ self._weight).float() + self._bias
        if adds:
            found += out
        out.copy_(found.relu_() if relu else found)


def product(weight: np.ndarray, bias: np.ndarray, integers: bool = False) -> Product:
    """The fastest product that there is here.

    weight: W, (outputs, inputs) float32.
    bias: b, (outputs,) float32.
    integers: whether to keep the weights in 8 bits.
    """
    return _fastest(integers)(weight, bias)


@functools.cache
def _fastest(integers: bool) -> Made:
    by_torch = functools.partial(ByTorch, integers=integers)
    if compiled := build("simulst.kernels.compiled_products"):
        made: Made = compiled.PairProduct if integers else compiled.FloatProduct
        if _agree(made, by_torch):
            return made
        warn_once("compiled products do not agree with torch's here; torch computes them, which is slower.")
    return by_torch


def _agree(made: Made, other: Made) -> bool:
    """For more rows and outputs than are computed at once, of which the last are left over."""
    random = np.random.default_rng(0)
    sizes = (51, 131), (133, 131), 133, (51, 133)
    x, weight, bias, before = (random.normal(size=size).astype(np.float32) for size in sizes)
    for relu, adds in ((True, False), (False, True)):
        found = before.copy(), before.copy()
        for product, y in zip((made, other), found, strict=True):
            product(weight, bias)(x, y, relu, adds)
        if not np.allclose(*found, rtol=0, atol=1e-4):
            return False
    return True
