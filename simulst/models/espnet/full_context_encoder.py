"""Encoders that see all of an utterance (Transformer, Conformer), in two steps.

The first step, `reduce`, looks at a few features at a time, so that the prefixes of an utterance share it. The second
one looks at everything. For Transformers after convolutions both are computed here, as fast as contextual blocks are;
of other encoders the first step is nothing, and the second one is ESPnet's module.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from simulst.features import LogMel, Normalize
from simulst.models.espnet.layers import Layers, Subsampling
from simulst.models.espnet.linear import dtype_of


class FullContextEncoder:
    """encoder: ESPnet's TransformerEncoder or ConformerEncoder, with its weights, on its device.

    normalize: what is done to features before. by_frame: whether it does so to each frame by itself. precision: of the
    matrix products, where they are computed here.
    """

    def __init__(self, encoder: Any, normalize: Normalize, by_frame: bool = True, precision: str = "float32") -> None:
        dtype = dtype_of(precision)
        self._normalize, self._encoder = normalize, encoder
        self.width = int(encoder.output_size())
        self._subsampling: Subsampling | None = None
        self.factor, self.least = 1, 1
        if by_frame and _is_plain(encoder):
            with torch.inference_mode():
                self._subsampling = Subsampling(encoder.embed, dtype)
                self._layers = Layers(encoder, dtype)
            self.factor, self.least = self._subsampling.factor, self._subsampling.least
            self._encoder = None  # its weights would be twice in memory

    @torch.inference_mode()
    def reduce(self, features: Tensor) -> Tensor:
        """Features (n, dims) → (t, ·): row i is made of `least` features from number i * `factor` on."""
        if self._subsampling is None:
            return features
        return self._subsampling(self._normalize(features[None]))[0]

    @torch.inference_mode()
    def __call__(self, reduced: Tensor) -> Tensor:
        """What `reduce` made of utterances of the same length, (B, t, ·) → encoder frames (B, T, width)."""
        if self._subsampling is not None:
            return self._layers(reduced)
        from espnet.nets.pytorch_backend.transformer.subsampling import TooShortUttError

        batch, count, _ = reduced.shape
        nothing = reduced.new_zeros(batch, 0, self.width)
        if not count:
            return nothing
        try:
            frames, *_ = self._encoder(self._normalize(reduced), torch.tensor([count] * batch, device=reduced.device))
        except TooShortUttError:
            return nothing
        return frames[0] if isinstance(frames, tuple) else frames  # a tuple if inner layers are given too


class ReducedPrefixes:
    """What `FullContextEncoder` makes of the prefixes of an utterance in its first step. audio: (n,) float32."""

    def __init__(self, features: LogMel, encoder: FullContextEncoder, audio: np.ndarray) -> None:
        self._features, self._encoder, self._audio = features, encoder, audio
        self._shared: Tensor | None = None

    def __call__(self, samples: int) -> Tensor:
        """(t, ·), of the first `samples` samples."""
        features, encoder = self._features, self._encoder
        # At its end, a prefix is mirrored. For the whole alone, to be made in two parts would only cost time.
        shares = self._shared is not None or samples < self._audio.size
        same = features.count(samples, final=False) if shares else 0
        kept = max(0, (same - encoder.least) // encoder.factor + 1)
        if kept and self._shared is None:
            last = features.count(self._audio.size, final=False)
            self._shared = encoder.reduce(features.frames(self._audio, 0, 0, last))
        audio, count = self._audio[:samples], features.count(samples, final=True)
        rest = encoder.reduce(features.frames(audio, 0, kept * encoder.factor, count))
        return rest if self._shared is None or not kept else torch.cat([self._shared[:kept], rest])


def _is_plain(encoder: Any) -> bool:
    """Whether it is a Transformer of the usual parts."""
    if type(encoder).__name__ != "TransformerEncoder" or not type(encoder.embed).__name__.startswith("Conv2d"):
        return False
    if type(encoder.embed.out[1]).__name__ != "PositionalEncoding":
        return False
    if not encoder.normalize_before or encoder.interctc_layer_idx:
        return False
    return not any(
        layer.concat_after
        or not isinstance(getattr(layer.self_attn, "q_norm", None), torch.nn.Identity | None)
        or type(layer.feed_forward).__name__ != "PositionwiseFeedForward"
        for layer in encoder.encoders
    )
