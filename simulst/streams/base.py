"""What a stream is to whoever drives it: a single utterance and a recording that is cut at its pauses are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from simulst.background import Background
from simulst.calls import Steps
from simulst.meter import Meter
from simulst.stream import Emission


class OpenStream(Protocol):
    """A stream of speech that is being translated. `open_stream` returns one.

    unit: what is written at once, "word" or "char".
    meter: the stream's clock.
    emissions: all words written so far.
    reads: ms of source read at each decoding step, growing.
    writes: tokens that each of these steps wrote, see `Instance`; empty if they are not counted.
    """

    unit: str
    meter: Meter
    emissions: list[Emission]
    reads: list[float]
    writes: list[int]

    @property
    def languages(self) -> Sequence[tuple[float, str]]:
        """The languages that were found, each with the ms from which on it is heard; none if it was named."""

    @property
    def source(self) -> Sequence[Emission] | None:
        """The words of the source text that are final, if the model has one, as a cascade does; None: it has not.

        In languages with spaces each begins with one.
        """

    @property
    def segments(self) -> Sequence[tuple[float, float]]:
        """First and last ms of source of each utterance that has ended; none if the stream is one utterance."""

    @property
    def spoken_ms(self) -> list[tuple[float, float]] | None:
        """When each word was spoken: first and last ms, once the stream has ended.

        None: this was not asked for when it was opened, or the model can't tell.
        """

    @property
    def skipped(self) -> int:
        """How many decoding steps were left out because computation was too slow (see simulst/policy/late.py)."""

    @property
    def failed(self) -> bool:
        """Whether an error has ended the stream. `emissions` keeps all words that were final before."""

    @property
    def committed_text(self) -> str:
        """The text that was written. It never changes."""

    @property
    def unstable_text(self) -> str:
        """What follows it in the best hypothesis of the last step. It may still change."""

    def push(self, samples: np.ndarray, finished: bool = False) -> list[Emission]:
        """Take in more audio and return the words that became final (see `simulst.stream.Pushed`)."""

    def push_steps(self, samples: np.ndarray, finished: bool = False) -> Steps[list[Emission]]:
        """`push` in steps: whoever takes them answers their calls, alone or with those of other streams."""

    def tell(self, background: Background) -> None:
        """From here on, this is known of the recording. It counts from the next search on."""

    def count(self, text: str) -> int:
        """The length of a text in the model's tokens; 0 if it is not known."""

    def wait(self, seconds: float) -> None:
        """Tell LATE for how many seconds the last push waited for other streams. The meter does not count them."""
