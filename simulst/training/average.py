"""Stage 7: the mean of several checkpoints' weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulst.errors import SimulstError


def average_checkpoints(paths: Sequence[Path], out: Path) -> None:
    """Write the mean of the checkpoints' tensors; whole numbers (batch counts) are taken from the first.

    Raises SimulstError: no checkpoints, one that can't be read, or other weights than the first one's.
    """
    import torch

    if not paths:
        raise SimulstError(f"{out}: no checkpoints to average; train first.")
    total: dict[str, torch.Tensor] = {}
    for path in paths:
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, EOFError, ValueError) as error:
            raise SimulstError(f"{path}: not a readable checkpoint ({str(error).splitlines()[0]}).") from error
        if total and {k: v.shape for k, v in state.items()} != {k: v.shape for k, v in total.items()}:
            raise SimulstError(f"{path}: has other weights than {paths[0]}; average checkpoints of one training.")
        for name, tensor in state.items():
            if name not in total:
                total[name] = tensor.double() if tensor.is_floating_point() else tensor
            elif tensor.is_floating_point():
                total[name] = total[name] + tensor.double()
    dtypes = {name: tensor.dtype for name, tensor in state.items()}
    mean = {n: (t / len(paths)).to(dtypes[n]) if t.is_floating_point() else t for n, t in total.items()}
    part = out.with_name(out.name + ".part")
    torch.save(mean, part)
    part.replace(out)
