"""Latency regimes, such as a shared task's 0 to 2000 ms of LongYAAL."""

from __future__ import annotations

import re
from dataclasses import dataclass

from simulst.errors import SimulstError


@dataclass(frozen=True)
class Regime:
    """Lags above `low` and up to `high`, in ms: the limit between two regimes belongs to the lower one.

    From 0 on, lags of 0 and less (AL can be negative) are in it, too.
    """

    low: float
    high: float

    def holds(self, lag: float) -> bool:
        """Whether a lag, in ms, lies in the regime."""
        return (self.low == 0 or lag > self.low) and lag <= self.high

    def __str__(self) -> str:
        return f"above {self.low:g}, up to {self.high:g} ms" if self.low else f"up to {self.high:g} ms"


def parse_regime(text: str) -> Regime:
    """A regime that is written as LOW-HIGH, in ms. Raises SimulstError: it is written otherwise, or is empty."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)", text)
    if not found or not float(found[1]) < float(found[2]):
        raise SimulstError(f"'{text}' is no regime; write the lowest and the highest lag in ms, such as 0-2000.")
    return Regime(float(found[1]), float(found[2]))
