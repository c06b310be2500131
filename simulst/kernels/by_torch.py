"""Products by torch: what compiled ones must agree with, and the way round where nothing can be compiled."""

from __future__ import annotations

import numpy as np
import torch

LARGEST = 127  # of 8-bit weights


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
