"""Tables for `local/results.py write --table`: how many prefix pairs a filter leaves, and the boundary predictor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from simulst.files.folder import write_atomically
from simulst.options import option_names, read_json_fields
from simulst.prefix.pairs import COUNTS
from simulst.prefix.training import SCORES

TRAIN = "run the recipe's stage train first"


def write_tables(pairs: Sequence[Path], predictor: Path, out: Path) -> None:
    """Write both tables as JSON. pairs: folders of pairs, one for each filter. predictor: the folder with its scores.

    Raises SimulstError: a file is missing or broken; the tables can't be written.
    """
    files = {folder.name: folder / "train" / COUNTS for folder in pairs}
    counts = {name: read_json_fields(PairCounts, file, TRAIN) for name, file in files.items()}
    scores = read_json_fields(PredictorScores, predictor / SCORES, TRAIN)
    tables = [*([pairs_table(counts)] if counts else []), predictor_table(scores)]
    write_atomically(out, json.dumps(tables, ensure_ascii=False, indent=1) + "\n")


@dataclass(frozen=True)
class PairCounts:
    """How many prefix pairs there were, and what became of them (`simulst.prefix.pairs.write_pairs`)."""

    pairs: Annotated[int, Field(ge=1)]
    kept: int
    filtered: int = 0


@dataclass(frozen=True)
class Measures:
    """How well boundaries are found."""

    accuracy: float | None
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True)
class PredictorScores:
    """A boundary predictor's, of each output and of each piece by threshold (`simulst.prefix.training`)."""

    frames: Measures
    pieces: dict[str, Measures]


def pairs_table(counts: Mapping[str, PairCounts]) -> dict[str, Any]:
    """How many prefix pairs each maxratio leaves (NAIST at IWSLT 2022, Table 4). counts: by the filter's name."""
    rows = [(name, one.kept, one.filtered, round(100 * one.filtered / one.pairs)) for name, one in counts.items()]
    return {"head": ["Filter", "Pairs", "Left out", "%"], "rows": rows}


def predictor_table(scores: PredictorScores) -> dict[str, Any]:
    """A boundary predictor on held-out prefixes (NAIST at IWSLT 2022, Table 3), of each output and of each piece."""
    names = option_names(Measures)
    named = {"outputs, λ 0.5": scores.frames} | {f"pieces, λ {name}": row for name, row in scores.pieces.items()}
    rows = [(name, *(getattr(row, key) for key in names)) for name, row in named.items()]
    return {"head": ["Boundaries", *(name.capitalize() for name in names)], "rows": rows}
