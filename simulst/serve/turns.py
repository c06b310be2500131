"""Turns of the realtime interface: where a speaker begins and ends, by the detector that SEGMENT `pause` hears."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import soxr
from pydantic import Field

from simulst.audio.read import as_int16
from simulst.audio.units import SAMPLE_RATE
from simulst.audio.vad import CHUNK, SPEECH, start_of_stream
from simulst.serve.sent import check_sent
from simulst.streams.pauses import LEAST_SPEECH

LEAST = 0.1  # seconds of audio that are heard at once, at least
Event = bytes | tuple[Literal["speech_started", "speech_stopped"], int]


@dataclass(frozen=True)
class ServerVad:
    """OpenAI's `server_vad`. threshold: the probability at which speech begins. The others: ms around it.

    There are no responses here that a turn could create or interrupt.
    """

    type: Literal["server_vad"]
    threshold: Annotated[float, Field(ge=0, le=1)] = SPEECH
    prefix_padding_ms: Annotated[int, Field(ge=0, le=5_000)] = 300
    silence_duration_ms: Annotated[int, Field(ge=100, le=30_000)] = 500
    create_response: Literal[False] = False
    interrupt_response: Literal[False] = False
    idle_timeout_ms: None = None


class Turns:
    """The turns in a client's audio, integers of 16 bits at `rate` Hz.

    speaks: whether a turn has begun and not ended.
    Raises SimulstError: the detector is missing, or audio has no such rate.
    """

    def __init__(self, options: ServerVad, rate: int) -> None:
        check_sent(b"", rate, whole=False)
        self._rate, self.speaks = rate, False
        self._padding = options.prefix_padding_ms * SAMPLE_RATE // 1000
        self._silence = options.silence_duration_ms * SAMPLE_RATE // 1000
        self._hearing = start_of_stream(options.threshold)
        self._resampler = None if rate == SAMPLE_RATE else soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")
        self._raw, self._audio = b"", np.zeros(0, np.float32)
        self._start = self._heard = self._loud = self._quiet = 0  # samples before `_audio`, and as in streams/pauses.py

    def hear(self, audio: bytes, all_of_it: bool = False) -> list[Event]:
        """What happens in more audio: turns that begin and end, at so many ms of all audio, and their own audio.

        That is of integers of 16 bits at 16 kHz. Raises SimulstError: it is no audio.
        """
        self._raw += audio
        if len(self._raw) < 2 * self._rate * LEAST and not all_of_it:
            return []
        check_sent(self._raw, self._rate, whole=all_of_it)
        even = len(self._raw) // 2 * 2
        samples = np.frombuffer(self._raw[:even], "<i2").astype(np.float32) / 2**15
        self._raw = self._raw[even:]
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(samples, last=all_of_it)
            if all_of_it:
                self._resampler.clear()
        self._audio = np.concatenate([self._audio, samples])
        found = list[Event]()
        while self._heard + CHUNK <= self._start + self._audio.size:
            found += self._step(self._heard + CHUNK)
        if all_of_it and self.speaks:
            found.append(self._given(self._start + self._audio.size))
        return found

    def drop(self) -> None:
        """The turn so far is over, and what was heard belongs to no other one."""
        missing = len(self._raw) / 2 * SAMPLE_RATE / self._rate  # samples that have come, and were not heard
        if self._resampler is not None:
            missing += self._resampler.delay()
            self._resampler.clear()
        self.speaks, self._raw = False, b""
        self._given(self._start + self._audio.size)
        self._start += round(missing)
        self._heard = self._quiet = self._start

    def _step(self, end: int) -> Iterator[Event]:
        self._hearing = self._hearing.next(self._audio[self._heard - self._start : end - self._start])
        self._heard = end
        if self._hearing.speech:
            self._loud = end
        else:
            self._quiet = end
        if not self.speaks and end - self._quiet >= LEAST_SPEECH:
            self.speaks = True
            yield "speech_started", self._start * 1000 // SAMPLE_RATE
        if not self.speaks:
            self._given(max(self._start, self._quiet - self._padding))
            return
        yield self._given(end)
        if end - self._loud >= self._silence:
            self.speaks = False
            yield "speech_stopped", end * 1000 // SAMPLE_RATE

    def _given(self, end: int) -> bytes:
        """The audio up to a sample, which is not kept."""
        audio, self._audio = self._audio[: end - self._start], self._audio[end - self._start :]
        self._start = end
        return as_int16(audio).astype("<i2").tobytes()
