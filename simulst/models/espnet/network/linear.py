"""Linear layers, with their weights stored for fast inference."""

from __future__ import annotations

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from simulst.errors import SimulstError

PRECISIONS = ("float32", "int8", "bfloat16")
ROWS = (
    512  # of products that encoders' weights are laid out for; the layout for many rows is the best one for few as well
)


class Map(Protocol):
    """A linear layer: (..., inputs) → (..., outputs)."""

    def __call__(self, x: Tensor, relu: bool = False, add: Tensor | None = None) -> Tensor:
        """relu: whether to apply ReLU to the result. add: a tensor of the result's shape that is added to it."""


class Linear:
    """A linear layer, computed in `dtype`.

    On a CPU oneDNN computes it. The weights are reordered for oneDNN once, with the operators that torch.compile uses.
    On some processors this is twice as fast as torch's own linear layers, which take most of the time in streaming.

    weight: (outputs, inputs).
    bias: (outputs,).
    rows: the number of input rows that the weights are reordered for; None: a few.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor, dtype: torch.dtype = torch.float32, rows: int | None = ROWS
    ) -> None:
        self._weight, self._bias, self._dtype = weight.to(dtype), bias.to(dtype), dtype
        self._packed = (
            weight.device.type == "cpu"
            and torch.backends.mkldnn.is_available()
            and hasattr(torch.ops.mkldnn, "_linear_pointwise")
            and (dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported())
        )
        if self._packed:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight, rows)

    def __call__(self, x: Tensor, relu: bool = False, add: Tensor | None = None) -> Tensor:
        dtype = self._dtype
        if self._packed and x.dtype == dtype:  # the usual case comes first, as there are many short calls
            ops = torch.ops.mkldnn._linear_pointwise
            if add is None:
                return ops(x, self._weight, self._bias, "relu" if relu else "none", [], "")
            if add.dtype == dtype:
                return ops.binary(x, add, self._weight, self._bias, "add")
        y = self._product(x.to(dtype), relu).to(x.dtype if add is None else add.dtype)
        return y if add is None else y + add

    def _product(self, z: Tensor, relu: bool) -> Tensor:
        if self._packed:
            return torch.ops.mkldnn._linear_pointwise(z, self._weight, self._bias, "relu" if relu else "none", [], "")
        y = F.linear(z, self._weight, self._bias)
        return F.relu_(y) if relu else y


class Int8Linear:
    """A linear layer with 8-bit weights, on the CPU only: (m, inputs) float32 → (m, outputs) float32.

    Each output has its own scale for the weights. The inputs have one scale, which is computed at each call from the
    largest value of all m rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        scales = weight.abs().amax(1).clamp_min(1e-12) / 127
        zeros = torch.zeros_like(scales, dtype=torch.int64)
        quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(quantized, bias)

    def __call__(self, x: Tensor, relu: bool = False, add: Tensor | None = None) -> Tensor:
        # Inputs have 7 bits: with 8 bits, sums overflow on processors without VNNI.
        y = torch.ops.quantized.linear_dynamic(x, self._packed, True)
        y = F.relu_(y) if relu else y
        return y if add is None else y + add


def joined(precision: str, *layers: torch.nn.Linear) -> Map:
    """Several linear layers with the same input as one layer: (m, inputs) → (m, outputs of all layers, in order).

    precision: "float32", "int8" or "bfloat16".
    """
    dtype = dtype_of(precision)
    weight = torch.cat([layer.weight.detach() for layer in layers]).to(dtype)
    bias = torch.cat([layer.bias.detach() for layer in layers]).to(dtype)
    return Int8Linear(weight, bias) if precision == "int8" else Linear(weight, bias, dtype, rows=None)


def dtype_of(precision: str) -> torch.dtype:
    """The torch type of everything but int8 layers."""
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def check_precision(precision: str, device: Any) -> None:
    """Raise SimulstError if the precision is unknown, or if the device or this build of torch does not have it."""
    if precision not in PRECISIONS:
        raise SimulstError(f"precision: '{precision}' is not known; use {', '.join(PRECISIONS)}.")
    if precision == "int8" and torch.device(device).type != "cpu":
        raise SimulstError("precision: int8 runs on the CPU only; use bfloat16.")
    if precision == "int8" and torch.backends.quantized.engine == "none":
        raise SimulstError("precision: this build of torch has no int8 layers; use float32 or bfloat16.")
