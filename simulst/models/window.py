"""A session for offline models. It encodes all audio in its window again at each step.

If the audio is longer than the window, the window slides: committed tokens leave it together with their audio. The
model says when each token was spoken.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulst.audio.units import SAMPLE_RATE
from simulst.calls import Call, Steps
from simulst.errors import warn_once
from simulst.hypotheses import Tokens
from simulst.languages import unit_of
from simulst.opening import Opening
from simulst.session import AudioSession, Window
from simulst.words import CUT

STUCK_SECONDS = 4.0  # of speech with the same text; 3 s if a speaker pauses between sentences
STUCK_POWER = 0.1  # of that audio, relative to the audio before; less is silence
LEAST_CUT = 1.0  # seconds; after a smaller cut, the window would be full again at once
SHORTER = "cut the stream at its pauses ('segment'), or give the model a shorter window"

logger = logging.getLogger(__name__)


def warn_of_full_context(path: Path, positions: int, remedy: str = SHORTER) -> None:
    """Warn, once, that a step could add nothing."""
    warn_once(
        f"{path}: the text so far fills the {positions} positions of the decoder, so a step added nothing; {remedy}."
    )


class WindowedSession(AudioSession, Window):
    """One utterance of an offline model.

    opening: what is known of it.
    window_seconds: the length of the window, in seconds.
    before: text before the utterance, which the decoder is shown.
    """

    def __init__(self, opening: Opening, window_seconds: float, before: Tokens = ()) -> None:
        super().__init__(opening)
        self._window_seconds, self._before = window_seconds, before
        self._hidden = 0  # tokens that have left the window, and that the decoder is not shown
        self._same: Tokens = ()  # a best hypothesis; those since then were equal to it, or a beginning of it
        self._since = 0  # the length (samples) at which it was found
        self._states: tuple[Hashable, Any] | None = None  # what the encoder made of the window, and of which audio

    def _encode(self) -> Steps[None]:
        """Encode the window's audio, unless this is done: then `_encoded` has it."""
        # The memo is asked only once: without a memo, the same window is encoded only once, too.
        if self._states is None or self._states[0] != self.audio_key:
            found = yield from self.meter.shared_call(("encode", self.audio_key), self._encoding())
            self._states = self.audio_key, found

    def _encoding(self) -> Call:
        """The call that encodes the window's audio, if the session asks by `_encode`."""
        raise NotImplementedError(f"{type(self).__name__} calls '_encode', so it needs a method '_encoding'")

    @property
    def _encoded(self) -> Any:
        assert self._states is not None and self._states[0] == self.audio_key
        return self._states[1]

    @abstractmethod
    def _end_times(self, tokens: Tokens) -> Sequence[float]:
        """The end time of each token in the window, in seconds from the start of the window."""

    @abstractmethod
    def _begins_word(self, tokens: Tokens, place: int) -> bool:
        """Whether the token at this place begins a word."""

    def end_times(self, tokens: Tokens) -> list[float]:
        """The end time of each token in the window, in seconds of source."""
        return [self._offset / SAMPLE_RATE + end for end in self._end_times(tokens)]

    @property
    def audio_key(self) -> Hashable:
        """Which audio the window holds: the samples that have left it, and where it ends."""
        return self._offset, self.length

    @property
    def window_key(self) -> Hashable:
        """What a search of the window sees."""
        return self.audio_key, self._before, self._evicted, self._hidden, self.opening.background

    @property
    def _shown(self) -> Tokens:
        """The text before the window that the decoder is shown."""
        return self._evicted[self._hidden :]

    def limit(self) -> float:
        return self._offset + round(self._window_seconds * SAMPLE_RATE)

    def is_full(self) -> bool:
        """Whether audio must leave the window before more is taken in."""
        return self.length >= self.limit()

    def leaving(self, best: Tokens) -> Tokens | None:
        """From a full window all but the last second, as well as from one whose text has ended while speech goes on."""
        if best != self._same[: len(best)]:
            self._same, self._since = best, self.length
        full = self.is_full()
        return self.spoken(best) if full or (self.opening.restarts and self.is_stuck(self._since)) else None

    def spoken(self, best: Tokens) -> Tokens:
        """All but the last second: the end of the audio may cut a word in two."""
        ends = self._end_times(self._in_window(best))
        whole = sum(end <= self._audio.size / SAMPLE_RATE - 1.0 for end in ends)
        return best[: len(self._evicted) + whole]

    def slide(self, committed: Tokens) -> None:
        if self.is_full():
            self.cut(committed)
        else:
            self.restart(committed, self._since)
            self._since = self.length

    def cut(self, committed: Tokens) -> None:
        """Cut after the last word that ends in the first two thirds of the window, or else after the first word."""
        prefix = self._in_window(committed)
        ends = self._end_times(prefix)
        words = [i for i in range(1, len(prefix) + 1) if i == len(prefix) or self._may_cut(prefix, i)]
        cuts = [(ends[i - 1], i) for i in words if ends[i - 1] >= LEAST_CUT]
        early = [cut for cut in cuts if cut[0] <= self._window_seconds * 2 / 3]
        if cuts:
            seconds, tokens = early[-1] if early else cuts[0]
        else:
            seconds, tokens = self._window_seconds / 2, len(prefix)
            logger.warning("%.1f s of audio left the model's window without a word.", seconds)
        self._leave(tokens, round(seconds * SAMPLE_RATE), committed)

    def _may_cut(self, prefix: Tokens, place: int) -> bool:
        """Whether the window may be cut there: between words, or characters in languages without spaces."""
        if unit_of(self.opening.target) == "char":
            return not self.text(prefix[:place]).endswith(CUT)
        return self._begins_word(prefix, place)

    def is_stuck(self, since: int) -> bool:
        """Whether too much was said after the length `since` (samples) for the text that is the same since then.

        An offline model ends sentences. It may invent one from little speech, and add nothing to it from then on.
        """
        if self.length - since < STUCK_SECONDS * SAMPLE_RATE or since <= self._offset:
            return False
        power = np.square(self._audio)
        return bool(power[since - self._offset :].mean() > STUCK_POWER * power[: since - self._offset].mean())

    def restart(self, committed: Tokens, since: int) -> None:
        """Drop all committed tokens and their audio, which ends before `since`. They stay committed."""
        prefix = self._in_window(committed)
        end = round(self._end_times(prefix)[-1] * SAMPLE_RATE) if prefix else 0
        self._leave(len(prefix), min(end, since - self._offset), committed)
        self._hidden = len(self._evicted)  # a model repeats an invented text that it is shown

    def drop(self, committed: Tokens, count: int) -> None:
        """The text that leaves is not shown any more. A word's audio begins where that of the word before ends."""
        end = self._end_times(self._in_window(committed))[count - 1]
        if end > 0:  # if not, the words would be translated again
            self._leave(count, round(end * SAMPLE_RATE), committed)
            self._hidden = len(self._evicted)

    def _leave(self, tokens: int, samples: int, committed: Tokens) -> None:
        """Drop the first audio of the window, and so many of its committed tokens."""
        self._evicted = committed[: len(self._evicted) + tokens]
        self._offset += min(samples, self._audio.size)
        self._audio = self._audio[samples:]

    def _in_window(self, committed: Tokens) -> Tokens:
        return committed[len(self._evicted) :]
