"""READ: how much source to wait for before the next decoding step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from simulst.audio.units import FRAME_MS
from simulst.errors import SimulstError
from simulst.needs import Need
from simulst.policy.context import Context


class Reading(ABC):
    """A READ, opened for one stream."""

    @abstractmethod
    def next_ms(self, decoded_ms: float) -> float:
        """The next source position (ms) at which READ is asked whether to decode.

        decoded_ms: the position at which it was last asked; 0 if it has not been asked yet.
        Returns: a larger position; infinity stands for the end of the source.
        """

    def hear(self, samples: np.ndarray) -> None:
        """Take in new audio, (n,) float32. It is called only if READ needs `Need.AUDIO`."""

    def ready(self) -> bool:
        """Whether to decode at this position."""
        return True


class Read(Reading):
    """Options of a READ: a frozen dataclass with a label. Most of them have no state, so `open` returns them unchanged.

    label: a short name for tables and curves.
    curve: the name of the curve of its runs, if the whole system is named after this READ (as `wait-3` is); else "".
    usual_stop: if `curve` is set, the STOP that the label of the system leaves out.
    usual_commit: if `curve` is set, the COMMIT that the label of the system leaves out.
    swept: the number that changes along a curve.
    needs: what `open` and the opened READ ask for.
    files: the files that `open` reads.
    """

    needs: frozenset[Need] = frozenset()
    files: tuple[str, ...] = ()
    curve: str = ""
    usual_stop: str = ""
    usual_commit: str = "all"

    @property
    @abstractmethod
    def label(self) -> str: ...

    @property
    def swept(self) -> float | None:
        return None

    def open(self, context: Context) -> Reading:
        """Open this READ for a new stream. Raises SimulstError: a file can't be loaded; a wrong sample rate."""
        return self


@dataclass(frozen=True)
class Chunk(Read):
    """Decode after every `ms` of source (CUNI-KIT 2022, sections 3.2 and 3.4).

    ms: length of a chunk, in ms.
    initial_wait_ms: least length of the first chunk, in ms.
    """

    ms: float
    initial_wait_ms: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ms) and self.ms > 0):
            raise SimulstError(f"read: ms is {self.ms:g}; a chunk needs a positive length.")
        if not (math.isfinite(self.initial_wait_ms) and self.initial_wait_ms >= 0):
            raise SimulstError(f"read: initial_wait_ms is {self.initial_wait_ms:g}; give 0 or more.")

    @property
    def label(self) -> str:
        wait = f"-wait{self.initial_wait_ms:g}" if self.initial_wait_ms > self.ms else ""
        return f"{self.ms:g}ms{wait}"

    @property
    def swept(self) -> float | None:
        return self.ms

    def next_ms(self, decoded_ms: float) -> float:
        return decoded_ms + self.ms if decoded_ms > 0 else max(self.ms, self.initial_wait_ms)


@dataclass(frozen=True)
class Block(Read):
    """Decode whenever the encoder has written `n` more blocks, as in blockwise search (Tsunoo et al. 2021)."""

    n: int = 1

    needs = frozenset({Need.BLOCKS})

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SimulstError(f"read: n is {self.n}; give at least one block.")

    @property
    def label(self) -> str:
        return f"{self.n}block" + "s" * (self.n > 1)

    def open(self, context: Context) -> Reading:
        return _BlockEnds(self.n, context)

    def next_ms(self, decoded_ms: float) -> float:
        raise AssertionError("only an opened READ knows where blocks end")


class _BlockEnds(Reading):
    def __init__(self, n: int, context: Context) -> None:
        self._n, self._context = n, context

    def next_ms(self, decoded_ms: float) -> float:
        return self._context.block_end(self._n)


@dataclass(frozen=True)
class Offline(Read):
    """Read the whole source, then decode once. Online policies are compared with its quality.

    name: a part of the label, to tell models apart.
    """

    name: str = ""

    def __post_init__(self) -> None:
        check_name(self.name)

    @property
    def label(self) -> str:
        return f"offline-{self.name}" if self.name else "offline"

    @property
    def curve(self) -> str:  # type: ignore[override]
        return self.label

    def next_ms(self, decoded_ms: float) -> float:
        return math.inf


@dataclass(frozen=True)
class _Wait(Read):
    """wait-k (Ma et al. 2019) on speech: the first step comes after `k` units, then one step after each unit.

    k: how many units to wait for.
    unit_ms: length of a unit, in ms.
    """

    k: int
    unit_ms: float = 280.0

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SimulstError(f"read: k is {self.k}; wait for at least one unit.")
        if not (math.isfinite(self.unit_ms) and self.unit_ms > 0):
            raise SimulstError(f"read: unit_ms is {self.unit_ms:g}; a unit needs a positive length.")

    @property
    def label(self) -> str:
        return self._named(str(self.k))

    @property
    def curve(self) -> str:  # type: ignore[override]
        return self._named("k")

    @property
    def swept(self) -> float | None:
        return self.k

    def _named(self, k: str) -> str:
        return f"wait-{k}" + ("" if self.unit_ms == 280 else f"-{self.unit_ms:g}ms")

    def next_ms(self, decoded_ms: float) -> float:
        return decoded_ms + self.unit_ms if decoded_ms > 0 else self.k * self.unit_ms


@dataclass(frozen=True)
class WaitKAtTestTime(_Wait):
    """wait-k with a model that was not trained for it, which any model can be.

    Each step writes one word (STOP `max_words` with n 1) and commits it (COMMIT `all`, whole words).
    """

    usual_stop, usual_commit = "W1", "allw"

    def _named(self, k: str) -> str:
        return "test-time-" + super()._named(k)


@dataclass(frozen=True)
class WaitK(_Wait):
    """wait-k with a model that was trained for it (see simulst/models/espnet/network/lagging.py).

    Each step writes `writes` tokens (STOP `max_tokens`) and commits them (COMMIT `all`), as in training. With 1, this
    is the baseline of NAIST 2022, section 3.2.2. The paper says "280 frames"; it means fairseq's default, 7 encoder
    frames of 40 ms.

    k, unit_ms, writes: those that the model was trained with.
    name: a part of the label, to tell models apart.
    """

    writes: int = 1
    name: str = ""

    usual_stop = "N1"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.writes < 1:
            raise SimulstError(f"read: writes is {self.writes}; at least one token must be written.")
        check_name(self.name)

    def _named(self, k: str) -> str:
        return super()._named(k) + (f"-{self.name}" if self.name else "")

    def open(self, context: Context) -> Reading:
        """Open this READ. Raises SimulstError: the model was not trained for this wait-k."""
        trained = context.trained_wait
        if trained is None:
            raise SimulstError("read: wait_k is for models that were trained for it; write 'type: test_time_wait_k'.")
        if trained != (self.k, self.unit_ms, self.writes):
            raise SimulstError(
                f"read: wait_k with k {self.k}, unit_ms {self.unit_ms:g} and writes {self.writes}, but the model was "
                f"trained with {trained[0]}, {trained[1]:g} and {trained[2]}; write those."
            )
        return self


@dataclass(frozen=True)
class WaitStride(Read):
    """Wait k, stride s (Nguyen et al. 2021, section 2.2): step t = 1, 2, ... has read min(k + (t - 1) s, |X|) frames.

    The paper's write parameter N is STOP `max_tokens`. Everything is committed (COMMIT `all`).
    The paper keeps the decoder's recurrent state from step to step. A Transformer decoder depends on the encoder
    frames, which change at each step, so it reads the committed tokens again, in one pass.

    k: frames of 10 ms before the first step.
    s: frames of 10 ms between steps.
    """

    k: int
    s: int

    def __post_init__(self) -> None:
        for name, value in (("k", self.k), ("s", self.s)):
            if value < 1:
                raise SimulstError(f"read: {name} is {value}; give at least one frame of {FRAME_MS} ms.")

    @property
    def label(self) -> str:
        return f"k{self.k}-s{self.s}"

    @property
    def curve(self) -> str:  # type: ignore[override]
        return f"k-s{self.s}"

    @property
    def swept(self) -> float | None:
        return self.k

    def next_ms(self, decoded_ms: float) -> float:
        return decoded_ms + self.s * FRAME_MS if decoded_ms > 0 else float(self.k * FRAME_MS)


def check_name(name: str, key: str = "read") -> None:
    """Raise SimulstError if the name can't be part of a folder's name. key: the part of the configuration."""
    if "/" in name:
        raise SimulstError(f"{key}: name is '{name}', but it becomes part of a folder's name; write it without '/'.")
