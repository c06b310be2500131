"""A corpus in which boundaries can be heard: a piece with a tone in it ends a prefix pair."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import soundfile

from simulst.calls import run_alone
from simulst.policy.boundary_predictor import BoundaryPredictor, Heard

TAU = 20


def shares(predictor: BoundaryPredictor, pieces: Iterable[np.ndarray]) -> list[float]:
    """What a predictor says of the pieces of an utterance, asked directly."""
    heard, found = Heard(predictor), []
    for piece in pieces:
        share, heard = run_alone(heard.share(piece))
        found.append(share)
    return found


def write(root: Path, utterances: int, seed: int, tau: int = TAU) -> tuple[Path, Path]:
    """Write `root/{wav.scp,segments,utt2spk,text.tc.de,prefixes.jsonl}`, all speech in one file.

    Returns the data directory and the prefixes.
    """
    root.mkdir()
    random = np.random.default_rng(seed)
    audio, rows, tables, end = [], [], {name: [] for name in ("segments", "utt2spk", "text.tc.de")}, 0
    for number in range(utterances):
        frames = int(random.integers(tau // 2, 6 * tau))
        samples = random.normal(0, 0.02, frames * 160 + int(random.integers(160)))
        pairs = []
        for last in range(tau, frames, tau):
            if random.random() < 0.4:
                pairs.append({"frames": last, "text": "ja"})
                samples[(last - tau) * 160 : last * 160] += 0.1 * np.sin(np.arange(tau * 160) / 4)
        name, begin, end = f"u{number:03d}", end, end + samples.size
        audio.append(samples)
        tables["segments"].append(f"{name} talk {begin / 16000:.6f} {end / 16000:.6f}")
        tables["utt2spk"].append(f"{name} talk")
        tables["text.tc.de"].append(f"{name} ja ja")
        rows.append({"utterance": name, "tau": tau, "frames": frames, "offline": "ja ja", "pairs": pairs})
    soundfile.write(root / "talk.wav", np.concatenate(audio), 16000, subtype="FLOAT")
    (root / "wav.scp").write_text("talk talk.wav\n")
    for name, lines in tables.items():
        (root / name).write_text("".join(line + "\n" for line in lines))
    return root, prefixes(root / "prefixes.jsonl", rows)


def prefixes(path: Path, rows: list) -> Path:
    """Write lines of prefixes.jsonl."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
