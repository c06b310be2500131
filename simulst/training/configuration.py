"""The configuration of a fine-tuning: a file in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from simulst.errors import SimulstError
from simulst.files.yaml import read_yaml
from simulst.options import Amount, Count, Positive, build_options
from simulst.prefix.chunks import Grid
from simulst.training.new_model import NewModel

Share = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class FineTuning:
    """How to train.

    epochs: passes over the data.
    learning_rate: of AdamW, at its peak.
    updates: end after so many updates, even within an epoch. None: as many as the epochs have.
    schedule: of the learning rate after the warm-up.
    warmup: updates over which the learning rate rises.
    batch_seconds: seconds of audio in a batch, padding included.
    accumulate: batches whose gradients make one update.
    most_seconds: leave out longer utterances.
    padding_seconds: silence after the longest utterance of a batch, for Whisper alone; 30 fills the 30 s that it was
        trained on. Short windows take less time.
    train_features: train the encoder's first convolutions, too.
    encoder_layers: train only so many of the encoder's last layers. None: all of them.
    settings: changes to the model's config.json, such as {decoder_layerdrop: 0.1, dropout: 0.1}; those of a part of
        the model are in a mapping: {encoder: {layerdrop: 0.1}}.
    ctc_weight: share in the loss of CTC on the transcripts (see simulst/training/ctc.py). The rest is the share of the
        translation.
    listen_epochs: epochs at the beginning in which CTC alone counts. Else a decoder with random weights learns the
        target language by heart before the encoder has learnt to listen. In them, the loss shown is CTC's.
    label_smoothing: weight of the uniform distribution in the loss.
    weight_decay: of AdamW.
    clip: the gradient's greatest norm.
    dtype: of the arithmetic; the weights are in float32.
    average: numbers of checkpoints to average; the average with the lowest loss on dev is the result.
    save_minutes: the most minutes of work that an interruption can cost.
    first_ms, chunk_ms: learn a wait token from chunk-aligned data (`simulst prefix chunks`), with its chunks' lengths.
        Each chunk of an utterance is an example then. None: learn whole texts.
    seed: of the order of batches, dropout and new weights.
    new_model: describes a model to begin with, see `NewModel`. None: --model names one.
    """

    epochs: Count
    learning_rate: Positive
    updates: Count | None = None
    schedule: Literal["linear", "cosine", "inverse_sqrt", "constant_with_warmup"] = "linear"
    warmup: Amount = 0
    batch_seconds: Positive = 60.0
    accumulate: Count = 1
    most_seconds: Annotated[float, Field(gt=0, le=60)] = 30.0
    padding_seconds: Annotated[float, Field(ge=0, le=30)] = 1.0
    train_features: bool = False
    encoder_layers: Amount | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    ctc_weight: Share = 0.0
    listen_epochs: Amount = 0
    label_smoothing: Share = 0.0
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    clip: Positive = 1.0
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    average: tuple[Count, ...] = (1, 2, 3, 5)
    save_minutes: Annotated[float, Field(ge=0)] = 10.0
    first_ms: Positive | None = None
    chunk_ms: Positive | None = None
    seed: int = 0
    new_model: dict[str, Any] | None = None

    @property
    def grid(self) -> Grid | None:
        """Where chunks end; None: it learns whole texts."""
        return Grid(self.first_ms, self.chunk_ms) if self.first_ms and self.chunk_ms else None

    def ranked(self, losses: Mapping[int, float]) -> list[int]:
        """Epochs by their loss on dev, the best one first. Those that only listen come last: no decoder learns then."""
        return sorted(losses, key=lambda epoch: (epoch <= self.listen_epochs, losses[epoch]))


def read_mapping(config: Path) -> dict[str, Any]:
    """A training's configuration as it is. Raises SimulstError: no YAML, or no mapping."""
    content = read_yaml(config, "training configuration")
    if not isinstance(content, dict):
        raise SimulstError(f"{config}: not a mapping of options; see conf/train for configurations.")
    return content


def read_options(config: Path) -> tuple[FineTuning, NewModel | None]:
    """The configuration, and the new model that it describes.

    Raises SimulstError: an unknown key, a value of the wrong type or out of bounds; options that do not go together.
    """
    options = build_options(FineTuning, read_mapping(config), str(config), "the training")
    if not options.average:
        raise SimulstError(f"{config}: 'average' is empty; give numbers of checkpoints, such as [1, 3].")
    if (options.first_ms is None) != (options.chunk_ms is None) or (
        options.grid and (options.new_model or options.ctc_weight)
    ):
        raise SimulstError(
            f"{config}: chunk_ms goes with first_ms and --model, and not with new_model or ctc_weight; give these two."
        )
    if options.listen_epochs and not (options.ctc_weight and options.listen_epochs < options.epochs):
        raise SimulstError(f"{config}: listen_epochs needs a ctc_weight, and more epochs than it has; give these two.")
    if options.new_model is None:
        return options, None
    return options, build_options(NewModel, options.new_model, str(config), "'new_model'")
