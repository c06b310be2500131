"""Read any audio file as 16 kHz mono float32."""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import wave
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import soundfile
import soxr

from simulst.audio.decode import Part, decode, truncated
from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError, warn_once
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
EXACT = frozenset(("WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF", "FLAC", "OGG"))
"""Formats whose parts libsndfile finds exactly, and whose cuts it tells. FFmpeg reads the others."""
SUBTYPES = {  # those in which libsndfile can seek, and the bytes of a sample
    **{"PCM_U8": 1, "PCM_S8": 1, "PCM_16": 2, "PCM_24": 3, "PCM_32": 4, "FLOAT": 4, "DOUBLE": 8, "ALAW": 1, "ULAW": 1},
    **{"VORBIS": 1, "OPUS": 1},
}
MALFORMED = 3  # libsndfile's number of this error
UNKNOWN = (range(0x7FFF0000, 0x80000001), range(0xFFFFF000, 0x100000000))
"""Numbers of bytes that stand for an unknown number: sox writes 0x7FFFF000, arecord 0x80000000, FFmpeg 0xFFFFFFFF."""
HEARD = SAMPLE_RATE // 10  # samples that are compared; those of exactly 0 at the very beginning are skipped
LEAST_REST = 0.05  # seconds; fewer bytes behind the samples than these are a tag or padding, not audio
GIVE = "give WAV, FLAC, OGG, MP3, M4A, or a film such as MP4"
_PROMISE = re.compile(r"^ *(?:data|SSND|BODY|Data Size|riff|Riff size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
_NIST = re.compile(rb"sample_count -i (\d+)")
_END = re.compile(r"marker (?:\(\w+\) )?at position (\d+)")


def write_wav(path: Path, samples: np.ndarray, subtype: str = "PCM_16") -> None:
    """Write a WAV at 16 kHz.

    samples: (n,) float32 or int16. subtype: as soundfile names it; PCM_16 rounds and clips, FLOAT keeps float32.

    Raises SimulstError: it can't be written.
    """
    try:
        soundfile.write(os.fsencode(path), samples, SAMPLE_RATE, subtype=subtype, format="WAV")
    except (soundfile.LibsndfileError, OSError) as error:
        path.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def is_plain_wav(path: Path) -> bool:
    """Whether a file is a WAV as `write_wav` writes it, and its header counts all samples; Python's `wave` reads it."""
    try:
        with wave.open(str(path)) as file:
            plain = (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, SAMPLE_RATE)
            counted = file.getnframes()
    except (wave.Error, EOFError):
        return False
    with _opened(path) as source:
        return plain and source.frames == counted


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
    audio tracks, the first is read, at the times that a film gives it (`decode`). Averages the
    channels. Resamples other rates with soxr's high-quality filter.

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
    mono = _resampled(_mixed(path, channels, rate), rate)
    if not mono.size:
        raise SimulstError(f"{path}: shorter than one sample at {SAMPLE_RATE} Hz; remove the entry.")
    return np.ascontiguousarray(mono, dtype=np.float32)


def audio_in_parts(path: Path, seconds: float) -> Iterator[np.ndarray]:
    """What `load_audio` reads of a whole file, sample for sample, about so many seconds at a time.

    Raises SimulstError: as `load_audio`; before the part that is at fault.
    """
    with _opened(path) as file:
        rate, total = file.rate, file.frames
        resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")
        for first in range(0, total, step := round(seconds * rate)):
            last = min(first + step, total)
            mono = _mixed(path, _channels(path, file, first, last), rate)
            yield mono if rate == SAMPLE_RATE else resampler.resample_chunk(mono, last == total)


def as_int16(samples: np.ndarray) -> np.ndarray:
    """Convert samples to 16-bit PCM and clip them at full scale: the inverse of `load_audio` for 16-bit files.

    samples: (n,), float, full scale is 1.

    Returns: (n,), int16.
    """
    return np.clip(np.round(samples * 32768), -32768, 32767).astype(np.int16)


def digest_of_beginning(samples: np.ndarray) -> str:
    """The digest (16 hexadecimal digits) of the first HEARD samples from the first on that is not 0, as 16 bits.

    By it, a program that is not told a recording's name can recognise it.

    samples: the recording from its beginning, shape (n,), float32, 16 kHz.

    Returns: "" if the samples do not reach so far yet.
    """
    sounding = as_int16(samples)
    sounds = np.flatnonzero(sounding)
    part = sounding[sounds[0] :][:HEARD] if sounds.size else sounds
    if part.size < HEARD:
        return ""
    return hashlib.sha256(part.astype("<i2").tobytes()).hexdigest()[:16]


@dataclass(frozen=True)
class _Source:
    """An open audio file of so many frames. read: those from the first to the last, or those that are there.

    These have the shape (n, channels), float32.
    """

    rate: int
    frames: int
    read: Callable[[int, int], np.ndarray]


def _read(file: soundfile.SoundFile, first: int, last: int) -> np.ndarray:
    """Frames of a file that libsndfile reads. Reads in blocks, as a damaged header can promise terabytes."""
    try:
        file.seek(first)
    except soundfile.LibsndfileError:  # FLAC's decoder, if the file was cut off
        return np.zeros((0, 1), np.float32)
    blocks = [file.read(min(last - first, BLOCK), dtype="float32", always_2d=True)]
    while blocks[-1].shape[0] == BLOCK:
        first += BLOCK
        blocks.append(file.read(min(last - first, BLOCK), dtype="float32", always_2d=True))
    return np.concatenate(blocks)


def _decoded(path: Path, parts: Sequence[Part] | None) -> _Source:
    """A file that was decoded as a whole. Parts of several rates or numbers of channels are mixed, at SAMPLE_RATE."""
    if not parts:
        raise SimulstError(f"{path}: not readable as audio; {GIVE}.")
    for part in parts:
        _check_rate(path, part.rate)
    if len({(part.rate, part.samples.shape[1]) for part in parts}) > 1:
        parts = [Part(SAMPLE_RATE, _resampled(_mixed(path, p.samples, p.rate), p.rate)[:, None]) for p in parts]
    # A single one is not copied: there may be hours of it.
    samples = parts[0].samples if len(parts) == 1 else np.concatenate([part.samples for part in parts])
    return _Source(parts[0].rate, len(samples), lambda first, last: samples[first:last])


def check_there(path: Path) -> None:
    """Raise SimulstError if there is no file, or an empty one."""
    if not path.is_file():
        wrong = "a folder, not an audio file" if path.is_dir() else "no such audio file"
        raise SimulstError(f"{path}: {wrong}; check the path or wav.scp.")
    if path.stat().st_size == 0:
        raise SimulstError(f"{path}: the file is empty (0 bytes); fetch or record it again.")


@contextmanager
def _opened(path: Path) -> Iterator[_Source]:
    """Open a file and check that its header is plausible. Errors of the decoders become a SimulstError."""
    check_there(path)
    file = _sound_file(path)
    try:
        if isinstance(file, soundfile.SoundFile):
            with file:
                yield _Source(file.samplerate, file.frames, partial(_read, file))
        else:
            yield _decoded(path, file())
    except soundfile.LibsndfileError as error:
        raise _unreadable(path, error) from error


def _sound_file(path: Path) -> soundfile.SoundFile | Callable[[], list[Part] | None]:
    """The file, opened by libsndfile, or else what decodes it as a whole.

    Raises SimulstError: the header counts more than the file holds; libsndfile knows the format, and finds damage.
    """
    with path.open("rb") as opened:
        head = opened.read(3)
    # MP3, whose length libsndfile guesses, and FLAC behind a tag of MP3, in which it does not find a time.
    if head == b"ID3" or int.from_bytes(head, "big") >> 13 == 0x7FF:
        return partial(decode, path)
    try:
        file = soundfile.SoundFile(os.fsencode(path))
    except soundfile.LibsndfileError as error:
        if error.code == MALFORMED:
            raise _unreadable(path, error) from error
        return partial(decode, path)
    _check_rate(path, file.samplerate)
    beyond_header = _counts_less(path, file)
    if "Junk after the last page" in file.extra_info:  # of an OGG: libsndfile reads the first of several links
        return partial(_links, path, path.stat().st_mtime_ns)
    if file.format in EXACT and file.subtype in SUBTYPES and file.frames < UNCOUNTED and not beyond_header:
        return file
    file.close()
    return partial(decode, path, beyond_header)


@lru_cache(maxsize=1)  # consecutive segments often share a file
def _links(path: Path, changed: int) -> list[Part]:
    """The links of a chained OGG, as recorders of radio streams write it. Raises LibsndfileError: one is damaged."""
    data = path.read_bytes()
    begins, place, began = [], 0, False
    while (place := data.find(b"OggS", place)) >= 0 and place + 27 <= len(data):
        begin = bool(data[place + 5] & 2)  # of a stream; a link may begin several together
        if begin and not began:
            begins.append(place)
        began = begin
        segments = data[place + 26]
        place += 27 + segments + sum(data[place + 27 : place + 27 + segments])
    parts = []
    for first, last in pairwise([*begins, len(data)]):
        samples, rate = soundfile.read(io.BytesIO(data[first:last]), dtype="float32", always_2d=True)
        parts.append(Part(rate, samples))
    return parts


def _unreadable(path: Path, error: soundfile.LibsndfileError) -> SimulstError:
    says = error.error_string.strip().rstrip(".")
    return SimulstError(f"{path}: not readable as audio ({says}); copy it again, or {GIVE}.")


def _check_rate(path: Path, rate: int) -> None:
    if not RATES[0] <= rate <= RATES[1]:
        raise SimulstError(f"{path}: a sample rate of {rate} Hz cannot be right; export the file again.")


def _counts_less(path: Path, file: soundfile.SoundFile) -> bool:
    """Whether a WAV holds more samples than its header counts, by what libsndfile's log says of it. Warns of it, once.

    A program that writes to a pipe, or is killed, can't go back to fill in how many samples there are. A program that
    appends to a file, or writes more than 4 GiB, leaves a number that is too small.
    Raises SimulstError: the header counts more than the file holds. One byte less is padding that was left out.
    """
    log, size = file.extra_info, path.stat().st_size
    for match in _PROMISE.finditer(log):
        promised, held = int(match[1]), int(match[2])
        if promised > held + 1 and not any(promised in unknown for unknown in UNKNOWN):
            raise truncated(path)
    if file.format == "NIST":  # libsndfile does not compare
        with path.open("rb") as opened:
            counted = _NIST.search(head := opened.read(1024))
        if counted and int(counted[1]) > file.frames and b"embedded" not in head:  # in which samples are compressed
            raise truncated(path)
    if "Seems to be a truncated file" in log:
        raise truncated(path)
    if file.format not in ("WAV", "WAVEX"):
        return False
    end = _END.search(log)
    per_second = SUBTYPES.get(file.subtype, 1) * file.channels * file.samplerate
    like_a_name = "(unknown marker)" in log and "> file length" in log  # samples that a chunk could begin with
    if not like_a_name and (end is None or size - int(end[1]) <= LEAST_REST * per_second):
        return False
    if file.frames:
        warn_once(
            f"{path}: its header counts {file.frames / file.samplerate:.2f} s, but the file holds more; all of it is "
            "read. If its end is no audio, write the file again."
        )
    return True


def _channels(path: Path, file: _Source, first: int, last: int) -> np.ndarray:
    """The frames from `first` (included) to `last` (excluded), shape (n, channels)."""
    if first >= last:
        start = first / file.rate
        raise SimulstError(f"{path}: no audio between {start:g} s and the end of the segment; remove the entry.")
    samples = file.read(first, last)
    if samples.shape[0] < last - first:
        raise truncated(path)
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


def _resampled(mono: np.ndarray, rate: int) -> np.ndarray:
    """The samples, shape (n,), at SAMPLE_RATE."""
    return mono if rate == SAMPLE_RATE else soxr.resample(mono, rate, SAMPLE_RATE)


def _rms(samples: np.ndarray) -> np.ndarray:
    """Root mean square of each channel. samples: (n, channels). Makes no copy of them, as talks may last hours."""
    return np.sqrt(np.einsum("ij,ij->j", samples, samples, dtype=np.float64) / len(samples))
