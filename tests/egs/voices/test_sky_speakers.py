from __future__ import annotations

from pathlib import Path

import pytest
from games import HEADER, compacts, pack, say, script_file, write_archive

from simulst.errors import SimulstError
from sky_archive import SkyArchive
from sky_speakers import read_names, read_speakers

NAMES = {3: "foster", 4: "joey", 0x1002: "guard", 0x1007: "hologram_b"}


def speakers(folder: Path, *scripts: list[int]) -> dict[tuple[int, int], str]:
    write_archive(folder, {60401: HEADER + pack(script_file(scripts))})
    return read_speakers(SkyArchive(folder), NAMES)


def test_names_of_objects(tmp_path: Path) -> None:
    path = tmp_path / "sky.cpt"
    path.write_bytes(compacts(NAMES))
    assert read_names(path) == NAMES
    with pytest.raises(SimulstError, match=r"none\.cpt: cannot be read"):
        read_names(tmp_path / "none.cpt")


def test_who_is_named_says_it(tmp_path: Path) -> None:
    found = speakers(tmp_path, [1, *say(2, 4, 0x1005), 13], say(2, 0x1002, 0x1006), say(2, 0x1007, 0x1007))
    assert found == {(1, 5): "joey", (1, 6): "guard", (1, 7): "anita"}


def test_who_runs_the_script_or_is_talked_to(tmp_path: Path) -> None:
    scripts = [[13], say(0, 48, 0x1001), [*say(0, 480, 0x1002), 13, *say(0, 480, 0x1003)]]
    assert speakers(tmp_path, *scripts) == {(1, 1): "foster", (1, 2): "talk1002", (1, 3): "talk1002"}


def test_scripts_whose_speaker_is_known(tmp_path: Path) -> None:
    scripts = [[13]] * 0x10A9
    scripts = [*scripts, say(0, 480, 0x1001)]
    scripts[0x8E] = say(0, 48, 0x1002)
    assert speakers(tmp_path, *scripts)[1, 2] == "hobbins"
    assert speakers(tmp_path, *[[13]] * 0xA9, say(0, 480, 0x1001)) == {(1, 1): "hobbins"}


def test_what_the_hero_is_offered(tmp_path: Path) -> None:
    assert speakers(tmp_path, [2, 0, 2, 0x1009, 2, 14, 11, 2, 280]) == {(1, 9): "foster"}


def test_what_several_say_is_left_out(tmp_path: Path) -> None:
    assert speakers(tmp_path, say(2, 4, 0x1005), say(2, 3, 0x1005), say(2, 3, 0x1006)) == {(1, 6): "foster"}


def test_other_calls_say_nothing(tmp_path: Path) -> None:
    assert speakers(tmp_path, [2, 4, 2, 0x1005, 2, 1, 11, 3, 156], [2, 4, 2, 0x1005, 2, 1, 11, 1, 148], [13]) == {}
