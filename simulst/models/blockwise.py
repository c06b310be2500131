"""Fast inference of ESPnet's contextual-block encoders, equal to ESPnet's own but for rounding.

The encoder (Tsunoo et al. 2019, "Transformer ASR with Contextual Block Processing"; 2021, "Streaming Transformer ASR
with Blockwise Synchronous Beam Search") reads subsampled frames in blocks that overlap. A block has one more row at
either end. The last is its context vector: at first the average of the block's frames, it goes through the layers with
them. The first is, at each layer, the context vector that entered this layer in the block before. So a layer needs of
the block before only what its last layer made of it, and can be computed for many blocks at once.

In a block the first row asks nothing and the last one is not asked by any. ESPnet computes all and masks it; here the
last row is left out of the keys, and the first one's answer is set to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from simulst.errors import SimulstError

LEAST_FRAMES = {4: 7, 6: 11, 8: 15}  # subsampling factor → feature frames behind the first encoder frame
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
GROUP = 16  # blocks computed at once; with more it would only take more memory
ROWS = 512  # of products that weights are laid out for; the layout for many rows is the best one for few as well


@dataclass(frozen=True)
class State:
    """What the encoder keeps between calls. Its tensors are never changed, so that a state can be used again."""

    features: torch.Tensor  # (n, dims), from the first that the next frame looks at
    frames: torch.Tensor  # (t, width), subsampled, from the first of the next block
    blocks: int = 0  # that have been encoded
    contexts: torch.Tensor | None = None  # (layers, width), of the last of them at the entry of each layer


class BlockwiseEncoder:
    """The encoder of an utterance that comes in pieces.

    encoder: ESPnet's ContextualBlockConformerEncoder or ContextualBlockTransformerEncoder, with its weights, on its
    device; it is not needed (and must not change) afterwards. precision: of the matrix products; with bfloat16 the
    output differs by some 0.4 %, and the processor should have instructions for it.
    Raises SimulstError: an option of the encoder that is not implemented here.
    """

    def __init__(self, encoder: Any, precision: str = "float32") -> None:
        if precision not in PRECISIONS:
            raise SimulstError(f"precision: '{precision}' is not known; use {' or '.join(PRECISIONS)}.")
        _refuse_what_is_missing(encoder)
        self.block_size, self.hop_size = int(encoder.block_size), int(encoder.hop_size)
        self.subsample, self.width = int(encoder.subsample), int(encoder.output_size())
        self._past_size = self.block_size - self.hop_size - int(encoder.look_ahead)
        self.first_size = self._past_size + self.hop_size  # frames that the first block writes; others write hop_size
        # With one frame past the first block: an utterance that ends with the block is encoded in another way.
        self.first_features = self.subsample * self.block_size + LEAST_FRAMES[self.subsample]
        self._average_has_position = bool(encoder.ctx_pos_enc)
        with torch.inference_mode():
            self._subsampling = _Subsampling(encoder.embed, PRECISIONS[precision])
            self._layers = [_Layer(layer, PRECISIONS[precision]) for layer in encoder.encoders]
            self._norm = _layer_norm(encoder.after_norm)
            # On the CPU, as ESPnet does: devices round differently, and late positions magnify it.
            frequencies = torch.exp(torch.arange(0, self.width, 2).float() * -(math.log(10000.0) / self.width))
            self._frequencies = frequencies.to(encoder.after_norm.weight.device)

    @torch.inference_mode()
    def __call__(self, features: torch.Tensor, state: State | None, final: bool) -> tuple[torch.Tensor, State | None]:
        """The encoder frames (t, width) that more features bring, and the state for the next call.

        features: (n, dims), normalised; n may be 0. state: None at the start of an utterance. final: no more will come;
        all frames that are still missing are then given, and the state is None. Otherwise the first block_size -
        look_ahead come with `first_features`, hop_size more with each subsample * hop_size. (ESPnet's come 5 or more
        features later, because of how it cuts its input.) However the features are cut, the frames are the same but for
        rounding.
        """
        state = state or State(features[:0], features.new_zeros(0, self.width))
        pieces = features.split(GROUP * self.hop_size * self.subsample)
        outputs = []
        for i, piece in enumerate(pieces):
            output, state = self._encode(piece, state, final and i == len(pieces) - 1)
            outputs.append(output)
        return torch.cat(outputs), None if final else state

    def _encode(self, features: torch.Tensor, state: State, final: bool) -> tuple[torch.Tensor, State]:
        features, frames = torch.cat([state.features, features]), state.frames
        least = LEAST_FRAMES[self.subsample]
        new = (len(features) - least) // self.subsample + 1
        if new > 0:
            frames = torch.cat([frames, self._subsampling(features[: (new - 1) * self.subsample + least])])
            features = features[new * self.subsample :]
        if final and not state.blocks and len(frames) <= self.block_size:
            return self._encode_short(frames), state
        # Not the block that ends with the last frame: if the utterance ends there, it gives all of its frames.
        ready = len(frames) - self.block_size + (self.hop_size if final else 0)
        count = max(0, -(-ready // self.hop_size))
        if not count:
            return frames[:0], State(features, frames, state.blocks, state.contexts)
        rows, contexts = self._encode_blocks(frames, count, state)
        past, hop = self._past_size, self.hop_size
        output = rows[:, past : past + hop].flatten(0, 1)
        if not state.blocks:
            output = torch.cat([rows[0, :past], output])
        if final:
            output = torch.cat([output, rows[-1, past + hop :]])[: len(frames) - (past if state.blocks else 0)]
        return self._norm(output), State(features, frames[count * hop :], state.blocks + count, contexts)

    def _encode_blocks(self, frames: torch.Tensor, count: int, state: State) -> tuple[torch.Tensor, torch.Tensor]:
        """The next `count` blocks, of (t, width) subsampled frames: (count, block_size, width), and their contexts.

        Behind the end of an utterance come zeros, which are not masked, as in ESPnet.
        """
        block, hop = self.block_size, self.hop_size
        last = len(frames) - (count - 1) * hop  # frames of the last block

        def cut(rows: torch.Tensor) -> torch.Tensor:  # to (count, width, block_size)
            return F.pad(rows, (0, 0, 0, max(0, block - last))).unfold(0, block, hop)[:count]

        sizes = frames.new_tensor([block] * (count - 1) + [min(block, last)])
        averages = cut(frames).sum(2) / sizes[:, None]
        x = frames.new_empty(count, block + 2, self.width)
        x[:, 1:-1] = cut(self._placed(frames, hop * state.blocks)).transpose(1, 2)
        x[:, -1] = self._placed(averages, state.blocks) if self._average_has_position else averages
        contexts = []
        for i, layer in enumerate(self._layers):
            context = x[:, -1]
            x[0, 0] = context[0] if state.contexts is None else state.contexts[i]
            x[1:, 0] = context[:-1]
            contexts.append(context[-1])
            x = layer(x, True)
        return x[:, 1:-1], torch.stack(contexts)

    def _encode_short(self, frames: torch.Tensor) -> torch.Tensor:
        """An utterance of at most one block, (t, width) to (t, width): without contexts."""
        if not len(frames):
            return frames
        x = self._placed(frames, 0)[None]
        for layer in self._layers:
            x = layer(x, False)
        return self._norm(x[0])

    def _placed(self, rows: torch.Tensor, first: int) -> torch.Tensor:
        """Rows (n, width), scaled, with the sines and cosines of the positions from `first` on added to them."""
        positions = torch.arange(first, first + len(rows), dtype=torch.float32, device=rows.device)
        angles = positions[:, None] * self._frequencies
        return rows * math.sqrt(self.width) + torch.stack([angles.sin(), angles.cos()], 2).flatten(1)


class _Layer:
    """One layer: (blocks, rows, width) to the same. has_contexts: whether the first and last rows are contexts."""

    def __init__(self, layer: Any, dtype: torch.dtype) -> None:
        macaron, convolution = getattr(layer, "feed_forward_macaron", None), getattr(layer, "conv_module", None)
        scale = getattr(layer, "ff_scale", 1.0)
        self._macaron = None if macaron is None else _FeedForward(layer.norm_ff_macaron, macaron, scale, dtype)
        self._attention = _Attention(layer.norm1, layer.self_attn, dtype)
        self._convolution = None if convolution is None else _Convolution(layer.norm_conv, convolution, dtype)
        self._feed_forward = _FeedForward(layer.norm2, layer.feed_forward, scale, dtype)
        self._norm = None if convolution is None else _layer_norm(layer.norm_final)

    def __call__(self, x: torch.Tensor, has_contexts: bool) -> torch.Tensor:
        if self._macaron is not None:
            x = self._macaron(x)
        x = self._attention(x, has_contexts)
        if self._convolution is not None:
            x = self._convolution(x)
        x = self._feed_forward(x)
        return x if self._norm is None else self._norm(x)


class _FeedForward:
    def __init__(self, norm: torch.nn.LayerNorm, module: Any, scale: float, dtype: torch.dtype) -> None:
        self._norm = _layer_norm(norm)
        self._in = _Linear(module.w_1.weight, module.w_1.bias, dtype)
        self._out = _Linear(module.w_2.weight * scale, module.w_2.bias * scale, dtype)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._out(self._in(self._norm(x), relu=True), add=x)


class _Attention:
    def __init__(self, norm: torch.nn.LayerNorm, module: Any, dtype: torch.dtype) -> None:
        self._norm, self._heads = _layer_norm(norm), module.h
        parts = module.linear_q, module.linear_k, module.linear_v
        self._in = _Linear(torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts]), dtype)
        self._out = _Linear(module.linear_out.weight, module.linear_out.bias, dtype)

    def __call__(self, x: torch.Tensor, has_contexts: bool) -> torch.Tensor:
        y = self._in(self._norm(x)).unflatten(2, (3, self._heads, -1))
        query, key, value = y.permute(2, 0, 3, 1, 4)  # each (blocks, heads, rows, width / heads)
        if has_contexts:
            key, value = key[:, :, :-1], value[:, :, :-1]
        answer = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        if has_contexts:
            answer[:, 0] = 0
        return self._out(answer, add=x)


class _Convolution:
    """ESPnet's convolution module, with the batch norm as part of the weights before it."""

    def __init__(self, norm: torch.nn.LayerNorm, module: Any, dtype: torch.dtype) -> None:
        self._norm = _layer_norm(norm)
        self._in = _Linear(module.pointwise_conv1.weight[:, :, 0], module.pointwise_conv1.bias, dtype)
        depthwise, batch = module.depthwise_conv, module.norm
        scale = batch.weight.double() / torch.sqrt(batch.running_var.double() + batch.eps)
        bias = (depthwise.bias.double() - batch.running_mean.double()) * scale + batch.bias.double()
        weight = (depthwise.weight.double() * scale[:, None, None]).float()
        self._bias, self._padding = bias.float(), (0, depthwise.padding[0])
        # As a convolution over two dimensions, one of them of size 1: ten times as fast, as channels can come last.
        self._weight = weight[:, :, None].contiguous(memory_format=torch.channels_last)
        swish = type(module.activation).__name__ == "Swish"
        self._activation = partial(F.silu, inplace=True) if swish else module.activation
        self._out = _Linear(module.pointwise_conv2.weight[:, :, 0], module.pointwise_conv2.bias, dtype)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = F.glu(self._in(self._norm(x)), 2).transpose(1, 2)[:, :, None]
        y = F.conv2d(y, self._weight, self._bias, padding=self._padding, groups=len(self._bias))
        return self._out(self._activation(y[:, :, 0].transpose(1, 2)), add=x)


class _Subsampling:
    """Convolutions over time and frequency: features (n, dims) to frames (t, width)."""

    def __init__(self, module: Any, dtype: torch.dtype) -> None:
        convolutions: list[Any] = [m for m in module.conv if isinstance(m, torch.nn.Conv2d)]
        first, *others = convolutions
        self._size, self._stride = first.kernel_size, first.stride
        self._first = _Linear(first.weight.flatten(1), first.bias)
        self._others = [(m.weight.contiguous(memory_format=torch.channels_last), m.bias, m.stride) for m in others]
        weight = module.out.weight.unflatten(1, (len(first.bias), -1)).transpose(1, 2).flatten(1)  # channels last
        self._out = _Linear(weight, module.out.bias, dtype)

    def __call__(self, features: torch.Tensor) -> torch.Tensor:
        windows = features.unfold(0, self._size[0], self._stride[0]).unfold(1, self._size[1], self._stride[1])
        x = self._first(windows.flatten(2), relu=True).permute(2, 0, 1)[None]  # (1, channels, time, frequencies)
        for weight, bias, stride in self._others:
            x = F.relu_(F.conv2d(x, weight, bias, stride))
        return self._out(x[0].permute(1, 2, 0).flatten(1))


class _Linear:
    """A linear layer, (..., inputs) to (..., outputs), computed in `dtype`.

    On a CPU oneDNN computes it, from weights laid out for it once, by the operators that torch.compile uses too. On
    some processors it is twice as fast as what torch's own linear layers call, and streaming little else takes time.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, dtype: torch.dtype = torch.float32) -> None:
        self._weight, self._bias, self._dtype = weight.to(dtype), bias.to(dtype), dtype
        self._packed = (
            weight.device.type == "cpu"
            and torch.backends.mkldnn.is_available()
            and hasattr(torch.ops.mkldnn, "_linear_pointwise")
            and (dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported())
        )
        if self._packed:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight, ROWS)

    def __call__(self, x: torch.Tensor, relu: bool = False, add: torch.Tensor | None = None) -> torch.Tensor:
        """relu: of the result. add: what is added to it, of its shape."""
        z = x.to(self._dtype)
        if not self._packed:
            y = F.linear(z, self._weight, self._bias)
            y = F.relu_(y) if relu else y
        elif add is not None and add.dtype == self._dtype:
            return torch.ops.mkldnn._linear_pointwise.binary(z, add, self._weight, self._bias, "add")
        else:
            y = torch.ops.mkldnn._linear_pointwise(z, self._weight, self._bias, "relu" if relu else "none", [], "")
        return y.to(x.dtype) if add is None else y + add


def _layer_norm(norm: torch.nn.LayerNorm) -> Callable[[torch.Tensor], torch.Tensor]:
    # Without the module around it, which takes as long as its work.
    return partial(
        F.layer_norm, normalized_shape=norm.normalized_shape, weight=norm.weight, bias=norm.bias, eps=norm.eps
    )


def _refuse_what_is_missing(encoder: Any) -> None:
    block, hop, ahead = (getattr(encoder, name, 0) for name in ("block_size", "hop_size", "look_ahead"))
    if block <= 0 or hop <= 0 or ahead < 0 or hop + ahead > block:
        raise SimulstError(f"block_size {block}, hop_size {hop} and look_ahead {ahead} cannot be streamed.")
    if encoder.subsample not in LEAST_FRAMES:
        raise SimulstError("input_layer: only conv2d, conv2d6 and conv2d8 can be streamed.")
    for name, value in (("init_average", True), ("normalize_before", True)):
        if getattr(encoder, name) != value:
            raise SimulstError(f"{name}: {getattr(encoder, name)} is not implemented.")
    for layer in encoder.encoders:
        if layer.concat_after:
            raise SimulstError("concat_after: True is not implemented.")
        if not all(isinstance(w, torch.nn.Linear) for w in (layer.feed_forward.w_1, layer.feed_forward.w_2)):
            raise SimulstError("positionwise_layer_type: only linear is implemented.")
