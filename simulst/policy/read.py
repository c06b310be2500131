"""READ: how much source is awaited before the next decoding step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from simulst.errors import SimulstError


class Read(Protocol):
    """When to decode, in ms of source."""

    @property
    def label(self) -> str:
        """A short name for tables and curves."""

    def next_ms(self, decoded_ms: float) -> float:
        """The source position at which to decode next, when the last step was at `decoded_ms` (0: none yet).

        Must grow; infinity stands for the end of the source.
        """


@dataclass(frozen=True)
class Chunk:
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

    def next_ms(self, decoded_ms: float) -> float:
        return decoded_ms + self.ms if decoded_ms > 0 else max(self.ms, self.initial_wait_ms)


@dataclass(frozen=True)
class Block:
    """Whenever the encoder has written `n` more blocks, as blockwise search does (Tsunoo et al. 2021).

    For models whose encoder works in blocks; the loop asks the model where they end.
    """

    n: int = 1

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SimulstError(f"read: n is {self.n}; give at least one block.")

    @property
    def label(self) -> str:
        return f"{self.n}block" + "s" * (self.n > 1)

    def next_ms(self, decoded_ms: float) -> float:
        return math.inf  # the model knows; see Session.block_end


@dataclass(frozen=True)
class Offline:
    """Read the whole source, then decode once: the quality that the online policies are compared with."""

    @property
    def label(self) -> str:
        return "offline"

    def next_ms(self, decoded_ms: float) -> float:
        return math.inf
