"""Train the boundary predictor, and score it on held-out prefixes (NAIST at IWSLT 2022, section 3.2.2 and Table 3)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from simulst.audio.read import load_audio
from simulst.audio.units import FRAME
from simulst.errors import SimulstError
from simulst.files.folder import begun, digest_of_file, locked, save_atomically, write_atomically
from simulst.machine.light_import import leave_out_compiler
from simulst.options import Count, Positive, check_options
from simulst.policy.boundary_predictor import (
    SUBSAMPLING,
    BoundaryPredictor,
    Sizes,
    load_checkpoint,
    load_predictor,
)
from simulst.prefix.boundaries import (
    Corpus,
    class_weights,
    counts,
    prefix_counts,
    read_corpus,
    scores,
    scores_by_threshold,
)

PREDICTOR, LAST, RECORD, SCORES = "predictor.pth", "last.pth", "simulst.json", "scores.json"
THRESHOLDS = [round(0.1 * i, 1) for i in range(11)]
CACHE = 1 << 30  # bytes of features that are kept in memory


@dataclass(frozen=True)
class Options:
    """How to train. The defaults are the paper's values, if it gives them.

    sizes: of the network.
    learning_rate: of Adam, at its peak.
    warmup: updates over which the learning rate rises linearly. It then falls with the inverse square root of the
        number of updates, as in fairseq.
    patience: end the training when the held-out loss has not fallen for this many epochs.
    batch_frames: feature frames per batch, padding included.
    max_epochs: end the training after this many epochs.
    seed: of weights and of the order of batches.
    """

    sizes: Sizes = field(default_factory=Sizes)
    learning_rate: Positive = 1e-4
    warmup: Count = 4000
    patience: Count = 8
    batch_frames: Count = 12000
    max_epochs: Count = 200
    seed: int = 0

    def __post_init__(self) -> None:
        check_options(self)


class Batch(NamedTuple):
    """Padded utterances.

    features: (batch, frames, mels).
    labels: (batch, outputs).
    prefixes: (batch, outputs), number of prefixes that contain each output; 0 for padding.
    """

    features: Tensor
    labels: Tensor
    prefixes: Tensor


class Features:
    """The batches of a corpus. Features are computed once if all of them fit into CACHE bytes, else in each epoch."""

    def __init__(self, corpus: Corpus, predictor: BoundaryPredictor) -> None:
        self.corpus, self._predictor = corpus, predictor
        self._pieces = np.array([len(sample.labels) for sample in corpus.samples])
        self._keep = 4 * predictor.sizes.mels * corpus.tau * int(self._pieces.sum()) <= CACHE
        self._kept: dict[int, Tensor] = {}

    def of(self, index: int) -> Tensor:
        """The features of one utterance's pieces, (pieces * tau - 1, mels)."""
        if index in self._kept:
            return self._kept[index]
        utterance = self.corpus.samples[index].utterance
        audio = load_audio(utterance.wav, utterance.start, utterance.end)
        need = int(self._pieces[index]) * self.corpus.tau * FRAME
        if audio.size < need:
            raise SimulstError(
                f"{utterance.wav}: '{utterance.name}' has {audio.size // FRAME} frames, fewer than in its extraction; "
                "extract the prefix pairs again from this data."
            )
        features = self._predictor.features(audio[:need])
        if self._keep:
            self._kept[index] = features
        return features

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the features over all frames, (mels,) each."""
        total = squares = torch.zeros(self._predictor.sizes.mels, dtype=torch.float64)
        frames = 0
        for index in tqdm(range(len(self._pieces)), desc="features", unit="utt"):
            features = self.of(index).double()
            total, squares, frames = total + features.sum(0), squares + features.square().sum(0), frames + len(features)
        mean = total / frames
        variance = squares / frames - mean.square()
        return mean.float(), variance.clamp(min=1e-8).sqrt().float()

    def orders(self, batch_frames: int, random: np.random.Generator) -> list[list[int]]:
        """The indices of each batch. A batch holds utterances of similar length; the order is otherwise random."""
        shuffled = random.permutation(len(self._pieces))
        found: list[list[int]] = []
        for index in shuffled[np.argsort(-self._pieces[shuffled], kind="stable")].tolist():
            # The first of a batch is its longest.
            full = not found or (len(found[-1]) + 1) * self._pieces[found[-1][0]] * self.corpus.tau > batch_frames
            if full:
                found.append([])
            found[-1].append(index)
        random.shuffle(found)
        return found

    def batches(self, orders: Sequence[Sequence[int]], device: torch.device) -> Iterator[Batch]:
        """The batches with these indices (see `orders`)."""
        outputs = self.corpus.tau // SUBSAMPLING
        for order in orders:
            pieces = [torch.tensor(self.corpus.samples[i].labels) for i in order]
            prefixes = [torch.from_numpy(prefix_counts(len(labels))) for labels in pieces]
            yield Batch(
                pad_sequence([self.of(i) for i in order], batch_first=True).to(device),
                pad_sequence(pieces, batch_first=True).repeat_interleave(outputs, dim=1).to(device),
                pad_sequence(prefixes, batch_first=True).repeat_interleave(outputs, dim=1).to(device),
            )


class Trainer:
    """A training in the folder `out`. `predictor.pth` is the best predictor so far; `last.pth` is for resuming."""

    def __init__(self, training: Corpus, valid: Corpus, out: Path, options: Options) -> None:
        torch.manual_seed(options.seed)
        self.out, self.options = out, options
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.predictor = BoundaryPredictor(training.tau, options.sizes)
        self.data, self.valid = Features(training, self.predictor), Features(valid, self.predictor)
        self.class_weights = class_weights(training.samples).to(self.device)
        self.epochs: list[dict[str, float]] = []  # losses by epoch
        resumed = (out / LAST).is_file()
        if not resumed:
            self.predictor.mean, self.predictor.deviation = self.data.statistics()
        self.predictor.to(self.device)
        leave_out_compiler()
        self.adam = torch.optim.Adam(self.predictor.parameters(), lr=options.learning_rate)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.adam, lambda updates: self._rate(updates))
        if resumed:
            self._resume()

    def run(self) -> None:
        """Train until the held-out loss no longer falls. Raises SimulstError: the loss is NaN or infinite."""
        options = self.options
        while len(self.epochs) < options.max_epochs and len(self.epochs) - self._best() < options.patience:
            number = len(self.epochs) + 1
            # The order depends on the epoch alone, so that a resumed training gives the same result.
            random = np.random.default_rng((self.options.seed, number))
            train_loss = self._train_epoch(self.data.orders(self.options.batch_frames, random), f"epoch {number}")
            valid_loss = self._valid_loss()
            if not math.isfinite(train_loss + valid_loss):
                raise SimulstError(
                    f"{self.out}: the loss is no number now (NaN or infinite); begin again with a lower learning rate."
                )
            self.epochs.append({"train_loss": train_loss, "valid_loss": valid_loss})
            if self._best() == number:
                self.predictor.save(self.out / PREDICTOR)
            self._save()
            tqdm.write(f"epoch {number}: loss {train_loss:.4f}, held out {valid_loss:.4f} (best: epoch {self._best()})")

    def scores(self) -> dict[str, Any]:
        """Scores of the best predictor on the held-out prefixes; "epoch": the best one; "epochs": all losses."""
        found = scores_on(load_predictor(self.out / PREDICTOR).to(self.device), self.valid.corpus)
        return {"epoch": self._best(), **found, "epochs": self.epochs}

    def _train_epoch(self, orders: list[list[int]], title: str) -> float:
        total, weight = 0.0, 0.0
        self.predictor.train()
        with tqdm(total=sum(map(len, orders)), desc=title, unit="utt", leave=False) as progress:
            for order, batch in zip(orders, self.data.batches(orders, self.device), strict=True):
                loss, weights = self._loss(batch)
                self.adam.zero_grad()
                (loss / weights).backward()
                self.adam.step()
                self.schedule.step()
                total, weight = total + loss.item(), weight + weights.item()
                progress.update(len(order))
                progress.set_postfix_str(f"loss {total / weight:.4f}", refresh=False)
        return total / weight

    def _valid_loss(self) -> float:
        self.predictor.eval()
        orders = self.valid.orders(self.options.batch_frames, np.random.default_rng(0))
        with torch.inference_mode():
            losses = [self._loss(batch) for batch in self.valid.batches(orders, self.device)]
        return sum(loss.item() for loss, _ in losses) / sum(weights.item() for _, weights in losses)

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The weighted sum of the outputs' cross-entropies, and the sum of the weights, by which it is divided."""
        weights = batch.prefixes * self.class_weights[batch.labels]
        logits, _ = self.predictor(batch.features)
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch.labels, reduction="none")
        return (weights * losses).sum(), weights.sum()

    def _rate(self, updates: int) -> float:
        """The learning rate of the next update, as a share of its peak."""
        return min((updates + 1) / self.options.warmup, math.sqrt(self.options.warmup / (updates + 1)))

    def _best(self) -> int:
        """The number of the first epoch with the lowest held-out loss; 0 before the first epoch."""
        losses = [epoch["valid_loss"] for epoch in self.epochs]
        return losses.index(min(losses)) + 1 if losses else 0

    def _save(self) -> None:
        state = {"weights": self.predictor.state_dict(), "adam": self.adam.state_dict()}
        save_atomically(self.out / LAST, {**state, "schedule": self.schedule.state_dict(), "epochs": self.epochs})

    def _resume(self) -> None:
        content = load_checkpoint(self.out / LAST, "use --force to begin again")
        self.predictor.load_state_dict(content["weights"])
        self.adam.load_state_dict(content["adam"])
        self.schedule.load_state_dict(content["schedule"])
        self.epochs = content["epochs"]


def scores_on(predictor: BoundaryPredictor, corpus: Corpus) -> dict[str, Any]:
    """Scores of a predictor on a corpus, as in Table 3.

    Returns: "frames" → scores over all outputs of all prefixes, each with its more probable label. "pieces" →
        threshold → scores over pieces, each counted once, as at inference.
    """
    features = Features(corpus, predictor)
    confusion = np.zeros((2, 2))
    shares, labels = [], []
    outputs = corpus.tau // SUBSAMPLING
    orders = features.orders(Options.batch_frames, np.random.default_rng(0))
    predictor.eval()
    with torch.inference_mode():
        for batch in features.batches(orders, next(predictor.parameters()).device):
            ones = predictor(batch.features)[0].argmax(dim=2).cpu()
            truth, prefixes = batch.labels.cpu(), batch.prefixes.cpu()
            confusion += counts(ones.flatten().numpy(), truth.flatten().numpy(), prefixes.flatten().numpy())
            real = prefixes[:, ::outputs] > 0
            # Divide integers: then 3 / 10 equals the threshold 0.3.
            shares.append(ones.unflatten(1, (-1, outputs)).sum(dim=2)[real].numpy() / outputs)
            labels.append(truth[:, ::outputs][real].numpy())
    pieces = scores_by_threshold(np.concatenate(shares), np.concatenate(labels), THRESHOLDS)
    return {"frames": scores(confusion), "pieces": pieces}


def score(predictor: Path, data: Path, prefixes: Path, out: Path) -> dict[str, Any]:
    """Write the scores of a trained predictor on prefix pairs that it was not trained on: table 3.

    predictor: its file. data: data directory. prefixes: the prefixes.jsonl of this data. out: JSON file.

    Raises SimulstError: the data cannot be used; the predictor is for another tau.
    """
    loaded, corpus = load_predictor(predictor), read_corpus(data, prefixes, both=False)
    if loaded.tau != corpus.tau:
        raise SimulstError(f"{prefixes}: tau is {corpus.tau}, that of {predictor} {loaded.tau}; extract with its tau.")
    found = scores_on(loaded, corpus)
    write_atomically(out, json.dumps(found, indent=1) + "\n")
    return found


def train(
    data: Path, prefixes: Path, valid_data: Path, valid_prefixes: Path, out: Path, options: Options, force: bool = False
) -> None:
    """Train a predictor in `out`, or resume after its last epoch; then write its scores on the held-out prefixes.

    data: data directory of the training utterances.
    prefixes: their prefixes.jsonl (see `read_corpus`).
    valid_data: data directory of the held-out utterances.
    valid_prefixes: their prefixes.jsonl.
    out: folder of the training.
    force: delete the training in `out` and begin again.

    Raises SimulstError: the data cannot be used; `out` holds another training.
    """
    training, valid = read_corpus(data, prefixes), read_corpus(valid_data, valid_prefixes)
    if training.tau != valid.tau:
        raise SimulstError(
            f"{valid_prefixes}: tau is {valid.tau}, in {prefixes} {training.tau}; extract both with one tau."
        )
    wanted = {"tau": training.tau, **asdict(options), **asdict(options.sizes)}
    del wanted["sizes"]
    wanted |= {"data": str(data), "prefixes": digest_of_file(prefixes)}
    wanted |= {"valid_data": str(valid_data), "valid_prefixes": digest_of_file(valid_prefixes)}
    with locked(out):
        record = begun(out / RECORD, wanted, (PREDICTOR, LAST, SCORES), force)
        if record is not None and record.get("complete"):
            print(f"{out}: complete; --force does it again")
            return
        write_atomically(out / RECORD, json.dumps({**wanted, "complete": False}, indent=1))
        for name, corpus in (("training", training), ("held out", valid)):
            ends, pieces = sum(sum(s.labels) for s in corpus.samples), sum(len(s.labels) for s in corpus.samples)
            print(
                f"{name}: {len(corpus.samples)} utterances, {pieces} pieces of {corpus.tau} frames, "
                f"{ends} of them boundaries; {corpus.too_short} utterances too short to have a piece"
            )
        trainer = Trainer(training, valid, out, options)
        trainer.run()
        write_atomically(out / SCORES, json.dumps(trainer.scores(), indent=1) + "\n")
        write_atomically(out / RECORD, json.dumps({**wanted, "complete": True}, indent=1))
