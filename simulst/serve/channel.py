"""The running text of one client's streams, for that client and for all who have its viewer's link."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import Any

from simulst.stream import OpenStream


@dataclass
class Mark:
    """How much of a channel somebody has been sent: the stream's number, and how many words, times and source words."""

    stream: int = -1
    counts: tuple[int, ...] = (0, 0, 0)


@dataclass
class Channel:
    """The last stream of one client.

    stream: its number. pair: its languages, of which the spoken one is `auto` until it is found. words: text, ms of
        audio heard, and ms until it was written after that.
    spoken: first and last ms at which each word was spoken, as far as it is known.
    source: words of the source text, if the model has one: text, and ms of audio heard.
    heard_ms: audio that has been decoded. computed_ms, waited_ms: computation, and waiting for other streams.
    sounds_like: the language that is heard, if it is hardly the one that was named; else empty.
    viewers: how many watch it. ended: whether the client has gone. changed: is set at the next change.
    """

    stream: int = 0
    pair: tuple[str, str] = ("", "")
    words: list[tuple[str, float, float]] = field(default_factory=list)
    spoken: list[tuple[float, float]] = field(default_factory=list)
    source: list[tuple[str, float]] = field(default_factory=list)
    unstable: str = ""
    heard_ms: float = 0.0
    computed_ms: float = 0.0
    waited_ms: float = 0.0
    sounds_like: str = ""
    viewers: int = 0
    ended: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self, pair: tuple[str, str]) -> None:
        """Another stream begins."""
        self.stream, self.pair = self.stream + 1, pair
        self.words, self.spoken, self.source, self.unstable = [], [], [], ""
        self.heard_ms = self.computed_ms = self.waited_ms = 0.0
        self.sounds_like = ""

    def take(self, stream: OpenStream, heard_ms: float, waited: float, behind_ms: float) -> None:
        """Take over what a push has changed. behind_ms: since its audio came."""
        self.heard_ms, self.waited_ms = heard_ms, self.waited_ms + 1000 * waited
        self.computed_ms = 1000 * stream.meter.seconds
        self.words += [
            (word.text, word.delay_ms, heard_ms - word.delay_ms + behind_ms)
            for word in stream.emissions[len(self.words) :]
        ]
        self.spoken = list(stream.spoken_ms or ())
        self.source += [(word.text, word.delay_ms) for word in (stream.source or ())[len(self.source) :]]
        if stream.languages:
            self.pair = stream.languages[-1][1], self.pair[1]
        self.unstable = stream.unstable_text
        self.sounds_like = stream.meter.sounds_like

    def tell(self) -> None:
        """Wake all who wait for `changed`."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def since(self, mark: Mark) -> dict[str, Any]:
        """What is new since a mark, which moves on. A slow reader is sent the newest state, and no word twice."""
        counts = mark.counts if mark.stream == self.stream else (0, 0, 0)
        mark.stream, mark.counts = self.stream, (len(self.words), len(self.spoken), len(self.source))
        return {
            "stream": self.stream,
            "languages": self.pair,
            "words": self.words[counts[0] :],
            "spoken": self.spoken[counts[1] :],
            "source": self.source[counts[2] :],
            "unstable": self.unstable,
            "heard_ms": self.heard_ms,
            "computed_ms": self.computed_ms,
            "waited_ms": self.waited_ms,
            "sounds_like": self.sounds_like,
            "viewers": self.viewers,
        }


def link_of(secret: str) -> str:
    """The name of a viewer's link. Whoever has the link can't find the secret, by which a speaker keeps it."""
    return hashlib.blake2b(secret.encode(), digest_size=16).hexdigest()
