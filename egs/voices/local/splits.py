"""Split lines by scene: no line, and no similar line, is in two splits.

A scene is a run of lines with consecutive numbers, such as a conversation; long scenes are cut. Whole scenes go to the
splits in the order of a hash of their names, so most scenes stay in their split when other lines change.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from lines import Line, bare

TRAIN, DEV, TST, OTHER = "train", "dev", "tst", "tst-other"
SPLITS = (TRAIN, DEV, TST, OTHER)
GAP = 2  # the greatest difference of the numbers of neighbours in a scene
LONGEST_SCENE = 30  # lines
ALIKE = 0.6  # Jaccard index of two texts' trigrams from which on they are near-duplicates


def scenes(lines: Iterable[Line]) -> list[list[Line]]:
    """Runs of lines, in the order of their numbers."""
    found: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: line.name):
        last = found[-1][-1] if found else None
        follows = last is not None and (last.game, last.section) == (line.game, line.section)
        if last is not None and follows and line.number - last.number <= GAP:
            # A sentence that goes on stays in its scene.
            goes_on = line.texts.get("en", "").startswith("...")
            if len(found[-1]) < LONGEST_SCENE or goes_on:
                found[-1].append(line)
                continue
        found.append([line])
    return found


def split(
    lines: Sequence[Line],
    usable: Collection[str],
    testable: Collection[str],
    sizes: Mapping[str, Mapping[str, int]],
    others: Collection[str],
) -> tuple[dict[str, str], dict[str, str]]:
    """Assign lines to splits. Lines in a scene of a test that cannot be tested, and lines like a test line, get none.

    lines: all lines of the games, so that scenes do not depend on which lines are usable.
    usable: names of the usable lines.
    testable: names of the usable lines that can be in dev and tst.
    sizes: game → split → number of lines, for dev and tst.
    others: speakers whose lines all go to tst-other.

    Returns: line → split; and usable line without a split → reason.
    """
    chosen: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for line in lines:
        if line.speaker in others and line.name in usable:
            if line.name in testable:
                chosen[line.name] = OTHER
            else:
                left_out[line.name] = f"by a speaker of {OTHER}"
    alike = Alike()
    for line in lines:
        if line.name in chosen:
            alike.add(line)
    orders = {}
    for game in sizes:
        rest = [line for line in lines if line.game == game and line.speaker not in others]
        orders[game] = sorted(scenes(rest), key=lambda scene: hashlib.sha256(scene[0].name.encode()).digest())
    for name in (TST, DEV):
        for game, order in orders.items():
            left = _fill(order, name, sizes[game][name], usable, testable, alike, chosen, left_out)
            orders[game] = left[::-1]  # dev from the other end, so that they do not push each other
    for line in (line for order in orders.values() for scene in order for line in scene if line.name in usable):
        if other := alike.find(line):
            left_out[line.name] = f"like {other} of {chosen[other]}"
        else:
            chosen[line.name] = TRAIN
    return chosen, left_out


def _fill(
    order: Sequence[list[Line]],
    name: str,
    size: int,
    usable: Collection[str],
    testable: Collection[str],
    alike: Alike,
    chosen: dict[str, str],
    left_out: dict[str, str],
) -> list[list[Line]]:
    """Give the first scenes to a split until it has its size; returns those that are left.

    The end of the last one is left out. So a line that is of use here and not there (Whisper's results differ a little
    between machines) changes the split by one line.
    """
    likes = {line.name: alike.find(line) for scene in order for line in scene}

    def fit(scene: Sequence[Line]) -> list[Line]:
        return [line for line in scene if line.name in testable and not likes[line.name]]

    room = size
    number = 0
    while number < len(order) and room > 0:
        room -= len(fit(order[number]))
        number += 1
    taken, left = order[:number], order[number:]
    lines = [line for scene in taken for line in fit(scene)][:size]
    chosen.update((line.name, name) for line in lines)
    for line in (line for scene in taken for line in scene if line.name in usable and line.name not in chosen):
        like = likes[line.name]
        left_out[line.name] = f"like {like} of {chosen[like]}" if like else f"in a scene of {name}"
    for line in lines:
        alike.add(line)
    return list(left)


class Alike:
    """Finds lines similar to an added line: in English, or in Spanish if both lines are spoken in Spanish."""

    def __init__(self) -> None:
        self._with: dict[str, list[int]] = defaultdict(list)  # trigram → texts that have it
        self._texts: list[tuple[str, int]] = []  # the line's name and its number of trigrams

    def add(self, line: Line) -> None:
        """Add a line."""
        for grams in _keys(line):
            for gram in grams:
                self._with[gram].append(len(self._texts))
            self._texts.append((line.name, len(grams)))

    def find(self, line: Line) -> str | None:
        """The name of an added line that is similar to this one; None if there is none."""
        for grams in _keys(line):
            shared = Counter(text for gram in grams for text in self._with.get(gram, ()))
            for text, n in shared.most_common():
                name, size = self._texts[text]
                if n / (size + len(grams) - n) >= ALIKE:
                    return name
        return None


def _keys(line: Line) -> list[frozenset[str]]:
    """The trigrams of the texts that are compared, each with its language."""
    keys = []
    for language in sorted({"en", *line.speech}):
        if text := bare(line.texts.get(language, "")):
            padded = f"  {text} "
            keys.append(frozenset(language + "".join(gram) for gram in _trigrams(padded)))
    return keys


def _trigrams(text: str) -> Iterable[str]:
    return (a + b[1] for a, b in pairwise(map("".join, pairwise(text))))
