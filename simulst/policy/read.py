"""READ: how much source to wait for before the next decoding step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simulst.audio.units import FRAME_MS
from simulst.calls import Steps
from simulst.errors import SimulstError
from simulst.needs import Need
from simulst.options import Count, NotNegative, Positive
from simulst.policy.base import Options
from simulst.policy.commit import All, Commit
from simulst.policy.context import Context
from simulst.policy.late import Late
from simulst.policy.stop import MaxTokens, Stop


class Read(Options):
    """Options of a READ.

    system: the name of the whole system, if it is named after its READ, without the number that changes along a curve,
        such as `wait-k`; written like `label`. "": it is not.
    usual_stop: if `system` is set, the STOP that the system's name leaves out.
    usual_commit: if `system` is set, the COMMIT that the system's name leaves out.
    """

    system: ClassVar[str] = ""
    usual_stop: ClassVar[str] = ""
    usual_commit: ClassVar[str] = "all"

    @property
    def curve(self) -> str:
        return self._fill(self.system)

    def check(self, stop: Stop, commit: Commit, late: Late) -> None:
        """Raise SimulstError if this READ does not go with the other policies of a configuration."""

    @abstractmethod
    def open(self, context: Context) -> Reading:
        """Open this READ for a new stream. Raises SimulstError: a file can't be loaded; a wrong sample rate."""


class Reading(ABC):
    """A READ, opened for one stream."""

    options: Read

    def __init__(self, options: Read, context: Context) -> None:
        self.options, self.context = options, context

    @abstractmethod
    def next_ms(self, decoded_ms: float) -> float:
        """The next source position (ms) at which READ is asked whether to decode.

        decoded_ms: the position at which it was last asked; 0 if it has not been asked yet.
        Returns: a larger position; infinity stands for the end of the source.
        """

    def hear(self, samples: np.ndarray) -> Steps[None] | None:
        """Take in new audio, (n,) float32. It is called only if READ needs `Need.AUDIO`.

        A READ with a model of its own may be a generator here, which yields its calls (simulst/calls.py).
        """
        return None

    def ready(self) -> bool:
        """Whether to decode at this position."""
        return True


class Schedule(Reading):
    """A READ that decodes at fixed positions: first at `first_ms`, then after every `step_ms` of source."""

    def __init__(self, options: Read, context: Context, first_ms: float, step_ms: float) -> None:
        super().__init__(options, context)
        self._first_ms, self._step_ms = first_ms, step_ms

    def next_ms(self, decoded_ms: float) -> float:
        return decoded_ms + self._step_ms if decoded_ms > 0 else self._first_ms


@dataclass(frozen=True)
class Chunk(Read):
    """Decode after every `ms` of source (CUNI-KIT 2022, sections 3.2 and 3.4).

    ms: length of a chunk, in ms.
    initial_wait_ms: least length of the first chunk, in ms.
    """

    ms: Positive
    initial_wait_ms: NotNegative = 0.0

    label = "{ms:g}ms{wait:-wait}"
    sweeps = "ms"

    @property
    def wait(self) -> str:
        return f"{self.initial_wait_ms:g}" if self.initial_wait_ms > self.ms else ""

    def open(self, context: Context) -> Reading:
        return Schedule(self, context, max(self.ms, self.initial_wait_ms), self.ms)


@dataclass(frozen=True)
class Block(Read):
    """Decode whenever the encoder has written `n` more blocks, as in blockwise search (Tsunoo et al. 2021)."""

    n: Count = 1

    label = "{n}block{plural}"
    needs = frozenset({Need.BLOCKS})

    @property
    def plural(self) -> str:
        return "s" * (self.n > 1)

    def open(self, context: Context) -> Reading:
        return _BlockEnds(self, context)


class _BlockEnds(Reading):
    options: Block

    def next_ms(self, decoded_ms: float) -> float:
        return self.context.block_end(self.options.n)


@dataclass(frozen=True)
class Offline(Read):
    """Read the whole source, then decode once. Online policies are compared with its quality.

    name: a part of the label, to tell models apart.
    """

    name: str = ""

    label = system = "offline{name:-}"

    def open(self, context: Context) -> Reading:
        return Schedule(self, context, math.inf, math.inf)


@dataclass(frozen=True)
class _Wait(Read):
    """wait-k (Ma et al. 2019) on speech: the first step comes after `k` units, then one step after each unit.

    k: how many units to wait for.
    unit_ms: length of a unit, in ms.
    """

    k: Count
    unit_ms: Positive = 280.0

    sweeps = "k"

    @property
    def unit(self) -> str:
        return "" if self.unit_ms == 280 else f"-{self.unit_ms:g}ms"

    def open(self, context: Context) -> Reading:
        return Schedule(self, context, self.k * self.unit_ms, self.unit_ms)


@dataclass(frozen=True)
class WaitKAtTestTime(_Wait):
    """wait-k with a model that was not trained for it, which any model can be.

    Each step writes one word (STOP `max_words` with n 1) and commits it (COMMIT `all`, whole words).
    """

    label, system = "test-time-wait-{k}{unit}", "test-time-wait-k{unit}"
    usual_stop, usual_commit = "W1", "allw"


@dataclass(frozen=True)
class WaitK(_Wait):
    """wait-k with a model that was trained for it (see simulst/models/espnet/network/lagging.py).

    Each step writes `writes` tokens (STOP `max_tokens`) and commits them (COMMIT `all`), as in training. With 1, this
    is the baseline of NAIST 2022, section 3.2.2. The paper says "280 frames"; it means fairseq's default, 7 encoder
    frames of 40 ms.

    k, unit_ms, writes: those that the model was trained with.
    name: a part of the label, to tell models apart.
    """

    writes: Count = 1
    name: str = ""

    label, system = "wait-{k}{unit}{name:-}", "wait-k{unit}{name:-}"
    usual_stop = "N1"

    def check(self, stop: Stop, commit: Commit, late: Late) -> None:
        n = self.writes
        if (stop, commit) != (MaxTokens(n), All()):
            raise SimulstError(
                f"read: wait_k writes as its model was trained to (writes: {n}); write 'stop: {{type: max_tokens, "
                f"n: {n}}}' and 'commit: {{type: all}}'. For other models write 'type: test_time_wait_k'."
            )
        if late.skips:
            raise SimulstError(
                "late: wait_k writes after each unit, as its model was trained to, so no step may be left out; "
                "write 'late: {type: wait}'."
            )

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
        return super().open(context)


@dataclass(frozen=True)
class WaitStride(Read):
    """Wait k, stride s (Nguyen et al. 2021, section 2.2): step t = 1, 2, ... has read min(k + (t - 1) s, |X|) frames.

    The paper's write parameter N is STOP `max_tokens`. Everything is committed (COMMIT `all`).
    The paper keeps the decoder's recurrent state from step to step. A Transformer decoder depends on the encoder
    frames, which change at each step, so it reads the committed tokens again, in one pass.

    k: frames of 10 ms before the first step.
    s: frames of 10 ms between steps.
    """

    k: Count
    s: Count

    label, system = "k{k}-s{s}", "k-s{s}"
    sweeps = "k"

    def open(self, context: Context) -> Reading:
        return Schedule(self, context, self.k * FRAME_MS, self.s * FRAME_MS)
