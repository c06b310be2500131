from __future__ import annotations

from pathlib import Path

import pytest
from games import HEADER, pack, write_archive

from simulst.errors import SimulstError
from sky_archive import SkyArchive

FILES = {1: b"plain", 50000: HEADER + pack(b"ab" * 50), 7: HEADER + b"no block", 60600: HEADER + pack(b"xyz")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_archive(tmp_path, FILES)
    return tmp_path


def test_files_by_number(folder: Path) -> None:
    archive = SkyArchive(folder)
    assert 7 in archive and 8 not in archive
    assert list(archive.numbers(2, 60600)) == [7, 50000]
    assert archive.unpacked(1) == b"plain"
    assert archive.unpacked(50000) == b"ab" * 50
    assert archive.unpacked(7) == HEADER + b"no block"
    assert archive.unpacked(60600) == b"xyz"
    assert [archive.is_packed(number) for number in (1, 50000)] == [False, True]


def test_a_damaged_file(folder: Path) -> None:
    data = folder / "sky.dsk"
    content = bytearray(data.read_bytes())
    content[content.index(b"RNC") + 40] ^= 1
    data.write_bytes(content)
    with pytest.raises(SimulstError, match=r"sky\.dsk, file 50000: damaged"):
        SkyArchive(folder).unpacked(50000)
