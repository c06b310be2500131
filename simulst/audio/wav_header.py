"""Where a WAV file's samples lie, if its header counts wrong.

A program that writes to a pipe, or is killed, can't go back to fill in how many samples there are. A program that
appends to a file, or writes more than 4 GiB, leaves a number that is too small. Here the file's own size counts.
"""

from __future__ import annotations

import io
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

UNKNOWN = range(0x7FFF0000, 0x80000001)
"""Numbers of bytes that stand for an unknown number: sox writes 0x7FFFF000, arecord 0x80000000."""
UNKNOWN_32 = range(0xFFFFF000, 0x100000000)
"""The same of ffmpeg and others, near the largest number that the header can hold."""
LEAST_REST = 0.05
"""Seconds. Fewer bytes behind the samples than these are a tag or padding, not audio."""

_SUBTYPES = {  # by the format's tag and the bits of a sample
    **{(1, 8): "PCM_U8", (1, 16): "PCM_16", (1, 24): "PCM_24", (1, 32): "PCM_32"},
    **{(3, 32): "FLOAT", (3, 64): "DOUBLE", (6, 8): "ALAW", (7, 8): "ULAW"},
}
_EXTENSIBLE = 0xFFFE  # the tag then stands further behind


@dataclass(frozen=True)
class WavHeader:
    """The samples of a WAV file.

    first: the byte at which they begin.
    counted: how many bytes of them the header counts; None: it says that it does not know.
    held: how many bytes the file holds from `first` on.
    rest: of these, how many follow the counted ones and are no chunks of a WAV file; 0: the header may be right.
    rate, channels: as in the header.
    bytes_per_second: of the samples, by the header.
    subtype: libsndfile's name of the encoding; empty: a compressed one.
    """

    first: int
    counted: int | None
    held: int
    rest: int
    rate: int
    channels: int
    bytes_per_second: int
    subtype: str

    @property
    def is_cut(self) -> bool:
        """Whether the header counts more than the file holds. One byte less is padding that was left out."""
        return self.counted is not None and self.counted > self.held + 1

    @property
    def counts_less(self) -> bool:
        """Whether there are samples behind the last one that the header counts."""
        return self.rest > LEAST_REST * self.bytes_per_second

    def open_raw(self, path: Path) -> tuple[io.RawIOBase, dict[str, Any]]:
        """The samples without their header, and the options with which libsndfile reads them (`subtype` not empty)."""
        options: dict[str, Any] = {"samplerate": self.rate, "channels": self.channels}
        return _Rest(path, self.first), {**options, "format": "RAW", "subtype": self.subtype, "endian": "LITTLE"}


def read_header(path: Path) -> WavHeader | None:
    """The header of a WAV file; None for other files, and for those whose header libsndfile shall judge."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if file.read(4) != b"RIFF" or not file.read(4) or file.read(4) != b"WAVE":
            return None
        layout = b""
        while len(head := file.read(8)) == 8:
            name, length = head[:4], int.from_bytes(head[4:], "little")
            if name == b"data":
                return _header(file, layout, file.tell(), length, size)
            if name == b"fmt ":
                layout = file.read(min(length, 64))
                file.seek(length + length % 2 - len(layout), os.SEEK_CUR)
            else:
                file.seek(length + length % 2, os.SEEK_CUR)
    return None


def _header(file: BinaryIO, layout: bytes, first: int, length: int, size: int) -> WavHeader | None:
    if len(layout) < 16:
        return None
    tag, channels, rate, bytes_per_second, _, bits = struct.unpack("<HHIIHH", layout[:16])
    if tag == _EXTENSIBLE and len(layout) >= 26:
        tag = int.from_bytes(layout[24:26], "little")
    held = size - first
    counted = None if length in UNKNOWN or length in UNKNOWN_32 else length
    rest = 0
    if counted is not None and counted < held and not _are_chunks(file, first + counted + counted % 2, size):
        rest = held - counted
        counted = counted or None
    return WavHeader(first, counted, held, rest, rate, channels, bytes_per_second or 1, _SUBTYPES.get((tag, bits), ""))


def _are_chunks(file: BinaryIO, place: int, size: int) -> bool:
    """Whether from this place on the file has the chunks that may follow the samples, such as a list of titles."""
    while place < size - 1:
        file.seek(place)
        head = file.read(8)
        if len(head) < 8 or not all(32 <= byte < 127 for byte in head[:4]):
            return False
        place += 8 + int.from_bytes(head[4:], "little")
        place += place % 2
    return place <= size + 1


class _Rest(io.RawIOBase):
    """A file from a byte on."""

    def __init__(self, path: Path, first: int) -> None:
        self._file = path.open("rb")
        self._first = first
        self._file.seek(first)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        place = self._file.seek(offset + self._first if whence == os.SEEK_SET else offset, whence)
        return place - self._first

    def tell(self) -> int:
        return self._file.tell() - self._first

    def close(self) -> None:
        self._file.close()
        super().close()
