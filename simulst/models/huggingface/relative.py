"""wav2vec 2.0 with relative positions (paper A: CUNI-KIT at IWSLT 2022, section 4.2.1). transformers has none.

transformers' wav2vec2-conformer has such positions, but other layers, so that wav2vec 2.0's weights do not fit it. Here
the layers are wav2vec 2.0's, and each attention also weighs the distance of two frames (Dai et al. 2019, section 3.3).
The new weights are 0 before a training, so that the model begins as the pre-trained one. Its convolution over positions
stays: the paper says that relative positions were added.

Importing this file makes the type `wav2vec2_relative` known to transformers' AutoConfig and AutoModel.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel, Wav2Vec2Config, Wav2Vec2FeatureExtractor, Wav2Vec2Model, initialization
from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING

from simulst.models.espnet.network.layers import by_key


class RelativeConfig(Wav2Vec2Config):
    """As wav2vec 2.0's."""

    model_type = "wav2vec2_relative"


class RelativeAttention(nn.Module):
    """Takes the place of wav2vec 2.0's attention, and has its weights under the same names.

    From frame i to frame j, with the sinusoids p of their distance, the score is

        (q_i + u) · k_j + (q_i + v) · W p(i - j),

    divided by the square root of a head's width.
    """

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.num_heads, self.dropout = attention.num_heads, attention.dropout
        width, heads = attention.embed_dim, attention.num_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, getattr(attention, name))
        self.relative_distance = nn.Parameter(torch.zeros(width, width))
        self.relative_to_key = nn.Parameter(torch.zeros(heads, 1, width // heads))
        self.relative_to_distance = nn.Parameter(torch.zeros(heads, 1, width // heads))

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, **_: Any) -> tuple[Tensor, None]:
        """Frames (n, T, width) → the same shape, and no weights.

        attention_mask: (n, 1, T or 1, T), as the library makes it: false, or very low, where a key is padding.
        """
        query, key, value = (
            part(hidden_states).unflatten(2, (self.num_heads, -1)).transpose(1, 2)  # type: ignore[operator]
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        frames, width = hidden_states.shape[1:]
        sinusoids = _distances(frames, width, hidden_states.device).to(query.dtype)
        distances = F.linear(sinusoids, self.relative_distance).unflatten(1, (self.num_heads, -1)).permute(1, 2, 0)
        scores = by_key((query + self.relative_to_distance) @ distances) * query.shape[-1] ** -0.5
        if attention_mask is not None and attention_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
        elif attention_mask is not None:
            scores = scores + attention_mask
        dropout = self.dropout if self.training else 0.0
        found = F.scaled_dot_product_attention(query + self.relative_to_key, key, value, scores, dropout)
        return self.out_proj(found.transpose(1, 2).flatten(2)), None  # type: ignore[operator]


@functools.lru_cache(maxsize=2)  # all layers ask for the same
def _distances(frames: int, width: int, device: torch.device) -> Tensor:
    """Sinusoids of the distances from frames - 1 down to 1 - frames, (2 * frames - 1, width) float32."""
    with torch.inference_mode(False):  # a training may use them after a decoding
        distances = torch.arange(frames - 1, -frames, -1, dtype=torch.float32, device=device)
        rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10000.0) / width))
        angles = distances[:, None] * rates
        return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)


class RelativeModel(Wav2Vec2Model):
    """wav2vec 2.0's encoder, with `RelativeAttention` in each layer. Inputs and outputs are Wav2Vec2Model's."""

    config_class = RelativeConfig
    _supports_flash_attn = _supports_flex_attn = False

    def __init__(self, config: RelativeConfig) -> None:
        super().__init__(config)
        for layer in self.encoder.layers:
            layer.attention = RelativeAttention(layer.attention)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, RelativeAttention):
            for name in ("relative_distance", "relative_to_key", "relative_to_distance"):
                initialization.zeros_(getattr(module, name))
        else:
            super()._init_weights(module)


AutoConfig.register(RelativeConfig.model_type, RelativeConfig)
AutoModel.register(RelativeConfig, RelativeModel)
FEATURE_EXTRACTOR_MAPPING.register(RelativeConfig, Wav2Vec2FeatureExtractor)
