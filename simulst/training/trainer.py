"""The library's trainer with our loss, our batches, and checkpoints that are whole after any interruption."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import send_to_device
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from tqdm import tqdm
from transformers import PrinterCallback, Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

from simulst.errors import SimulstError, first_line
from simulst.files.folder import save_atomically, write_atomically
from simulst.models.base import warn_if_slow
from simulst.training.configuration import FineTuning
from simulst.training.speech_text import IGNORED

EPOCHS, WHOLE = "epochs.json", "whole"


def train_epochs(model: Any, train: DataLoader, dev: DataLoader, options: FineTuning, out: Path) -> dict[int, float]:
    """Train from the last whole checkpoint on. If several processes train together, the first one writes the files.

    train: batches of examples; dev: the same of development data.
    out: folder of checkpoints, and of the trained weights of the best epochs, `<n>epoch.pth`.

    Returns: epoch → its loss on dev.
    Raises SimulstError: the loss is NaN or infinite.
    """
    first = int(os.environ.get("RANK", "0")) == 0
    last = _last_checkpoint(out, delete=first)
    follow = Follow(model, train, dev, options, out)
    if last is None or int(last.name.partition("-")[2]) < follow.total:
        trainer = Trainer(model, _arguments(options, out, follow.total), train, options, follow.count, [follow])
        trainer.remove_callback(PrinterCallback)
        try:
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
        finally:
            follow.close()
    return follow.losses


def _arguments(options: FineTuning, out: Path, total: int) -> Seq2SeqTrainingArguments:
    warn_if_slow(options.dtype, "cuda" if torch.cuda.is_available() else "cpu")
    try:
        arguments = Seq2SeqTrainingArguments(
            output_dir=str(out),
            per_device_train_batch_size=1,  # not used: the batches are ours
            gradient_accumulation_steps=options.accumulate,
            learning_rate=options.learning_rate,
            lr_scheduler_type=options.schedule,
            warmup_steps=options.warmup,
            weight_decay=options.weight_decay,
            max_grad_norm=options.clip,
            max_steps=total,
            seed=options.seed,
            bf16=options.dtype == "bfloat16",
            fp16=options.dtype == "float16",
            use_cpu=not torch.cuda.is_available(),
            save_strategy="no",  # `Follow` asks for it
            save_total_limit=2,
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            label_names=["labels"],
            average_tokens_across_devices=True,
        )
        arguments._n_gpu = min(1, arguments.n_gpu)  # with several, transformers would spread each batch over them
        return arguments
    except ImportError as error:
        raise SimulstError(f"fine-tuning needs a package that is missing ({first_line(error)}).") from error


class Trainer(Seq2SeqTrainer):
    """count: called with the loss of each batch, summed over its tokens, and their number."""

    def __init__(
        self,
        model: Any,
        arguments: Any,
        loader: DataLoader,
        options: FineTuning,
        count: Callable[[float, int], None],
        callbacks: list[TrainerCallback],
    ) -> None:
        super().__init__(model=model, args=arguments, train_dataset=loader.dataset, callbacks=callbacks)
        self._loader, self._options, self._count = loader, options, count
        self.model_accepts_loss_kwargs = self.loss_is_scaled_for_ga = True  # by `compute_loss`, for all models alike

    def get_train_dataloader(self) -> DataLoader:
        """Ours: `Follow` tells its batches the epoch."""
        return self._loader

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Cross-entropy and CTC, per token of an update's batches. num_items_in_batch: how many tokens these have."""
        labels, heard = inputs.pop("labels"), inputs.pop("heard", None)
        outputs = model(**inputs, use_cache=False)
        loss = token_loss(outputs.logits, labels, self._options.label_smoothing)
        if not torch.isfinite(loss):
            raise SimulstError(
                f"{self.args.output_dir}: the loss is no number any more (NaN or infinite); begin again with a lower "
                "learning_rate or a smaller clip."
            )
        tokens = int((labels != IGNORED).sum())
        shown, listens = loss, (self.state.epoch or 0) < self._options.listen_epochs
        weight = 1.0 if listens else self._options.ctc_weight
        loss = (1 - weight) * loss  # also without transcripts: the translation counts the same everywhere
        if heard is not None:
            mask = getattr(outputs, "encoder_attention_mask", inputs.get("attention_mask"))
            loss = loss + weight * model.ctc(outputs.encoder_last_hidden_state, mask, heard)
        self._count(float((loss if listens else shown).detach()), tokens)
        # Of all processes, whose mean the gradient is.
        loss = loss / tokens if num_items_in_batch is None else loss * self.args.world_size / num_items_in_batch
        return (loss, outputs) if return_outputs else loss


def token_loss(logits: Any, labels: Any, smoothing: float = 0.0) -> torch.Tensor:
    """Cross-entropy, summed over all tokens. logits: (n, tokens, V); labels: (n, tokens)."""
    flat = logits.flatten(0, 1).float()
    return cross_entropy(flat, labels.flatten(), ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)


@torch.no_grad()  # not inference_mode: models keep tables of positions, which training then needs, too
def dev_loss(model: Any, loader: DataLoader) -> float:
    """Cross-entropy per token of development data."""
    was_training = model.training
    model.eval()
    loss, tokens = 0.0, 0
    for batch in loader:
        batch = send_to_device(batch, model.device)
        labels = batch.pop("labels")
        loss += float(token_loss(model(**batch, use_cache=False).logits, labels))
        tokens += int((labels != IGNORED).sum())
    model.train(was_training)
    return loss / tokens


class Follow(TrainerCallback):
    """Shows the progress, orders batches, scores dev after each epoch, and asks for checkpoints.

    losses: epoch → its loss on dev. total: updates of the whole training.
    """

    def __init__(self, model: Any, train: DataLoader, dev: DataLoader, options: FineTuning, out: Path) -> None:
        self._model, self._dev, self._options, self._out = model, dev, options, out
        self._batches: Any = train.batch_sampler
        self._per_epoch = math.ceil(len(train) / options.accumulate)
        epochs = options.epochs * self._per_epoch
        self.total = min(epochs, options.updates or epochs)
        self.losses = read_losses(out)
        self._loss, self._tokens = 0.0, 0
        self._saved = time.monotonic()
        self._bar: tqdm | None = None

    def count(self, loss: float, tokens: int) -> None:
        """Take in a batch's loss, summed over its tokens."""
        self._loss, self._tokens = self._loss + loss, self._tokens + tokens

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        hidden = not state.is_world_process_zero
        self._bar = tqdm(
            desc=self._out.name, unit="update", total=self.total, initial=state.global_step, disable=hidden
        )

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._batches.set_epoch(state.global_step // self._per_epoch)
        self._loss, self._tokens = 0.0, 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        assert self._bar is not None
        self._bar.update()
        self._bar.set_postfix_str(f"loss {self._loss / self._tokens:.3f}", refresh=False)
        if _agreed(time.monotonic() - self._saved >= 60 * self._options.save_minutes, args):
            control.should_save = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_save = True
        if not state.is_world_process_zero:
            return
        epoch = math.ceil(state.global_step / self._per_epoch)
        found = dev_loss(self._model, self._dev)
        self.losses = {n: loss for n, loss in self.losses.items() if n < epoch} | {epoch: found}
        if not math.isfinite(self.losses[epoch]):
            raise SimulstError(
                f"{self._out}: the loss on dev is no number any more; begin again with a lower learning_rate."
            )
        best = self._options.ranked(self.losses)
        kept = best[: max(self._options.average)]
        if epoch in kept:
            save_atomically(self._out / f"{epoch}epoch.pth", self._trained())
        write_atomically(self._out / EPOCHS, json.dumps({str(n): loss for n, loss in self.losses.items()}))
        for n in best:
            if n not in kept:
                (self._out / f"{n}epoch.pth").unlink(missing_ok=True)
        tqdm.write(
            f"epoch {epoch}: loss {self._loss / max(1, self._tokens):.4f}, dev {self.losses[epoch]:.4f} "
            f"(best: epoch {best[0]})"
        )

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            (self._out / f"checkpoint-{state.global_step}" / WHOLE).touch()
        self._saved = time.monotonic()

    def _trained(self) -> dict[str, torch.Tensor]:
        """The weights that change."""
        frozen = {n for n, p in self._model.named_parameters(remove_duplicate=False) if not p.requires_grad}
        return {name: value.cpu() for name, value in self._model.state_dict().items() if name not in frozen}


def _agreed(wish: bool, args: Any) -> bool:
    """What the first process wishes: all of them save a checkpoint, or none."""
    if args.world_size == 1:
        return wish
    shared = torch.tensor([wish], device=args.device)
    torch.distributed.broadcast(shared, 0)
    return bool(shared)


def read_losses(out: Path) -> dict[int, float]:
    """Epoch → its loss on dev, as far as the training in the folder `out` has come."""
    if not (out / EPOCHS).is_file():
        return {}
    return {int(n): loss for n, loss in json.loads((out / EPOCHS).read_text(encoding="utf-8")).items()}


def _last_checkpoint(out: Path, delete: bool) -> Path | None:
    """The last checkpoint that is whole. delete: those that an interruption left half-written."""
    whole = {}
    for path in out.glob("checkpoint-*"):
        if (path / WHOLE).is_file():
            whole[int(path.name.partition("-")[2])] = path
        elif delete:
            shutil.rmtree(path)
    return whole[max(whole)] if whole else None
