"""What the loop needs of a model: it takes in audio and continues the committed tokens.

The least that a model of one's own needs is a class with `session`, and a session with `length`, `extend`, `search`
and `text` (docs/own_model.md). Everything else has a default. `extend` and `search` may be plain methods. If they are
generators, they yield their heavy computations as calls (simulst/calls.py), which a driver answers for many streams at
once (docs/batched_model.md).
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from simulst.audio.units import SAMPLE_RATE
from simulst.background import Background
from simulst.calls import Alone, Steps, steps_of
from simulst.errors import SimulstError
from simulst.hypotheses import Found, Tokens
from simulst.meter import Meter
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.context import WaitToken
from simulst.policy.stop import Stopping
from simulst.search import BeamSearch, SearchOptions

CARRIED = frozenset({Need.INCREMENTAL, Need.KEPT_BEAM})  # such a search goes on from all searches before it


@dataclass(frozen=True)
class Traits:
    """What a session can do.

    gives: what policies and searches may ask for; by default what the default search does.
    default_search: the search that is used if the decoding configuration names none.
    sample_rate: samples per second of the audio.
    layers: how many decoder layers have source attention, if `gives` has Need.ATTENTION.
    heads: how many heads each of them has.
    trained_wait: k, the unit (ms) and the tokens after each unit of the wait-k that the model was trained for; None: it
        was not.
    wait: the wait token that the model learnt; None: it learnt none.
    any_length: whether a recording of any length may be one utterance.
    """

    gives: frozenset[Need] = frozenset({Need.LIBRARY_SEARCH})
    default_search: SearchOptions = field(default_factory=BeamSearch)
    sample_rate: int = SAMPLE_RATE
    layers: int = 0
    heads: int = 0
    trained_wait: tuple[int, float, int] | None = None
    wait: WaitToken | None = None
    any_length: bool = False


class Session(ABC):
    """One utterance inside a model.

    opening: what was known of it when it was opened.
    """

    traits: Traits = Traits()

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self.meter = opening.meter

    @property
    @abstractmethod
    def length(self) -> int:
        """How many samples have been taken in since the start of the utterance."""

    @property
    def available(self) -> int:
        """How much of the source a search sees. The loop makes a step only if this has grown since the last step.

        It is counted in samples, or in what the encoder writes: blocks, or frames.
        """
        return self.length

    @property
    def key(self) -> Hashable:
        """What a search sees: which audio, and which text before it. A sweep shares work by it.

        The searches of two streams of an utterance are one if their keys are equal, and also their committed tokens,
        options and STOP, which need not be in the key. A model without a window and without text before an utterance
        returns `self.length`. None: no search is shared, unless `search` shares its parts itself (`share_search`).
        """
        return None

    @abstractmethod
    def extend(self, samples: np.ndarray, final: bool = False) -> Steps[None] | None:
        """Take in audio.

        samples: (n,) float32.
        final: whether the audio ends with these samples.
        """

    @abstractmethod
    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found] | Found:
        """Search for hypotheses of all audio so far.

        committed: all tokens committed so far. Each hypothesis must begin with them.
        options: the options of the search.
        stop: ends the search. None: it runs to the end of the sentence.
        Returns: hypotheses, best first.
        """

    @abstractmethod
    def text(self, tokens: Tokens) -> str:
        """Plain text. An incomplete character at the end becomes U+FFFD."""

    def spell(self, text: str) -> Tokens:
        """The tokens of a text, such as a reference, whose number is logged. Empty if they are not known."""
        return ()

    @property
    def source_words(self) -> float:
        """How many words of the text that is searched for are final. Asked for if it gives `Need.SOURCE_WORDS`."""
        raise self._lacks(Need.SOURCE_WORDS)

    @property
    def source_text(self) -> Sequence[str] | None:
        """The words of the source text that are final, each with its space, if a recogniser writes one; else None."""
        return None

    def tell(self, background: Background) -> None:
        """From now on, this is known of the recording. What a model can't use, it ignores."""
        self.opening = replace(self.opening, background=background.between(*self.opening.languages))

    def block_end(self, count: int) -> float:
        """The length (samples) at which the encoder will have written `count` more blocks than now."""
        raise self._lacks(Need.BLOCKS)

    def end_times(self, tokens: Tokens) -> Sequence[float]:
        """When each token of the window had been spoken, in seconds of source. `tokens` has none that left the window.

        Times of words are asked for only if the session gives `Need.END_TIMES`.
        """
        raise self._lacks(Need.END_TIMES)

    def _lacks(self, need: Need) -> SimulstError:
        return SimulstError(
            f"{type(self).__name__} does not have {need.value}; leave out what asks for it, or give another model."
        )


class AudioSession(Session):
    """A session that keeps its audio, (n,) float32, in `_audio`; `_offset` samples have been dropped from its front."""

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        self._audio, self._offset = np.zeros(0, dtype=np.float32), 0

    @property
    def length(self) -> int:
        return self._offset + self._audio.size

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        self._audio = np.concatenate([self._audio, samples])


class Window(ABC):
    """What a session is, too, if its model can't process endless audio: the part of an utterance that is left.

    The loop makes a step when `limit` is reached. Then it commits what was spoken in the audio that leaves, and calls
    `slide`.
    """

    _evicted: Tokens = ()  # committed tokens that have left the window with their audio

    @property
    def evicted(self) -> int:
        """How many these are."""
        return len(self._evicted)

    def limit(self) -> float:
        """The length (samples) at which a step is due. Without it, audio could leave the window unsearched."""
        return math.inf

    @abstractmethod
    def leaving(self, best: Tokens) -> Tokens | None:
        """The part of a step's best hypothesis that was spoken in the audio that must leave; None: none must."""

    @abstractmethod
    def slide(self, committed: Tokens) -> None:
        """Drop that audio from the window, together with its committed tokens. They stay committed."""

    def drop(self, committed: Tokens, count: int) -> None:
        """Drop the first `count` committed tokens of the window, and the audio before those that stay.

        It is called only if the session gives `Need.LEAVING`. 0 < count <= the committed tokens in the window.
        """
        raise NotImplementedError(f"{type(self).__name__} gives Need.LEAVING, so it needs a method 'drop'")


class Model(Protocol):
    """A loaded model. It serves every language pair that it knows."""

    sample_rate: int

    def session(self, opening: Opening) -> Session:
        """Open a new utterance. Raises SimulstError: the model does not have this language pair."""


def find(session: Session, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
    """What the loop calls: the session's `search`, or what another stream has found by it (see `Session.key`)."""

    def search(*about: Any) -> Steps[Found]:
        if inspect.isgeneratorfunction(session.search):
            return (yield from session.search(*about))
        return (yield from steps_of((yield Alone(session.search, about))))

    return share_search(session.meter, session.key, search, committed, options, stop)


T = TypeVar("T")


def share_search(
    meter: Meter,
    key: Hashable,
    search: Callable[[Tokens, Any, Stopping | None], Steps[T]],
    committed: Tokens,
    options: SearchOptions,
    stop: Stopping | None,
) -> Steps[T]:
    """The result of `search(committed, options, stop)`. It is shared by all streams of the meter's memo.

    key: what the search sees beside its arguments. None: nothing is shared.
    """
    if key is None or options.needs & CARRIED:
        return (yield from search(committed, options, stop))
    name = ("search", key, committed, options, stop.options if stop else None)
    return (yield from meter.shared_steps(name, lambda: search(committed, options, stop)))
