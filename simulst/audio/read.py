"""Read any audio file as 16 kHz mono float32."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import soundfile
import soxr

from simulst.audio.mp3 import counted_samples
from simulst.audio.units import SAMPLE_RATE
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


def write_wav(path: Path, samples: np.ndarray) -> None:
    """Write a WAV at 16 kHz, 16 bits. samples: (n,) float32 or int16. Raises SimulstError: it can't be written."""
    try:
        soundfile.write(path, samples, SAMPLE_RATE, subtype="PCM_16", format="WAV")
    except (soundfile.LibsndfileError, OSError) as error:
        path.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def seconds_of(path: str | Path) -> float:
    """The duration in seconds according to a file's header. Raises SimulstError if the file can't be read."""
    try:
        info = soundfile.info(str(path))
    except (soundfile.LibsndfileError, OSError) as error:
        raise SimulstError(f"{path}: not readable as audio ({error}); give WAV, FLAC or OGG.") from error
    return info.frames / info.samplerate


def whole_seconds(path: str | Path) -> float:
    """The duration in seconds of a file that can be read at both ends.

    A file that was cut off lacks the end that its header promises, so reading there fails. (OGG headers promise no
    length: a cut OGG file is only shorter.)
    Raises SimulstError: as `load_audio`.
    """
    path = Path(path)
    with _opened(path) as file:
        total, edge = _frames(path, file), math.ceil(EDGE * file.samplerate)
        # Read the end first: in short OGG files, libsndfile fails to seek there after it has read the beginning.
        for first in (max(0, total - edge), 0):
            _channels(path, file, first, min(first + edge, total))
        return total / file.samplerate


def load_audio(path: str | Path, start: float = 0.0, end: float | None = None) -> np.ndarray:
    """Read one audio file, or a part of it, as 16 kHz mono.

    Accepts every format, sample rate and sample width that libsndfile reads. Averages the channels. Resamples other
    rates with soxr's high-quality filter.

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
        rate, total = file.samplerate, _frames(path, file)
        last = total if end is None else round(end * rate)
        # Segment tables are rounded to hundredths of a second, so a segment may end that much after the audio.
        if end is not None and last > total + rate // 50:
            raise SimulstError(
                f"{path}: the segment {start:g}-{end:g} s ends after the audio "
                f"({total / rate:.2f} s); fix the segments file."
            )
        channels = _channels(path, file, round(start * rate), min(last, total))
    mono = _mixed(path, channels)
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


@contextmanager
def _opened(path: Path) -> Iterator[soundfile.SoundFile]:
    """Open a file and check that its header is plausible. Errors of libsndfile become a SimulstError."""
    if not path.is_file():
        wrong = "a folder, not an audio file" if path.is_dir() else "no such audio file"
        raise SimulstError(f"{path}: {wrong}; check the path or wav.scp.")
    size = path.stat().st_size
    if size == 0:
        raise SimulstError(f"{path}: the file is empty (0 bytes); fetch or record it again.")
    try:
        with soundfile.SoundFile(path) as file:
            if not RATES[0] <= file.samplerate <= RATES[1]:
                raise SimulstError(
                    f"{path}: a sample rate of {file.samplerate} Hz cannot be right; export the file again."
                )
            # libsndfile reads a WAV that was cut off as a shorter file, without an error.
            if (_declared_bytes(path) or 0) > size:
                raise _truncated(path)
            yield file
    except soundfile.LibsndfileError as error:
        raise SimulstError(
            f"{path}: not readable as audio ({error.error_string.strip().rstrip('.')}); give WAV, FLAC or OGG."
        ) from error


def _frames(path: Path, file: soundfile.SoundFile) -> int:
    """The number of frames. libsndfile guesses it for some MP3s, and reads none beyond its guess."""
    counted = counted_samples(path) if file.format == "MP3" else None
    if counted is not None and counted > file.frames:
        raise SimulstError(
            f"{path}: an MP3 whose bit rate varies and which does not say how long it is, so that its end can't be "
            "read; convert it to WAV or FLAC."
        )
    return file.frames if counted is None else counted


def _channels(path: Path, file: soundfile.SoundFile, first: int, last: int) -> np.ndarray:
    """The frames from `first` (included) to `last` (excluded), shape (n, channels)."""
    if first >= last:
        start = first / file.samplerate
        raise SimulstError(f"{path}: no audio between {start:g} s and the end of the segment; remove the entry.")
    samples = _read(file, last - first) if _seek(file, first) else np.zeros((0, 1), np.float32)
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


def _mixed(path: Path, samples: np.ndarray) -> np.ndarray:
    """The mean of the channels, shape (n,). samples: (n, channels)."""
    mono = samples.mean(axis=1)
    count = samples.shape[1]
    if count > 1:
        loudest = _rms(samples).max()
        if loudest > AUDIBLE and _rms(mono[:, None])[0] < CANCELLED * loudest / count:
            raise SimulstError(
                f"{path}: its {count} channels cancel each other when they are mixed (opposite phase); keep one of "
                f"them, for example with 'sox {path.name} mono.wav remix 1'."
            )
    return mono


def _rms(samples: np.ndarray) -> np.ndarray:
    """Root mean square of each channel. samples: (n, channels). Makes no copy of them, as talks may last hours."""
    return np.sqrt(np.einsum("ij,ij->j", samples, samples, dtype=np.float64) / len(samples))


def _seek(file: soundfile.SoundFile, frame: int) -> bool:
    """Go to a frame. Returns whether that worked: FLAC's decoder fails if the file was cut off."""
    try:
        file.seek(frame)
    except soundfile.LibsndfileError:
        return False
    return True


def _read(file: soundfile.SoundFile, frames: int) -> np.ndarray:
    """Read up to `frames` frames, shape (n, channels). Reads in blocks, as a damaged header can promise terabytes."""
    blocks = [file.read(min(frames, BLOCK), dtype="float32", always_2d=True)]
    while blocks[-1].shape[0] == BLOCK:
        frames -= BLOCK
        blocks.append(file.read(min(frames, BLOCK), dtype="float32", always_2d=True))
    return np.concatenate(blocks)


def _truncated(path: Path) -> SimulstError:
    return SimulstError(f"{path}: truncated: its header promises more audio than the file holds; copy the file again.")


def _declared_bytes(path: Path) -> int | None:
    """The file size in bytes that a RIFF header declares; None for other formats and for streamed WAVs."""
    with path.open("rb") as file:
        header = file.read(8)
    if header[:4] != b"RIFF":
        return None
    size = int.from_bytes(header[4:8], "little")
    return None if size in (0, 0xFFFFFFFF) else size + 8
