"""The encoding part of an ESPnet session: from audio to encoder frames, and what the CTC layer says of them."""

from __future__ import annotations

import functools
import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simulst.calls import Batched, Steps, run_alone
from simulst.meter import Meter
from simulst.models.espnet.network.blockwise_encoder import GROUP, EncoderState
from simulst.models.espnet.parts import Parts

MOST_ROWS = 2048  # of a batch of a full-context encoder; more would take more memory and no less time
PRICINGS = 3  # how often the time to encode some blocks is measured; the median counts


@dataclass(frozen=True)
class Encoded:
    """Encoder frames that were written in one step.

    key: their name in a memo.
    frames: (t, width).
    first: the number of the first frame, counted from the start of the utterance.
    """

    key: Hashable
    frames: Tensor
    first: int = 0

    @property
    def end(self) -> int:
        """The number of the frame after the last one."""
        return self.first + len(self.frames)


class Encoding(ABC):
    """The audio that may still be needed, and the encoder frames.

    parts: the encoder frames, in order. The session removes the first parts when it no longer needs them.
    """

    def __init__(self, model: Parts, meter: Meter) -> None:
        self._model, self._meter = model, meter
        self._audio = np.zeros(0, dtype=np.float32)
        self._start = 0  # the number of the first sample in _audio
        self.final = False
        self.parts: list[Encoded] = []

    @property
    def length(self) -> int:
        """How many samples have been taken in."""
        return self._start + self._audio.size

    @property
    @abstractmethod
    def available(self) -> int:
        """See `Session.available`."""

    @property
    def end(self) -> int:
        """How many encoder frames have been written."""
        return self.parts[-1].end if self.parts else 0

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        """Take in audio, (n,) float32. final: whether the audio ends with it."""
        self._audio = np.concatenate([self._audio, samples])
        self.final = final

    @abstractmethod
    def encode(self) -> Steps[None]:
        """Encode the new audio and add the frames to `parts`."""


class FullContextEncoding(Encoding):
    """For full-context encoders. There is one part. Each step encodes it again, but for the encoder's first step."""

    def __init__(self, model: Parts, meter: Meter) -> None:
        super().__init__(model, meter)
        self._lasting: list[Tensor] = []  # of the first step, the rows that more audio does not change
        self._reduced = 0  # the length of audio of which they are

    @property
    def available(self) -> int:
        """How many frames the first step writes. Less audio than for one more of them makes no step."""
        return self._model.reduction.count(self.length)

    def encode(self) -> Steps[None]:
        key = ("encode", self.length)
        if self.parts and self.parts[0].key == key:
            return
        # What the first step costs depends on where it goes on, so it has its own entry in the memo: its new rows.
        name = ("reduce", self._reduced, self.length, self.final)
        lasting, rest = self._meter.shared(name, self._reduce)
        self._lasting.append(lasting)
        self._reduced = self.length
        reduced = torch.cat([*self._lasting, rest])
        most = max(1, MOST_ROWS // max(1, len(reduced)))
        alike = reduced.shape if self._model.batches else None
        call = Batched(self._model.encode_all, reduced, alike=alike, most=most)
        frames = yield from self._meter.shared_call(key, call)
        self.parts = [Encoded(key, frames)]

    def _reduce(self) -> tuple[Tensor, Tensor]:
        """The new rows that last, and those after them."""
        reduction, known = self._model.reduction, sum(map(len, self._lasting))
        if self.final:
            rest = reduction.rest(self._audio, known)
            return rest[:0], rest
        lasting = reduction.lasting(self._audio, known)
        return lasting, reduction.rest(self._audio, known + len(lasting))


@dataclass(frozen=True)
class _Resume:
    """A point from which the encoder can continue.

    features_read: how many feature frames the encoder has read.
    blocks: how many blocks it has written.
    state: its state there.
    """

    features_read: int = 0
    blocks: int = 0
    state: EncoderState | None = None


_Block = tuple[Tensor, _Resume | None]
"""The frames (t, width) of a block, or of the rest after the last block; and the point after it, if it is known: of
several blocks that were encoded together, only for the last one."""


class BlockwiseEncoding(Encoding):
    """For blockwise encoders. Each step adds a part, and audio that is no longer needed is dropped."""

    def __init__(self, model: Parts, meter: Meter) -> None:
        super().__init__(model, meter)
        assert model.blockwise is not None
        self._encoder = model.blockwise
        self._written = 0  # blocks that were written, here or by a stream that shares the memo
        self._resume = _Resume()  # the audio after this point is kept
        self._flushed = False

    @property
    def available(self) -> int:
        """How many blocks can be encoded from the audio so far, whether they are written already or not."""
        ready = self._model.features.count(self.length, final=False) - self._encoder.first_features
        return 1 + ready // self._hop_features if ready >= 0 else 0

    def block_end(self, count: int) -> float:
        """The length (samples) at which the encoder will have written `count` more blocks than now."""
        return self._model.features.samples(self._features_of(self.available + count))

    def length_of(self, frames: int) -> int:
        """The length of audio, in samples, with which the encoder has written `frames` frames."""
        encoder = self._encoder
        more = max(0, math.ceil((frames - encoder.first_size) / encoder.hop_size))
        return self._model.features.samples(encoder.first_features + more * encoder.subsample * encoder.hop_size)

    def block_sizes(self, part: Encoded) -> list[int]:
        """How many frames of a part belong to each block of the encoder, in order."""
        first, hop = self._encoder.first_size, self._encoder.hop_size
        bounds = [part.first, *(end for end in range(first, part.end, hop) if end > part.first), part.end]
        return [end - start for start, end in pairwise(bounds)]

    def encode(self) -> Steps[None]:
        keys = self._due()
        if not keys:
            return
        first, meter = self.end, self._meter
        if all(meter.knows(key) for key in keys):
            # Another stream may have encoded more or fewer blocks at once, in another time. So this stream is charged
            # the measured time of encoding these blocks together. The measurement itself is not counted.
            with meter.uncounted():
                blocks = [meter.shared(key, _unknown) for key in keys]
                price = seconds_of_blocks(self._model, len(keys))
            meter.charge(price)
        else:
            # The memo has each block separately, so all READs share it. Missing blocks are encoded together.
            blocks, made = [], dict[Hashable, _Block]()
            for key in keys:
                blocks.append((yield from meter.shared_steps(key, functools.partial(self._block, key, made))))
        for block in blocks:
            self._resume = block[1] or self._resume
        frames = blocks[0][0] if len(blocks) == 1 else torch.cat([block[0] for block in blocks])
        name = ("blocks", self._written - len(keys), self._written, self.final and self.length)
        self.parts.append(Encoded(name, frames, first))
        self._forget_audio()

    def _due(self) -> list[Hashable]:
        """The names of the blocks that can be encoded now, and at the end also of the rest. Marks them as written."""
        keys: list[Hashable] = [("block", number) for number in range(self._written, self.available)]
        self._written = self.available
        if self.final and not self._flushed:
            self._flushed = True
            keys.append(self._rest)
        return keys

    @property
    def _rest(self) -> Hashable:
        """The name of the frames after the last complete block."""
        return ("rest", self.length)

    @property
    def _hop_features(self) -> int:
        """How many feature frames each block after the first one adds."""
        return self._encoder.subsample * self._encoder.hop_size

    def _features_of(self, blocks: int) -> int:
        """How many feature frames the encoder needs for so many blocks."""
        return self._encoder.first_features + (blocks - 1) * self._hop_features if blocks else 0

    def _block(self, key: Hashable, made: dict[Hashable, _Block]) -> Steps[_Block]:
        if key not in made:
            made.update((yield from self._blocks()))
        return made[key]

    def _blocks(self) -> Steps[dict[Hashable, _Block]]:
        """Encode all blocks from the point where the encoder can continue up to the current position, together."""
        model, resume = self._model, self._resume
        count = model.features.count(self.length, final=True) if self.final else self._features_of(self._written)
        features = model.features.frames(self._audio, self._start, resume.features_read, count)
        piece = features[None], resume.state, self.final
        [frames], state = yield Batched(model.encode_blocks, piece, len(features), () if model.batches else None)
        first, hop = self._encoder.first_size, self._encoder.hop_size
        numbers = range(resume.blocks, self._written)
        sizes = [hop if number else first for number in numbers]
        pieces = frames.split([*sizes, len(frames) - sum(sizes)])
        keys: list[Hashable] = [("block", number) for number in numbers]
        made: dict[Hashable, _Block] = {
            key: (piece, None) for key, piece in zip([*keys, self._rest], pieces, strict=True)
        }
        if not self.final:
            made[keys[-1]] = pieces[-2], _Resume(count, self._written, state)
        return made

    def _forget_audio(self) -> None:
        keep = self._model.features.keep_from(self._resume.features_read) - self._start
        if keep > 0:
            self._audio, self._start = self._audio[keep:], self._start + keep


def open_encoding(model: Parts, meter: Meter) -> Encoding:
    return BlockwiseEncoding(model, meter) if model.blockwise else FullContextEncoding(model, meter)


def encode_whole(model: Parts, samples: np.ndarray) -> list[torch.Tensor]:
    """The frames of a whole utterance, in one or several parts of (T, width). samples: (n,) float32."""
    encoding = open_encoding(model, Meter())
    encoding.extend(samples, final=True)
    run_alone(encoding.encode())
    return [part.frames for part in encoding.parts]


def seconds_of_blocks(model: Parts, blocks: int) -> float:
    """The seconds that it takes to encode `blocks` blocks at once. A stream that shares the blocks is charged them.

    The time is measured at the first call, and the model remembers it.
    """
    if blocks > GROUP:  # the encoder computes at most GROUP blocks at once
        return seconds_of_blocks(model, GROUP) * blocks / GROUP
    known = model.seconds_of_blocks
    if blocks not in known:
        encoding, times = BlockwiseEncoding(model, Meter()), []
        for count in (1, *[blocks] * PRICINGS):
            encoding.extend(np.zeros(math.ceil(encoding.block_end(count)) - encoding.length, dtype=np.float32))
            started = time.perf_counter()
            run_alone(encoding.encode())
            times.append(time.perf_counter() - started)
        known[blocks] = statistics.median(times[1:])
    return known[blocks]


def _unknown() -> Any:
    raise AssertionError("the memo has it")
