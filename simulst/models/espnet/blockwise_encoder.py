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

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from simulst.errors import SimulstError
from simulst.models.espnet.layers import Layers, Subsampling
from simulst.models.espnet.linear import dtype_of

SUBSAMPLING = (4, 6, 8)
GROUP = 16  # blocks computed at once; with more it would only take more memory


@dataclass(frozen=True)
class EncoderState:
    """What the encoder keeps between calls. Its tensors are never changed, so that a state can be used again."""

    features: torch.Tensor  # (B, n, dims), from the first that the next frame looks at
    frames: torch.Tensor  # (B, t, width), subsampled, from the first of the next block
    blocks: int = 0  # that have been encoded
    contexts: torch.Tensor | None = None  # (layers, B, width), of the last of them at the entry of each layer

    def __getitem__(self, rows: list[int]) -> EncoderState:
        """Of some of the utterances, by their numbers."""
        contexts = None if self.contexts is None else self.contexts[:, rows]
        return EncoderState(self.features[rows], self.frames[rows], self.blocks, contexts)


class BlockwiseEncoder:
    """The encoder of an utterance that comes in pieces, or of several that come in pieces of the same length.

    encoder: ESPnet's ContextualBlockConformerEncoder or ContextualBlockTransformerEncoder, with its weights, on its
    device; it is not needed (and must not change) afterwards. precision: of the matrix products; with bfloat16 the
    output differs by some 0.4 %, and the processor should have instructions for it.
    Raises SimulstError: an option of the encoder that is not implemented here.
    """

    def __init__(self, encoder: Any, precision: str = "float32") -> None:
        dtype = dtype_of(precision)
        _check_supported(encoder)
        self.block_size, self.hop_size = int(encoder.block_size), int(encoder.hop_size)
        self.width = int(encoder.output_size())
        self._past_size = self.block_size - self.hop_size - int(encoder.look_ahead)
        self.first_size = self._past_size + self.hop_size  # frames that the first block writes; others write hop_size
        self._average_has_position = bool(encoder.ctx_pos_enc)
        with torch.inference_mode():
            self._subsampling = Subsampling(encoder.embed, dtype)
            self._layers = Layers(encoder, dtype)
        self.subsample, self.least = self._subsampling.factor, self._subsampling.least
        # With one frame past the first block: an utterance that ends with the block is encoded in another way.
        self.first_features = self.subsample * self.block_size + self.least

    @torch.inference_mode()
    def __call__(
        self, features: torch.Tensor, state: EncoderState | None, final: bool
    ) -> tuple[torch.Tensor, EncoderState | None]:
        """The encoder frames (B, t, width) that more features bring, and the state for the next call.

        features: (B, n, dims), normalised; n may be 0. state: None at the start of utterances. final: no more will
        come; all frames that are still missing are then given, and the state is None. Otherwise the first block_size -
        look_ahead come with `first_features`, hop_size more with each subsample * hop_size. (ESPnet's come 5 or more
        features later, because of how it cuts its input.) However the features are cut, the frames are the same but for
        rounding.
        """
        state = state or EncoderState(features[:, :0], features.new_zeros(len(features), 0, self.width))
        pieces = features.split(GROUP * self.hop_size * self.subsample, dim=1)
        outputs = []
        for i, piece in enumerate(pieces):
            output, state = self._encode(piece, state, final and i == len(pieces) - 1)
            outputs.append(output)
        return torch.cat(outputs, 1), None if final else state

    def _encode(self, features: torch.Tensor, state: EncoderState, final: bool) -> tuple[torch.Tensor, EncoderState]:
        features, frames = torch.cat([state.features, features], 1), state.frames
        new = self._subsampling.count(features.shape[1])
        if new:
            used = (new - 1) * self.subsample + self.least
            frames = torch.cat([frames, self._subsampling(features[:, :used])], 1)
            features = features[:, new * self.subsample :]
        count = frames.shape[1]
        if final and not state.blocks and count <= self.block_size:
            return self._layers(frames), state  # without contexts
        # Not the block that ends with the last frame: if the utterance ends there, it gives all of its frames.
        ready = count - self.block_size + (self.hop_size if final else 0)
        blocks = max(0, -(-ready // self.hop_size))
        if not blocks:
            return frames[:, :0], EncoderState(features, frames, state.blocks, state.contexts)
        rows, contexts = self._encode_blocks(frames, blocks, state)
        past, hop = self._past_size, self.hop_size
        output = rows[:, :, past : past + hop].flatten(1, 2)
        if not state.blocks:
            output = torch.cat([rows[:, 0, :past], output], 1)
        if final:
            output = torch.cat([output, rows[:, -1, past + hop :]], 1)[:, : count - (past if state.blocks else 0)]
        return self._layers.norm(output), EncoderState(
            features, frames[:, blocks * hop :], state.blocks + blocks, contexts
        )

    def _encode_blocks(
        self, frames: torch.Tensor, count: int, state: EncoderState
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The next `count` blocks, of (B, t, width) subsampled frames: (B, count, block_size, width), their contexts.

        Behind the end of an utterance come zeros, which are not masked, as in ESPnet.
        """
        block, hop, batch = self.block_size, self.hop_size, len(frames)
        last = frames.shape[1] - (count - 1) * hop  # frames of the last block

        def cut(rows: torch.Tensor) -> torch.Tensor:  # to (B, count, width, block_size)
            return F.pad(rows, (0, 0, 0, max(0, block - last))).unfold(1, block, hop)[:, :count]

        sizes = frames.new_tensor([block] * (count - 1) + [min(block, last)])
        averages = cut(frames).sum(3) / sizes[:, None]
        x = frames.new_empty(batch, count, block + 2, self.width)
        x[:, :, 1:-1] = cut(self._layers.add_positions(frames, hop * state.blocks)).transpose(2, 3)
        x[:, :, -1] = self._layers.add_positions(averages, state.blocks) if self._average_has_position else averages
        contexts = []
        for i, layer in enumerate(self._layers.layers):
            context = x[:, :, -1]
            x[:, 0, 0] = context[:, 0] if state.contexts is None else state.contexts[i]
            x[:, 1:, 0] = context[:, :-1]
            contexts.append(context[:, -1])
            x = layer(x.flatten(0, 1), True).unflatten(0, (batch, count))
        return x[:, :, 1:-1], torch.stack(contexts)


def _check_supported(encoder: Any) -> None:
    block, hop, ahead = (getattr(encoder, name, 0) for name in ("block_size", "hop_size", "look_ahead"))
    if block <= 0 or hop <= 0 or ahead < 0 or hop + ahead > block:
        raise SimulstError(f"block_size {block}, hop_size {hop} and look_ahead {ahead} cannot be streamed.")
    if encoder.subsample not in SUBSAMPLING:
        raise SimulstError("input_layer: only conv2d, conv2d6 and conv2d8 can be streamed.")
    for name, value in (("init_average", True), ("normalize_before", True)):
        if getattr(encoder, name) != value:
            raise SimulstError(f"{name}: {getattr(encoder, name)} is not implemented.")
    for layer in encoder.encoders:
        if layer.concat_after:
            raise SimulstError("concat_after: True is not implemented.")
        if not all(isinstance(w, torch.nn.Linear) for w in (layer.feed_forward.w_1, layer.feed_forward.w_2)):
            raise SimulstError("positionwise_layer_type: only linear is implemented.")
