"""Finished runs that nothing decoded."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import yaml

TEXT = "der die alte Mann Frau sieht hört heute morgen ein Haus Buch nicht und"
WORDS = TEXT.split()


def references(sentences: int = 40, seed: int = 0) -> list[str]:
    random_ = random.Random(seed)
    return [" ".join(random_.choices(WORDS, k=random_.randint(5, 12))) for _ in range(sentences)]


def write_run(
    folder: Path,
    label: str,
    texts: Sequence[str],
    wrong: float = 0.2,
    lag: float = 1000.0,
    rtf: float = 0.1,
    seed: int = 0,
    weights: str = "",
    language: str = "de",
    **instance: object,
) -> Path:
    """A run whose words are wrong with probability `wrong` and come `lag` ms after their share of the speech.

    instance: fields of each log entry that replace the usual ones.
    """
    random_ = random.Random(f"{label} {seed}")
    place = folder / label
    place.mkdir(parents=True)
    rows = []
    for index, reference in enumerate(texts):
        words = [random_.choice(WORDS) if random_.random() < wrong else word for word in reference.split()]
        length = 400.0 * len(words)
        delays = [min(length, lag + 400.0 * number + random_.uniform(-50, 50)) for number in range(len(words))]
        row = {"index": index, "prediction": " ".join(words), "delays": delays, "elapsed": delays}
        row |= {"prediction_length": len(words), "reference": reference, "source": [f"{index}.wav"]}
        rows.append(json.dumps(row | {"source_length": length, "compute_ms": rtf * length} | instance))
    (place / "instances.log").write_text("\n".join(rows) + "\n")
    (place / "scores.json").write_text("{}")
    config = {"label": label, "strategy": label, "decoding": {"read": {"type": "chunk"}}, "weights": weights}
    (place / "config.yaml").write_text(yaml.safe_dump({**config, "task": {"target_language": language, "unit": ""}}))
    return place
