"""SEGMENT: whether a stream is one utterance, or is cut into utterances at its pauses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


class Segmentation(ABC):
    """A frozen dataclass of options. label: a short name for tables and curves, empty for the default."""

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
    """An utterance ends after `seconds` seconds without speech (simulst/longform/pauses.py)."""

    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    @property
    def label(self) -> str:
        return f"pause{self.seconds:g}"

    @property
    def pause_seconds(self) -> float:
        return self.seconds
