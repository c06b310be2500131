"""The texts of Beneath a Steel Sky: eight languages, each in sections of messages in one prefix code.

A section, little-endian:

    u16 place of the lengths | u16 place of the bits | u16 for each 32 messages: their bits | lengths | bits

The numbers of bits are in units of 2. A length is a byte; from 128 on, its lower bits count units of 8. The messages'
bits follow each other, the most significant bit of a byte first.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulst.errors import SimulstError
from sky_archive import SkyArchive

LANGUAGES = ("en", "de", "fr", "us", "sv", "it", "pt", "es")
SECTIONS = 8
FIRST_TEXT = 60600  # the number of the first section's file of the first language
BLOCK = 32  # messages that share an entry in the table of places
UNIT = 2  # bits


def text_file(language: str, section: int) -> int:
    """The number of the file that holds a section's texts."""
    return FIRST_TEXT + SECTIONS * LANGUAGES.index(language) + section


def read_section(data: bytes, where: str) -> list[str]:
    """The bits of each message, as "0" and "1", with what fills up the last unit.

    Raises SimulstError: a table or message that points outside the data. where: begins the messages.
    """
    lengths_at, bits_at = _u16(data, 0, where), _u16(data, 2, where)
    if not 4 <= lengths_at <= bits_at <= len(data) or lengths_at % 2:
        raise SimulstError(
            f"{where}: its tables point outside of its {len(data)} bytes; delete the package, run again."
        )
    lengths = [(byte & 0x7F) << 3 if byte & 0x80 else byte for byte in data[lengths_at:bits_at]]
    blocks = [_u16(data, at, where) for at in range(4, lengths_at, 2)]
    stream = data[bits_at:]
    bits = bin(int.from_bytes(b"\x01" + stream, "big"))[3:]
    messages = []
    begin = 0
    for number, length in enumerate(lengths):
        block, rest = divmod(number, BLOCK)
        if rest == 0 and block <= len(blocks):
            begin = sum(blocks[:block])
        end = begin + length
        if UNIT * end > len(bits):
            raise SimulstError(
                f"{where}: message {number} ends after the {len(stream)} bytes of the texts; delete the package and "
                "run again."
            )
        messages.append(bits[UNIT * begin : UNIT * end])
        begin = end
    return messages


def sections(archive: SkyArchive, language: str) -> Iterator[tuple[int, list[str]]]:
    """Each section's number, and the bits of its messages. Raises SimulstError: no such file, or a damaged one."""
    for section in range(SECTIONS):
        number = text_file(language, section)
        yield section, read_section(archive.unpacked(number), f"{archive.data_file}, file {number}")


def _u16(data: bytes, at: int, where: str) -> int:
    if at + 2 > len(data):
        raise SimulstError(
            f"{where}: {len(data)} bytes are too few for a section of texts; delete the package, run again."
        )
    return data[at] | data[at + 1] << 8
