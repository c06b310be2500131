#!/usr/bin/env python
"""Stage 7: average the best checkpoints, if that helps: the candidate with the best BLEU on dev becomes chosen.pth.

Averaging ruins very short trainings, whose curve has not flattened yet, so it is decided by decoding.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import click

from simulst.config import Decoding
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError
from simulst.metrics.quality import bleu
from simulst.models import load_model
from simulst.policy.commit import All
from simulst.policy.read import Offline
from simulst.runs import decode_utterance, write_atomically
from simulst.search import JointBeamSearch
from simulst.training.average import average_checkpoints

CHOSEN = "chosen.pth"


@click.command(help=__doc__)
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--data", required=True, type=click.Path(path_type=Path), help="Development data directory.")
@click.option("--text", required=True, help="Language of its references, such as tc.de.")
@click.option("--target-lang", required=True)
@click.option("--counts", default="1 2 3 5", show_default=True, help="Numbers of checkpoints to average.")
@click.option("--limit", default=50, show_default=True, help="Development sentences to decode.")
@click.option("--force", is_flag=True, help="Do it again.")
def main(experiment: Path, data: Path, text: str, target_lang: str, counts: str, limit: int, force: bool) -> None:
    """Choose once."""
    if (experiment / CHOSEN).is_file() and not force:
        print(f"{experiment / CHOSEN}: complete; --force does it again")
        return
    try:
        scores = choose(experiment, data, text, target_lang, [int(count) for count in counts.split()], limit)
    except SimulstError as error:
        sys.exit(f"error: {error}")
    print("BLEU on dev by checkpoints averaged: " + ", ".join(f"{k}: {v:.1f}" for k, v in scores.items()))


def choose(experiment: Path, data: Path, text: str, target: str, counts: list[int], limit: int) -> dict[int, float]:
    """Write chosen.pth and its choice beside it; returns count → BLEU."""
    epochs = best_epochs(experiment)
    decoding = Decoding(Offline(), All(), search=JointBeamSearch(beam=3))
    utterances = read_data_dir(data, text)[:limit]
    scores: dict[int, float] = {}
    for count in sorted({min(count, len(epochs)) for count in counts}):
        name = f"ave_{count}best.pth"
        average_checkpoints([experiment / f"{epoch}epoch.pth" for epoch in epochs[:count]], experiment / name)
        model = load_model(experiment, "en", target, checkpoint=name)
        unit = "word"
        outputs = [decode_utterance(model, u, i, [decoding], unit)[0].prediction for i, u in enumerate(utterances)]
        scores[count] = bleu(outputs, [u.reference for u in utterances], target).score
    best = max(scores, key=lambda count: (scores[count], -count))
    shutil.copy(experiment / f"ave_{best}best.pth", experiment / (CHOSEN + ".part"))
    (experiment / (CHOSEN + ".part")).replace(experiment / CHOSEN)
    write_atomically(experiment / "chosen.json", json.dumps({"averaged": best, "dev_BLEU": scores}))
    return scores


def best_epochs(experiment: Path) -> list[int]:
    """The epochs whose checkpoints are kept, best accuracy on dev first, from ESPnet's log."""
    kept = {int(path.stem.removesuffix("epoch")) for path in experiment.glob("*epoch.pth")}
    accuracy: dict[int, float] = {}
    for line in (experiment / "simulst.log").read_text(encoding="utf-8").splitlines():
        if match := re.search(r"(\d+)epoch results: .*\[valid\].*?\bacc=([\d.e+-]+)", line):
            accuracy[int(match[1])] = float(match[2])
    epochs = sorted(kept & accuracy.keys(), key=lambda epoch: -accuracy[epoch])
    if not epochs:
        raise SimulstError(f"{experiment}: no checkpoint of a finished epoch; run stage 6 first.")
    return epochs


if __name__ == "__main__":
    main()
