"""The layers of ESPnet's encoders, with their weights laid out for fast inference."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from simulst.models.espnet.network.linear import Linear, joined


class Layer:
    """One encoder layer, from (batch, rows, width) to the same shape, with a norm before each of its parts.

    unidirectional: whether rows attend only to earlier rows.

    has_contexts: whether the first and last rows are context vectors (see blockwise_encoder.py).
    positions: for relative attention, the encodings of positions, (1, ·, width).
    """

    def __init__(self, layer: Any, precision: str, unidirectional: bool = False) -> None:
        macaron, convolution = getattr(layer, "feed_forward_macaron", None), getattr(layer, "conv_module", None)
        scale = getattr(layer, "ff_scale", 1.0)
        self._macaron = None if macaron is None else FeedForward(layer.norm_ff_macaron, macaron, scale, precision)
        kind = RelativeAttention if hasattr(layer.self_attn, "linear_pos") else Attention
        # ESPnet's Conformers and its other encoders have other names for the same norms.
        of_attention = layer.norm_mha if hasattr(layer, "norm_mha") else layer.norm1
        of_feed_forward = layer.norm_ff if hasattr(layer, "norm_ff") else layer.norm2
        self._attention = kind(of_attention, layer.self_attn, precision, unidirectional)
        self._convolution = None if convolution is None else Convolution(layer.norm_conv, convolution, precision)
        self._feed_forward = FeedForward(of_feed_forward, layer.feed_forward, scale, precision)
        self._norm = None if convolution is None else layer_norm(layer.norm_final)

    def __call__(self, x: torch.Tensor, has_contexts: bool, positions: torch.Tensor | None = None) -> torch.Tensor:
        if self._macaron is not None:
            x = self._macaron(x)
        x = self._attention(x, has_contexts, positions)
        if self._convolution is not None:
            x = self._convolution(x)
        x = self._feed_forward(x)
        return x if self._norm is None else self._norm(x)


class FeedForward:
    def __init__(self, norm: torch.nn.LayerNorm, module: Any, scale: float, precision: str) -> None:
        self._norm, self._swish = layer_norm(norm), is_swish(module.activation)
        self._in = Linear(module.w_1.weight, module.w_1.bias, precision)
        self._out = Linear(module.w_2.weight * scale, module.w_2.bias * scale, precision)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = self._in(self._norm(x), relu=not self._swish)
        return self._out(F.silu(y, inplace=True) if self._swish else y, add=x)


class Attention:
    def __init__(self, norm: torch.nn.LayerNorm, module: Any, precision: str, unidirectional: bool) -> None:
        self._norm, self._heads, self._unidirectional = layer_norm(norm), module.h, unidirectional
        self._in = joined(precision, module.linear_q, module.linear_k, module.linear_v)
        self._out = Linear(module.linear_out.weight, module.linear_out.bias, precision)

    def __call__(self, x: torch.Tensor, has_contexts: bool, positions: torch.Tensor | None = None) -> torch.Tensor:
        query, key, value = self._project(x)
        if has_contexts:
            key, value = key[:, :, :-1], value[:, :, :-1]
        answer = F.scaled_dot_product_attention(query, key, value, is_causal=self._unidirectional)
        answer = answer.transpose(1, 2).flatten(2)
        if has_contexts:
            answer[:, 0] = 0
        return self._out(answer, add=x)

    def _project(self, x: torch.Tensor) -> torch.Tensor:
        """Query, key and value of all heads, (3, blocks, heads, rows, width / heads)."""
        return self._in(self._norm(x)).unflatten(2, (3, self._heads, -1)).permute(2, 0, 3, 1, 4)


class RelativeAttention(Attention):
    """Attention that also weighs the distance of two rows (Dai et al. 2019, section 3.3), as in ESPnet's Conformers.

    There are 2n - 1 distances of n rows. ESPnet's older form of it has n; there, a row's distances to later rows are
    those of the next row.
    """

    def __init__(self, norm: torch.nn.LayerNorm, module: Any, precision: str, unidirectional: bool) -> None:
        assert not unidirectional
        super().__init__(norm, module, precision, unidirectional)
        self._of_key, self._of_distance = module.pos_bias_u[:, None], module.pos_bias_v[:, None]
        weight = module.linear_pos.weight
        self._positions = Linear(weight, weight.new_zeros(len(weight)), precision)

    def __call__(self, x: torch.Tensor, has_contexts: bool, positions: torch.Tensor | None = None) -> torch.Tensor:
        assert positions is not None and not has_contexts
        query, key, value = self._project(x)
        distances = self._positions(positions[0]).unflatten(1, (self._heads, -1)).permute(1, 2, 0)
        scores = by_key((query + self._of_distance) @ distances) * query.shape[-1] ** -0.5
        answer = F.scaled_dot_product_attention(query + self._of_key, key, value, attn_mask=scores)
        return self._out(answer.transpose(1, 2).flatten(2), add=x)


def by_key(scores: torch.Tensor) -> torch.Tensor:
    """From scores by distance (..., n, d), the largest one first, to scores by key (..., n, n).

    Each row begins one column before the row above it. This comes by itself if a column is added on the left, and the
    numbers are laid out in rows of d again, without the first n of them (Dai et al. 2019, appendix B).
    """
    n, d = scores.shape[-2:]
    return F.pad(scores, (1, 0)).flatten(-2)[..., n:].unflatten(-1, (n, d))[..., :n]


class Convolution:
    """ESPnet's convolution module. The batch norm is merged into the weights of the convolution before it."""

    def __init__(self, norm: torch.nn.LayerNorm, module: Any, precision: str) -> None:
        self._norm = layer_norm(norm)
        self._in = Linear(module.pointwise_conv1.weight[:, :, 0], module.pointwise_conv1.bias, precision)
        depthwise, batch = module.depthwise_conv, module.norm
        scale = batch.weight.double() / torch.sqrt(batch.running_var.double() + batch.eps)
        bias = (depthwise.bias.double() - batch.running_mean.double()) * scale + batch.bias.double()
        weight = (depthwise.weight.double() * scale[:, None, None]).float()
        self._bias, self._padding = bias.float(), (0, depthwise.padding[0])
        # A 2D convolution with one dimension of size 1 is ten times as fast, because it allows channels to come last.
        self._weight = weight[:, :, None].contiguous(memory_format=torch.channels_last)
        self._activation = partial(F.silu, inplace=True) if is_swish(module.activation) else module.activation
        self._out = Linear(module.pointwise_conv2.weight[:, :, 0], module.pointwise_conv2.bias, precision)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = F.glu(self._in(self._norm(x)), 2).transpose(1, 2)[:, :, None]
        y = F.conv2d(y, self._weight, self._bias, padding=self._padding, groups=len(self._bias))
        return self._out(self._activation(y[:, :, 0].transpose(1, 2)), add=x)


class Subsampling:
    """Convolutions over time and frequency, from features (B, n, dims) to frames (B, t, width).

    factor: how many features lie between one frame and the next.
    least: how many features a frame is computed from.
    """

    def __init__(self, module: Any, precision: str) -> None:
        convolutions: list[Any] = [m for m in module.conv if isinstance(m, torch.nn.Conv2d)]
        first, *others = convolutions
        self.factor, self.least = 1, 1
        for m in convolutions:
            self.least += self.factor * (m.kernel_size[0] - 1)
            self.factor *= m.stride[0]
        self._size, self._stride = first.kernel_size, first.stride
        self._first = Linear(first.weight.flatten(1), first.bias)
        self._others = [(m.weight.contiguous(memory_format=torch.channels_last), m.bias, m.stride) for m in others]
        # In some ESPnet modules `out` also contains the positional encoding, after the linear layer.
        out = module.out if isinstance(module.out, torch.nn.Linear) else module.out[0]
        weight = out.weight.unflatten(1, (len(first.bias), -1)).transpose(1, 2).flatten(1)  # channels last
        self._out = Linear(weight, out.bias, "float32" if precision == "int8" else precision)  # never int8
        self.width = len(out.bias)

    def count(self, features: int) -> int:
        """How many frames are computed from so many features."""
        return max(0, (features - self.least) // self.factor + 1)

    def __call__(self, features: torch.Tensor) -> torch.Tensor:
        if features.shape[1] < self.least:
            return features.new_zeros(len(features), 0, self.width)
        windows = features.unfold(1, self._size[0], self._stride[0]).unfold(2, self._size[1], self._stride[1])
        x = self._first(windows.flatten(3), relu=True).permute(0, 3, 1, 2)  # (B, channels, time, frequencies)
        for weight, bias, stride in self._others:
            x = F.relu_(F.conv2d(x, weight, bias, stride))
        return self._out(x.permute(0, 2, 3, 1).flatten(2))


class Positions:
    """Sinusoidal positional encoding: scales rows (..., n, width) and adds the encodings of their positions."""

    def __init__(self, width: int, device: torch.device) -> None:
        self._scale = math.sqrt(width)
        # Computed on the CPU, as in ESPnet. Devices round differently, and late positions magnify the difference.
        frequencies = torch.exp(torch.arange(0, width, 2).float() * -(math.log(10000.0) / width))
        self._frequencies = frequencies.to(device)

    def __call__(self, rows: torch.Tensor, first: int = 0) -> torch.Tensor:
        """first: the position of the first row."""
        positions = torch.arange(first, first + rows.shape[-2], dtype=torch.float32, device=rows.device)
        angles = positions[:, None] * self._frequencies
        return rows * self._scale + torch.stack([angles.sin(), angles.cos()], 2).flatten(1)


def layer_norm(norm: torch.nn.LayerNorm) -> Callable[[torch.Tensor], torch.Tensor]:
    # Calling the module would double the time.
    return partial(
        F.layer_norm, normalized_shape=norm.normalized_shape, weight=norm.weight, bias=norm.bias, eps=norm.eps
    )


def is_swish(activation: Any) -> bool:
    return type(activation).__name__ in ("Swish", "SiLU")


class Layers:
    """The part of ESPnet's encoders after the convolutions: positional encoding, layers, norm.

    encoder: ESPnet's module.
    unidirectional: whether frames attend only to earlier frames.
    relative: ESPnet's module of relative positions; None: they are absolute.
    """

    def __init__(self, encoder: Any, precision: str, unidirectional: bool = False, relative: Any = None) -> None:
        norm = encoder.after_norm
        self.add_positions = Positions(len(norm.weight), norm.weight.device)
        self.layers = [Layer(layer, precision, unidirectional) for layer in encoder.encoders]
        self.norm = layer_norm(norm)
        self._relative = relative

    def __call__(self, frames: torch.Tensor) -> torch.Tensor:
        """Encode subsampled frames (B, t, width), all of an utterance → encoder frames of the same shape."""
        if not frames.shape[1]:
            return frames
        x, positions = (self.add_positions(frames), None) if self._relative is None else self._relative(frames)
        for layer in self.layers:
            x = layer(x, False, positions)
        return self.norm(x)
