"""Models that need no download: one that "hears" a token per 200 ms, and one that plays given beams; notes of calls."""

from __future__ import annotations

import functools
import math
import os
import random
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from waiting import pass_through

from simulst.audio.vad import CHUNK
from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.hypotheses import Found, Hypothesis, Tokens
from simulst.meter import Memo, Meter
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.context import Context, TokensView, View
from simulst.policy.late import Pace
from simulst.policy.stop import Stop, Stopping
from simulst.session import Session, Traits, Window
from simulst.stream import Stream
from simulst.streams.pauses import SegmentedStream
from simulst.words import Words

RATE = 16000
WORDS = tuple(t.encode() for t in (" the", " c", "at", " sat", "s", " on", " un", "believ", "able", ",", " café", "."))
# Whole characters, and the bytes of 世, 界, あア and 😀 cut in the middle.
CHARS = (*"你 好 吗 a".encode().split(), b"\xe4\xb8", b"\x96", b"\xe7", b"\x95\x8c")
CHARS += (b"\xe3\x81", b"\x82\xe3", b"\x82\xa2", b"\xf0\x9f", b"\x98\x80")
VOCABULARIES = {"words": WORDS, "chars": CHARS}


class FakeSession(Session, Window):
    """Hears token i once (i + 1) * token_ms have passed; of the last `unstable` tokens it is not sure.

    A window (in tokens; 0: endless) holds what can still be heard.
    """

    traits = Traits(frozenset({Need.LIBRARY_SEARCH, Need.BLOCKS}))

    def __init__(self, model: FakeModel, opening: Opening) -> None:
        super().__init__(opening)
        self.model = model
        self.samples = 0
        self.offset = 0  # tokens that have left the window
        self.final = False
        self.name = ""
        self.searches: list[tuple[float, Tokens, Stop | None]] = []

    @property
    def length(self) -> int:
        return self.samples

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        assert not self.final
        self.final = final
        if not self.samples and samples.size:
            self.name = str(round(float(samples[0]) * 100))
            self.model.note(self.name)
        self.samples += samples.size

    @property
    def key(self) -> Hashable:
        return self.samples, self.offset

    def search(self, committed: Tokens, options: Any, stop: Stopping | None) -> Found:
        self.searches.append((self.samples * 1000 / RATE, committed, stop.options if stop else None))
        return self._search(committed, options.beam, stop)

    def _search(self, committed: Tokens, beam: int, stop: Stopping | None) -> Found:
        self.model.work(self.name)
        heard = self.samples // self.model.token_samples
        beams = []
        for item in range(beam):
            new = []
            for i in range(max(len(committed), self.offset), heard):
                sure = i < heard - self.model.unstable - item
                new.append(self.model.token(f"{i}" if sure else f"{i} {self.samples} {item}"))
            beams.append(Hypothesis(committed + until(stop, tuple(new)), -float(item)))
        return Found(beams)

    def text(self, tokens: Tokens) -> str:
        return self.model.text(tokens)

    def block_end(self, count: int) -> float:
        return (self.samples // self.model.token_samples + count) * self.model.token_samples

    @property
    def evicted(self) -> int:
        return self.offset

    def limit(self) -> float:
        if not self.model.window:
            return math.inf
        return (self.offset + self.model.window) * self.model.token_samples

    def leaving(self, best: Tokens) -> Tokens | None:
        return best[: self.offset + self.model.window - 1] if self.length >= self.limit() else None

    def slide(self, committed: Tokens) -> None:
        self.offset += max(1, self.model.window // 2)


@dataclass(frozen=True)
class Loudness:
    """A detector of speech to which speech is what is loud; in the place of simulst.audio.vad.Hearing."""

    speech: bool = False

    def next(self, chunk: np.ndarray) -> Loudness:
        assert chunk.shape == (CHUNK,)
        return Loudness(bool(np.abs(chunk).max() > 0.01))

    @staticmethod
    def next_together(hearings: Sequence[Loudness], chunks: Sequence[np.ndarray]) -> list[Loudness]:
        return [one.next(chunk) for one, chunk in zip(hearings, chunks, strict=True)]


def until(stop: Stopping | None, new: Tokens) -> Tokens:
    """The new tokens of a hypothesis up to where STOP ends its search, as a real search does."""
    ends = (end for end in range(len(new)) if stop is not None and stop.ends(TokensView(new[:end])))
    return new[: next(ends, len(new))]


class FakeModel:
    """Text depends on the length of the audio only.

    log: a file that gets a line for each utterance begun. An utterance is named by its first sample, times 100.
    sleep: seconds a search takes; see the fixture `clock`. gate: a file; while it is closed (waiting.py), searches in
    utterance number `gate_from`, and in all after it, wait. die: the name of an utterance that ends the process, only
    once if there is a marker file `die_once`.
    """

    sample_rate = RATE

    def __init__(
        self,
        *,
        vocabulary: str = "words",
        seed: int = 0,
        token_ms: int = 200,
        unstable: int = 2,
        window: int = 0,
        log: str = "",
        sleep: float = 0.0,
        gate: str = "",
        gate_from: int = 0,
        die: str = "",
        die_once: str = "",
    ) -> None:
        self.tokens = VOCABULARIES[vocabulary]
        self.seed, self.unstable, self.window = seed, unstable, window
        self.token_samples = token_ms * RATE // 1000
        self.log, self.sleep, self.die, self.die_once = log, sleep, str(die), die_once
        self.gate, self.gate_from = gate, gate_from

    def session(self, opening: Opening | None = None) -> FakeSession:
        opening = opening or Opening("es", "en", Meter(Memo()))
        if opening.source not in ("es", "fr"):
            raise SimulstError(f"the fake has no language '{opening.source}'; it has es, fr.")
        return FakeSession(self, opening)

    def token(self, what: str) -> int:
        return random.Random(f"{self.seed} {what}").randrange(len(self.tokens))

    def text(self, tokens: Tokens) -> str:
        return b"".join(self.tokens[t] for t in tokens).decode("utf-8", errors="replace")

    def truth(self, samples: int) -> str:
        """What a model that is sure of everything makes of so much audio."""
        return self.text(tuple(self.token(str(i)) for i in range(samples // self.token_samples)))

    def note(self, name: str) -> None:
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(name + "\n")

    def work(self, name: str) -> None:
        time.sleep(self.sleep)
        if self.gate and int(name) >= self.gate_from:
            pass_through(self.gate)
        if self.die and name == self.die and not (self.die_once and Path(self.die_once).exists()):
            if self.die_once:
                Path(self.die_once).touch()
            os._exit(1)


class TimedModel(FakeModel):
    def session(self, opening: Opening | None = None) -> TimedSession:
        return TimedSession(self, super().session(opening).opening)

    def spoken_languages(self, samples: np.ndarray) -> dict[str, float]:
        return {"fr": 0.99, "es": 0.01}


class HeardSession(FakeSession):
    """Has a source text, of a word a second."""

    @property
    def source_text(self) -> list[str]:
        return [f" mot{second}" for second in range(self.length // RATE)]


class HeardModel(FakeModel):
    """Hears French, writes down what it hears, and keeps its sessions."""

    language_pairs = {"es": ("en", "es"), "fr": ("en", "fr")}  # noqa: RUF012

    def spoken_languages(self, samples: np.ndarray) -> dict[str, float]:
        return {"fr": 0.99, "es": 0.01}

    def session(self, opening: Opening | None = None) -> HeardSession:
        session = HeardSession(self, super().session(opening).opening)
        self.sessions = [*getattr(self, "sessions", []), session]
        return session


class TimedSession(FakeSession):
    """Knows when its tokens are heard: token i ends at (i + 1) * token_ms."""

    traits = Traits(FakeSession.traits.gives | {Need.END_TIMES})

    def end_times(self, tokens: Tokens) -> list[float]:
        assert tokens
        length = self.model.token_samples / RATE
        return [length * (self.offset + i + 1) for i in range(len(tokens))]


class ScriptedSession(FakeSession):
    """Plays the given beams (lists of token lists), one a search; the last one again and again.

    force: put the committed tokens at each hypothesis' beginning, and let STOP end it, as a real search does.
    """

    def __init__(
        self, beams: Sequence[Sequence[Sequence[int]]], vocabulary: Sequence[bytes] = WORDS, force: bool = True
    ) -> None:
        super().__init__(FakeModel(), opening())
        self.model.tokens = tuple(vocabulary)
        self.beams, self.force = beams, force

    @property
    def key(self) -> Hashable:
        return None  # what is found depends on the number of the search

    def search(self, committed: Tokens, options: Any, stop: Stopping | None) -> Found:
        self.searches.append((self.samples * 1000 / RATE, committed, stop.options if stop else None))
        beam = self.beams[min(len(self.searches), len(self.beams)) - 1]
        if not self.force:
            return Found([Hypothesis(tuple(tokens)) for tokens in beam])
        return Found([Hypothesis(committed + until(stop, tuple(tokens)[len(committed) :])) for tokens in beam])


def opening(meter: Meter | None = None) -> Opening:
    """Of an utterance that a fake translates."""
    return Opening("es", "en", meter or Meter())


def context_of(**known: Any) -> Context:
    """The context of a stream of which only so much is known."""
    words = Words(lambda tokens: "")
    return Context(**{"words": words, "meter": Meter(), "sample_rate": RATE, "block_end": lambda n: math.nan, **known})


def opened(stop: Stop, **known: Any) -> Stopping:
    """A STOP, opened for a stream of which only so much is known."""
    return stop.open(context_of(**known))


@dataclass(frozen=True)
class Asks(Stop):
    """A STOP that asks a function whether the search ends."""

    ask: Callable[[View], Any]
    needs: frozenset[Need] = frozenset()
    discard: int = 0

    def open(self, context: Context) -> Stopping:
        return Asking(self, context)


class Asking(Stopping):
    options: Asks

    def __init__(self, options: Asks, context: Context) -> None:
        super().__init__(options, context)
        self.discard = options.discard

    def ends(self, view: View) -> bool:
        return bool(self.options.ask(view))


def noted(patch: Any, owner: Any, name: str, what: Callable[..., Any]) -> list[Any]:
    """What a function is called about from now on. patch: a MonkeyPatch. what: of a call's arguments, what is noted."""
    found, call = [], getattr(owner, name)

    @functools.wraps(call)
    def note(*about: Any, **options: Any) -> Any:
        found.append(what(*about, **options))
        return call(*about, **options)

    patch.setattr(owner, name, note)
    return found


def pushed(stream: Any, audio: np.ndarray, cuts: Iterable[int] = ()) -> list[tuple[str, float]]:
    """Push all audio of a stream, cut at these places. Returns: its words, and when each was written, in ms."""
    for piece in np.split(audio, list(cuts)):
        stream.push(piece)
    stream.push(audio[:0], finished=True)
    return [(word.text, word.delay_ms) for word in stream.emissions]


def full_context(samples: int) -> dict[str, Any]:
    """Those parts of an ESPnet model that encode all audio again: an empty frame of so many samples, (t, 1)."""
    import torch  # this module is imported without it, too

    def rows(audio: np.ndarray, first: int) -> torch.Tensor:
        return torch.zeros(audio.size // samples - first, 1)

    return {
        "blockwise": None,
        "reduction": SimpleNamespace(lasting=rows, rest=rows, count=lambda heard: heard // samples),
        "encode_all": list,
        "batches": True,
    }


def cut_at_pauses(
    session: Callable[[Meter, str], Session], how: Decoding, unit: str = "word", meter: Meter | None = None
) -> SegmentedStream:
    """A stream whose utterances are sessions of a test's own. session: from their clock and the text before them."""

    def part(clock: Meter, history: str, pace: Pace, begin_ms: float) -> Stream:
        return Stream(session(clock, history), how, unit, pace=pace, begin_ms=begin_ms)

    return SegmentedStream(part, how.segment, unit, meter or Meter())
