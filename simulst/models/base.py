"""What a kind of model tells of itself, so that it is found by its files (see registry.py).

What a model and one utterance inside it have to do is in simulst/session.py.
"""

from __future__ import annotations

import importlib
import logging
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simulst.errors import SimulstError
from simulst.languages import code_of
from simulst.session import Model

logger = logging.getLogger(__name__)


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
    tells: from its path and its options: whether it may tell which language is spoken (`tells` below).
    """

    looks_like: str
    recognises: Callable[[Path], bool]
    options: type
    load: Callable[[Path, Any, int], Model]
    files: Callable[[Path, Any], tuple[Path, ...]]
    check: Callable[[Path, Any, str, str], None] = lambda path, options, source, target: None
    tells: Callable[[Path, Any], bool] = lambda path, options: False


def later(name: str) -> Callable[..., Any]:
    """A function, as `module:name`, whose module is imported when it is called."""
    module, _, function = name.partition(":")
    return lambda *arguments: getattr(importlib.import_module(module), function)(*arguments)


def tells(model: Model) -> Callable[[np.ndarray], Mapping[str, float]]:
    """What tells how probable each language is in audio, (n,) float32: the model's method `spoken_languages`.

    Raises SimulstError: it has none, or it hears one language alone.
    """
    found: Callable[[np.ndarray], Mapping[str, float]] | None = getattr(model, "spoken_languages", None)
    if found is None or len(language_pairs(model)) == 1:
        raise SimulstError(cannot_tell(type(model).__name__))
    return found


def cannot_tell(model: str | Path) -> str:
    """A sentence."""
    return f"{model}: the model can't tell which language is spoken; name it in the place of 'auto', such as es."


def heard(model: Model, target: str) -> tuple[str, ...]:
    """The languages from which a model writes the target; empty: it does not tell. Raises SimulstError: only one."""
    pairs = language_pairs(model).items()
    found = tuple(source for source, written in pairs if code_of(target) in map(code_of, written))
    if pairs and len(found) < 2:
        known = " and ".join(found) or "no language"
        raise SimulstError(f"the model writes '{target}' from {known} alone; name the language in the place of 'auto'.")
    return found


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


def has_bfloat16() -> bool:
    """Whether oneDNN can compute in bfloat16 on this processor, maybe in float32 with conversions."""
    import torch

    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def is_fast(precision: Any) -> bool:
    """Whether this processor multiplies bfloat16 or float16 itself. precision: as in `depends_on_rows`."""
    import torch

    if str(precision).removeprefix("torch.") == "float16":
        return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_fp16_supported()
    return has_bfloat16() and (platform.machine() not in ("x86_64", "AMD64") or torch.cpu._is_avx512_bf16_supported())


def warn_if_slow(precision: Any, device: Any) -> None:
    """Warn if the processor does not compute in this precision itself. See `depends_on_rows` for the arguments."""
    if depends_on_rows(precision, device) and not is_fast(precision):
        name = str(precision).removeprefix("torch.")
        logger.warning("this processor does not compute in %s, so float32 is faster; use float32.", name)


def check_device(device: str) -> None:
    """Raise SimulstError if this machine does not have the torch device."""
    import torch

    if device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
        raise SimulstError(f"this machine has no device '{device}'; give cpu, or cuda on a machine that has it.")
