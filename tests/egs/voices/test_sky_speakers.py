from __future__ import annotations

from pathlib import Path

import pytest
from games import HEADER, compacts, pack, say, script_file, write_archive

from simulst.errors import SimulstError
from sky_archive import SkyArchive
from sky_speakers import read_names, read_speakers

NAMES = {3: "foster", 4: "joey", 0x1002: "guard", 0x1007: "hologram_b"}


def test_names_of_objects(tmp_path: Path) -> None:
    path = tmp_path / "sky.cpt"
    path.write_bytes(compacts(NAMES))
    assert read_names(path) == NAMES
    with pytest.raises(SimulstError, match=r"none\.cpt: cannot be read"):
        read_names(tmp_path / "none.cpt")


KNOWN = [[13]] * 0x10A9
KNOWN[0x8E] = say(0, 48, 0x1002)


@pytest.mark.parametrize(
    ("scripts", "found"),
    [
        # Who is named says it.
        ([[1, *say(2, 4, 0x1005), 13], say(2, 0x1002, 0x1006)], {(1, 5): "joey", (1, 6): "guard"}),
        ([say(2, 0x1007, 0x1007)], {(1, 7): "anita"}),
        # Who runs the script or is talked to.
        ([[13], say(0, 48, 0x1001)], {(1, 1): "foster"}),
        ([[13]] * 2 + [[*say(0, 480, 0x1002), 13, *say(0, 480, 0x1003)]], {(1, 2): "talk1002", (1, 3): "talk1002"}),
        # Scripts whose speaker is known.
        ([*KNOWN, say(0, 480, 0x1001)], {(1, 2): "hobbins", (1, 1): "hobbins"}),
        ([[13]] * 0xA9 + [say(0, 480, 0x1001)], {(1, 1): "hobbins"}),
        # What the hero is offered.
        ([[2, 0, 2, 0x1009, 2, 14, 11, 2, 280]], {(1, 9): "foster"}),
        # What several say is left out, and other calls say nothing.
        ([say(2, 4, 0x1005), say(2, 3, 0x1005), say(2, 3, 0x1006)], {(1, 6): "foster"}),
        ([[2, 4, 2, 0x1005, 2, 1, 11, 3, 156], [2, 4, 2, 0x1005, 2, 1, 11, 1, 148], [13]], {}),
    ],
)
def test_speakers(tmp_path: Path, scripts: list[list[int]], found: dict[tuple[int, int], str]) -> None:
    write_archive(tmp_path, {60401: HEADER + pack(script_file(scripts))})
    assert read_speakers(SkyArchive(tmp_path), NAMES) == found
