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


def test_no_such_file(folder: Path) -> None:
    with pytest.raises(SimulstError, match=r"sky\.dnr: has no file 8; it is of another version"):
        SkyArchive(folder).unpacked(8)


def test_an_entry_outside_the_data(folder: Path) -> None:
    data = folder / "sky.dsk"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(SimulstError, match=r"sky\.dsk: has \d+ bytes, but file 60600 ends at byte"):
        SkyArchive(folder)


@pytest.mark.parametrize("keep", [0, 3, 4, 20])
def test_a_truncated_index(folder: Path, keep: int) -> None:
    index = folder / "sky.dnr"
    index.write_bytes(index.read_bytes()[:keep])
    with pytest.raises(SimulstError, match=rf"sky\.dnr: {keep} bytes cannot be the index"):
        SkyArchive(folder)


@pytest.mark.parametrize("name", ["sky.dnr", "sky.dsk"])
def test_a_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(SimulstError, match=rf"{name}: cannot be read \(No such file"):
        SkyArchive(folder)


def test_a_damaged_file(folder: Path) -> None:
    data = folder / "sky.dsk"
    content = bytearray(data.read_bytes())
    content[content.index(b"RNC") + 40] ^= 1
    data.write_bytes(content)
    with pytest.raises(SimulstError, match=r"sky\.dsk, file 50000: damaged"):
        SkyArchive(folder).unpacked(50000)
