"""Linear layers, with their weights stored for fast inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from simulst.errors import SimulstError
from simulst.kernels.products import Product, product
from simulst.models.base import has_bfloat16, warn_if_slow

PRECISIONS = ("float32", "int8", "bfloat16", "float16")
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Linear:
    """A linear layer, (..., inputs) → (..., outputs), with its weights laid out for fast inference.

    On a CPU, float32 and int8 are computed by our own products (see simulst/kernels), and bfloat16 by oneDNN, whose
    weights are reordered once, with the operators that torch.compile uses.

    weight: (outputs, inputs).
    bias: (outputs,).
    precision: "float32"; "int8", for weights of 8 bits on the CPU; or a half precision, for the product as a whole.
    """

    def __init__(self, weight: Tensor, bias: Tensor, precision: str = "float32") -> None:
        self._dtype = dtype_of(precision)
        self._weight, self._bias = weight.detach().to(self._dtype), bias.detach().to(self._dtype)
        self._packed = False
        self._product: Product | None = None
        if weight.device.type != "cpu":
            return
        if self._dtype == torch.float32:
            self._product = product(self._weight.numpy(), self._bias.numpy(), precision == "int8")
            self._weight = self._weight[:0]
        elif self._dtype == torch.bfloat16 and has_bfloat16():
            self._packed = True
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight, None)

    def __call__(self, x: Tensor, relu: bool = False, add: Tensor | None = None) -> Tensor:
        """relu: whether to apply ReLU to the result. add: instead, a tensor of its shape that is added to it."""
        assert add is None or not relu
        if self._product is not None:
            size = self._product.outputs
            y = x.new_empty(*x.shape[:-1], size, dtype=torch.float32) if add is None else add.clone()
            rows = x.reshape(-1, x.shape[-1]).float().contiguous()
            self._product(rows.numpy(), y.view(-1, size).numpy(), relu, add is not None, torch.get_num_threads())
            return y if add is not None else y.to(x.dtype)
        z = x.to(self._dtype)
        if not self._packed:
            y = F.linear(z, self._weight, self._bias)
            y = F.relu_(y) if relu else y
        elif add is not None and add.dtype == self._dtype:
            return torch.ops.mkldnn._linear_pointwise.binary(z, add, self._weight, self._bias, "add")
        else:
            kind = "relu" if relu else "none"
            y = torch.ops.mkldnn._linear_pointwise(z, self._weight, self._bias, kind, [], "")
        return y.to(x.dtype) if add is None else y.to(add.dtype) + add

    def rows(self, x: np.ndarray, relu: bool = False, add: np.ndarray | None = None) -> np.ndarray:
        """As a call, for arrays (m, inputs) of float32 on the processor. `add` is overwritten with the sum."""
        assert self._product is not None
        y = np.empty((len(x), self._product.outputs), np.float32) if add is None else add
        self._product(x, y, relu, add is not None, torch.get_num_threads())
        return y


def joined(precision: str, *layers: torch.nn.Linear) -> Linear:
    """Several linear layers with the same input as one layer: (m, inputs) → (m, outputs of all layers, in order).

    precision: one of `PRECISIONS`.
    """
    return Linear(torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers]), precision)


def dtype_of(precision: str) -> torch.dtype:
    """The torch type of everything but the weights of int8 layers."""
    return HALVES.get(precision, torch.float32)


def check_precision(precision: str, device: Any) -> None:
    """Raise SimulstError if the device does not have one of `PRECISIONS`."""
    if precision == "int8" and torch.device(device).type != "cpu":
        raise SimulstError("precision: int8 runs on the CPU only; use bfloat16 or float16.")
    warn_if_slow(precision, torch.device(device).type)
