"""Rob Northen's compression, method 1: LZ77 whose counts and distances are Huffman coded.

A packed block is a header of 18 bytes, big-endian, and a stream:

    "RNC" 1 | u32 size unpacked | u32 size packed | u16 checksum unpacked | u16 checksum packed | u8 leeway | u8 chunks

The stream mixes bits and bytes. Bits come from little-endian words of 16, the least significant first; a word is taken
from the stream when its first bit is asked for. Bytes that are copied as they are stand between these words. After two
bits of flags, each chunk has three code tables (for literal counts, distances, match lengths), a count n of 16 bits,
and n runs: literals, then a match, which the last run lacks. Checksums: CRC-16 with the polynomial 0xA001, reflected.
"""

from __future__ import annotations

import struct

import numpy as np
from numba import njit

from simulst.errors import SimulstError

MAGIC = b"RNC\x01"
HEADER = struct.Struct(">4sIIHHBB")
LARGEST = 1 << 26  # bytes; a header that promises more is damaged

_FAULTS = {
    -1: "the stream ends too early",
    -2: "a code is not in its table",
    -3: "it unpacks to more than its header says",
    -4: "a match begins before the data",
}


def unpack(block: bytes, where: str) -> bytes:
    """The data of a packed block, its checksums compared. where: begins the messages.

    Raises SimulstError: no such block, a wrong checksum, a stream that can't be unpacked or has another size.
    """
    if len(block) < HEADER.size:
        raise _damaged(where, f"{len(block)} bytes are too few for a packed block")
    magic, size, packed, crc, packed_crc, _, chunks = HEADER.unpack_from(block)
    if magic != MAGIC:
        raise _damaged(where, "it is not packed by RNC's method 1")
    if len(block) < HEADER.size + packed:
        raise _damaged(where, f"of {packed} packed bytes only {len(block) - HEADER.size} are there")
    if size > LARGEST:
        raise _damaged(where, f"{size} bytes cannot be")
    stream = np.frombuffer(block, np.uint8, packed, HEADER.size)
    if checksum(stream) != packed_crc:
        raise _damaged(where, "the checksum of the packed bytes is wrong")
    out = np.zeros(size, np.uint8)
    written = _unpack(stream, out, chunks)
    if written != size:
        raise _damaged(where, _FAULTS.get(written, f"it unpacks to {written} bytes, not {size}"))
    if checksum(out) != crc:
        raise _damaged(where, "the checksum of the unpacked bytes is wrong")
    return out.tobytes()


def _damaged(where: str, what: str) -> SimulstError:
    return SimulstError(f"{where}: damaged ({what}); delete the package and run again.")


@njit(cache=True)
def checksum(data: np.ndarray) -> int:
    """CRC-16 of bytes, shape (n,), uint8: polynomial x^16 + x^15 + x^2 + 1, reflected, from 0."""
    table = np.zeros(256, np.uint16)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0xA001 if crc & 1 else crc >> 1
        table[byte] = crc
    crc = 0
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc


@njit(cache=True)
def _bits(stream: np.ndarray, state: np.ndarray, n: int) -> int:
    """The next n bits as a number whose lowest bit came first; -1 if the stream ends before.

    state: the next byte of the stream, the bits left of the last word, how many they are.
    """
    value = 0
    for i in range(n):
        if state[2] == 0:
            if state[0] > stream.size:
                return -1
            state[1] = 0  # packers leave out what is missing here of the last word
            for k in range(min(2, stream.size - state[0])):
                state[1] |= np.int64(stream[state[0] + k]) << 8 * k
            state[2] = 16
            state[0] += 2
        value |= (state[1] & 1) << i
        state[1] >>= 1
        state[2] -= 1
    return value


@njit(cache=True)
def _table(stream: np.ndarray, state: np.ndarray, lengths: np.ndarray, codes: np.ndarray) -> int:
    """Read the lengths of a canonical code and number its codes; returns how many symbols there are, or -1."""
    n = _bits(stream, state, 5)
    for symbol in range(n):
        lengths[symbol] = _bits(stream, state, 4)
        if lengths[symbol] < 0:
            return -1
    code = 0
    for length in range(1, 16):
        for symbol in range(n):
            if lengths[symbol] == length:
                codes[symbol] = code
                code += 1
        code <<= 1
    return n


@njit(cache=True)
def _number(stream: np.ndarray, state: np.ndarray, n: int, lengths: np.ndarray, codes: np.ndarray) -> int:
    """A number by its code: symbols 0 and 1 are themselves, k > 1 is a 1 before k - 1 further bits; or a fault."""
    code = 0
    for length in range(1, 16):
        bit = _bits(stream, state, 1)
        if bit < 0:
            return -1
        code = code << 1 | bit  # the first bit of a code is its most significant
        for symbol in range(n):
            if lengths[symbol] == length and codes[symbol] == code:
                if symbol < 2:
                    return symbol
                rest = _bits(stream, state, symbol - 1)
                return -1 if rest < 0 else rest | 1 << (symbol - 1)
    return -2


@njit(cache=True)
def _unpack(stream: np.ndarray, out: np.ndarray, chunks: int) -> int:
    """Unpack a stream into `out`; returns the number of bytes, or a key of _FAULTS."""
    state = np.zeros(3, np.int64)
    size = 0
    if _bits(stream, state, 2) < 0:
        return -1
    for _ in range(chunks):
        lengths = np.zeros((3, 32), np.int64)
        codes = np.zeros((3, 32), np.int64)
        counts = np.zeros(3, np.int64)
        for t in range(3):
            counts[t] = _table(stream, state, lengths[t], codes[t])
            if counts[t] < 0:
                return -1
        runs = _bits(stream, state, 16)
        if runs < 0:
            return -1
        for run in range(runs):
            literals = _number(stream, state, counts[0], lengths[0], codes[0])
            if literals < 0:
                return literals
            if literals and state[0] + literals > stream.size:
                return -1
            if size + literals > out.size:
                return -3
            out[size : size + literals] = stream[state[0] : state[0] + literals]
            state[0] += literals
            size += literals
            if run == runs - 1:
                break
            distance = _number(stream, state, counts[1], lengths[1], codes[1])
            length = _number(stream, state, counts[2], lengths[2], codes[2])
            if distance < 0 or length < 0:
                return min(distance, length)
            distance, length = distance + 1, length + 2
            if distance > size:
                return -4
            if size + length > out.size:
                return -3
            for i in range(size, size + length):  # a match may overlap what it makes
                out[i] = out[i - distance]
            size += length
    return size
