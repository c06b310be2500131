"""Fast inference of ESPnet's contextual-block encoders. Up to rounding, the output equals ESPnet's.

The encoder (Tsunoo et al. 2019, "Transformer ASR with Contextual Block Processing"; 2021, "Streaming Transformer ASR
with Blockwise Synchronous Beam Search") reads subsampled frames in blocks that overlap. Each block gets one additional
row at its start and one at its end. The row at the end is the context vector of the block. It is initialised with the
average of the block's frames and passes through the layers with them. The row at the start is, at each layer, the
context vector that entered this layer in the previous block. So layer l of a block depends only on the input of layer l
in the previous block, and each layer can be computed for many blocks at once.

In self-attention the first row is no query and the last row is no key. ESPnet computes everything and masks it. Here
the last row is left out of the keys, and the output of the first row is set to zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from simulst.errors import SimulstError
from simulst.models.espnet.network.layers import Layers, Subsampling

SUBSAMPLING = (4, 6, 8)
GROUP = 16  # blocks of an utterance computed at once; more would take more memory and no less time
MOST_BLOCKS = 64  # of several utterances


@dataclass(frozen=True)
class EncoderState:
    """What the encoder keeps between calls. Its tensors are never changed, so a state can be used again.

    features: (B, n, dims) the features that the next subsampled frame needs, and those after them.
    frames: (B, t, width) the subsampled frames from the start of the next block on.
    blocks: how many blocks have been encoded.
    contexts: (layers, B, width) the context vector of the last block, at the input of each layer.
    """

    features: torch.Tensor
    frames: torch.Tensor
    blocks: int = 0
    contexts: torch.Tensor | None = None

    def __getitem__(self, rows: list[int]) -> EncoderState:
        """The state of some of the utterances. rows: their numbers."""
        contexts = None if self.contexts is None else self.contexts[:, rows]
        return EncoderState(self.features[rows], self.frames[rows], self.blocks, contexts)


Piece = tuple[torch.Tensor, EncoderState | None, bool]
"""Features of B utterances (B, n, dims), normalised, n may be 0; the state before them, None at the start; and whether
they are the last ones."""


@dataclass(frozen=True)
class _Run:
    """Blocks of B utterances that are encoded next.

    features: those of later frames.
    frames: (B, t, width) the subsampled frames from the start of the first block on.
    blocks: how many blocks of each utterance.
    state: the state before them.
    final: whether the utterances end with them.
    """

    features: torch.Tensor
    frames: torch.Tensor
    blocks: int
    state: EncoderState
    final: bool


class BlockwiseEncoder:
    """Encodes an utterance that comes in pieces, or several utterances that come in pieces of the same length.

    encoder: ESPnet's ContextualBlockConformerEncoder or ContextualBlockTransformerEncoder, with its weights, on its
        device. It is not needed afterwards, and must not be changed.
    precision: of the matrix products. bfloat16 changes the output by about 0.4 %; it is fast only on processors with
        bfloat16 instructions.

    Raises SimulstError: an option of the encoder that is not implemented here.
    """

    def __init__(self, encoder: Any, precision: str = "float32") -> None:
        _check_supported(encoder)
        self.block_size, self.hop_size = int(encoder.block_size), int(encoder.hop_size)
        self.width = int(encoder.output_size())
        self._past_size = self.block_size - self.hop_size - int(encoder.look_ahead)
        self.first_size = self._past_size + self.hop_size  # frames that the first block writes; others write hop_size
        self._average_has_position = bool(encoder.ctx_pos_enc)
        with torch.inference_mode():
            self._subsampling = Subsampling(encoder.embed, precision)
            self._layers = Layers(encoder, precision)
        self.subsample, self.least = self._subsampling.factor, self._subsampling.least
        # One frame more than the first block: an utterance that ends with its first block is encoded differently.
        self.first_features = self.subsample * self.block_size + self.least

    @torch.inference_mode()
    def together(self, pieces: Sequence[Piece]) -> list[tuple[torch.Tensor, EncoderState | None]]:
        """Encode more features. Up to rounding, the frames do not depend on how the features are cut into calls.

        The first block_size - look_ahead frames are returned once there are `first_features` features, and hop_size
        more after every subsample * hop_size features. (ESPnet needs 5 or more features more, because of how it cuts
        its input.)

        pieces: their blocks pass through the layers together. They may differ in everything: where in their utterances
            they are, their lengths, whether they are final.
        Returns: for each piece new encoder frames (B, t, width), after its last features all that remain; and the state
            for the next call (None after the last one).
        """
        cuts = [features.split(GROUP * self.hop_size * self.subsample, dim=1) for features, *_ in pieces]
        states = [
            state or EncoderState(features[:, :0], features.new_zeros(len(features), 0, self.width))
            for features, state, _ in pieces
        ]
        outputs: list[list[torch.Tensor]] = [[] for _ in pieces]
        for step in range(max(map(len, cuts), default=0)):
            going = [number for number, cut in enumerate(cuts) if step < len(cut)]
            found = self._encode([(cuts[n][step], states[n], pieces[n][2] and step == len(cuts[n]) - 1) for n in going])
            for number, (output, state) in zip(going, found, strict=True):
                outputs[number].append(output)
                states[number] = state
        return [
            (torch.cat(output, 1), None if final else state)
            for output, state, (*_, final) in zip(outputs, states, pieces, strict=True)
        ]

    def _encode(
        self, pieces: Sequence[tuple[torch.Tensor, EncoderState, bool]]
    ) -> list[tuple[torch.Tensor, EncoderState]]:
        found: dict[int, tuple[torch.Tensor, EncoderState]] = {}
        runs: dict[int, _Run] = {}
        for number, (features, state, final) in enumerate(pieces):
            features, frames = self._subsampled(features, state)
            count = frames.shape[1]
            # The block that ends with the last frame waits: if the utterance ends there, the block writes all its
            # frames.
            ready = count - self.block_size + (self.hop_size if final else 0)
            blocks = max(0, -(-ready // self.hop_size))
            if final and not state.blocks and count <= self.block_size:
                found[number] = self._layers(frames), state  # without contexts
            elif not blocks:
                found[number] = frames[:, :0], EncoderState(features, frames, state.blocks, state.contexts)
            else:
                runs[number] = _Run(features, frames, blocks, state, final)
        for numbers in _few_blocks(runs):
            encoded = self._encode_blocks([runs[number] for number in numbers])
            found |= {n: self._written(runs[n], *one) for n, one in zip(numbers, encoded, strict=True)}
        return [found[number] for number in range(len(pieces))]

    def _subsampled(self, features: torch.Tensor, state: EncoderState) -> tuple[torch.Tensor, torch.Tensor]:
        """The features that the next subsampled frame needs, and all subsampled frames that no block has left."""
        features, frames = torch.cat([state.features, features], 1), state.frames
        new = self._subsampling.count(features.shape[1])
        if new:
            used = (new - 1) * self.subsample + self.least
            frames = torch.cat([frames, self._subsampling(features[:, :used])], 1)
            features = features[:, new * self.subsample :]
        return features, frames

    def _written(self, run: _Run, rows: torch.Tensor, contexts: torch.Tensor) -> tuple[torch.Tensor, EncoderState]:
        """Of the rows of some blocks, (B, count, block_size, width), the frames that they write; and the new state."""
        past, hop, state, count = self._past_size, self.hop_size, run.state, run.frames.shape[1]
        output = rows[:, :, past : past + hop].flatten(1, 2)
        if not state.blocks:
            output = torch.cat([rows[:, 0, :past], output], 1)
        if run.final:
            output = torch.cat([output, rows[:, -1, past + hop :]], 1)[:, : count - (past if state.blocks else 0)]
        return self._layers.norm(output), EncoderState(
            run.features, run.frames[:, run.blocks * hop :], state.blocks + run.blocks, contexts
        )

    def _encode_blocks(self, runs: Sequence[_Run]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Encode the blocks of all runs.

        Returns: for each run the rows of its blocks (B, count, block_size, width), and the contexts for its next block.
        """
        x = torch.cat([self._rows(run).flatten(0, 1) for run in runs])
        # In x the blocks of an utterance follow each other: its first and its last one.
        first, last, known = [], [], []
        place = 0
        for run in runs:
            for _ in range(len(run.frames)):
                first.append(place)
                place += run.blocks
                last.append(place - 1)
                known.append(run.state.contexts is not None)
        ends = torch.tensor(last, device=x.device)
        begun = torch.tensor([place for place, old in zip(first, known, strict=True) if old], device=x.device)
        new = torch.tensor([place for place, old in zip(first, known, strict=True) if not old], device=x.device)
        old = [run.state.contexts for run in runs if run.state.contexts is not None]
        before = torch.cat(old, 1) if old else None
        contexts = []
        for i, layer in enumerate(self._layers.layers):
            context = x[:, -1]
            x[1:, 0] = context[:-1]
            if before is not None:
                x[begun, 0] = before[i]
            if len(new):
                x[new, 0] = context[new]
            contexts.append(context[ends])
            x = layer(x, True)
        sizes = [len(run.frames) for run in runs]
        rows = x[:, 1:-1].split([size * run.blocks for size, run in zip(sizes, runs, strict=True)])
        kept = torch.stack(contexts).split(sizes, 1)
        if len(runs) > 1:  # no state holds the memory of others
            kept = [one.clone() for one in kept]
        return [
            (one.unflatten(0, (-1, run.blocks)), context) for one, run, context in zip(rows, runs, kept, strict=True)
        ]

    def _rows(self, run: _Run) -> torch.Tensor:
        """The input of the first layer, (B, count, block_size + 2, width). Its first row is not set.

        After the end of an utterance the block is padded with zeros. They are not masked, as in ESPnet.
        """
        block, hop, frames, count = self.block_size, self.hop_size, run.frames, run.blocks
        left = frames.shape[1] - (count - 1) * hop  # frames of the last block

        def cut(rows: torch.Tensor) -> torch.Tensor:  # to (B, count, width, block_size)
            return F.pad(rows, (0, 0, 0, max(0, block - left))).unfold(1, block, hop)[:, :count]

        sizes = frames.new_tensor([block] * (count - 1) + [min(block, left)])
        averages = cut(frames).sum(3) / sizes[:, None]
        x = frames.new_empty(len(frames), count, block + 2, self.width)
        add = self._layers.add_positions
        x[:, :, 1:-1] = cut(add(frames, hop * run.state.blocks)).transpose(2, 3)
        x[:, :, -1] = add(averages, run.state.blocks) if self._average_has_position else averages
        return x


def _few_blocks(runs: Mapping[int, _Run]) -> list[list[int]]:
    """The numbers of the runs, in groups of at most MOST_BLOCKS blocks, or of one run."""
    groups: list[list[int]] = []
    held = MOST_BLOCKS
    for number, run in runs.items():
        blocks = len(run.frames) * run.blocks
        if held + blocks > MOST_BLOCKS:
            groups.append([])
            held = 0
        groups[-1].append(number)
        held += blocks
    return groups


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
