"""Training of the boundary predictor: the paper's loss, its schedule, and work that is neither lost nor mixed up."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tones
import torch
from torch.nn.functional import cross_entropy

from simulst.audio.read import load_audio
from simulst.errors import SimulstError
from simulst.policy.boundary_predictor import BoundaryPredictor, Sizes, load_predictor
from simulst.prefix import training
from simulst.prefix.boundaries import read_corpus
from simulst.prefix.training import LAST, PREDICTOR, RECORD, SCORES, Features, Options, Trainer, train

SMALL = Sizes(mels=20, channels=4, embedding=8, hidden=12)
QUICK = Options(SMALL, learning_rate=1e-2, warmup=5, patience=2, batch_frames=1000, max_epochs=4)
CPU = torch.device("cpu")
Data = tuple[Path, Path, Path, Path]


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    root = tmp_path_factory.mktemp("tones")
    return (*tones.write(root / "train", 80, 0), *tones.write(root / "dev", 20, 1))


def read(out: Path, name: str) -> Any:
    return json.loads((out / name).read_text())


def weights_of(out: Path) -> dict[str, torch.Tensor]:
    return load_predictor(out / PREDICTOR).state_dict()


def test_loss_and_gradients_are_those_of_a_sample_per_prefix(data: Data, tmp_path: Path) -> None:
    corpus = read_corpus(*data[:2])
    trainer = Trainer(corpus, read_corpus(*data[2:]), tmp_path, QUICK)
    (batch,) = trainer.data.batches([list(range(len(corpus.samples)))], CPU)
    loss, weights = trainer._loss(batch)
    (loss / weights).backward()
    gradients = [parameter.grad.clone() for parameter in trainer.predictor.parameters()]

    logits, labels = [], []
    for sample in corpus.samples:
        audio = load_audio(sample.utterance.wav, sample.utterance.start, sample.utterance.end)
        for pieces in range(1, len(sample.labels) + 1):
            features = trainer.predictor.features(audio[: pieces * tones.TAU * 160])
            logits.append(trainer.predictor(features[None])[0][0])
            labels += [label for label in sample.labels[:pieces] for _ in range(tones.TAU // 4)]
    truth = torch.tensor(labels)
    inverse = 1 / torch.bincount(truth).float()
    trainer.predictor.zero_grad()
    expected = cross_entropy(torch.cat(logits), truth, weight=inverse)
    expected.backward()
    torch.testing.assert_close(loss / weights, expected)
    for gradient, parameter in zip(gradients, trainer.predictor.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, atol=1e-6, rtol=1e-4)


def test_it_learns_what_can_be_heard(data: Data, tmp_path: Path) -> None:
    train(*data, tmp_path / "out", Options(SMALL, 2e-2, warmup=10, patience=4, batch_frames=1000, max_epochs=12))
    found = read(tmp_path / "out", SCORES)
    assert found["frames"]["f1"] > 0.9 and found["pieces"]["0.5"]["f1"] > 0.9
    assert found["pieces"]["0"]["recall"] == 1
    assert found["epochs"][found["epoch"] - 1]["valid_loss"] == min(e["valid_loss"] for e in found["epochs"])

    # The file's scores are what its listener says.
    predictor, corpus = load_predictor(tmp_path / "out" / PREDICTOR), read_corpus(*data[2:])
    right = total = 0
    for sample in corpus.samples:
        audio = load_audio(sample.utterance.wav, sample.utterance.start, sample.utterance.end)
        size = tones.TAU * 160
        pieces = [audio[piece * size : (piece + 1) * size] for piece in range(len(sample.labels))]
        for share, label in zip(tones.shares(predictor, pieces), sample.labels, strict=True):
            right += (share >= 0.5) == bool(label)
            total += 1
    assert right / total == pytest.approx(found["pieces"]["0.5"]["accuracy"])
    # At 0 every piece is a boundary, and padding is no piece.
    boundaries = sum(sum(sample.labels) for sample in corpus.samples)
    assert found["pieces"]["0"]["precision"] == pytest.approx(boundaries / total)


def test_features_are_normalised_over_the_training_data(data: Data, tmp_path: Path) -> None:
    corpus = read_corpus(*data[:2])
    made = Features(corpus, BoundaryPredictor(tones.TAU, SMALL))
    frames = torch.cat([made.of(i) for i in range(len(corpus.samples))])
    mean, deviation = made.statistics()
    torch.testing.assert_close(mean, frames.mean(0), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(deviation, frames.std(0, correction=0), atol=1e-4, rtol=1e-4)
    train(*data, tmp_path / "out", QUICK)
    assert torch.equal(weights_of(tmp_path / "out")["mean"], mean)


def test_batches_hold_every_utterance_once_within_their_size(data: Data) -> None:
    corpus = read_corpus(*data[:2])
    made = Features(corpus, BoundaryPredictor(tones.TAU, SMALL))
    orders = made.orders(300, np.random.default_rng(0))
    assert sorted(i for order in orders for i in order) == list(range(len(corpus.samples)))
    assert orders != made.orders(300, np.random.default_rng(1))
    for order, batch in zip(orders, made.batches(orders, CPU), strict=True):
        lengths = [len(corpus.samples[i].labels) for i in order]
        assert len(order) * max(lengths) * tones.TAU <= 300 and max(lengths) - min(lengths) <= 1
        assert batch.features.shape == (len(order), max(lengths) * tones.TAU - 1, 20)
        assert (batch.prefixes > 0).sum(dim=1).tolist() == [n * tones.TAU // 4 for n in lengths]
    # An utterance longer than a batch is one alone.
    assert all(len(order) == 1 for order in made.orders(1, np.random.default_rng(0)))


def test_large_corpora_are_not_kept_in_memory(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(*data, tmp_path / "kept", QUICK)
    monkeypatch.setattr(training, "CACHE", 0)
    train(*data, tmp_path / "read", QUICK)
    assert not Features(read_corpus(*data[:2]), BoundaryPredictor(tones.TAU, SMALL))._keep
    assert read(tmp_path / "read", SCORES) == read(tmp_path / "kept", SCORES)


def test_the_learning_rate_rises_and_falls(data: Data, tmp_path: Path) -> None:
    options = Options(SMALL, learning_rate=1.0, warmup=4)
    trainer = Trainer(read_corpus(*data[:2]), read_corpus(*data[2:]), tmp_path, options)
    rates = []
    for _ in range(16):
        rates.append(trainer.adam.param_groups[0]["lr"])
        trainer.adam.step()
        trainer.schedule.step()
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4:] == pytest.approx([math.sqrt(4 / n) for n in range(5, 17)])
    assert rates[15] == 0.5


@pytest.mark.parametrize(
    ("losses", "epochs", "best"),
    [([3, 2, 1, 2, 2, 0], 5, 3), ([3, 2, 2, 2, 1], 4, 2), ([5, 4, 3, 2, 1, 0], 5, 5), ([1, 2, 0, 1, 1], 5, 3)],
)
def test_early_stopping(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses: list[float], epochs: int, best: int
) -> None:
    """patience 2, max_epochs 5. Which epoch's weights are kept is told by a mean that grows by 1 in each."""

    def train_epoch(self: Trainer, *_: object) -> float:
        self.predictor.mean += 1
        return 0.0

    left = iter(losses)
    monkeypatch.setattr(Trainer, "_valid_loss", lambda self: next(left))
    monkeypatch.setattr(Trainer, "_train_epoch", train_epoch)
    options = Options(**{**vars(QUICK), "max_epochs": 5})
    trainer = Trainer(read_corpus(*data[:2]), read_corpus(*data[2:]), tmp_path, options)
    first = trainer.predictor.mean.clone()
    trainer.run()
    assert len(trainer.epochs) == epochs
    torch.testing.assert_close(weights_of(tmp_path)["mean"], first + best)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("file", [PREDICTOR, LAST])
@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_killed_training_goes_on_as_if_nothing_had_been(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, writes: int
) -> None:
    """It dies before it writes `file` once more than `writes` times."""
    train(*data, tmp_path / "whole", QUICK)
    left = [True] * writes
    save = training.save_atomically

    def dies(path: Path, content: dict) -> None:
        if path.name == file and (not left or not left.pop()):
            raise Killed
        save(path, content)

    for module in ("prefix.training", "policy.boundary_predictor"):
        monkeypatch.setattr(f"simulst.{module}.save_atomically", dies)
    with pytest.raises(Killed):
        train(*data, tmp_path / "out", QUICK)
    assert not (tmp_path / "out" / SCORES).exists()
    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    train(*data, tmp_path / "out", QUICK)
    assert read(tmp_path / "out", SCORES) == read(tmp_path / "whole", SCORES)
    whole = weights_of(tmp_path / "whole")
    assert all(torch.equal(value, whole[name]) for name, value in weights_of(tmp_path / "out").items())


def test_what_is_complete_is_kept_and_what_differs_is_refused(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    train(*data, out, QUICK)
    assert read(out, RECORD)["complete"] is True
    before = (out / PREDICTOR).stat().st_mtime_ns
    train(*data, out, QUICK)
    assert "complete; --force does it again" in capsys.readouterr().out
    other = {**vars(QUICK), "sizes": Sizes(10, 4, 8, 12)}
    with pytest.raises(SimulstError, match="begun with mels 20, not 10; name another folder, or use --force"):
        train(*data, out, Options(**other))
    with pytest.raises(SimulstError, match="begun with patience 2, not 3"):
        train(*data, out, Options(**{**vars(QUICK), "patience": 3}))
    slow = tones.write(tmp_path / "slow", 20, 0, tau=40)
    with pytest.raises(SimulstError, match="begun with tau 20, not 40"):
        train(*slow, *slow, out, QUICK)
    with pytest.raises(SimulstError, match=r"begun with data .*train, not .*dev"):
        train(*data[2:], *data[2:], out, QUICK)
    assert (out / PREDICTOR).stat().st_mtime_ns == before
    train(*slow, *slow, out, QUICK, force=True)
    assert load_predictor(out / PREDICTOR).tau == 40 and read(out, RECORD)["tau"] == 40


def test_force_with_unusable_data_loses_nothing(data: Data, tmp_path: Path) -> None:
    out = tmp_path / "out"
    train(*data, out, QUICK)
    with pytest.raises(SimulstError, match="no such file"):
        train(data[0], tmp_path / "none.jsonl", *data[2:], out, QUICK, force=True)
    assert (out / PREDICTOR).is_file() and read(out, RECORD)["complete"] is True


def test_another_tau_in_the_held_out_data(data: Data, tmp_path: Path) -> None:
    slow = tones.write(tmp_path / "slow", 20, 0, tau=40)
    with pytest.raises(SimulstError, match=r"slow/prefixes\.jsonl: tau is 40, in .* 20"):
        train(*data[:2], *slow, tmp_path / "out", QUICK)


def test_a_loss_that_is_no_number(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "_valid_loss", lambda self: math.nan)
    with pytest.raises(SimulstError, match="lower learning rate"):
        train(*data, tmp_path / "out", QUICK)


@pytest.mark.parametrize("name", ["learning_rate", "warmup", "patience", "batch_frames", "max_epochs"])
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_bad_options(name: str, value: float) -> None:
    with pytest.raises(SimulstError, match=f"option '{name}': Input should be .*; found {value}"):
        Options(**{name: value})
