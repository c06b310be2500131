"""What the loop needs of a model: it takes in audio and continues the committed tokens."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from simulst.audio.units import SAMPLE_RATE
from simulst.background import NOTHING, Background
from simulst.errors import SimulstError
from simulst.hypotheses import Found, Tokens
from simulst.meter import Meter
from simulst.needs import Need
from simulst.policy.stop import Stopping
from simulst.search import BeamSearch, SearchOptions


class Session(ABC):
    """One utterance inside a model.

    meter: the clock of the stream.
    sample_rate: samples per second of the audio.
    gives: what policies and searches may ask for.
    default_search: the search that is used if the decoding configuration names none.
    layers: how many decoder layers have source attention, if `gives` has Need.ATTENTION.
    heads: how many heads each of them has.
    languages: spoken and written; `open_stream` sets them.
    trained_wait: k, the unit (ms) and the tokens after each unit of the wait-k that the model was trained for; None: it
        was not.
    background: what is known of the recording; `tell` sets it.

    A model that can't process endless audio has a window. The loop makes a step when the window's `limit` is reached.
    Once the window `is_full`, the loop commits what was `spoken` in the audio that leaves and calls `slide`. If text
    has ended although speech goes on (`is_stuck`), the loop calls `restart`. A model without a window does not override
    these methods.
    """

    sample_rate: int = SAMPLE_RATE
    gives: frozenset[Need] = frozenset()
    default_search: SearchOptions = BeamSearch()
    layers: int = 0
    heads: int = 0
    languages: tuple[str, str] = ("", "")
    trained_wait: tuple[int, float, int] | None = None
    background: Background = NOTHING

    def __init__(self, meter: Meter | None = None) -> None:
        self.meter = meter or Meter()

    def tell(self, background: Background) -> None:
        """Take in what is known of the recording. It is called before any audio comes."""
        self.background = background

    @property
    @abstractmethod
    def length(self) -> int:
        """How many samples have been taken in since the start of the utterance."""

    def remember(self, text: str) -> None:
        """Text that was written before this utterance, for models that are shown such text; others do nothing.

        It is called once, before any audio.
        """

    @property
    def heard(self) -> int:
        """How much of the source a search sees. The loop makes a step only if this has grown since the last step.

        It is counted in samples, or in what the encoder writes: blocks, or frames.
        """
        return self.length

    @abstractmethod
    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        """Take in audio.

        samples: (n,) float32.
        final: whether the audio ends with these samples.
        """

    @abstractmethod
    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Found:
        """Search for hypotheses of all audio so far.

        committed: all tokens committed so far. Each hypothesis must begin with them.
        options: the options of the search.
        stop: ends the search. None: it runs to the end of the sentence.
        Returns: hypotheses, best first.
        """

    @abstractmethod
    def text(self, tokens: Tokens) -> str:
        """Plain text. An incomplete character at the end becomes U+FFFD."""

    def block_end(self, count: int) -> float:
        """The length (samples) at which the encoder will have written `count` more blocks than now.

        It is called only if the session gives `Need.BLOCKS`.
        """
        raise NotImplementedError

    @property
    def gone(self) -> int:
        """How many of the committed tokens have left the window with their audio."""
        return 0

    def limit(self) -> float:
        """The length (samples) at which a step is due. Without it, audio could leave the window unsearched."""
        return math.inf

    def is_full(self) -> bool:
        """Whether audio must leave the window before more is taken in."""
        return self.length >= self.limit()

    def spoken(self, best: Tokens) -> Tokens:
        """The part of the best hypothesis that was spoken in the audio that will leave the window."""
        return best

    def slide(self, committed: Tokens) -> None:
        """Drop the oldest audio from the window, together with its committed tokens. They stay committed."""

    def is_stuck(self, since: int) -> bool:
        """Whether too much was said after the length `since` (samples) for the text that is the same since then."""
        return False

    def restart(self, committed: Tokens, since: int) -> None:
        """Drop all committed tokens and their audio, which ends before `since`. They stay committed."""


class Model(Protocol):
    """A loaded model. It serves every language pair that it knows."""

    sample_rate: int

    def session(self, source: str, target: str, meter: Meter | None = None) -> Session:
        """Open a new utterance.

        source: language spoken, such as "es".
        target: language written, such as "en".
        meter: the clock of the stream. Sessions of the same utterance whose meters share a memo share work.

        Raises SimulstError: the model does not have this language pair.
        """


@dataclass(frozen=True)
class Family:
    """A kind of model. Each module or package in simulst/models that has a `family` is one (see registry.py).

    name: its name.
    looks_like: a description of its files, for errors.
    recognises: whether a path is a model of this family.
    options: its options, a frozen dataclass.
    load: loads a model from its path, its options and the number of processors that it may use.
    digest: a hash of what makes the output, from the path and the options. If the model is trained again, it changes.
    """

    name: str
    looks_like: str
    recognises: Callable[[Path], bool]
    options: type
    load: Callable[[Path, Any, int], Model]
    digest: Callable[[Path, Any], str]


def check_device(device: str) -> None:
    """Raise SimulstError if this machine does not have the torch device."""
    import torch

    if device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
        raise SimulstError(f"this machine has no device '{device}'; give cpu, or cuda on a machine that has it.")
