"""READ: how much source is awaited before the next decoding step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from simulst.errors import SimulstError

if TYPE_CHECKING:
    import numpy as np

    from simulst.models.base import Memo

FRAME_MS = 10  # the frames that papers count in


class Read(Protocol):
    """When to decode, in ms of source.

    A READ after which its whole system is called also has `curve`, and in `usual_stop` and `usual_commit` the labels
    that go without saying there (see `WaitK`). One that listens to the audio has `listener` (see `Boundary`). A user's
    own need not have them.
    """

    @property
    def label(self) -> str:
        """A short name for tables and curves."""

    def next_ms(self, decoded_ms: float) -> float:
        """The source position at which to decode next, when the last was `decoded_ms` (0: none yet).

        With a listener: at which it is asked next whether to decode. Must grow; infinity stands for the source's end.
        """


class Listener(Protocol):
    """What hears an utterance's audio for a READ, so that READ itself needs neither audio nor a model."""

    sample_rate: int

    def ready(self, samples: np.ndarray) -> bool:
        """Take in the audio that is new since the last call, (n,) float32; whether to decode where it ends."""


def listener_of(read: Read, memo: Memo) -> Listener | None:
    """What listens for this READ to a new utterance, if it wants to hear the audio.

    memo: what the configurations of a sweep share on this utterance.
    Raises SimulstError: what it listens with cannot be loaded.
    """
    listener = getattr(read, "listener", None)
    return listener(memo) if listener else None


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
    """Read the whole source, then decode once: the quality that the online policies are compared with.

    name: goes into the label, to tell models apart.
    """

    name: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)

    @property
    def label(self) -> str:
        return f"offline-{self.name}" if self.name else "offline"

    def next_ms(self, decoded_ms: float) -> float:
        return math.inf


@dataclass(frozen=True)
class WaitK:
    """wait-k (Ma et al. 2019) on speech: the first step after `k` units of `unit_ms`, one more after each further unit.

    Each step writes one word (STOP `max_words` with n 1) and commits it (COMMIT `all`). The baseline of NAIST 2022,
    section 3.2.2, which says "280 frames"; it means fairseq's default, 7 encoder frames of 40 ms.
    """

    k: int
    unit_ms: float = 280.0

    # The labels of the STOP and COMMIT that go without saying when the system is called after this READ.
    usual_stop, usual_commit = "W1", "all"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SimulstError(f"read: k is {self.k}; wait for at least one unit.")
        if not (math.isfinite(self.unit_ms) and self.unit_ms > 0):
            raise SimulstError(f"read: unit_ms is {self.unit_ms:g}; a unit needs a positive length.")

    @property
    def label(self) -> str:
        return f"wait-{self.k}{self._unit}"

    @property
    def curve(self) -> str:
        """The name of the curve whose points differ in k."""
        return f"wait-k{self._unit}"

    @property
    def _unit(self) -> str:
        return "" if self.unit_ms == 280 else f"-{self.unit_ms:g}ms"

    def next_ms(self, decoded_ms: float) -> float:
        return decoded_ms + self.unit_ms if decoded_ms > 0 else self.k * self.unit_ms


@dataclass(frozen=True)
class WaitStride:
    """Wait k, stride s (Nguyen et al. 2021, section 2.2): step t = 1, 2, ... has read min(k + (t - 1) s, |X|) frames.

    k, s: in frames of 10 ms. The paper's write parameter N is STOP `max_tokens`; everything is committed (`all`).
    The paper carries the decoder's recurrent state on from step to step. A Transformer's decoder has no such state but
    what it sees of the encoder, which re-encoding changes: the committed tokens are read again in one pass instead.
    """

    k: int
    s: int

    usual_stop, usual_commit = "", "all"

    def __post_init__(self) -> None:
        for name, value in (("k", self.k), ("s", self.s)):
            if value < 1:
                raise SimulstError(f"read: {name} is {value}; give at least one frame of {FRAME_MS} ms.")

    @property
    def label(self) -> str:
        return f"k{self.k}-s{self.s}"

    @property
    def curve(self) -> str:
        return f"k-s{self.s}"

    def next_ms(self, decoded_ms: float) -> float:
        return decoded_ms + self.s * FRAME_MS if decoded_ms > 0 else float(self.k * FRAME_MS)


@dataclass(frozen=True)
class Boundary:
    """Where a boundary predictor says so (NAIST 2022, section 2.2), with STOP `end_of_sentence` and COMMIT `all`,
    whose last_word has everything written at the boundary.

    threshold: λ_thre. There is a boundary where at least this share of the newest piece's outputs are labelled 1: 0
        takes every piece for one, 1 hardly any.
    predictor: its file (local/train_predictor.py writes it), from where simulst runs.
    frames: a piece's length T, in frames of 10 ms; the paper also uses 48 for its lowest latencies.
    name: of model and predictor in tables and curves, where several are compared.
    """

    threshold: float
    predictor: str
    frames: int = 100
    name: str = ""

    usual_stop, usual_commit = "", "all-last"

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise SimulstError(f"read: threshold is {self.threshold:g}; give a share, from 0 to 1.")
        if self.frames < 1 or self.frames % 4:
            raise SimulstError(f"read: frames is {self.frames}; the predictor needs a positive multiple of 4.")
        _check_name(self.name)

    @property
    def label(self) -> str:
        return f"{self.curve}-{self.threshold:g}"

    @property
    def curve(self) -> str:
        return f"boundary-T{self.frames}" + (f"-{self.name}" if self.name else "")

    def next_ms(self, decoded_ms: float) -> float:
        """Pieces keep their places, also where a full window was decoded between two of them."""
        piece = self.frames * FRAME_MS
        return (decoded_ms // piece + 1.0) * piece

    def listener(self, memo: Memo) -> Listener:
        """A new utterance's. Raises SimulstError: a predictor that is missing or broken."""
        from simulst.prefix.listening import BoundaryListener  # which needs torch

        return BoundaryListener(self.predictor, self.frames, self.threshold, memo)


def _check_name(name: str) -> None:
    if "/" in name:
        raise SimulstError(f"read: name is '{name}'; folders are called after it: write it without '/'.")
