"""Average the weights of several checkpoints, and choose the best average."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from simulst.config import Decoding
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError, reason_of
from simulst.folder import write_atomically
from simulst.lock import locked
from simulst.metrics.quality import bleu
from simulst.models import load_model
from simulst.models.base import Model
from simulst.policy.commit import All
from simulst.policy.read import Offline
from simulst.runs import decode_utterance
from simulst.search import JointBeamSearch

CHOSEN = "chosen.pth"


@dataclass(frozen=True)
class Dev:
    """Development data of one target language.

    data: data directory.
    text: language of the references, such as tc.de.
    target: target language.
    """

    data: Path
    text: str
    target: str


def average_checkpoints(paths: Sequence[Path], out: Path) -> None:
    """Write the mean of the checkpoints' tensors. Integers (batch counts) are taken from the first checkpoint.

    Raises SimulstError: there are no checkpoints; one can't be read; one has other weights than the first one.
    """
    import torch

    if not paths:
        raise SimulstError(f"{out}: no checkpoints to average; train first.")
    total: dict[str, torch.Tensor] = {}
    for path in paths:
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
                raise ValueError("it holds more than weights")
        except Exception as error:  # of any kind, by what the bytes look like
            raise SimulstError(f"{path}: not a readable checkpoint ({reason_of(error)}).") from error
        if total and {k: v.shape for k, v in state.items()} != {k: v.shape for k, v in total.items()}:
            raise SimulstError(f"{path}: has other weights than {paths[0]}; average checkpoints of one training.")
        for name, tensor in state.items():
            if name not in total:
                total[name] = tensor.double() if tensor.is_floating_point() else tensor
            elif tensor.is_floating_point():
                total[name] = total[name] + tensor.double()
    dtypes = {name: tensor.dtype for name, tensor in state.items()}
    average = {n: (t / len(paths)).to(dtypes[n]) if t.is_floating_point() else t for n, t in total.items()}
    part = out.with_name(out.name + ".part")
    torch.save(average, part)
    part.replace(out)


def choose(experiment: Path, devs: Sequence[Dev], source: str, counts: list[int], limit: int) -> dict[int, float]:
    """Average the best checkpoints, and write the average with the best offline BLEU as chosen.pth.

    experiment: folder of an ESPnet training.
    devs: development data; the BLEU is the mean over them.
    source: source language.
    counts: numbers of checkpoints to try.
    limit: number of sentences to decode of each of `devs`.

    Returns: number of checkpoints → BLEU.
    Raises SimulstError: there is no finished training; a training uses the folder; what decoding raises.
    """
    best_epochs(experiment)  # before taking the lock, which would create a missing folder
    with locked(experiment):
        epochs = best_epochs(experiment)
        scores: dict[int, float] = {}
        for count in sorted({min(count, len(epochs)) for count in counts}):
            name = f"ave_{count}best.pth"
            average_checkpoints([experiment / f"{epoch}epoch.pth" for epoch in epochs[:count]], experiment / name)
            model = load_model(experiment, checkpoint=name)
            scores[count] = mean(dev_bleu(model, dev, source, limit) for dev in devs)
        best = max(scores, key=lambda count: (scores[count], -count))
        shutil.copy(experiment / f"ave_{best}best.pth", experiment / (CHOSEN + ".part"))
        (experiment / (CHOSEN + ".part")).replace(experiment / CHOSEN)
        write_atomically(experiment / "chosen.json", json.dumps({"averaged": best, "dev_BLEU": scores}))
    return scores


def dev_bleu(model: Model, dev: Dev, source: str, limit: int) -> float:
    """Offline BLEU of a model on the first `limit` sentences of `dev`. source: source language."""
    languages = source, dev.target
    usual = model.session(*languages).default_search
    assert isinstance(usual, JointBeamSearch)
    decoding = Decoding(Offline(), All(), search=replace(usual, beam=3))
    utterances = read_data_dir(dev.data, dev.text)[:limit]
    outputs = [decode_utterance(model, languages, u, i, [decoding])[0].prediction for i, u in enumerate(utterances)]
    return bleu(outputs, [u.reference for u in utterances], dev.target).score


def best_epochs(experiment: Path) -> list[int]:
    """The epochs whose checkpoints exist, sorted by accuracy on dev according to ESPnet's log, best first.

    Raises SimulstError: there is no log; no epoch in the log has a checkpoint.
    """
    log = experiment / "simulst.log"
    if not log.is_file():
        raise SimulstError(f"{log}: no such file; train the model first.")
    kept = {int(path.stem.removesuffix("epoch")) for path in experiment.glob("*epoch.pth")}
    accuracy: dict[int, float] = {}
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := re.search(r"(\d+)epoch results: .*\[valid\].*?\bacc=([\d.e+-]+)", line):
            accuracy[int(match[1])] = float(match[2])
    epochs = sorted(kept & accuracy.keys(), key=lambda epoch: -accuracy[epoch])
    if not epochs:
        raise SimulstError(f"{experiment}: no checkpoint of a finished epoch; train the model first.")
    return epochs
