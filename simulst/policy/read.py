"""READ: how much source is awaited before the next decoding step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from simulst.errors import SimulstError
from simulst.needs import Need
from simulst.policy.context import Context
from simulst.units import FRAME_MS


class Reading(ABC):
    """A READ, opened for one stream."""

    @abstractmethod
    def next_ms(self, decoded_ms: float) -> float:
        """The source position (ms) at which READ is asked next whether to decode.

        decoded_ms: the position at which it was asked last; 0: never. The result must be larger. Infinity stands for
        the end of the source.
        """

    def hear(self, samples: np.ndarray) -> None:
        """Take in audio that is new, (n,) float32. Only a READ that needs `Need.AUDIO` is called."""

    def ready(self) -> bool:
        """Whether to decode at this position."""
        return True


class Read(Reading):
    """Options of a READ: a frozen dataclass with a label. Most hold no state: opened, they are themselves.

    label: a short name for tables and curves. curve: the name of the curve that its runs lie on, if the whole system is
    called after this READ (`wait-3` is); then `usual_stop` and `usual_commit` are the labels that go without saying.
    swept: the number that changes along a curve. needs: what `open` and the opened READ ask for. files: what `open`
    reads.
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
        """For a new stream. Raises SimulstError: what it listens with can't be loaded, or hears another sample rate."""
        return self


@dataclass(frozen=True)
class Chunk(Read):
    """A chunk of `ms`; the first is lengthened to `initial_wait_ms` (CUNI-KIT 2022, sections 3.2 and 3.4)."""

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
    """Whenever the encoder has written `n` more blocks, as blockwise search does (Tsunoo et al. 2021)."""

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
        raise AssertionError("the model knows; `open` asks it")


class _BlockEnds(Reading):
    def __init__(self, n: int, context: Context) -> None:
        self._n, self._context = n, context

    def next_ms(self, decoded_ms: float) -> float:
        return self._context.block_end(self._n)


@dataclass(frozen=True)
class Offline(Read):
    """Read the whole source, then decode once: the quality that the online policies are compared with.

    name: goes into the label, to tell models apart.
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
class WaitK(Read):
    """wait-k (Ma et al. 2019) on speech: the first step after `k` units of `unit_ms`, one more after each further unit.

    Each step writes one word (STOP `max_words` with n 1) and commits it (COMMIT `all`, whole words). The baseline of
    NAIST 2022, section 3.2.2, which says "280 frames"; it means fairseq's default, 7 encoder frames of 40 ms.
    """

    k: int
    unit_ms: float = 280.0

    usual_stop, usual_commit = "W1", "allw"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SimulstError(f"read: k is {self.k}; wait for at least one unit.")
        if not (math.isfinite(self.unit_ms) and self.unit_ms > 0):
            raise SimulstError(f"read: unit_ms is {self.unit_ms:g}; a unit needs a positive length.")

    @property
    def label(self) -> str:
        return f"wait-{self.k}{self._unit}"

    @property
    def curve(self) -> str:  # type: ignore[override]
        return f"wait-k{self._unit}"

    @property
    def swept(self) -> float | None:
        return self.k

    @property
    def _unit(self) -> str:
        return "" if self.unit_ms == 280 else f"-{self.unit_ms:g}ms"

    def next_ms(self, decoded_ms: float) -> float:
        return decoded_ms + self.unit_ms if decoded_ms > 0 else self.k * self.unit_ms


@dataclass(frozen=True)
class WaitStride(Read):
    """Wait k, stride s (Nguyen et al. 2021, section 2.2): step t = 1, 2, ... has read min(k + (t - 1) s, |X|) frames.

    k, s: in frames of 10 ms. The paper's write parameter N is STOP `max_tokens`; everything is committed (`all`).
    The paper carries the decoder's recurrent state on from step to step. A Transformer's decoder has no such state but
    what it sees of the encoder, which re-encoding changes: the committed tokens are read again in one pass instead.
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


def check_name(name: str) -> None:
    """Raises SimulstError: a name that can't be part of a folder's name."""
    if "/" in name:
        raise SimulstError(f"read: name is '{name}'; folders are called after it: write it without '/'.")
