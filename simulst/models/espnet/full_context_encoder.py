"""Full-context encoders (Transformer, Conformer), which see all of an utterance, in two steps.

The first step, `reduce`, looks at a few features at a time, so prefixes of the same utterance share it. The second step
looks at everything. For Transformers with convolutional subsampling, both steps are computed here, with fast layers.
For other encoders the first step does nothing, and the second step is ESPnet's module.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from simulst.features import LogMel, Normalize
from simulst.models.espnet.lagging import restrict_encoder
from simulst.models.espnet.layers import Layers, Subsampling
from simulst.models.espnet.linear import dtype_of


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
        dtype = dtype_of(precision)
        self._normalize, self._encoder = normalize, encoder
        self.width = int(encoder.output_size())
        self._subsampling: Subsampling | None = None
        self.factor, self.least = 1, 1
        if by_frame and _is_plain(encoder):
            with torch.inference_mode():
                self._subsampling = Subsampling(encoder.embed, dtype)
                self._layers = Layers(encoder, dtype, unidirectional)
            self.factor, self.least = self._subsampling.factor, self._subsampling.least
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
        return frames[0] if isinstance(frames, tuple) else frames  # a tuple if ESPnet returns inner layers as well


class ReducedPrefixes:
    """The first step of `FullContextEncoder` for the prefixes of one utterance.

    audio: (n,) float32, the whole utterance.
    """

    def __init__(self, features: LogMel, encoder: FullContextEncoder, audio: np.ndarray) -> None:
        self._features, self._encoder, self._audio = features, encoder, audio
        self._shared: Tensor | None = None

    def __call__(self, samples: int) -> Tensor:
        """The result of `reduce`, (t, ·), for the first `samples` samples."""
        features, encoder = self._features, self._encoder
        # The end of a prefix is padded with its mirror image, so its last features differ from those of the whole
        # utterance. If only the whole utterance is asked for, two parts would only cost time.
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
    """Whether it is a Transformer without unusual options."""
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
