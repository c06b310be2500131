"""Models that need no download: one that "hears" a token per 200 ms, and one that plays given beams."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulst.errors import SimulstError
from simulst.models.base import Memo
from simulst.policy.stop import Evidence, Stop
from simulst.search import Beam, Hypothesis, Tokens

RATE = 16000
WORDS = tuple(t.encode() for t in (" the", " c", "at", " sat", "s", " on", " un", "believ", "able", ",", " café", "."))
# Whole characters, and the bytes of 世, 界, あア and 😀 cut in the middle.
CHARS = (*"你 好 吗 a".encode().split(), b"\xe4\xb8", b"\x96", b"\xe7", b"\x95\x8c")
CHARS += (b"\xe3\x81", b"\x82\xe3", b"\x82\xa2", b"\xf0\x9f", b"\x98\x80")
VOCABULARIES = {"words": WORDS, "chars": CHARS}


class FakeSession:
    """Hears token i once (i + 1) * token_ms have passed; of the last `unstable` tokens it is not sure.

    A window (in tokens; 0: endless) holds what can still be heard.
    """

    sample_rate = RATE

    def __init__(self, model: FakeModel, memo: Memo) -> None:
        self.model = model
        self.memo = memo
        self.samples = 0
        self.offset = 0  # tokens that have left the window
        self.final = False
        self.name = ""
        self.searches: list[tuple[float, Tokens, int | None]] = []

    @property
    def length(self) -> int:
        return self.samples

    @property
    def saved_seconds(self) -> float:
        return self.memo.saved_seconds

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        assert not self.final
        self.final = final
        if not self.samples and samples.size:
            self.name = str(round(float(samples[0]) * 100))
            self.model.note(self.name)
        self.samples += samples.size

    def search(self, committed: Tokens, options: Any, stop: Stop) -> Beam:
        self.searches.append((self.samples * 1000 / RATE, committed, stop.max_new_tokens))
        key = (self.samples, self.offset, committed, options, stop.max_new_tokens)
        return self.memo.get(key, lambda: self._search(committed, options.beam, stop.max_new_tokens))

    def _search(self, committed: Tokens, beam: int, max_new: int | None) -> Beam:
        self.model.work(self.name)
        heard = self.samples // self.model.token_samples
        beams = []
        for item in range(beam):
            tokens = list(committed)
            for i in range(max(len(committed), self.offset), heard):
                sure = i < heard - self.model.unstable - item
                tokens.append(self.model.token(f"{i}" if sure else f"{i} {self.samples} {item}"))
            end = None if max_new is None else len(committed) + max_new
            beams.append(Hypothesis(tuple(tokens[:end]), -float(item)))
        return beams

    def text(self, tokens: Tokens) -> str:
        return self.model.text(tokens)

    def block_end(self, count: int) -> float:
        return (self.samples // self.model.token_samples + count) * self.model.token_samples

    def limit(self) -> float:
        if not self.model.window:
            return math.inf
        return (self.offset + self.model.window) * self.model.token_samples

    def is_full(self) -> bool:
        return self.samples >= self.limit()

    def spoken(self, tokens: Tokens) -> Tokens:
        return tokens[: self.offset + self.model.window - 1]

    def slide(self, committed: Tokens) -> None:
        self.offset += max(1, self.model.window // 2)


class FakeModel:
    """Text depends on the length of the audio only.

    log: a file that gets a line for each utterance begun. An utterance is named by its first sample, times 100.
    sleep: seconds a search takes. die: the name of an utterance that ends the process, only once if there is a
    marker file `die_once`.
    """

    sample_rate = RATE

    def __init__(
        self,
        source_language: str,
        target_language: str,
        *,
        vocabulary: str = "words",
        seed: int = 0,
        token_ms: int = 200,
        unstable: int = 2,
        window: int = 0,
        log: str = "",
        sleep: float = 0.0,
        die: str = "",
        die_once: str = "",
    ) -> None:
        if source_language not in ("es", "fr"):
            raise SimulstError(f"the fake has no language '{source_language}'; it has es, fr.")
        self.tokens = VOCABULARIES[vocabulary]
        self.seed, self.unstable, self.window = seed, unstable, window
        self.token_samples = token_ms * RATE // 1000
        self.log, self.sleep, self.die, self.die_once = log, sleep, str(die), die_once

    def session(self, memo: Memo | None = None) -> FakeSession:
        return FakeSession(self, memo or Memo())

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
        if self.die and name == self.die and not (self.die_once and Path(self.die_once).exists()):
            if self.die_once:
                Path(self.die_once).touch()
            os._exit(1)


class ScriptedSession(FakeSession):
    """Plays the given beams (lists of token lists), one a search; the last one again and again.

    force: put the committed tokens at each hypothesis' beginning, and let STOP end it, as a real search does.
    """

    def __init__(
        self, beams: Sequence[Sequence[Sequence[int]]], vocabulary: Sequence[bytes] = WORDS, force: bool = True
    ) -> None:
        super().__init__(FakeModel("es", "en"), Memo())
        self.model.tokens = tuple(vocabulary)
        self.beams, self.force = beams, force

    def search(self, committed: Tokens, options: Any, stop: Stop) -> Beam:
        self.searches.append((self.samples * 1000 / RATE, committed, stop.max_new_tokens))
        beam = self.beams[min(len(self.searches), len(self.beams)) - 1]
        if not self.force:
            return [Hypothesis(tuple(tokens)) for tokens in beam]
        return [Hypothesis(committed + self._until(stop, tuple(tokens)[len(committed) :])) for tokens in beam]

    def _until(self, stop: Stop, new: Tokens) -> Tokens:
        new = new[: stop.max_new_tokens]
        ends = (end for end in range(len(new)) if stop.ends(Evidence(tokens=new[:end])))
        return new[: next(ends, len(new))]
