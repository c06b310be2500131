"""What the loop needs of a model: take audio in, and continue a committed prefix."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from simulst.errors import SimulstError
from simulst.meter import Meter
from simulst.needs import Need
from simulst.policy.stop import Stopping
from simulst.search import BeamSearch, Found, SearchOptions, Tokens
from simulst.units import SAMPLE_RATE


class Session(ABC):
    """One utterance inside a model.

    meter: the clock of the stream. sample_rate: of the audio. gives: what policies and searches may ask for.
    default_search: where a decoding configuration names no search. layers, heads: of the decoder's source attention, if
    `gives` has it.

    A model that can't look at endless audio has a window. The loop makes a step when the window's `limit` is reached,
    and once it `is_full` commits what was `spoken` in it and lets it `slide`. Without a window these methods stay as
    they are.
    """

    sample_rate: int = SAMPLE_RATE
    gives: frozenset[Need] = frozenset()
    default_search: SearchOptions = BeamSearch()
    layers: int = 0
    heads: int = 0

    def __init__(self, meter: Meter | None = None) -> None:
        self.meter = meter or Meter()

    @property
    @abstractmethod
    def length(self) -> int:
        """Samples taken in since the start of the utterance."""

    @property
    def heard(self) -> int:
        """What a search sees of the source; the loop makes a step only once it has grown.

        In samples; an encoder that works in blocks counts its blocks.
        """
        return self.length

    @abstractmethod
    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        """Take in audio, shape (n,), float32. final: no audio comes after it."""

    @abstractmethod
    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Found:
        """Hypotheses for all audio so far, best first, that begin with the committed tokens.

        stop: ends the search; None: it runs to the end of the sentence.
        """

    @abstractmethod
    def text(self, tokens: Tokens) -> str:
        """Plain text; a character cut in two ends in U+FFFD."""

    def block_end(self, count: int) -> float:
        """The length (samples) at which the encoder will have written `count` more blocks than now.

        Only a session that gives `Need.BLOCKS` is asked.
        """
        raise NotImplementedError

    @property
    def gone(self) -> int:
        """How many of the committed tokens have left the window with their audio."""
        return 0

    def limit(self) -> float:
        """The length (samples) at which a step is due, so that nothing leaves the window that no step has seen."""
        return math.inf

    def is_full(self) -> bool:
        """Whether audio must leave the window before more is taken in."""
        return self.length >= self.limit()

    def spoken(self, best: Tokens) -> Tokens:
        """The part of the best hypothesis that was spoken in the audio that will leave the window."""
        return best

    def slide(self, committed: Tokens) -> None:
        """Let the oldest audio go, together with its committed tokens. They stay committed."""


class Model(Protocol):
    """A loaded model. It serves every language pair that it knows."""

    sample_rate: int

    def session(self, source: str, target: str, meter: Meter | None = None) -> Session:
        """A new utterance in this language pair.

        meter: the clock of the stream. Sessions of the same utterance whose meters share a memo share work.
        Raises SimulstError: a pair that the model does not have.
        """


@dataclass(frozen=True)
class Family:
    """A kind of model: what its folders look like, its options, how it is loaded.

    Each module or package in simulst/models that has a `family` is one (see registry.py).
    looks_like: its files, for an error. recognises: whether a path is one. options: a frozen dataclass.
    load: from the path, these options and the number of processors that it may use, a model.
    digest: a short name of the weights; trained again, they have another.
    """

    name: str
    looks_like: str
    recognises: Callable[[Path], bool]
    options: type
    load: Callable[[Path, Any, int], Model]
    digest: Callable[[Path, Any], str]


def check_device(device: str) -> None:
    """A device of torch. Raises SimulstError: it is not there."""
    import torch

    if device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
        raise SimulstError(f"the device '{device}' is not there; give cpu, or cuda on a machine that has it.")
