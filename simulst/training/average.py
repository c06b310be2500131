"""Average the weights of several checkpoints, and choose on dev: the best average, and the weights of its search."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

from simulst.config import Decoding
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError, reason_of
from simulst.files.folder import locked, replacing, save_atomically, write_atomically
from simulst.measure.quality import bleu
from simulst.models import load_model
from simulst.models.espnet.experiment import SEARCH
from simulst.models.espnet.model import ESPnet
from simulst.policy.commit import All
from simulst.policy.read import Offline
from simulst.runs.decode import decode_utterance
from simulst.search import JointBeamSearch
from simulst.session import Model

CHOSEN, FOUND = "chosen.pth", "chosen.json"
CTC_WEIGHTS = (0.0, 0.1, 0.3)
LENGTH_BONUSES = (0.0, 0.25, 0.5, 1.0, 1.5)


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
    save_atomically(out, average)


def choose(
    experiment: Path,
    devs: Sequence[Dev],
    source: str,
    counts: Sequence[int],
    limit: int,
    ctc_weight: float | None = None,
    last: bool = False,
    force: bool = False,
) -> None:
    """Average the best checkpoints, and write the average with the best offline BLEU as chosen.pth.

    For this average, write the CTC weight and the length bonus with the best offline BLEU as search.yaml. Searches that
    give neither of the two take them from there. What is complete is kept, unless the training has gone on since.

    experiment: folder of an ESPnet training.
    devs: development data; the BLEU is the mean over them.
    source: source language.
    counts: numbers of checkpoints to try.
    limit: number of sentences to decode of each of `devs`.
    ctc_weight: write this weight, and no length bonus, in place of what is best on dev.
    last: average the last checkpoints instead.
    force: choose again.

    Raises SimulstError: there is no finished training; a training uses the folder; the choice was made with other
        arguments, or its record is damaged; what decoding raises.
    """
    asked = {"counts": sorted(set(counts)), "limit": limit, "texts": sorted(dev.text for dev in devs)}
    asked |= ({} if ctc_weight is None else {"ctc_weight": ctc_weight}) | ({"last": True} if last else {})
    if not force and is_chosen(experiment, asked):
        print(f"{experiment / CHOSEN}: complete; --force does it again")
        return
    best_epochs(experiment)  # before taking the lock, which would create a missing folder
    with locked(experiment):
        epochs = sorted(best_epochs(experiment), reverse=True) if last else best_epochs(experiment)
        (experiment / FOUND).unlink(missing_ok=True)  # it is written last: without it, the choice is not complete
        scores: dict[int, float] = {}
        for count in sorted({min(count, len(epochs)) for count in counts}):
            name = f"ave_{count}best.pth"
            average_checkpoints([experiment / f"{epoch}epoch.pth" for epoch in epochs[:count]], experiment / name)
            model = load_model(experiment, checkpoint=name)
            (scores[count],) = dev_bleu(model, devs, source, limit, [JointBeamSearch(beam=3, length_bonus=0.0)])
        best = max(scores, key=lambda count: (scores[count], -count))
        with replacing(experiment / CHOSEN, alone=True) as part:
            shutil.copy(experiment / f"ave_{best}best.pth", part)
        search, bleu = choose_search(load_model(experiment, checkpoint=CHOSEN), devs, source, limit, ctc_weight)
        weights = {"ctc_weight": search.ctc_weight, "length_bonus": search.length_bonus}
        write_atomically(experiment / SEARCH, yaml.safe_dump(weights))
        found = {"epochs": epochs, "averaged": best, "dev_BLEU": scores, "search": {**weights, "dev_BLEU": bleu}}
        write_atomically(experiment / FOUND, json.dumps(found | {"asked": asked}))
    averages = ", ".join(f"{count}: {score:.1f}" for count, score in scores.items())
    print(f"BLEU on dev by number of averaged checkpoints: {averages}")
    shown = " and ".join(f"{name} {weight:g}" for name, weight in weights.items())
    print(f"BLEU on dev with {shown}: {bleu:.1f}")


def is_chosen(experiment: Path, asked: Mapping[str, Any]) -> bool:
    """Whether `choose` is done, and the training has not gone on since. asked: what the choice depends on.

    Raises SimulstError: it was done with other arguments; its record is damaged.
    """
    if not ((experiment / CHOSEN).is_file() and (experiment / FOUND).is_file()):
        return False
    try:
        found = json.loads((experiment / FOUND).read_text(encoding="utf-8"))
        epochs, before = set(found["epochs"]), dict(found["asked"])
    except (ValueError, KeyError, TypeError):
        raise SimulstError(f"{experiment / FOUND}: damaged; use --force to choose again.") from None
    try:
        done = epochs.issuperset(best_epochs(experiment))  # some may have been deleted
    except SimulstError:
        done = True  # all of them
    differing = [name for name in {**before, **asked} if before.get(name) != asked.get(name)]
    if done and differing:
        raise SimulstError(
            f"{experiment / CHOSEN}: was chosen with other {' and '.join(differing)} (see {FOUND}); "
            "use --force to choose again."
        )
    return done


def choose_search(
    model: Model, devs: Sequence[Dev], source: str, limit: int, ctc_weight: float | None = None
) -> tuple[JointBeamSearch, float]:
    """The CTC weight and the length bonus with the best offline BLEU on dev, and this BLEU.

    The smallest values are tried first, and win if others are only as good.

    ctc_weight: the one that there is to choose from, without a length bonus.

    Raises SimulstError: this weight for a model without a CTC layer for the target.
    """
    if ctc_weight is not None:
        given = JointBeamSearch(ctc_weight=ctc_weight, length_bonus=0.0)
        return given, dev_bleu(model, devs, source, limit, [given])[0]
    with_ctc = isinstance(model, ESPnet) and model.has_ctc
    weights = CTC_WEIGHTS if with_ctc else (0.0,)
    grid = [JointBeamSearch(ctc_weight=weight, length_bonus=bonus) for weight in weights for bonus in LENGTH_BONUSES]
    scores = dev_bleu(model, devs, source, limit, grid)
    best = max(range(len(grid)), key=lambda place: (scores[place], -place))
    return grid[best], scores[best]


def dev_bleu(
    model: Model, devs: Sequence[Dev], source: str, limit: int, searches: Sequence[JointBeamSearch]
) -> list[float]:
    """Offline BLEU of each search on the first `limit` sentences of each of `devs`: the mean over these.

    source: source language.
    """
    decodings = [Decoding(Offline(), All(), search=search) for search in searches]
    scores: list[list[float]] = []
    for dev in devs:
        utterances = read_data_dir(dev.data, dev.text)[:limit]
        languages = source, dev.target
        outputs = [decode_utterance(model, languages, u, i, decodings) for i, u in enumerate(utterances)]
        references = [u.reference for u in utterances]
        texts = [[output.prediction for output in one] for one in zip(*outputs, strict=True)]
        scores.append([bleu(one, references, dev.target).score for one in texts])
    return [mean(one) for one in zip(*scores, strict=True)]


def best_epochs(experiment: Path) -> list[int]:
    """The epochs whose checkpoints exist, sorted by accuracy on dev according to ESPnet's log, best first.

    Raises SimulstError: there is no log; no epoch in the log has a checkpoint.
    """
    log = experiment / "simulst.log"
    if not log.is_file():
        raise SimulstError(f"{log}: no such file; train the model first.")
    names = (re.fullmatch(r"(\d+)epoch\.pth", path.name) for path in experiment.iterdir())
    kept = {int(name[1]) for name in names if name}
    accuracy: dict[int, float] = {}
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := re.search(r"(\d+)epoch results: .*\[valid\].*?\bacc=([\d.e+-]+)", line):
            accuracy[int(match[1])] = float(match[2])
    epochs = sorted(kept & accuracy.keys(), key=lambda epoch: -accuracy[epoch])
    if not epochs:
        raise SimulstError(f"{experiment}: no checkpoint of a finished epoch; train the model first.")
    return epochs
