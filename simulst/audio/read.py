"""Read any audio file as 16 kHz mono float32."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import soundfile
import soxr

from simulst.audio.units import SAMPLE_RATE
from simulst.audio.wav_header import WavHeader, read_header
from simulst.errors import SimulstError
from simulst.files.folder import unwritable

RATES = (1000, 1_000_000)  # Hz; a header with another rate is damaged
BLOCK = 1 << 20
EDGE = 0.01  # seconds that are read at each end to see whether a file is whole
# Full scale is 1. Mixers and lossy formats exceed it by a few decibels, which does no harm. Samples beyond PEAK are
# damaged or in another unit, usually 16-bit integers. Such a file is refused, not scaled: the file does not say which
# unit it has, and a model that hears a wrong level translates badly without any error.
PEAK = 4.0
# Channels of opposite phase cancel each other, so a model would hear silence. Such files are refused, too. We do not
# take one channel instead: the channels may differ, and the choice could change from segment to segment.
CANCELLED = 0.2  # share of the level that one channel alone would leave in the mean
AUDIBLE = 1e-3  # RMS, -60 dB: quieter channels are noise, which may cancel
CANCELLED_SECONDS = 0.5  # the shortest part of a file in which they may not cancel
UNCOUNTED = 1 << 62  # frames; what libsndfile says of a FLAC that was written to a pipe
MOST_PADDING = 0.2  # seconds by which containers round their length up

logger = logging.getLogger(__name__)


def write_wav(path: Path, samples: np.ndarray, subtype: str = "PCM_16") -> None:
    """Write a WAV at 16 kHz.

    samples: (n,) float32 or int16. subtype: as soundfile names it; PCM_16 rounds and clips, FLOAT keeps float32.

    Raises SimulstError: it can't be written.
    """
    try:
        soundfile.write(path, samples, SAMPLE_RATE, subtype=subtype, format="WAV")
    except (soundfile.LibsndfileError, OSError) as error:
        path.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def is_plain_wav(path: Path) -> bool:
    """Whether a file is a WAV as `write_wav` writes it, and its header counts all samples; Python's `wave` reads it."""
    header = read_header(path)
    if header is None or header.counts_less or header.counted is None:
        return False
    info = soundfile.info(path)
    return bool((info.format, info.subtype, info.channels, info.samplerate) == ("WAV", "PCM_16", 1, SAMPLE_RATE))


def seconds_of(path: str | Path) -> float:
    """The duration in seconds according to a file's header. Raises SimulstError if the file can't be read."""
    with _opened(Path(path)) as file:
        return file.frames / file.rate


def whole_seconds(path: str | Path) -> float:
    """The duration in seconds of a file that can be read at both ends.

    A file that was cut off lacks the end that its header promises, so reading there fails. (OGG headers promise no
    length: a cut OGG file is only shorter.)
    Raises SimulstError: as `load_audio`.
    """
    path = Path(path)
    with _opened(path) as file:
        total, edge = file.frames, math.ceil(EDGE * file.rate)
        # Read the end first: in short OGG files, libsndfile fails to seek there after it has read the beginning.
        for first in (max(0, total - edge), 0):
            _channels(path, file, first, min(first + edge, total))
        return total / file.rate


def load_audio(path: str | Path, start: float = 0.0, end: float | None = None) -> np.ndarray:
    """Read one audio file, or a part of it, as 16 kHz mono.

    Accepts every format, sample rate and sample width that libsndfile or PyAV reads, films with sound too. Of several
    audio tracks, the first is read. Averages the channels. Resamples other rates with soxr's high-quality filter.

    start: where the part begins, in seconds.
    end: where the part ends, in seconds; None for the end of the file.

    Returns: samples, shape (n,), float32, 16 kHz, nominally within [-1, 1].
    Raises SimulstError: the file is missing, empty, unreadable or truncated; there are no samples between `start` and
        `end`; samples are not finite or far beyond full scale; the channels cancel each other.
    """
    path = Path(path)
    if not 0 <= start < (math.inf if end is None else end) or end == math.inf:
        raise SimulstError(f"{path}: {start:g} to {end} s is not a span of time; fix the segments file.")
    with _opened(path) as file:
        rate, total = file.rate, file.frames
        last = total if end is None else round(end * rate)
        # Segment tables are rounded to hundredths of a second, so a segment may end that much after the audio.
        if end is not None and last > total + rate // 50:
            raise SimulstError(
                f"{path}: the segment {start:g}-{end:g} s ends after the audio "
                f"({total / rate:.2f} s); fix the segments file."
            )
        channels = _channels(path, file, round(start * rate), min(last, total))
    mono = _mixed(path, channels, rate)
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE)
        if not mono.size:
            raise SimulstError(f"{path}: shorter than one sample at {SAMPLE_RATE} Hz; remove the entry.")
    return np.ascontiguousarray(mono, dtype=np.float32)


def as_int16(samples: np.ndarray) -> np.ndarray:
    """Convert samples to 16-bit PCM and clip them at full scale: the inverse of `load_audio` for 16-bit files.

    samples: (n,), float, full scale is 1.

    Returns: (n,), int16.
    """
    return np.clip(np.round(samples * 32768), -32768, 32767).astype(np.int16)


class _Source(Protocol):
    """An open audio file. frames: how many there are. read: the frames from `first` to `last`, or those that are there.

    Both give frames of shape (n, channels), float32.
    """

    rate: int
    frames: int

    def read(self, first: int, last: int) -> np.ndarray: ...


class _Libsndfile:
    """A file that libsndfile reads: WAV, FLAC, OGG and others."""

    def __init__(self, file: soundfile.SoundFile) -> None:
        self.rate, self.frames, self._file = file.samplerate, file.frames, file

    def read(self, first: int, last: int) -> np.ndarray:
        try:
            self._file.seek(first)
        except soundfile.LibsndfileError:  # FLAC's decoder, if the file was cut off
            return np.zeros((0, 1), np.float32)
        return _read(self._file, last - first)


class _Decoded:
    """A file that PyAV has decoded: M4A, MP4, WebM and others, and what libsndfile can't count.

    Such files are decoded as a whole, as their containers find a time only roughly.
    """

    def __init__(self, rate: int, samples: np.ndarray) -> None:
        self.rate, self.frames, self._samples = rate, len(samples), samples

    def read(self, first: int, last: int) -> np.ndarray:
        return self._samples[first:last]


@contextmanager
def _opened(path: Path) -> Iterator[_Source]:
    """Open a file and check that its header is plausible. Errors of the decoders become a SimulstError."""
    if not path.is_file():
        wrong = "a folder, not an audio file" if path.is_dir() else "no such audio file"
        raise SimulstError(f"{path}: {wrong}; check the path or wav.scp.")
    if path.stat().st_size == 0:
        raise SimulstError(f"{path}: the file is empty (0 bytes); fetch or record it again.")
    header = read_header(path)
    if header is not None and header.is_cut:  # libsndfile reads such a file as a shorter one, without an error
        raise _truncated(path)
    try:
        with _sound_file(path, header) as file:
            if not RATES[0] <= file.samplerate <= RATES[1]:
                raise SimulstError(
                    f"{path}: a sample rate of {file.samplerate} Hz cannot be right; export the file again."
                )
            compressed = header is not None and not header.subtype  # libsndfile can't seek in some of these
            if file.format != "MP3" and not compressed and file.frames < UNCOUNTED:
                yield _Libsndfile(file)
                return
    except soundfile.LibsndfileError as error:
        if header is not None or (decoded := _decode(path)) is None:
            raise SimulstError(
                f"{path}: not readable as audio ({error.error_string.strip().rstrip('.')}); give WAV, FLAC or OGG."
            ) from error
    else:
        # libsndfile guesses the length of an MP3 that does not tell it, and reads no samples beyond its guess.
        if (decoded := _decode(path)) is None:
            raise SimulstError(f"{path}: not readable as audio; give WAV, FLAC or OGG.")
    yield decoded


def _sound_file(path: Path, header: WavHeader | None) -> soundfile.SoundFile:
    """Open a file with libsndfile. Of a WAV whose header counts too little, all that the file holds is read."""
    if header is None or not header.counts_less:
        return soundfile.SoundFile(path)
    if not header.subtype:
        raise SimulstError(
            f"{path}: its header counts fewer samples than the file holds, and they are compressed; write the header "
            f"again, for example with 'sox --ignore-length {path.name} whole.wav'."
        )
    file, options = header.open_raw(path)
    if header.counted is not None:
        _warn_of_header(path, header.counted / header.bytes_per_second, header.held / header.bytes_per_second)
    return soundfile.SoundFile(file, **options)


@cache
def _warn_of_header(path: Path, counted: float, held: float) -> None:
    """Warn, once, that a WAV file holds more than its header counts."""
    logger.warning(
        "%s: its header counts %.2f s, but the file holds %.2f s; all of it is read. If its end is no audio, write "
        "the file again.",
        path,
        counted,
        held,
    )


def _decode(path: Path) -> _Decoded | None:
    """A file that PyAV decodes; None if it can't. Raises SimulstError: no sound; the file was cut off."""
    status = path.stat()
    return _decode_once(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1)  # consecutive segments often share a file
def _decode_once(path: Path, changed: int, size: int) -> _Decoded | None:
    import av  # takes a tenth of a second

    av.logging.set_level(None)
    blocks: list[np.ndarray] = []
    try:
        with av.open(str(path)) as container:
            if not container.streams.audio:
                raise SimulstError(f"{path}: has no sound; give a file with an audio track.")
            stream = container.streams.audio[0]
            rate = stream.rate
            if not RATES[0] <= rate <= RATES[1]:
                raise SimulstError(f"{path}: a sample rate of {rate} Hz cannot be right; export the file again.")
            resampler = av.AudioResampler(format="fltp", rate=rate)
            damaged = 0
            for packet in container.demux(stream):
                try:
                    frames = packet.decode()
                except av.error.InvalidDataError:
                    damaged += 1
                    continue
                blocks += [part.to_ndarray() for frame in frames for part in resampler.resample(frame)]
            promised = float(stream.duration * stream.time_base) if stream.duration and stream.time_base else 0.0
            if container.format.name == "mp3" and not _mp3_tells(path):
                promised = 0.0
    except (av.FFmpegError, ValueError, IndexError):
        return None
    if not blocks or len({len(block) for block in blocks}) > 1:  # no audio, or channels that come and go
        return None
    if damaged:
        logger.warning("%s: %d of its packets are damaged; the others are read.", path, damaged)
    samples = np.concatenate(blocks, axis=1).T
    if len(samples) / rate < promised - MOST_PADDING:
        raise _truncated(path)
    return _Decoded(rate, samples)


def _mp3_tells(path: Path) -> bool:
    """Whether the first frame of an MP3 says how long it is. Otherwise PyAV's length is a guess from its bit rate."""
    with path.open("rb") as file:
        head = file.read(10)
        size = 0
        for byte in head[6:10]:  # of the ID3 tag, seven bits each
            size = size << 7 | byte & 0x7F
        file.seek(10 + size if head[:3] == b"ID3" else 0)
        first = file.read(2048)
    return any(name in first for name in (b"Xing", b"Info", b"VBRI"))


def _channels(path: Path, file: _Source, first: int, last: int) -> np.ndarray:
    """The frames from `first` (included) to `last` (excluded), shape (n, channels)."""
    if first >= last:
        start = first / file.rate
        raise SimulstError(f"{path}: no audio between {start:g} s and the end of the segment; remove the entry.")
    samples = file.read(first, last)
    if samples.shape[0] < last - first:
        raise _truncated(path)
    peak = float(max(samples.max(), -samples.min()))
    if not math.isfinite(peak):
        raise SimulstError(f"{path}: has samples that are NaN or infinite; export the file again.")
    if peak > PEAK:
        raise SimulstError(
            f"{path}: its samples reach {peak:.6g}, but full scale is 1; write the file as 16-bit PCM (if the samples "
            "are 16-bit values, divide them by 32768 first)."
        )
    return samples


def _mixed(path: Path, samples: np.ndarray, rate: int) -> np.ndarray:
    """The mean of the channels, shape (n,). samples: (n, channels)."""
    mono = samples.mean(axis=1)
    count = samples.shape[1]
    if count > 1:
        size = max(1, round(CANCELLED_SECONDS * rate))
        for first in range(0, max(1, len(mono) - size + 1), size):
            part = slice(first, first + size if first + 2 * size <= len(mono) else None)
            loudest = _rms(samples[part]).max()
            if loudest > AUDIBLE and _rms(mono[part, None])[0] < CANCELLED * loudest / count:
                raise SimulstError(
                    f"{path}: its {count} channels cancel each other at {first / rate:.1f} s when they are mixed "
                    f"(opposite phase); keep one of them, for example with 'sox {path.name} mono.wav remix 1'."
                )
    return mono


def _rms(samples: np.ndarray) -> np.ndarray:
    """Root mean square of each channel. samples: (n, channels). Makes no copy of them, as talks may last hours."""
    return np.sqrt(np.einsum("ij,ij->j", samples, samples, dtype=np.float64) / len(samples))


def _read(file: soundfile.SoundFile, frames: int) -> np.ndarray:
    """Read up to `frames` frames, shape (n, channels). Reads in blocks, as a damaged header can promise terabytes."""
    blocks = [file.read(min(frames, BLOCK), dtype="float32", always_2d=True)]
    while blocks[-1].shape[0] == BLOCK:
        frames -= BLOCK
        blocks.append(file.read(min(frames, BLOCK), dtype="float32", always_2d=True))
    return np.concatenate(blocks)


def _truncated(path: Path) -> SimulstError:
    return SimulstError(f"{path}: truncated: its header promises more audio than the file holds; copy the file again.")
