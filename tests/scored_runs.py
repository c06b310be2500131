"""Runs that have scores and no log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from simulst.config import parse_decoding

SCORES = {
    "BLEU": 24.26,
    "BLEU_low": 22.04,
    "BLEU_high": 26.06,
    "chrF": 48.3,
    "chrF_low": 45.67,
    "chrF_high": 51,
    "AL": 1234.567,
    "LAAL": 1300.0,
    "AP": 0.7512,
    "DAL": 1500.4,
    "AL_CA": 2000.0,
    "RTF": 0.1234,
    "length_ratio": 1.016,
}


def make_run(
    folder: Path, read: dict[str, Any], commit: dict[str, Any], stop: dict[str, Any] | None = None, **scores: Any
) -> Path:
    stop = stop or {"type": "end_of_sentence"}
    decoding = parse_decoding({"read": read, "stop": stop, "commit": commit}, "test")
    folder.mkdir(parents=True)
    curve = {"strategy": decoding.strategy, "curve": list(decoding.curve)}
    config = {"label": decoding.label, **curve, "decoding": decoding.raw}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "scores.json").write_text(json.dumps({**SCORES, **scores}))
    return folder


def chunk(folder: Path, ms: float, n: int = 2, wait: float = 0.0, kind: str = "local_agreement", **scores: Any) -> Path:
    read = {"type": "chunk", "ms": ms, **({"initial_wait_ms": wait} if wait else {})}
    return make_run(folder, read, {"type": kind, "n": n}, **scores)


def offline(folder: Path, **scores: Any) -> Path:
    return make_run(folder, {"type": "offline"}, {"type": "all"}, **scores)
