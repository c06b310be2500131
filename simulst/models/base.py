"""What a kind of model tells of itself, so that it is found by its files (see registry.py).

What a model and one utterance inside it have to do is in simulst/session.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simulst.errors import SimulstError
from simulst.session import Model


@dataclass(frozen=True)
class Family:
    """A kind of model. Each module or package in simulst/models that has a `family` is one; installed packages offer
    others (see registry.py).

    looks_like: a description of its files, for errors.
    recognises: whether a path is a model of this family.
    options: its options, a frozen dataclass.
    load: loads a model from its path, its options and the number of processors that it may use.
    files: the files that a model is made of, from its path and its options: all that `load` reads, in a fixed order.
        Its digest derives from them. Raises SimulstError: one is missing.
    check: from its path, its options, and the languages spoken and written. Raises SimulstError: its files tell that it
        lacks them. It reads no weights, as it is asked before the model is loaded.
    """

    looks_like: str
    recognises: Callable[[Path], bool]
    options: type
    load: Callable[[Path, Any, int], Model]
    files: Callable[[Path, Any], tuple[Path, ...]]
    check: Callable[[Path, Any, str, str], None] = lambda path, options, source, target: None


def spoken_language(model: Model, samples: np.ndarray) -> str:
    """The language that a recording's beginning sounds like. A model tells it by a method of this name.

    samples: (n,) float32, at the model's sample rate.

    Raises SimulstError: the model can't tell.
    """
    tell = getattr(model, "spoken_language", None)
    if tell is None:
        raise SimulstError(
            f"--source-lang auto: {type(model).__name__} can't tell which language is spoken; name it, such as "
            "--source-lang es."
        )
    return str(tell(samples))


def language_pairs(model: Model) -> dict[str, tuple[str, ...]]:
    """Spoken → written languages, if the model tells them by a property of this name; empty: it does not."""
    return dict(getattr(model, "language_pairs", {}))


def depends_on_rows(precision: Any, device: Any) -> bool:
    """Whether a row of a product of torch's may have other bits beside other rows, on a processor.

    If so, calls are answered one by one, so that words don't depend on the streams beside. On a GPU, all precisions are
    so, but there batches are what makes it fast.

    precision: torch's type, or its name. device: torch's device, or its name.
    """
    return str(device) == "cpu" and str(precision).removeprefix("torch.") in ("bfloat16", "float16")


def check_device(device: str) -> None:
    """Raise SimulstError if this machine does not have the torch device."""
    import torch

    if device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
        raise SimulstError(f"this machine has no device '{device}'; give cpu, or cuda on a machine that has it.")
