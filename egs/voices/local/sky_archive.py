"""The archive of Beneath a Steel Sky: `sky.dnr` lists the files that `sky.dsk` holds, one after the other.

sky.dnr    u32 number of entries; each 8 bytes, little-endian: u16 number of the file, u24 place, u24 size and flags.
           Place: bytes; where bit 23 is set, its lower bits in units of 16 bytes. Size: bits 0 to 21; the others are
           flags.
A file is stored as it is, or as a header of 22 bytes and an RNC block (see `rnc`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import rnc
from simulst.errors import SimulstError

FILE_HEADER = 22
ENTRY = 8


@dataclass(frozen=True)
class Entry:
    """Where a file lies in `sky.dsk`: bytes from its beginning, and how many."""

    place: int
    size: int


class SkyArchive:
    """The files of the game, by number.

    Raises SimulstError: an index or data file that is missing, cut off or of something else, an entry outside the data.
    """

    def __init__(self, folder: Path) -> None:
        self.index_file, self.data_file = folder / "sky.dnr", folder / "sky.dsk"
        self.entries = _entries(self.index_file, _read(self.index_file))
        self._data = _read(self.data_file)
        for number, entry in self.entries.items():
            if entry.place + entry.size > len(self._data):
                raise SimulstError(
                    f"{self.data_file}: has {len(self._data)} bytes, but file {number} ends at byte "
                    f"{entry.place + entry.size}; delete the package and run again."
                )

    def __contains__(self, number: int) -> bool:
        return number in self.entries

    def numbers(self, first: int, last: int) -> Iterator[int]:
        """The numbers that there are, from `first` to before `last`, in order."""
        return iter(sorted(number for number in self.entries if first <= number < last))

    def stored(self, number: int) -> bytes:
        """A file as it is stored. Raises SimulstError: no such file."""
        if number not in self.entries:
            raise SimulstError(f"{self.index_file}: has no file {number}; it is of another version of the game.")
        entry = self.entries[number]
        return self._data[entry.place : entry.place + entry.size]

    def is_packed(self, number: int) -> bool:
        """Whether a file is a header and a packed block. Raises SimulstError: no such file."""
        return self.stored(number).startswith(rnc.MAGIC, FILE_HEADER)

    def unpacked(self, number: int) -> bytes:
        """A packed file's data, or a file as it is stored.

        Raises SimulstError: no such file, or one that can't be unpacked.
        """
        stored = self.stored(number)
        if not self.is_packed(number):
            return stored
        return rnc.unpack(stored[FILE_HEADER:], f"{self.data_file}, file {number}")


def _entries(path: Path, data: bytes) -> dict[int, Entry]:
    count = int.from_bytes(data[:4], "little")
    if len(data) < 4 or len(data) < 4 + ENTRY * count or count == 0:
        raise SimulstError(
            f"{path}: {len(data)} bytes cannot be the index of {count} files; delete the package and run again."
        )
    entries: dict[int, Entry] = {}
    for at in range(4, 4 + ENTRY * count, ENTRY):
        number, place, size = (
            int.from_bytes(data[at + begin : at + end], "little") for begin, end in ((0, 2), (2, 5), (5, 8))
        )
        place = (place & 0x7FFFFF) << 4 if place >> 23 else place
        entries.setdefault(number, Entry(place, size & 0x3FFFFF))
    return entries


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); delete the package and run again.") from error
