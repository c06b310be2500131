"""Who says a line in Beneath a Steel Sky, as far as the game's scripts tell it.

A script is a list of 16-bit words. A call to say a line pushes who, which text, and an animation, and calls a function:

    0 variable, or 2 number: who | 2 number of the text | 2 number | 11 3 (or 2) function

"who" is a compact (an object of the game, with a name in `sky.cpt`): certain. Or it is the variable of the object that
runs the script: nearly always the hero, Foster; the exceptions are in RUN_BY. Or it is the variable of the one he talks
to: then the script holds the answers of one character, who is called by the script's number, or by its name in TALK.
What the hero is offered to say calls ASK. RUN_BY and TALK were found by reading and by comparing voices (speaker
embeddings, Resemblyzer's, of lines of 1.2 s and more; their averages over the hero's two kinds of calls have a cosine
of 0.99).

sky.cpt, little-endian: u16 version | u16 number of lists | u16 for each: its length | u32 | u32 | for each place in the
lists: u16 number of words; if not 0: u16 kind, the words | u32 | names of all that have words, each with a zero byte.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

import numpy as np

from simulst.errors import SimulstError
from sky_archive import SkyArchive
from sky_text import SECTIONS

FIRST_SCRIPTS = 60400  # the number of the first section's file
VARIABLE, NUMBER, CALL = 0, 2, 11  # opcodes
SAY = tuple(4 * function for function in (35, 36, 37, 38))
ASK = 4 * 70
RUNNER, PARTNER = 48, 480  # variables: who runs the script, whom the hero talks to
HERO = "foster"
UNKNOWN = "unknown"

TALK = {
    **dict.fromkeys((0x2106, 0x005D, 0x209A), "lamb"),
    **dict.fromkeys((0x4001, 0x4003), "danielle"),
    **dict.fromkeys((0x10AB, 0x313B, 0x210F), "joey"),
    0x10A9: "hobbins",
    0x2105: "anita",
    0x5003: "ken",
}
"""Script that holds a character's answers → the character, where several scripts or names have the same one."""

RUN_BY = {
    **dict.fromkeys((0x4012, 0x4018, 0x401C), "danielle"),
    **dict.fromkeys((0x30B8, 0x30BD, 0x206C), "joey"),
    **dict.fromkeys((0x5133, 0x5178), "ken"),
    **dict.fromkeys((0x1011, 0x1074, 0x100C, 0x1010, 0x2055, 0x20BC, 0x40C9, 0x5129, 0x5131), UNKNOWN),
    0x108E: "hobbins",
    0x207A: "lamb",
}
"""Script → the character who runs it, where that is not the hero."""

SAME = {"hologram_b": "anita", "joey_park": "joey"}
"""Compact → the character."""


def read_names(path: Path) -> dict[int, str]:
    """The names of the game's objects: list number · 4096 + place → name. Raises SimulstError: missing or damaged."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); delete the package and run again.") from error
    words = np.frombuffer(data[: len(data) // 2 * 2], "<u2")
    try:
        lists = int(words[1])
        at = 2 + lists + 4
        ids = []
        for number, length in enumerate(words[2 : 2 + lists]):
            for place in range(length):
                if size := int(words[at]):
                    ids.append(number << 12 | place)
                    at += 1 + size
                at += 1
    except IndexError:
        raise SimulstError(f"{path}: damaged or of another version; delete the package and run again.") from None
    names = data[2 * at + 4 :].split(b"\0")
    if len(names) <= len(ids) or not ids:  # the last one ends with a zero byte, too
        raise SimulstError(f"{path}: {len(names) - 1} names for {len(ids)} objects; damaged or of another version.")
    return {i: name.decode("ascii", "replace") for i, name in zip(ids, names, strict=False)}


def read_speakers(archive: SkyArchive, names: dict[int, str]) -> dict[tuple[int, int], str]:
    """Section and number of a text → who says it; texts that no script or several characters say are left out.

    Raises SimulstError: scripts that can't be unpacked.
    """
    said_by: dict[int, set[str]] = defaultdict(set)
    for section in range(SECTIONS):
        if FIRST_SCRIPTS + section not in archive:
            continue
        data = archive.unpacked(FIRST_SCRIPTS + section)
        words = [int(word) for word in np.frombuffer(data[: len(data) // 2 * 2], "<u2")]
        places = _places(words)
        starts = sorted(places)
        for at in range(2, len(words) - 6):
            who, text, function = words[at - 2 : at], words[at + 1], words[at + 6]
            if words[at] != NUMBER or words[at + 4] != CALL:
                continue
            script = section << 12 | places[starts[max(0, bisect_right(starts, at) - 1)]] if starts else 0
            if function == ASK and words[at + 5] == 2:
                said_by[text].add(HERO)
            elif function in SAY and words[at + 5] == 3 and words[at + 2] == NUMBER:
                said_by[text].add(_speaker(who, script, names))
    return {(text >> 12, text & 0xFFF): next(iter(found)) for text, found in said_by.items() if len(found) == 1}


def _places(words: list[int]) -> dict[int, int]:
    """Where each script begins → its number. The file begins with the places of its scripts, 0 for none."""
    places: dict[int, int] = {}
    first = len(words)
    for number, place in enumerate(words):
        if number >= first:
            break
        if place:
            first = min(first, place)
            places.setdefault(place, number)
    return places


def _speaker(who: list[int], script: int, names: dict[int, str]) -> str:
    kind, value = who
    if kind == NUMBER and value in names:
        return SAME.get(names[value], names[value])
    if (kind, value) == (VARIABLE, RUNNER):
        return RUN_BY.get(script, HERO)
    if (kind, value) == (VARIABLE, PARTNER):
        return TALK.get(script, f"talk{script:04x}")
    return UNKNOWN
