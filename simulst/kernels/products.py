"""Products of few rows with a matrix of weights: the contract, and who fulfils it here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol

import numpy as np

from simulst.kernels.by_torch import ByTorch
from simulst.kernels.compiler import build, tell

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
        tell("products compiled for this processor do not agree with torch's, so torch computes them, which is slower.")
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
