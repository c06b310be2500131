"""Finished runs that nothing decoded: their configurations, logs and scores."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from simulst.config import parse_decoding
from simulst.log.instance import Instance

TEXT = "der die alte Mann Frau sieht hört heute morgen ein Haus Buch nicht und"
WORDS = TEXT.split()
SCORES = {"BLEU": 24.26, "BLEU_low": 22.04, "BLEU_high": 26.06, "chrF": 48.3, "chrF_low": 45.67, "chrF_high": 51}
SCORES |= {"AL": 1234.567, "LAAL": 1300.0, "AP": 0.7512, "DAL": 1500.4, "AL_CA": 2000.0, "RTF": 0.1234}
SCORES |= {"length_ratio": 1.016}


def configured(folder: Path, decoding: Mapping[str, Any], **more: Any) -> Path:
    """A new folder with the config.yaml of a decoding configuration. more: its other keys, such as the task."""
    parsed = parse_decoding(decoding, "test")
    folder.mkdir(parents=True)
    config = {"label": parsed.label, "strategy": parsed.strategy, "curve": list(parsed.curve), "decoding": parsed.raw}
    (folder / "config.yaml").write_text(yaml.safe_dump(config | more))
    return folder


def logged(folder: Path, log: Iterable[Instance]) -> Path:
    """The folder, with this log."""
    (folder / "instances.log").write_text("".join(one.to_json() + "\n" for one in log))
    return folder


def scored(folder: Path, decoding: Mapping[str, Any], scores: Mapping[str, Any]) -> Path:
    """A run that has scores and no log."""
    configured(folder, decoding)
    (folder / "scores.json").write_text(json.dumps(scores))
    return folder


def chunk(folder: Path, ms: float, n: int = 2, wait: float = 0.0, kind: str = "local_agreement", **scores: Any) -> Path:
    """Such a run in pieces of speech. scores: those that are not as in SCORES."""
    read = {"type": "chunk", "ms": ms, **({"initial_wait_ms": wait} if wait else {})}
    return scored(folder, {"read": read, "commit": {"type": kind, "n": n}}, SCORES | scores)


def offline(folder: Path, **scores: Any) -> Path:
    return scored(folder, {"read": {"type": "offline"}, "commit": {"type": "all"}}, SCORES | scores)


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
