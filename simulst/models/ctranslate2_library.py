"""CTranslate2: a model's file (model.bin), and which searches may share a batch: each finds what it finds alone."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Hashable, Iterable
from pathlib import Path

import numpy as np

from simulst.errors import SimulstError, first_line
from simulst.hypotheses import Tokens
from simulst.search import BeamSearch

VERSION = 6  # of the form
TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
BFLOAT16 = 5  # which numpy does not have; such arrays are given as int16
Variables = dict[str, np.ndarray]


def read_variables(path: Path) -> Variables:
    """The variables of a model.bin. Those that are equal are one array. An array is read from disk where it is used.

    Raises SimulstError: another version, or a file that ends too early.
    """
    place = 0

    def number(form: str) -> int:
        nonlocal place
        [value] = struct.unpack_from("<" + form, data, place)
        place += struct.calcsize(form)
        return value

    def text() -> str:
        nonlocal place
        size = number("H")
        place += size
        return bytes(data[place - size : place]).rstrip(b"\0").decode()

    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        version = number("I")
        if version != VERSION:
            raise SimulstError(f"{path}: version {version} of CTranslate2's form; give one of version {VERSION}.")
        text(), number("I")  # the kind of model, and its revision
        variables: Variables = {}
        for _ in range(number("I")):
            name = text()
            shape = [number("I") for _ in range(number("B"))]
            kind, size = number("B"), number("I")
            values = np.dtype(np.int16 if kind == BFLOAT16 else TYPES[kind])
            variables[name] = np.frombuffer(data, values, size // values.itemsize, place).reshape(shape)
            place += size
        for _ in range(number("I")):
            alias = text()
            variables[alias] = variables[text()]
    except (struct.error, KeyError, ValueError, UnicodeDecodeError) as error:
        raise SimulstError(f"{path}: broken, or not CTranslate2's ({error}); bring the model again.") from error
    return variables


def kind_of(path: Path) -> str:
    """The kind of model that a model.bin holds, such as "TransformerSpec"; empty: it is no such file."""
    with path.open("rb") as file:
        begin = file.read(6)
        size = struct.unpack("<IH", begin)[1] if len(begin) == 6 else 0
        return file.read(min(size, 100)).rstrip(b"\0").decode("ascii", errors="ignore")


def cannot_load(path: Path, error: Exception, device: str) -> SimulstError:
    """What to say if CTranslate2 can't load a model. path: of the model."""
    said = f"{path}: CTranslate2 cannot load the model ({first_line(error)})"
    if "compute type" not in said:
        return SimulstError(f"{said}.")
    from ctranslate2 import get_supported_compute_types

    known = ", ".join(sorted({"auto", "default", *get_supported_compute_types(device)}))
    return SimulstError(f"{said}; on {device}, compute_type may be {known}.")


def alike(options: BeamSearch, prefix: Tokens, bound: int) -> Hashable:
    """Searches for which this is equal may share a batch.

    If one text of a batch has a prefix, CTranslate2 lets only the best continuation of each text end in the first step.
    Alone, a text without a prefix may also end there by its second best.

    Without a length penalty, a search goes on after `beam` hypotheses have ended, until the best has. So its bound may
    decide although what is found is shorter.

    prefix: of the text, all that is forced. bound: the most tokens of the text, with its prefix.
    """
    return options, bool(prefix), bound if options.length_penalty == 0 else None


def reaches(bound: int, most: int, lengths: Iterable[int]) -> bool:
    """Whether a text must be searched again by itself: CTranslate2 has one bound, `most`, for all texts of a batch.

    At the bound, all hypotheses end in one step. One that is a token shorter may have ended in that step, too.

    bound: that of this text. lengths: of its hypotheses. Both count the prefix.
    """
    return bound < most and max(lengths) >= bound - 1
