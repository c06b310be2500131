"""Count the samples of an MP3 that does not say how many it has.

Encoders write that into the first frame (a Xing, Info or VBRI header), but not if they write to a pipe. libsndfile then
guesses from the size of the file, which is wrong if the bit rate varies.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

# By the two bits for the version: MPEG 2.5, reserved, MPEG 2, MPEG 1.
_RATES = ((11025, 12000, 8000), (), (22050, 24000, 16000), (44100, 48000, 32000))
_KBIT_1 = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_KBIT_2 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_NAMES = (b"Xing", b"Info", b"VBRI")
_LAYER_3 = 1
_TAIL = 4096  # bytes of tags at the end


def counted_samples(path: Path) -> int | None:
    """The samples in all frames of an MP3, for each channel.

    None: its first frame tells them; it is no MP3; or it has much besides frames, as if files had been joined.
    """
    status = path.stat()
    return _counted(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)  # consecutive segments often share a file
def _counted(path: Path, changed: int, size: int) -> int | None:
    content = path.read_bytes()
    at = _after_tag(content)
    first = _frame(content, at)
    if first is None or any(name in content[at : at + first[0]] for name in _NAMES):
        return None
    samples = 0
    while frame := _frame(content, at):
        at += frame[0]
        samples += frame[1] if at <= len(content) else 0
    return samples if len(content) - at <= _TAIL else None


def _after_tag(content: bytes) -> int:
    """Where the audio begins: after an ID3 tag, if there is one."""
    if content[:3] != b"ID3" or len(content) < 10:
        return 0
    size = 0
    for byte in content[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size + (10 if content[5] & 0x10 else 0)  # a footer repeats the tag's header


def _frame(content: bytes, at: int) -> tuple[int, int] | None:
    """The bytes and samples of the frame whose header begins at `at`; None if none does."""
    header = int.from_bytes(content[at : at + 4], "big")
    version, layer = header >> 19 & 3, header >> 17 & 3
    kbit, rate, padding = header >> 12 & 15, header >> 10 & 3, header >> 9 & 1
    if len(content) < at + 4 or header >> 21 != 0x7FF or version == 1 or layer != _LAYER_3:
        return None
    if kbit in (0, 15) or rate == 3:
        return None
    samples = 1152 if version == 3 else 576
    kbits = (_KBIT_1 if version == 3 else _KBIT_2)[kbit]
    return samples // 8 * 1000 * kbits // _RATES[version][rate] + padding, samples
