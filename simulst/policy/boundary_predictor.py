"""The boundary predictor: has enough been said since the last translation to translate again?

NAIST at IWSLT 2022, sections 2.2 and 3.2.2. The network has log-mel features, a 2-D convolution that keeps a quarter of
the frames, a forward LSTM, and two labels per output. Label 1 means that a prefix pair ends at the end of the output's
piece. At inference the audio comes in pieces of T frames of 10 ms. The share of outputs labelled 1 in the newest piece
is compared with a threshold.

Nothing looks ahead, so the outputs of a piece are the same whether the audio comes whole or piece by piece. A log-mel
frame needs half a window of audio on both sides, so the newest frame is not available at the end of a piece. All
features are therefore read one frame (10 ms) late: n * 4 frames of audio give n * 4 - 1 features and n outputs. Output
i (from 0) has seen the features up to number 4 i + 2, so it has seen no audio after frame 4 i + 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from simulst.audio.features import LogMel
from simulst.audio.mel import mel_filters
from simulst.audio.units import FRAME, SAMPLE_RATE
from simulst.calls import Batched, Steps
from simulst.errors import SimulstError
from simulst.files.folder import save_atomically
from simulst.options import read_fields

WINDOW, N_FFT = 400, 512  # samples; windows of 25 ms, a frame apart
SUBSAMPLING = 4  # frames per output
FORMAT = "simulst boundary predictor"


@dataclass(frozen=True)
class Sizes:
    """The network's sizes. The defaults are the paper's, except `channels`, which the paper does not give.

    mels: log-mel features per frame.
    channels: of the two convolutions.
    embedding: input size of the LSTM.
    hidden: state size of the LSTM.
    """

    mels: int = 80
    channels: int = 32
    embedding: int = 256
    hidden: int = 512

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise SimulstError(f"boundary predictor: {name} is {value}; give 1 or more.")


class PredictorState(NamedTuple):
    """The state between two pieces of a batch: the last normalised feature, the last output of the first convolution,
    and the LSTM's h and c."""

    feature: Tensor  # (batch, 1, mels)
    convolved: Tensor  # (batch, channels, 1, half the mels)
    memory: tuple[Tensor, Tensor]  # (1, batch, hidden) each

    @classmethod
    def joined(cls, states: Sequence[PredictorState]) -> PredictorState:
        """The states of several batches as that of one."""
        features, convolved, memories = zip(*states, strict=True)
        memory, cells = (torch.cat(some, 1) for some in zip(*memories, strict=True))
        return cls(torch.cat(features), torch.cat(convolved), (memory, cells))

    def parts(self) -> Iterator[PredictorState]:
        """The state of each of the batch, in memory of its own."""
        for n in range(len(self.feature)):
            some = slice(n, n + 1)
            memory, cells = (part[:, some].clone() for part in self.memory)
            yield PredictorState(self.feature[some].clone(), self.convolved[some].clone(), (memory, cells))


class BoundaryPredictor(nn.Module):
    """The network. It normalises features with `mean` and `deviation`, (mels,), which training sets.

    tau: frames (10 ms) per piece in training, a multiple of 4. Pieces may be shorter at inference.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, tau: int = 100, sizes: Sizes | None = None) -> None:
        super().__init__()
        sizes = sizes or Sizes()
        if tau < 1 or tau % SUBSAMPLING:
            raise SimulstError(f"boundary predictor: tau is {tau} frames; give a multiple of {SUBSAMPLING}.")
        self.tau, self.sizes = tau, sizes
        filters = mel_filters(sizes.mels, N_FFT, SAMPLE_RATE)
        self._log_mel = LogMel(torch.from_numpy(filters.T.copy()), N_FFT, WINDOW, FRAME)
        # `forward` pads them in time, on the left.
        self.first = nn.Conv2d(1, sizes.channels, 3, stride=2, padding=(0, 1))
        self.second = nn.Conv2d(sizes.channels, sizes.channels, 3, stride=2, padding=(0, 1))
        self._half = (sizes.mels + 1) // 2
        self.embed = nn.Linear(sizes.channels * ((self._half + 1) // 2), sizes.embedding)
        self.lstm = nn.LSTM(sizes.embedding, sizes.hidden, batch_first=True)
        self.label = nn.Linear(sizes.hidden, 2)
        self.register_buffer("mean", torch.zeros(sizes.mels))
        self.register_buffer("deviation", torch.ones(sizes.mels))

    def features(self, samples: np.ndarray, start: int = 0, first: int = 0) -> Tensor:
        """The features from number `first` on that the audio so far determines, not normalised.

        n * 4 frames of audio since the beginning give n * 4 - 1 features.

        samples: (n,) float32 at 16 kHz, from sample number `start` on (see LogMel.frames).

        Returns: (features, mels).
        """
        ready = self._log_mel.count(start + samples.size, final=False)
        return self._log_mel.frames(samples, start, first, ready)

    def forward(self, features: Tensor, state: PredictorState | None = None) -> tuple[Tensor, PredictorState]:
        """Compute the next n outputs.

        features: (batch, 4 n, mels); without a state (the audio's beginning), (batch, 4 n - 1, mels).
        state: the state after the features before; None at the audio's beginning.

        Returns: logits of the labels 0 and 1, (batch, n, 2), and the new state.
        """
        batch = features.shape[0]
        normal = (features - self.mean) / self.deviation
        if state is None:
            before = normal.new_zeros(batch, 2, self.sizes.mels)
            convolved, memory = normal.new_zeros(batch, self.sizes.channels, 1, self._half), None
        else:
            before, convolved, memory = state
        normal = torch.cat([before, normal], dim=1)
        half = torch.cat([convolved, torch.relu(self.first(normal[:, None]))], dim=2)
        quarter = torch.relu(self.second(half))  # (batch, channels, n, mels / 4)
        hidden, memory = self.lstm(self.embed(quarter.transpose(1, 2).flatten(2)), memory)
        return self.label(hidden), PredictorState(normal[:, -1:], half[:, :, -1:], memory)

    @torch.inference_mode()
    def label_pieces(self, pieces: Sequence[tuple[Tensor, Any]]) -> list[tuple[Tensor, PredictorState]]:
        """As `forward`, for equally many features of several utterances, which all have a state, or all None."""
        features, states = zip(*pieces, strict=True)
        logits, state = self(torch.stack(features), None if states[0] is None else PredictorState.joined(states))
        return list(zip(logits, state.parts(), strict=True))

    def save(self, path: Path) -> None:
        """Write everything that `load_predictor` needs into one file; the file appears whole or not at all."""
        content = {"format": FORMAT, "sample_rate": SAMPLE_RATE, "tau": self.tau, "sizes": asdict(self.sizes)}
        save_atomically(path, {**content, "weights": self.state_dict()})


@dataclass(frozen=True, eq=False)
class Heard:
    """What a predictor knows of an utterance between two pieces. It does not change; a piece gives the next one.

    audio: the samples that are still needed, from sample number `start` on.
    features: how many features there were.
    state: the network's; None: it has heard nothing.
    """

    predictor: BoundaryPredictor
    audio: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    start: int = 0
    features: int = 0
    state: PredictorState | None = None

    def logits(self, samples: np.ndarray) -> Steps[tuple[Tensor, Heard]]:
        """The logits for the next piece of audio, and what is known after it. It asks for one call.

        samples: (n * 640,) float32 at 16 kHz, n > 0.

        Returns: (n, 2), and the new state.
        Raises SimulstError: the number of samples is no multiple of 640; samples are not finite.
        """
        step = FRAME * SUBSAMPLING
        if samples.ndim != 1 or not samples.size or samples.size % step:
            raise SimulstError(
                f"boundary predictor: a piece of shape {samples.shape}; give mono samples, their number a multiple of "
                f"{step}."
            )
        if not np.isfinite(samples).all():
            raise SimulstError("boundary predictor: audio with NaN or infinite samples; check the source.")
        audio = np.concatenate([self.audio, samples.astype(np.float32)])
        with torch.inference_mode():
            features = self.predictor.features(audio, self.start, self.features)
        alike = len(features), self.state is None
        logits, state = yield Batched(self.predictor.label_pieces, (features, self.state), alike=alike)
        count = self.features + len(features)
        start = max(self.start, self.predictor._log_mel.keep_from(count))
        return logits, Heard(self.predictor, audio[start - self.start :].copy(), start, count, state)

    def share(self, samples: np.ndarray) -> Steps[tuple[float, Heard]]:
        """The share of outputs labelled 1 in the next piece, in [0, 1]. All else is as for `logits`."""
        logits, heard = yield from self.logits(samples)
        labels = logits.argmax(dim=1)
        return int(labels.sum()) / len(labels), heard


def load_predictor(path: str | Path) -> BoundaryPredictor:
    """Load a trained predictor on the CPU.

    Raises SimulstError: the file is missing or not a predictor; it has another sample rate; the weights do not have the
        sizes that the file states.
    """
    remedy = "name a predictor.pth that 'simulst prefix predictor' wrote"
    content = load_checkpoint(path, remedy)
    if content.get("format") != FORMAT:
        raise SimulstError(f"{path}: not a boundary predictor; {remedy}.")
    stored = read_fields(_Stored, content, f"{path}: not a boundary predictor", remedy)
    if stored.sample_rate != SAMPLE_RATE:
        raise SimulstError(
            f"{path}: trained on audio of {stored.sample_rate} Hz; {SAMPLE_RATE} Hz is needed: train it again."
        )
    predictor = BoundaryPredictor(stored.tau, stored.sizes)
    try:
        predictor.load_state_dict(stored.weights)
    except RuntimeError:
        raise SimulstError(
            f"{path}: its weights are not of the sizes {asdict(stored.sizes)}; train it again."
        ) from None
    return predictor.eval()


@dataclass
class _Stored:
    """What `BoundaryPredictor.save` writes."""

    sample_rate: int
    tau: int
    sizes: Sizes
    weights: dict[str, Any]


def load_checkpoint(path: str | Path, remedy: str) -> dict:
    """Load a file of `save_atomically` without running code from it.

    remedy: ends the error message.

    Raises SimulstError: the file is missing or not a readable checkpoint.
    """
    if not Path(path).is_file():
        raise SimulstError(f"{path}: no such file; {remedy}.")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # damaged files raise many kinds of errors
        content = None
    if not isinstance(content, dict):
        raise SimulstError(f"{path}: not a readable checkpoint; {remedy}.")
    return content
