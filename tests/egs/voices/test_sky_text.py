from __future__ import annotations

from pathlib import Path

import pytest
from games import HEADER, pack, section, write_archive
from hypothesis import given
from hypothesis import strategies as st

from simulst.errors import SimulstError
from sky_archive import SkyArchive
from sky_text import read_section, sections, text_file


@given(st.lists(st.text(alphabet="01", min_size=1, max_size=600).map(lambda bits: bits + "1"), max_size=80))
def test_bits_of_messages(messages: list[str]) -> None:
    found = read_section(section(messages), "x")
    assert [bits.rstrip("0") for bits in found] == [bits.rstrip("0") for bits in messages]
    assert all(
        len(bits) % 2 == 0 and len(bits) - len(wanted) < 16 for bits, wanted in zip(found, messages, strict=True)
    )


def test_the_block_of_32_messages_gives_the_place() -> None:
    """The place is counted again with each block, whatever the lengths before say."""
    data = bytearray(section(["0101"] * 40))
    lengths = data[0] | data[1] << 8
    data[lengths + 31] = 1  # one unit less: only this message is short
    found = read_section(bytes(data), "x")
    assert found[31] == "01" and found[32:] == ["0101"] * 8


def test_sections_of_a_language(tmp_path: Path) -> None:
    files = {text_file("sv", n): section(["1" * (2 * n + 2)]) for n in range(8)}
    files[text_file("sv", 3)] = HEADER + pack(files[text_file("sv", 3)])
    write_archive(tmp_path, files)
    assert list(sections(SkyArchive(tmp_path), "sv")) == [(n, ["1" * (2 * n + 2)]) for n in range(8)]
    with pytest.raises(SimulstError, match="has no file 60600"):
        list(sections(SkyArchive(tmp_path), "en"))
