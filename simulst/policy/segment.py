"""SEGMENT: whether a stream is one utterance, or is cut into utterances at its pauses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

LONGEST_SECONDS = 30.0  # the window of Whisper, and longer than most training sentences


@dataclass(frozen=True)
class History:
    """How much of the text before an utterance the model is shown, if it takes such text (Whisper does).

    words: the most words, counted from the last one; characters for zh, ja, ... 0: none.
    seconds: words that were written longer ago than this are not shown.
    """

    words: Annotated[int, Field(ge=0)] = 0
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 30.0

    @property
    def label(self) -> str:
        return f"-history{self.words}-{self.seconds:g}s" if self.words else ""


class Segmentation(ABC):
    """A frozen dataclass of options. label: a short name for tables and curves, empty for the default.

    longest_seconds: longer utterances end at the next chunk without speech, those of twice the length at once.
    history: how much of the text before an utterance the model is shown.
    """

    longest_seconds: float = math.inf
    history: History = History()

    @property
    @abstractmethod
    def label(self) -> str: ...

    @property
    @abstractmethod
    def pause_seconds(self) -> float:
        """Seconds without speech that end an utterance; 0: pauses end none."""


@dataclass(frozen=True)
class Whole(Segmentation):
    """The stream is one utterance."""

    @property
    def label(self) -> str:
        return ""

    @property
    def pause_seconds(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Pause(Segmentation):
    """An utterance ends after `seconds` seconds without speech (simulst/streams/pauses.py).

    longest: after so many seconds, an utterance ends at its next chunk (32 ms) without speech, and after twice as many
        in any case.
    history: see History.
    """

    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    longest: Annotated[float, Field(gt=0)] = LONGEST_SECONDS
    history: History = History()

    @property
    def label(self) -> str:
        longest = "" if self.longest == LONGEST_SECONDS else f"-longest{self.longest:g}"
        return f"pause{self.seconds:g}{longest}{self.history.label}"

    @property
    def longest_seconds(self) -> float:  # type: ignore[override]
        return self.longest

    @property
    def pause_seconds(self) -> float:
        return self.seconds
