"""Decode with FFmpeg (PyAV) what libsndfile does not read: films, M4A, MP3, WebM, and files that change on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simulst.errors import SimulstError, warn_once

if TYPE_CHECKING:
    import av

GAP = 0.1
"""Seconds. Where the container's clock differs by less from the samples so far, it is only rounded."""
LONGEST_GAP = 3600.0
"""Seconds. If the container does not say how long it is, a clock that jumps further is wrong."""
MOST_PADDING = 0.2
"""Seconds by which containers round their length up."""


@dataclass(frozen=True)
class Part:
    """Samples of one rate, (n, channels), float32."""

    rate: int
    samples: np.ndarray


def decode(path: Path, beyond_header: bool = False) -> list[Part] | None:
    """The first audio track of a file, from the time on at which the file begins; None if FFmpeg can't read it.

    Where the track has no sound, as before its beginning in a film, there is silence, so that each sample stands at
    the time that the container gives it. A new part begins where the rate or the channels change. The last file is
    remembered, as consecutive segments often share it: containers find a time only roughly, so that each is decoded as
    a whole.

    beyond_header: a WAV whose header counts too few samples is read to the file's end.
    Raises SimulstError: no sound; the file was cut off; PyAV is not installed.
    """
    status = path.stat()
    return _decode(path, status.st_mtime_ns, status.st_size, beyond_header)


@lru_cache(maxsize=1)
def _decode(path: Path, changed: int, size: int, beyond_header: bool) -> list[Part] | None:
    try:
        import av  # takes a tenth of a second
    except ImportError as error:
        raise SimulstError(f"{path}: only PyAV might read it ({error}); pip install av, or give a WAV.") from error
    options = {"ignore_length": "1"} if beyond_header else {}
    av.logging.set_level(av.logging.WARNING)
    av.logging.set_skip_repeated(False)
    try:
        with av.logging.Capture() as said, av.open(str(path), options=options) as container:
            if not container.streams.audio:
                raise SimulstError(f"{path}: has no sound; give a file with an audio track.")
            stream = container.streams.audio[0]
            track = _track(container, stream)
            promised = float(stream.duration * stream.time_base) if stream.duration and stream.time_base else 0.0
    except (av.FFmpegError, ValueError, IndexError):
        return None
    finally:
        av.logging.set_level(None)
    if not track.heard:
        return None
    messages = " ".join(message for _, _, message in said)
    guessed = beyond_header or "Estimating duration from bitrate" in messages
    if "ended prematurely" in messages or (track.heard < promised - MOST_PADDING and not guessed):
        raise truncated(path)
    track.tell(path)
    return [Part(rate, np.concatenate(blocks)) for rate, blocks in track.parts]


def truncated(path: Path) -> SimulstError:
    """The error of a file that was cut off."""
    return SimulstError(f"{path}: truncated: its header promises more audio than the file holds; copy the file again.")


@dataclass
class _Track:
    """What has been decoded.

    end: of the container, if it says so, in seconds. heard: seconds so far. gaps: where each begins, and its seconds.
    shift: seconds by which the container's clock was set back, as where files have been joined.
    """

    end: float | None
    parts: list[tuple[int, list[np.ndarray]]] = field(default_factory=list)
    heard: float = 0.0
    shift: float = 0.0
    damaged: int = 0
    gaps: list[tuple[float, float]] = field(default_factory=list)

    def add(self, samples: np.ndarray, rate: int, time: float | None) -> None:
        """Add samples, (n, channels). time: of the container, in seconds from its beginning; None: unknown."""
        if not self.parts or (self.parts[-1][0], self.parts[-1][1][0].shape[1]) != (rate, samples.shape[1]):
            self.parts.append((rate, []))
        ahead = 0.0 if time is None else time + self.shift - self.heard
        if ahead > GAP and self.heard + ahead <= (self.heard + LONGEST_GAP if self.end is None else self.end):
            silence = np.zeros((round(ahead * rate), samples.shape[1]), np.float32)
            self.parts[-1][1].append(silence)
            self.gaps.append((self.heard, ahead))
            self.heard += len(silence) / rate
        elif abs(ahead) > GAP:
            self.shift -= ahead
        self.parts[-1][1].append(samples)
        self.heard += len(samples) / rate

    def tell(self, path: Path) -> None:
        """Warn of what is not as it should be."""
        if self.damaged:
            warn_once(f"{path}: {self.damaged} of its packets are damaged; the others are read.")
        if self.gaps:
            first, length = self.gaps[0]
            more = f", and {len(self.gaps) - 1} more pauses" if len(self.gaps) > 1 else ""
            warn_once(f"{path}: its sound pauses for {length:.2f} s at {first:.2f} s{more}; they are read as silence.")


def _track(container: av.container.InputContainer, stream: av.audio.stream.AudioStream) -> _Track:
    import av

    begin = (container.start_time or 0) / av.time_base
    track = _Track(container.duration / av.time_base if container.duration else None)
    for packet in container.demux(stream):
        try:
            frames = packet.decode()
        except av.error.InvalidDataError:
            track.damaged += 1
            continue
        for frame in frames:
            if frame.samples:
                track.add(_samples(frame), frame.sample_rate, None if frame.time is None else frame.time - begin)
    return track


def _samples(frame: av.AudioFrame) -> np.ndarray:
    """The samples of a frame, (n, channels), float32; full scale is 1."""
    array = frame.to_ndarray()
    array = array.T if frame.format.is_planar else array.reshape(frame.samples, -1)
    kind, bits = array.dtype.kind, 8 * array.dtype.itemsize
    if kind == "f":
        return array.astype(np.float32)
    return ((array.astype(np.float32) - (2 ** (bits - 1) if kind == "u" else 0)) / 2 ** (bits - 1)).astype(np.float32)
