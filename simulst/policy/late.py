"""LATE: what a stream does when computation is slower than speech, so that its lag would grow without end.

Audio is never dropped. A late step may be left out, because the next step hears its audio, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simulst.policy.base import Options


class Late(Options):
    """skips: whether steps may be left out."""

    skips: ClassVar[bool] = False


@dataclass(frozen=True)
class Wait(Late):
    """No step is left out. Results do not depend on the machine's speed, so evaluations use this."""

    label = ""


@dataclass(frozen=True)
class Skip(Late):
    """A step is left out if the audio of the next step is there before it can begin.

    This is for live use. Results depend on the machine's speed.
    """

    label = "skip"
    skips = True


class Pace:
    """How far a stream's computation is behind its audio, if the audio comes at the speed of speech.

    Time that a push has waited for the computation of other streams counts, too (`Stream.wait`).

    skipped: how many steps have been left out.
    """

    def __init__(self) -> None:
        self._free_ms = 0.0  # position of the audio at which all computation so far is done
        self.skipped = 0

    def work(self, at_ms: float, seconds: float) -> None:
        """Count computation, or a wait, that could begin when `at_ms` of audio had come."""
        self._free_ms = max(self._free_ms, at_ms) + 1000 * seconds

    def skip(self, next_ms: float) -> bool:
        """Whether to leave out a step, as `next_ms`, the position of the next one, comes before it could begin."""
        skip = next_ms <= self._free_ms
        self.skipped += skip
        return skip
