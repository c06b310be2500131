"""What the loop needs of a model: it takes in audio and continues the committed tokens.

The least that a model of one's own needs is a class with `session`, and a session with `length`, `extend`, `search`
and `text` (docs/own_model.md). Everything else has a default.

Families whose computations can be batched with those of other streams write them as steps (simulst/calls.py):
`search_steps` in place of `search`, and `encode_steps`. A library that searches by itself is one call.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from simulst.audio.units import SAMPLE_RATE
from simulst.background import NOTHING, Background
from simulst.calls import Steps, ask, run_alone
from simulst.errors import SimulstError
from simulst.hypotheses import Found, Tokens
from simulst.meter import Meter
from simulst.needs import Need
from simulst.policy.stop import Stopping
from simulst.search import BeamSearch, SearchOptions

CARRIED = frozenset({Need.INCREMENTAL, Need.KEPT_BEAM})  # such a search goes on from all searches before it


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
    background: what is known of the recording; `prompt` sets it.
    restarts: whether a text begins anew that has ended although speech goes on; the loop sets it, as SEGMENT says.

    A model that can't process endless audio has a window. The loop makes a step when the window's `limit` is reached.
    Once the window `is_full`, the loop commits what was `spoken` in the audio that leaves and calls `slide`. If text
    has ended although speech goes on (`is_stuck`), and it `restarts`, the loop calls `restart`. A model without a
    window does not override these methods.
    """

    sample_rate: int = SAMPLE_RATE
    gives: frozenset[Need] = frozenset()
    default_search: SearchOptions = BeamSearch()
    layers: int = 0
    heads: int = 0
    languages: tuple[str, str] = ("", "")
    trained_wait: tuple[int, float, int] | None = None
    background: Background = NOTHING
    restarts: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for old, name in {"heard": "available", "gone": "evicted", "tell": "prompt"}.items():
            own = vars(cls).get(old)
            if callable(own) or isinstance(own, property):  # nobody would ask it
                raise SimulstError(f"{cls.__name__}: what was '{old}' in a session is '{name}' now; rename it.")

    def __init__(self, meter: Meter | None = None) -> None:
        self.meter = meter or Meter()

    # ---- what comes in ----

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
        returns `self.length`. None: no search is shared.
        """
        return None

    @abstractmethod
    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        """Take in audio.

        samples: (n,) float32.
        final: whether the audio ends with these samples.
        """

    def extend_steps(self, samples: np.ndarray, final: bool = False) -> Steps[None]:
        """`extend` in steps, which the loop takes. It is for sessions that compute something for all audio at once."""
        self.extend(samples, final)
        return
        yield

    def prompt(self, background: Background) -> None:
        """Take in what is known of the recording. It is called once, before any audio."""
        self.background = background

    def remember(self, text: str) -> None:
        """Text that was written before this utterance, for models that are shown such text; others do nothing.

        It is called at most once, before any audio.
        """

    # ---- the search ----

    def encode_steps(self) -> Steps[None]:
        """Encode the audio so far. The loop takes these steps before each search, also before one that is shared.

        So each stream pays for its own encoding. A session whose `search` does it all leaves this out.
        """
        return
        yield

    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Found:
        """Search for hypotheses of all audio so far.

        A session writes either this, for a search in one piece, or `search_steps`.

        committed: all tokens committed so far. Each hypothesis must begin with them.
        options: the options of the search.
        stop: ends the search. None: it runs to the end of the sentence.
        Returns: hypotheses, best first.
        """
        return run_alone(self.find_steps(committed, options, stop))

    def search_steps(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        """`search` as steps whose calls somebody else answers, after `encode_steps`. Usually it is one call.

        Raises SimulstError: the session has no search.
        """
        if type(self).search is Session.search:
            raise SimulstError(
                f"{type(self).__name__} has neither a method 'search' nor 'search_steps'; write one of them "
                "(simulst/session.py)."
            )
        return (yield from ask(Search(self, committed, options, stop)))

    def find_steps(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        """What the loop calls: `encode_steps`, then `search_steps` or what another stream has found by them.

        A session that keeps count of what was found adds to this method. Others leave it as it is.
        """
        yield from self.encode_steps()
        key = None if options.needs & CARRIED else self.key
        return (yield from share_search(self.meter, key, self.search_steps, committed, options, stop))

    @abstractmethod
    def text(self, tokens: Tokens) -> str:
        """Plain text. An incomplete character at the end becomes U+FFFD."""

    def spell(self, text: str) -> Tokens:
        """The tokens of a text, such as a reference, whose number is logged. Empty if they are not known."""
        return ()

    def block_end(self, count: int) -> float:
        """The length (samples) at which the encoder will have written `count` more blocks than now.

        It is called only if the session gives `Need.BLOCKS`.
        """
        raise NotImplementedError

    def end_times(self, tokens: Tokens) -> Sequence[float]:
        """When each token of the window had been spoken, in seconds of source. `tokens` has none that left the window.

        It is called only if the session gives `Need.END_TIMES`.
        """
        raise NotImplementedError

    # ---- the window ----

    @property
    def evicted(self) -> int:
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


@dataclass(frozen=True)
class Search:
    """A call: a session that searches in one piece does so. The answer: what it finds."""

    session: Session
    committed: Tokens
    options: SearchOptions
    stop: Stopping | None

    def answer(self) -> Found:
        return self.session.search(self.committed, self.options, self.stop)


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


T = TypeVar("T")
SearchSteps = Callable[[Tokens, Any, Stopping | None], Steps[T]]


def share_search(
    meter: Meter,
    key: Hashable,
    search: SearchSteps[T],
    committed: Tokens,
    options: SearchOptions,
    stop: Stopping | None,
) -> Steps[T]:
    """The result of `search(committed, options, stop)`. It is shared by all streams of the meter's memo.

    key: what the search sees beside its arguments (see `Session.key`). None: nothing is shared.
    """
    if key is None:
        return (yield from search(committed, options, stop))
    name = ("search", key, committed, options, stop.options if stop else None)
    return (yield from meter.shared_steps(name, lambda: search(committed, options, stop)))
