"""Tiny files in the games' formats."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import rnc
from drascula import LANGUAGES as DRASCULA_LANGUAGES
from drascula import TABLES, TEXTS_AT
from name_code import sky_code
from prefix_code import END
from sky_text import BLOCK, LANGUAGES, text_file

HEADER = bytes(22)


class _Stream:
    """The other way round than `rnc._bits`: a word's place is taken when its first bit is written."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._place, self._bits = 0, 16

    def put(self, value: int, bits: int) -> None:
        for i in range(bits):
            if self._bits == 16:
                self._place, self._bits = len(self.data), 0
                self.data += b"\0\0"
            self.data[self._place + self._bits // 8] |= (value >> i & 1) << self._bits % 8
            self._bits += 1

    def number(self, value: int) -> None:
        """With a code whose 16 words have 4 bits each, the first bit the most significant one."""
        symbol = value.bit_length() if value > 1 else value
        self.put(int(f"{symbol:04b}"[::-1], 2), 4)
        if symbol > 1:
            self.put(value - (1 << symbol - 1), symbol - 1)


def pack(data: bytes, chunks: int = 1, matches: bool = True) -> bytes:
    """An RNC block. matches: repetitions become matches, which takes a while."""
    runs: list[tuple[bytes, int, int]] = []
    at = first = 0
    while at < len(data) and matches:
        for distance in range(1, min(at, 200) + 1):
            length = 0
            while at + length < len(data) and length < 300 and data[at + length] == data[at + length - distance]:
                length += 1
            if length >= 4:
                runs.append((data[first:at], distance, length))
                at = first = at + length
                break
        else:
            at += 1
    runs.append((data[first:], 0, 0))
    stream = _Stream()
    stream.put(0, 2)
    size = -(-len(runs) // chunks)
    parts = [runs[n : n + size] for n in range(0, len(runs), size)]
    for part in parts:
        # Each chunk ends with a run without a match; one that has one is followed by an empty run.
        part = part if not part[-1][2] else [*part, (b"", 0, 0)]
        for _ in range(3):
            stream.put(16, 5)
            for _ in range(16):
                stream.put(4, 4)
        stream.put(len(part), 16)
        for literals, distance, length in part:
            stream.number(len(literals))
            stream.data += literals
            if length:
                stream.number(distance - 1)
                stream.number(length - 2)
    packed = bytes(stream.data)
    sums = [rnc.checksum(np.frombuffer(part, np.uint8)) for part in (data, packed)]
    return rnc.HEADER.pack(rnc.MAGIC, len(data), len(packed), *sums, 0, len(parts)) + packed


def write_archive(folder: Path, files: Mapping[int, bytes]) -> None:
    """sky.dnr and sky.dsk. Every other file begins at a multiple of 16 and says so in units of 16."""
    folder.mkdir(parents=True, exist_ok=True)
    index, data = b"", b""
    for n, (number, content) in enumerate(files.items()):
        if n % 2:
            data += bytes(-len(data) % 16)
        place = len(data) >> 4 | 1 << 23 if n % 2 else len(data)
        index += struct.pack("<H", number) + place.to_bytes(3, "little") + len(content).to_bytes(3, "little")
        data += content
    (folder / "sky.dnr").write_bytes(struct.pack("<I", len(files)) + index)
    (folder / "sky.dsk").write_bytes(data)


def encode(text: str, words: Mapping[str, str] | None = None) -> str:
    """The bits of a message with its end."""
    codes = {symbol: word for word, symbol in (words or sky_code().words).items()}
    return "".join(codes[c] for c in (*text, END))


def section(messages: Sequence[str]) -> bytes:
    """A section of texts; messages: bits, which get the zeros that fill up their last unit."""
    lengths, stream, blocks = b"", "", []
    for n, bits in enumerate(messages):
        unit = 2 if len(bits) < 256 else 16
        bits += "0" * (-len(bits) % unit)
        lengths += bytes([len(bits) // 2 if unit == 2 else 0x80 | len(bits) // 16])
        stream += bits
        if n % BLOCK == 0:
            blocks.append(0)
        blocks[-1] += len(bits) // 2
    stream += "0" * (-len(stream) % 8)
    head = 4 + 2 * len(blocks)
    return (
        struct.pack(f"<{2 + len(blocks)}H", head, head + len(lengths), *blocks)
        + lengths
        + bytes(int(stream[i : i + 8], 2) for i in range(0, len(stream), 8))
    )


def compacts(names: Mapping[int, str]) -> bytes:
    """sky.cpt: the named objects, by list number · 4096 + place."""
    lists = [
        1 + max((i & 0xFFF for i in names if i >> 12 == number), default=0)
        for number in range(1 + max(i >> 12 for i in names))
    ]
    words = [0, len(lists), *lists, 0, 0, 0, 0]
    order = []
    for number, length in enumerate(lists):
        for place in range(length):
            i = number << 12 | place
            words += [2, 1, 7, 7] if i in names else [0]
            order += [names[i]] if i in names else []
    return struct.pack(f"<{len(words)}H", *words) + bytes(4) + b"".join(name.encode() + b"\0" for name in order)


def script_file(scripts: Sequence[Sequence[int]]) -> bytes:
    """A file of scripts: the places of each, then their words."""
    places, words = [], []
    for script in scripts:
        places.append(len(scripts) + len(words))
        words += list(script)
    return struct.pack(f"<{len(places) + len(words)}H", *places, *words)


def say(kind: int, who: int, text: int) -> list[int]:
    """The words of a call to say a line."""
    return [kind, who, 2, text, 2, 1, 11, 3, 148]


def speech(seconds: float, seed: int) -> bytes:
    """Samples as the games have them: noise."""
    noise = np.random.default_rng(seed).normal(128, 20, round(seconds * 11025))
    return noise.clip(0, 255).astype(np.uint8).tobytes()


def write_sky(folder: Path, lines: Sequence[Mapping[str, str]], scripts: Mapping[int, bytes] | None = None) -> None:
    """The game with these lines of the first section, all in speech of a second and more."""
    files = {50000 + n: HEADER + pack(speech(1 + n % 7 / 10, n), matches=False) for n in range(len(lines))}
    files[59500] = HEADER + pack(speech(1, 99), matches=False)  # of the introduction, without text
    files[59501] = b"\1\2\3"
    for language in LANGUAGES:
        for number in range(8):
            texts = [line.get(language, line["en"]) for line in lines] if number == 0 else []
            files[text_file(language, number)] = section([encode(text) for text in texts])
    files |= scripts or {60400: HEADER + pack(script_file([say(2, 3, 0)]))}
    write_archive(folder, files)
    (folder / "sky.cpt").write_bytes(compacts({3: "foster", 4: "joey"}))


def drascula_texts(tables: Mapping[str, Sequence[Mapping[str, str]]]) -> bytes:
    """drascula.dat; tables: prefix → entries."""
    data = b"DRASCULA".ljust(TEXTS_AT, b"\6") + struct.pack(">H", len(DRASCULA_LANGUAGES))
    for prefix in TABLES:
        entries = tables.get(prefix, ())
        data += struct.pack(">H", len(entries))
        for language in DRASCULA_LANGUAGES:
            block = b"\0\0"
            for entry in entries:
                text = entry.get(language, "").encode("cp1251" if language == "ru" else "cp850")
                text += bytes(4 - (len(text) + 2) % 4)
                block += struct.pack(">H", len(text) + 2) + text
            data += struct.pack(">H", len(block)) + block
    return data
