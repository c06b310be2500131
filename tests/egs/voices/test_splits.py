from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from lines import Line, bare
from splits import ALIKE, DEV, LONGEST_SCENE, OTHER, TRAIN, TST, Alike, scenes, split

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "lmnrst"]


def line(number: int, text: str = "", speaker: str = "x", section: str = "1", spanish: str = "") -> Line:
    speech = {"en": b""} | ({"es": b""} if spanish else {})
    name = f"g-{section}-{number:04}"
    return Line(name, "g", section, number, speaker, {"en": text or name, "es": spanish}, speech)


def corpus(n: int = 1500, seed: int = 0) -> list[Line]:
    chance = random.Random(seed)
    lines: list[Line] = []
    number = 0
    for _ in range(n):
        number += 1 if chance.random() < 0.9 else 5
        text = " ".join(chance.choices(WORDS, k=chance.randint(1, 6)))
        if lines and chance.random() < 0.1:
            text = chance.choice(lines).texts["en"]  # said again elsewhere
        lines.append(line(number, text, speaker=chance.choice("aaabbc")))
    return lines


def names(lines: list[Line]) -> set[str]:
    return {each.name for each in lines}


def jaccard(a: str, b: str) -> float:
    """Of trigrams, by sets."""
    sets = [{f"  {text} "[i : i + 3] for i in range(len(text) + 1)} for text in map(bare, (a, b))]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_scenes_are_runs_of_numbers() -> None:
    numbers = [1, 2, 4, 7, 8]
    found = scenes([line(n) for n in reversed(numbers)] + [line(9, section="2")])
    assert [[each.number for each in scene] for scene in found] == [[1, 2, 4], [7, 8], [9]]


def test_long_scenes_are_cut_but_not_within_a_sentence() -> None:
    lines = [line(n, "..." if n == LONGEST_SCENE else "Yes.") for n in range(2 * LONGEST_SCENE)]
    assert [len(scene) for scene in scenes(lines)] == [LONGEST_SCENE + 1, LONGEST_SCENE - 1]


@pytest.mark.parametrize("seed", range(3))
def test_no_line_or_near_duplicate_is_in_two_splits(seed: int) -> None:
    lines = corpus(600, seed)
    testable = {each.name for each in lines if each.number % 7}
    chosen, left_out = split(lines, names(lines), testable, {"g": {DEV: 40, TST: 80}}, ["c"])
    assert Counter(chosen.values())[TST] == 80 and Counter(chosen.values())[DEV] == 40
    assert chosen.keys() | left_out.keys() == {each.name for each in lines} and not chosen.keys() & left_out.keys()
    texts: dict[str, set[str]] = {}
    for each in lines:
        if each.name in chosen:
            texts.setdefault(chosen[each.name], set()).add(each.texts["en"])
            assert (chosen[each.name] == OTHER) == (each.speaker == "c")
            assert chosen[each.name] == TRAIN or each.name in testable
    for a, b in combinations(texts, 2):
        assert all(jaccard(x, y) < ALIKE for x in texts[a] for y in texts[b])


def test_scenes_stay_together() -> None:
    lines = corpus(600)
    chosen, _ = split(lines, names(lines), names(lines), {"g": {DEV: 40, TST: 80}}, [])
    together = [{chosen[each.name] for each in scene if each.name in chosen} for scene in scenes(lines)]
    assert sum(len(splits) > 1 for splits in together) == 0


def test_lines_that_are_of_no_use_change_little() -> None:
    """As where Whisper hears something else on another machine."""
    lines = corpus(900)
    sizes = {DEV: 40, TST: 80}
    whole, _ = split(lines, names(lines), names(lines), {"g": sizes}, [])
    usable = {each.name for each in lines if each.number % 50}
    part, left_out = split(lines, usable, usable, {"g": sizes}, [])
    assert part.keys() | left_out.keys() == usable
    for name, size in sizes.items():
        assert sum(part.get(line) == name for line in whole if whole[line] == name) >= 0.9 * size


def test_a_line_of_another_game_is_no_exception() -> None:
    lines = corpus(300)
    other = [replace(each, name=f"h{each.name}", game="h") for each in lines]
    sizes = {DEV: 20, TST: 30}
    chosen, _ = split([*lines, *other], names(lines) | names(other), names(lines), {"g": sizes, "h": sizes}, [])
    tested = {each.texts["en"] for each in lines if chosen.get(each.name) in (DEV, TST)}
    assert len(tested) > 40
    assert not any(each.texts["en"] in tested for each in other if chosen.get(each.name) == TRAIN)


def test_too_few_lines() -> None:
    lines = [line(n, WORDS[n]) for n in range(10)]
    chosen, _ = split(lines, names(lines), names(lines), {"g": {DEV: 5, TST: 8}}, [])
    assert Counter(chosen.values()) == {TST: 8}


def test_alike() -> None:
    alike = Alike()
    alike.add(line(1, "Where is the key?", spanish="¿Donde esta la llave?"))
    assert alike.find(line(2, "WHERE is the key!")) == "g-1-0001"
    assert alike.find(line(2, "Where was the key?")) == "g-1-0001"
    assert alike.find(line(2, "Where is he?")) is None
    assert alike.find(line(2, "Nothing like it", spanish="donde esta la llave")) == "g-1-0001"
    assert alike.find(line(2, "donde esta la llave")) is None  # of the other language
    assert alike.find(line(2, "...")) is None
