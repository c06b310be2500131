"""Labels and scores of the boundary predictor (NAIST at IWSLT 2022, section 2.2).

An utterance has prefixes of tau, 2 tau, 3 tau, ... frames. Each prefix consists of pieces of tau frames. A piece is
labelled 1 if a prefix pair ends at its end, else 0. Training uses all prefixes, whether they end at a boundary or not.
The labels of a shorter prefix are therefore the beginning of the labels of a longer one. The same holds for the
outputs, as the predictor never looks ahead. So one pass over the longest prefix gives the outputs of all prefixes, and
each piece is weighted by the number of prefixes that contain it.

The paper does not say which prefixes there are at the end of an utterance. We take all prefixes that are shorter than
the utterance, also those after its last pair, as the predictor is asked there at inference. The last piece of such a
prefix is labelled 0, as no pair ends there. The whole utterance is not a prefix: its end is known at inference, so the
predictor is not asked.
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
from simulst.policy.boundary_predictor import SUBSAMPLING
from simulst.prefix.pairs import read_prefixes


@dataclass(frozen=True)
class Sample:
    """An utterance and the labels (0 or 1) of its pieces of tau frames."""

    utterance: Utterance
    labels: tuple[int, ...]


@dataclass(frozen=True)
class Corpus:
    """Utterances with labels.

    tau: frames (10 ms) per piece.
    too_short: number of utterances without a prefix of tau frames, which are not in `samples`.
    """

    tau: int
    samples: list[Sample]
    too_short: int


def piece_labels(frames: int, ends: Sequence[int], tau: int) -> tuple[int, ...]:
    """The labels of an utterance's longest prefix.

    Example: with tau 100, 600 frames and pairs that end at 200 and 500, the labels are 0 1 0 0 1.

    frames: length of the utterance.
    ends: where its prefix pairs end, in frames; multiples of tau. A pair that ends with the utterance has no piece
        (see above).
    """
    return tuple(int(j * tau in ends) for j in range(1, (frames - 1) // tau + 1))


def prefix_counts(pieces: int) -> np.ndarray:
    """The number of prefixes that contain each piece: pieces, ..., 2, 1."""
    return np.arange(pieces, 0, -1)


def class_weights(samples: Sequence[Sample]) -> Tensor:
    """The weights of the labels 0 and 1: the inverse of their frequency in all prefixes, normalised to a mean of 1.

    samples: utterances in which both labels occur.

    Returns: (2,), float32.
    """
    counts = np.zeros(2)
    for sample in samples:
        counts += np.bincount(sample.labels, prefix_counts(len(sample.labels)), minlength=2)
    return torch.tensor(counts.sum() / (2 * counts), dtype=torch.float32)


def read_corpus(data: Path, prefixes: Path, both: bool = True) -> Corpus:
    """Read the utterances of a data directory, and their labels from extracted prefix pairs.

    data: data directory.
    prefixes: a prefixes.jsonl (see `extract`); it need not hold all utterances of `data`.
    both: whether both labels have to occur, as a training needs.

    Raises SimulstError: a file is missing or damaged; an utterance is not in `data` or listed twice; there are several
        values of tau, or the predictor cannot use tau; a pair does not end at a multiple of tau; one of the two labels
        never occurs.
    """
    # Every text holds the same utterances.
    text = next((path.name for path in sorted(data.glob("text.*"))), "text.en")
    utterances = {u.name: u for u in read_data_dir(data, text.removeprefix("text."))}
    rows = read_prefixes(prefixes)
    tau = rows[0]["tau"] if rows else SUBSAMPLING
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
    if not kept:
        raise SimulstError(f"{prefixes}: no utterance is longer than tau; nothing can be learnt from it.")
    for label, what in ((1, "no boundaries: no piece ends"), (0, "no negatives: every piece ends")) if both else ():
        if not any(label in sample.labels for sample in kept):
            raise SimulstError(f"{prefixes}: {what} a prefix pair; check the extraction, or use more data.")
    return Corpus(tau, kept, len(samples) - len(kept))


def _ends(row: Mapping[str, Any], tau: int, prefixes: Path) -> list[int]:
    """Where the prefix pairs of an utterance end, in frames. Raises SimulstError: as `read_corpus`."""
    name, frames, ends = row["utterance"], row["frames"], [pair["frames"] for pair in row["pairs"]]
    if row["tau"] != tau:
        raise SimulstError(f"{prefixes}: '{name}' has tau {row['tau']}, those before have {tau}; extract with one tau.")
    if tau % SUBSAMPLING:
        raise SimulstError(f"{prefixes}: tau is {tau}; the predictor needs a multiple of {SUBSAMPLING}.")
    if any(end % tau or not 0 < end <= frames for end in ends):
        raise SimulstError(
            f"{prefixes}: '{name}' of {frames} frames has pairs at {ends}, tau is {tau}; extract the pairs again."
        )
    return ends


def counts(predicted: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The confusion matrix, (2, 2): [label, prediction].

    predicted: (n,), 0 or 1.
    labels: (n,), 0 or 1.
    weights: (n,), how often each of them counts.
    """
    return np.bincount(2 * labels + predicted, weights, minlength=4).reshape(2, 2)


def scores(confusion: np.ndarray) -> dict[str, float]:
    """Accuracy, and precision, recall and F1 of label 1; 0 if a ratio is undefined. confusion: from `counts`."""
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
    """Scores of pieces, by threshold. A piece is a boundary if its share of outputs labelled 1 reaches the threshold.

    shares: (pieces,), in [0, 1].
    labels: (pieces,), 0 or 1.

    Returns: threshold → scores.
    """
    ones = np.ones(len(labels))
    return {f"{t:g}": scores(counts((shares >= t).astype(int), labels, ones)) for t in thresholds}
