"""Lines joined to recordings with pauses, as long-form material: a conversation, or one after the other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.recordings import grouped, write_recording
from lines import Line, samples
from simulst.audio.units import SAMPLE_RATE
from splits import scenes

USUAL = 600.0  # seconds of a recording
SHORTEST = 300.0
PAUSE = (0.25, 0.9)  # seconds between the lines of a scene
BREAK = (1.2, 2.5)  # between scenes, at both ends
DECIMALS = 3


@dataclass(frozen=True)
class Placed:
    """Where a line lies in a recording: seconds."""

    line: Line
    offset: float
    duration: float


@dataclass(frozen=True)
class Recording:
    """Lines in the order in which they are heard. seconds: of the whole."""

    name: str
    language: str
    lines: tuple[Placed, ...]
    seconds: float


def plan(lines: Sequence[Line], language: str, name: str) -> list[Recording]:
    """The recordings of lines, in the order of their numbers: about ten minutes each, ending with a scene.

    Pauses are drawn at random, the same for the same lines. name: of the recordings, to which a number is added.
    """
    order = scenes(lines)
    lengths = [sum(line.seconds(language) + sum(PAUSE) / 2 for line in scene) + sum(BREAK) / 2 for scene in order]
    groups = grouped(order, lengths, USUAL, SHORTEST)
    return [_recording(group, language, f"{name}-{n:02}") for n, group in enumerate(groups, start=1)]


def _recording(order: Sequence[Sequence[Line]], language: str, name: str) -> Recording:
    chance = random.Random(name)
    placed = []
    at = _rounded(chance.uniform(*BREAK))
    for scene in order:
        for line in scene:
            duration = len(samples(line.speech[language])) / SAMPLE_RATE
            placed.append(Placed(line, at, duration))
            at = _rounded(at + duration + chance.uniform(*(BREAK if line is scene[-1] else PAUSE)))
    return Recording(name, language, tuple(placed), at)


def write(recording: Recording, path: Path) -> None:
    """Write it as WAV, 16 kHz, 16 bits. Between the lines is silence, as there is in them."""
    placed = ((round(p.offset * SAMPLE_RATE), samples(p.line.speech[recording.language])) for p in recording.lines)
    write_recording(path, round(recording.seconds * SAMPLE_RATE), placed)


def _rounded(seconds: float) -> float:
    return round(seconds, DECIMALS)
