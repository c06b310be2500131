"""Labels as the paper gives them to each prefix, scores as scikit-learn gives them, and data that cannot be used."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tones
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.prefix.boundaries import (
    Sample,
    class_weights,
    counts,
    piece_labels,
    prefix_counts,
    read_corpus,
    scores,
    scores_by_threshold,
)


def literal(frames: int, ends: list[int], tau: int) -> list[list[int]]:
    """A label sequence, in frames, for each prefix that is shorter than the utterance, one after the other."""
    prefixes = []
    length = tau
    while length < frames:
        labels = [0] * length
        for end in ends:
            if end <= length:
                labels[end - tau : end] = [1] * tau
        prefixes.append(labels)
        length += tau
    return prefixes


@given(st.integers(0, 60), st.sets(st.integers(1, 15)), st.sampled_from([4, 8]))
def test_a_prefix_has_the_beginning_of_the_longest_ones_labels(frames: int, pieces: set[int], tau: int) -> None:
    ends = [tau * j for j in sorted(pieces) if tau * j < frames]
    labels = piece_labels(frames, ends, tau)
    prefixes = literal(frames, ends, tau)
    assert [np.repeat(labels[: m + 1], tau).tolist() for m in range(len(labels))] == prefixes
    assert prefix_counts(len(labels)).tolist() == [sum(len(p) > j * tau for p in prefixes) for j in range(len(labels))]


def test_class_weights_are_the_inverse_of_how_often_labels_appear_in_all_prefixes() -> None:
    utterances = [(50, [8, 32]), (21, [20]), (9, []), (38, [4, 8, 12])]
    seen = Counter(label for frames, ends in utterances for p in literal(frames, ends, 4) for label in p)
    utterance = Utterance("u", Path("u.wav"), "")
    weights = class_weights([Sample(utterance, piece_labels(frames, ends, 4)) for frames, ends in utterances])
    assert weights[0] * seen[0] == pytest.approx(float(weights[1] * seen[1]))
    assert weights[0] * seen[0] + weights[1] * seen[1] == pytest.approx(sum(seen.values()))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=30))
def test_scores_are_those_of_scikit_learn(rows: list[tuple[int, int, int]]) -> None:
    predicted, labels, weights = np.array(rows).T
    if not weights.sum():
        assert set(scores(counts(predicted, labels, weights)).values()) == {0.0}
        return
    theirs = precision_recall_fscore_support(
        labels, predicted, labels=[1], average="micro", sample_weight=weights, zero_division=0
    )
    ours = scores(counts(predicted, labels, weights))
    assert ours["accuracy"] == pytest.approx(accuracy_score(labels, predicted, sample_weight=weights))
    assert [ours["precision"], ours["recall"], ours["f1"]] == pytest.approx(theirs[:3])


def test_thresholds() -> None:
    shares, labels = np.array([0.0, 0.3, 0.6, 1.0]), np.array([0, 1, 0, 1])
    found = scores_by_threshold(shares, labels, [0.0, 0.3, 0.5, 1.0])
    assert list(found) == ["0", "0.3", "0.5", "1"]
    assert [row["recall"] for row in found.values()] == [1, 1, 0.5, 0.5]  # a share that equals the threshold reaches it
    assert [row["precision"] for row in found.values()] == [0.5, 2 / 3, 0.5, 1]


def test_a_corpus_is_read(tmp_path: Path) -> None:
    data, prefixes = tones.write(tmp_path / "data", 30, 0)
    rows = [json.loads(line) for line in prefixes.read_text().splitlines()]
    corpus = read_corpus(data, tones.prefixes(prefixes, rows[1:]))  # it may leave some out
    assert corpus.tau == tones.TAU
    assert corpus.too_short == sum(row["frames"] <= tones.TAU for row in rows[1:]) > 0
    by_name = {row["utterance"]: row for row in rows}
    assert len(corpus.samples) + corpus.too_short == 29
    for sample in corpus.samples:
        row = by_name[sample.utterance.name]
        assert sample.labels == piece_labels(row["frames"], [pair["frames"] for pair in row["pairs"]], tones.TAU)


def line(name: str, ends: list, frames: object = 70, tau: object = 20) -> dict:
    pairs = [{"frames": end, "text": "ja"} for end in ends]
    return {"utterance": name, "tau": tau, "frames": frames, "offline": "ja ja", "pairs": pairs}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (None, r"prefixes\.jsonl: no such file"),
        ([], "no utterance is longer than tau"),
        (["x"], r"prefixes\.jsonl, line 1"),
        ([line("u000", [40]), {"utterance": "u001"}], r"prefixes\.jsonl, line 2"),
        ([line("u000", [], frames=20)], "no utterance is longer than tau"),
        ([line("u000", [])], "no boundaries: no piece ends a prefix pair"),
        ([line("u000", [20, 40, 60])], "no negatives: every piece ends a prefix pair"),
        ([line("u000", [20]), line("stranger", [20])], "'stranger' is not in .*data; name the data"),
        ([line("u000", [20]), line("u000", [20])], "'u000' stands there twice"),
        ([line("u000", [20]), line("u001", [40], tau=40)], "'u001' has tau 40, those before have 20"),
        ([line("u000", [30], tau=30)], "tau is 30; the predictor needs a multiple of 4"),
        ([line("u000", [20], tau=0)], "tau: Input should be greater than or equal to 1"),
        ([line("u000", [30])], r"'u000' of 70 frames has pairs at \[30\], tau is 20"),
        ([line("u000", [80])], r"pairs at \[80\]"),
        ([line("u000", [20], frames=70.5)], "line 1: .* frames: Input should be a valid integer"),
    ],
)
def test_unusable_data(tmp_path: Path, rows: list | None, words: str) -> None:
    data, prefixes = tones.write(tmp_path / "data", 3, 0)
    prefixes.unlink()
    if rows is not None:
        tones.prefixes(prefixes, rows)
    with pytest.raises(SimulstError, match=words):
        read_corpus(data, prefixes)
