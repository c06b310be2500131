"""Figures that others have published, in conf/published/: further curves beside one's own runs.

data: MCIF, the development set of IWSLT 2026        what was translated
systems:
  - system: organisers' baseline                     its name on the curve
    about: Qwen3-ASR-1.7B, …                         what it is
    source: owaski/iwslt-2026-baselines              where the figures stand
    points:                                          value: what changes along the curve; scores as in scores.json
      - {value: 640, BLEU: 22.4, COMET: 0.748, LongYAAL: 1810, LongYAAL_CA: 2138}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from published.section import Published
from simulst.errors import SimulstError
from simulst.files.yaml import read_yaml
from simulst.measure.metric import KNOWN
from simulst.options import read_fields

REMEDY = "give a file as those in conf/published"


@dataclass(frozen=True)
class _System:
    system: str
    about: str
    source: str
    points: tuple[dict[str, float], ...]


@dataclass(frozen=True)
class _File:
    data: str
    systems: tuple[_System, ...]


def read_published(path: Path) -> list[Published]:
    """The points of a file. Raises SimulstError: it is missing or broken, or has a score that nobody knows."""
    file = read_fields(_File, read_yaml(path, "file of published figures"), str(path), REMEDY)
    found = []
    for one in file.systems:
        for point in one.points:
            scores = {key: figure for key, figure in point.items() if key != "value"}
            if unknown := next((key for key in scores if key not in KNOWN), None):
                raise SimulstError(f"{path}: '{unknown}' is no score; choose from {', '.join(KNOWN)}.")
            value = point.get("value")
            name = one.system if value is None else f"{one.system}, {value:g}"
            line = f"{one.system} (published)"
            found.append(Published(name, line, value, "", scores, one.about, one.source, file.data))
    return found
