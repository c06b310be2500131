"""Full-context encoders (Transformer, Conformer), which see all of an utterance, in two steps.

The first step, `reduce`, looks at a few features at a time, so prefixes of the same utterance share it: it is the
convolutional subsampling. For encoders without it the first step does nothing. The second step looks at everything.
Our fast layers compute it. ESPnet's module does so for encoders without subsampling, or with unusual options.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simulst.audio.features import LogMel, Normalize
from simulst.models.espnet.network.lagging import restrict_encoder
from simulst.models.espnet.network.layers import Layers, Subsampling, is_swish

POSITIONS = {  # ESPnet's kinds of attention that are computed here, and the positions that each of them takes
    "MultiHeadedAttention": "PositionalEncoding",
    "RelPositionMultiHeadedAttention": "RelPositionalEncoding",
    "LegacyRelPositionMultiHeadedAttention": "LegacyRelPositionalEncoding",
}


class FullContextEncoder:
    """A full-context encoder.

    encoder: ESPnet's TransformerEncoder or ConformerEncoder, with its weights, on its device.
    normalize: the normalisation of the features.
    by_frame: whether it normalises each frame separately.
    precision: of the matrix products that are computed here.
    unidirectional: whether frames attend only to earlier frames (see lagging.py).
    """

    def __init__(
        self,
        encoder: Any,
        normalize: Normalize,
        by_frame: bool = True,
        precision: str = "float32",
        unidirectional: bool = False,
    ) -> None:
        self._normalize, self._encoder = normalize, encoder
        self.width = int(encoder.output_size())
        self._subsampling: Subsampling | None = None
        self._layers: Layers | None = None
        self.factor, self.least = 1, 1
        self.subsample = 1
        """How many feature frames an encoder frame stands for; 1 if it is not known."""
        if _has_subsampling(encoder):
            self.subsample = math.prod(m.stride[0] for m in encoder.embed.conv if isinstance(m, torch.nn.Conv2d))
        if by_frame and _has_subsampling(encoder):
            positions = _positions(encoder.embed)
            with torch.inference_mode():
                self._subsampling = Subsampling(encoder.embed, precision)
                if _is_plain(encoder):
                    absolute = type(positions).__name__ == "PositionalEncoding"
                    self._layers = Layers(encoder, precision, unidirectional, None if absolute else positions)
            self.factor, self.least = self._subsampling.factor, self._subsampling.least
            encoder.embed = positions
        if self._layers is not None:
            self._encoder = None  # or else its weights would be in memory twice
        elif unidirectional:
            restrict_encoder(encoder)

    @torch.inference_mode()
    def reduce(self, features: Tensor) -> Tensor:
        """The first step, from features (n, dims) to (t, ·).

        Row i is computed from `least` features, from number i * `factor` on.
        """
        if self._subsampling is None:
            return features
        return self._subsampling(self._normalize(features[None]))[0]

    @torch.inference_mode()
    def __call__(self, reduced: Tensor) -> Tensor:
        """The second step, from the results of `reduce` for B utterances (B, t, ·) to encoder frames (B, T, width)."""
        if self._layers is not None:
            return self._layers(reduced)
        from espnet.nets.pytorch_backend.transformer.subsampling import TooShortUttError

        batch, count, _ = reduced.shape
        nothing = reduced.new_zeros(batch, 0, self.width)
        if not count:
            return nothing
        if self._subsampling is None:
            reduced = self._normalize(reduced)
        try:
            frames, *_ = self._encoder(reduced, torch.tensor([count] * batch, device=reduced.device))
        except TooShortUttError:
            return nothing
        return frames[0] if isinstance(frames, tuple) else frames  # a tuple if ESPnet returns inner layers as well


class Reduction:
    """The first step of `FullContextEncoder` for audio that grows, or for prefixes of the same utterance.

    The end of a prefix is padded with its mirror image, so its last rows differ from those of a longer prefix. All
    audio is (n,) float32, from the start of the utterance on; results are (t, ·).
    """

    def __init__(self, features: LogMel, encoder: FullContextEncoder) -> None:
        self._features, self._encoder = features, encoder

    def lasting(self, audio: np.ndarray, first: int = 0) -> Tensor:
        """The rows that are the same if more audio follows, from number `first` on."""
        last = self._lasting(audio.size)
        features = (last - 1) * self._encoder.factor + self._encoder.least if last > first else 0
        return self._from(audio, first, features)

    def rest(self, audio: np.ndarray, first: int = 0) -> Tensor:
        """The rows of the result of `reduce` from number `first` on."""
        return self._from(audio, first, self._features.count(audio.size, final=True))

    def all(self, audio: np.ndarray, known: Tensor | None = None) -> Tensor:
        """The result of `reduce`. known: the first rows that are `lasting`, also those of audio that goes on."""
        first = 0 if known is None else min(len(known), self._lasting(audio.size))
        rows = self.rest(audio, first)
        return rows if known is None or not first else torch.cat([known[:first], rows])

    def count(self, samples: int) -> int:
        """How many rows `all` gives for so much audio."""
        return self._rows(self._features.count(samples, final=True))

    def _from(self, audio: np.ndarray, first: int, features: int) -> Tensor:
        """The rows from number `first` on that come from so many features of the audio."""
        return self._encoder.reduce(self._features.frames(audio, 0, first * self._encoder.factor, features))

    def _lasting(self, samples: int) -> int:
        return self._rows(self._features.count(samples, final=False))

    def _rows(self, features: int) -> int:
        return max(0, (features - self._encoder.least) // self._encoder.factor + 1)


def _has_subsampling(encoder: Any) -> bool:
    """Whether it begins with a convolution over time and frequency, and a positional encoding after it."""
    kinds = ("TransformerEncoder", "ConformerEncoder")
    return type(encoder).__name__ in kinds and type(encoder.embed).__name__.startswith("Conv2dSubsampling")


def _positions(embed: Any) -> torch.nn.Module:
    """The positional encoding of a subsampling module."""
    module: torch.nn.Module = embed.pos_enc if isinstance(embed.out, torch.nn.Linear) else embed.out[1]
    return module


def _is_plain(encoder: Any) -> bool:
    """Whether an encoder with subsampling has no unusual options."""
    if not encoder.normalize_before or encoder.interctc_layer_idx:
        return False
    positions = type(_positions(encoder.embed)).__name__
    return not any(
        layer.concat_after
        or POSITIONS.get(type(layer.self_attn).__name__) != positions
        or not isinstance(getattr(layer.self_attn, "q_norm", None), torch.nn.Identity | None)
        or getattr(layer.self_attn, "zero_triu", False)
        or type(layer.feed_forward).__name__ != "PositionwiseFeedForward"
        or not (isinstance(layer.feed_forward.activation, torch.nn.ReLU) or is_swish(layer.feed_forward.activation))
        for layer in encoder.encoders
    )
