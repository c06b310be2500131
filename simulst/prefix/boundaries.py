"""What the boundary predictor learns from prefix pairs, and how well it has learnt it (NAIST at IWSLT 2022, 2.2).

An utterance has the prefixes of tau, 2 tau, 3 tau, ... frames. In each, the pieces of tau frames that end where a
prefix pair ends are labelled 1, the others 0; prefixes that end on a boundary and prefixes that do not are all trained
on. So the labels of a shorter prefix are the beginning of a longer one's, and as the predictor never looks ahead, so
are its outputs: one pass over the longest prefix holds all of them, and piece j counts as often as there are prefixes
that contain it.

Which prefixes there are at the end of an utterance, the paper leaves open. Here: all that are shorter than the
utterance, those after its last pair too, for at all of these the predictor is asked at inference. Their last piece is
no boundary, as no pair was kept there. The whole utterance is not one of them: its end is known, and nobody asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simulst.data.datadir import Utterance, read_data_dir
from simulst.errors import SimulstError
from simulst.prefix.pairs import read_prefixes
from simulst.prefix.predictor import SUBSAMPLING


@dataclass(frozen=True)
class Sample:
    """An utterance and the labels (0 or 1) of its pieces of tau frames."""

    utterance: Utterance
    labels: tuple[int, ...]


@dataclass(frozen=True)
class Corpus:
    """Utterances with labels. too_short: how many others have no prefix of tau frames."""

    tau: int
    samples: list[Sample]
    too_short: int


def piece_labels(frames: int, ends: Sequence[int], tau: int) -> tuple[int, ...]:
    """The labels of an utterance's longest prefix.

    frames: of the utterance. ends: those of its prefix pairs, multiples of tau. One at the utterance's very end has no
    piece here (see above). With tau 100, 600 frames and pairs at 200 and 500: 0 1 0 0 1.
    """
    return tuple(int(j * tau in ends) for j in range(1, (frames - 1) // tau + 1))


def prefix_counts(pieces: int) -> np.ndarray:
    """How many of the prefixes contain each piece: pieces, ..., 2, 1."""
    return np.arange(pieces, 0, -1)


def class_weights(samples: Sequence[Sample]) -> Tensor:
    """The weights of the labels 0 and 1, (2,): the inverse of how often each appears in all prefixes; 1 on average.

    The utterances must hold both labels.
    """
    counts = np.zeros(2)
    for sample in samples:
        counts += np.bincount(sample.labels, prefix_counts(len(sample.labels)), minlength=2)
    return torch.tensor(counts.sum() / (2 * counts), dtype=torch.float32)


def weighted_loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """The sum of the outputs' weighted cross-entropies; divided by the sum of the weights it is the loss.

    logits: (batch, n, 2). labels: (batch, n). weights: (batch, n), prefix counts times class weights, 0 for padding.
    """
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return (weights * losses).sum()


def read_corpus(data: Path, prefixes: Path) -> Corpus:
    """Utterances of a data directory with the pairs that were extracted from them.

    prefixes: a prefixes.jsonl (see `extract`); it may leave out utterances of `data`.
    Raises SimulstError: a missing or damaged file, an utterance that is not in `data` or comes twice, several tau or
        one that the predictor cannot use, pairs that are not at multiples of it, no boundary at all, or nothing else.
    """
    # Every text holds the same utterances.
    text = next((path.name for path in sorted(data.glob("text.*"))), "text.en")
    utterances = {u.name: u for u in read_data_dir(data, text.removeprefix("text."))}
    rows = read_prefixes(prefixes)
    if not rows:
        raise _nothing_to_learn(prefixes)
    tau = rows[0]["tau"]
    samples: dict[str, Sample] = {}
    for row in rows:
        name = row["utterance"]
        ends = _ends(row, tau, prefixes)
        if name not in utterances:
            raise SimulstError(f"{prefixes}: '{name}' is not in {data}; name the data that the pairs are from.")
        if name in samples:
            raise SimulstError(f"{prefixes}: '{name}' stands there twice; extract the pairs again.")
        samples[name] = Sample(utterances[name], piece_labels(row["frames"], ends, tau))
    kept = [sample for sample in samples.values() if sample.labels]
    _check_labels(kept, prefixes)
    return Corpus(tau, kept, len(samples) - len(kept))


def _ends(row: Mapping[str, Any], tau: int, prefixes: Path) -> list[int]:
    """Where the prefix pairs of an utterance end, frames. Raises SimulstError: numbers that `read_corpus` refuses."""
    name, frames, ends = row["utterance"], row["frames"], [pair["frames"] for pair in row["pairs"]]
    if not all(isinstance(number, int) for number in (row["tau"], frames, *ends)):
        raise SimulstError(f"{prefixes}: '{name}' has frames that are no whole numbers; extract the pairs again.")
    if row["tau"] != tau:
        raise SimulstError(f"{prefixes}: '{name}' has tau {row['tau']}, those before have {tau}; extract with one tau.")
    if tau < 1 or tau % SUBSAMPLING:
        raise SimulstError(f"{prefixes}: tau is {tau}; the predictor needs a multiple of {SUBSAMPLING}.")
    if any(end % tau or not 0 < end <= frames for end in ends):
        raise SimulstError(
            f"{prefixes}: '{name}' of {frames} frames has pairs at {ends}, tau is {tau}; extract the pairs again."
        )
    return ends


def _check_labels(samples: Sequence[Sample], prefixes: Path) -> None:
    """Raises SimulstError: no samples, or none with one of the labels."""
    if not samples:
        raise _nothing_to_learn(prefixes)
    for label, what in ((1, "no boundaries: no piece ends"), (0, "no negatives: every piece ends")):
        if not any(label in sample.labels for sample in samples):
            raise SimulstError(f"{prefixes}: {what} a prefix pair; check the extraction, or use more data.")


def _nothing_to_learn(prefixes: Path) -> SimulstError:
    return SimulstError(f"{prefixes}: no utterance is longer than tau; nothing can be learnt from it.")


def counts(predicted: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The confusion matrix, (2, 2): [label, prediction]. All arrays (n,); weights: how often each counts."""
    return np.bincount(2 * labels + predicted, weights, minlength=4).reshape(2, 2)


def scores(confusion: np.ndarray) -> dict[str, float]:
    """Accuracy, and precision, recall and F1 of label 1, from `counts`; 0 where nothing could be counted."""
    (true_0, false_1), (false_0, true_1) = confusion.tolist()

    def ratio(part: float, whole: float) -> float:
        return part / whole if whole else 0.0

    return {
        "accuracy": ratio(true_0 + true_1, true_0 + false_1 + false_0 + true_1),
        "precision": ratio(true_1, true_1 + false_1),
        "recall": ratio(true_1, true_1 + false_0),
        "f1": ratio(2 * true_1, 2 * true_1 + false_1 + false_0),
    }


def scores_by_threshold(
    shares: np.ndarray, labels: np.ndarray, thresholds: Sequence[float]
) -> dict[str, dict[str, float]]:
    """Scores of pieces, by threshold: a piece is a boundary where its share of outputs labelled 1 reaches it.

    shares, labels: (pieces,). Raises SimulstError: a threshold outside [0, 1].
    """
    for threshold in thresholds:
        if not 0 <= threshold <= 1:
            raise SimulstError(f"a threshold of {threshold} for boundaries; give a share between 0 and 1.")
    ones = np.ones(len(labels))
    return {f"{t:g}": scores(counts((shares >= t).astype(int), labels, ones)) for t in thresholds}
