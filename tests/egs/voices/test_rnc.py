from __future__ import annotations

import numpy as np
from games import pack
from hypothesis import given, settings
from hypothesis import strategies as st

import rnc
from simulst.errors import SimulstError


def checksum(data: bytes) -> int:
    """Bit by bit, by the definition."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


@given(st.binary(max_size=50))
def test_checksum(data: bytes) -> None:
    assert rnc.checksum(np.frombuffer(data, np.uint8)) == checksum(data)


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"ab", b"\x80", b"\x80" * 9, b"abcabc", b"\0\xff"]), max_size=60), st.integers(1, 3))
def test_unpacks_what_was_packed(parts: list[bytes], chunks: int) -> None:
    data = b"".join(parts)
    assert rnc.unpack(pack(data, chunks), "x") == data


def test_matches_are_used() -> None:
    assert len(pack(b"\x80" * 1000)) < 120
    assert rnc.unpack(pack(b"\x80" * 1000), "x") == b"\x80" * 1000


def test_a_last_word_of_zeros_may_be_missing() -> None:
    """As in nearly half of the files: the code of "no literals" is all that the last word holds."""
    parts = (bytes(range(n)) + b"\xff" * m for n in range(1, 99) for m in range(5, 99))
    data, block = next((part, block) for part in parts if (block := pack(part)).endswith(b"\0\0"))
    _, size, packed, crc, _, leeway, chunks = rnc.HEADER.unpack_from(block)
    body = block[rnc.HEADER.size : -2]
    head = rnc.HEADER.pack(rnc.MAGIC, size, packed - 2, crc, checksum(body), leeway, chunks)
    assert rnc.unpack(head + body, "x") == data


@settings(max_examples=300)
@given(st.integers(0, 200), st.integers(0, 255), st.integers(0, 1))
def test_any_damaged_stream_ends(place: int, byte: int, chunks: int) -> None:
    """With right checksums of the damaged bytes, as random changes rarely have."""
    block = bytearray(pack(bytes(range(60)) + b"abcd" * 30 + bytes(range(9))))
    block[18 + place % (len(block) - 18)] = byte
    body = bytes(block[18:])
    _, size, packed, crc, _, leeway, count = rnc.HEADER.unpack_from(block)
    head = rnc.HEADER.pack(rnc.MAGIC, size, packed, crc, checksum(body), leeway, count + chunks)
    try:
        assert checksum(rnc.unpack(head + body, "x")) == crc
    except SimulstError as error:
        assert str(error).startswith("x: damaged (")
