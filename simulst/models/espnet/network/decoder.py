"""ESPnet's TransformerDecoder, run with cached keys and values (Vaswani et al. 2017, section 3).

ESPnet's `batch_score` projects the whole encoder memory and all earlier tokens again, for every hypothesis, layer and
step. Here each encoder frame is projected once for all layers, and each token once per layer. Hypotheses share the
memory, and they share the tokens that they have in common. A state only says where in a common pool its tokens are. So
the beam is re-ordered without moving keys or values.

The keys and values of a token are computed when it is read. They do not change if the memory grows later. ESPnet's
states behave the same way.

On the processor, in float32 and int8, what is between the products is compiled too, if it can be (see simulst/kernels).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from simulst.errors import SimulstError
from simulst.kernels.attention import ByTorch, Memory, Search, Slots, compiled_attention
from simulst.models.base import depends_on_rows
from simulst.models.espnet.network.linear import dtype_of, joined
from simulst.policy.context import HeadPairs
from simulst.search.beam import Read

if TYPE_CHECKING:
    from espnet2.asr.decoder.transformer_decoder import TransformerDecoder

    from simulst.models.espnet.network.lagging import Chunked, Lagging

Rows = Any
"""The rows of all searches, (m, width): an array where attention is compiled, else a tensor."""


@dataclass(frozen=True, eq=False)
class DecoderState:
    """What n hypotheses have read. Their tokens are in a common pool, and nothing in the pool is overwritten.

    slots: the pool.
    places: (n, length) int64, the slots of each hypothesis's tokens.
    attention: (heads of all layers, n, 1, T) float32, source attention of the last token; each row sums to 1. None
        unless it was asked for.
    hidden: (n, width) of the last layer, from which the next token is predicted; after a prefix with a draft, a row for
        each place of the draft, too. None before anything was read.
    """

    slots: Slots
    places: Tensor
    attention: Tensor | None = None
    hidden: Tensor | None = None

    def __len__(self) -> int:
        return self.places.shape[0]

    @property
    def length(self) -> int:
        """How many tokens each hypothesis has read."""
        return self.places.shape[1]

    def __getitem__(self, rows: Tensor) -> DecoderState:
        """Select hypotheses. rows: (m,) int64, their numbers, in any order; they may repeat."""
        attention = None if self.attention is None else self.attention[:, rows]
        hidden = None if self.hidden is None else self.hidden[rows]
        return DecoderState(self.slots, self.places[rows], attention, hidden)

    def cut(self, length: int) -> DecoderState:
        """The same hypotheses when they had read so many tokens."""
        return DecoderState(self.slots, self.places[:, :length])

    def with_room(self, count: int) -> DecoderState:
        """The same hypotheses in a pool with room for `count` more tokens. A full pool is copied, not changed."""
        if self.slots.has_room(count):
            return self
        seen, places = self.places.unique(return_inverse=True)
        return replace(self, slots=self.slots.moved(self.slots.data.index_select(3, seen), count), places=places)


class _Layer:
    """One decoder layer, as functions of `Rows`.

    product: makes one of linear layers with the same input. norm: makes one of a layer norm.
    before: the norms of the inputs of its three parts (self-attention, source attention, feed-forward).
    after: the norms of their outputs, after the residual sum.
    """

    def __init__(
        self, layer: Any, product: Callable[..., Callable[..., Rows]], norm: Callable[[Any], Callable[[Rows], Rows]]
    ) -> None:
        own, source, forward = layer.self_attn, layer.src_attn, layer.feed_forward
        self.self_in = product(own.linear_q, own.linear_k, own.linear_v)
        self.self_out = product(own.linear_out)
        self.source_in, self.source_out = product(source.linear_q), product(source.linear_out)
        self.up, self.down = product(forward.w_1), product(forward.w_2)
        norms: tuple[Any, ...] = tuple(norm(module) for module in (layer.norm1, layer.norm2, layer.norm3))
        none: tuple[Any, ...] = (_identity,) * 3
        self.before, self.after = (norms, none) if layer.normalize_before else (none, norms)


class CachedDecoder:
    """A decoder that reads one token at a time.

    decoder: ESPnet's decoder with its weights, on the CPU or a GPU. The weights are copied.
    precision: of weights and arithmetic: float32, bfloat16, float16, or int8, which is for linear layers on the CPU.
    lagging: what the decoder saw in training, if it was trained to wait. If it reads a prefix, each token sees that
        again, and only the last one sees all frames.

    Raises SimulstError: an option of ESPnet that is not implemented.
    """

    def __init__(
        self, decoder: TransformerDecoder, precision: str = "float32", lagging: Lagging | Chunked | None = None
    ) -> None:
        _check_supported(decoder)
        embedding, self._encoding = decoder.embed
        dtype = dtype_of(precision)
        self.lagging = lagging
        self._batches = not depends_on_rows(precision, embedding.weight.device)
        self._embedding = embedding.weight.detach().to(dtype, copy=True)
        self._positions = self._embedding[:0]
        on_processor = self._embedding.device.type == "cpu" and dtype == torch.float32
        self._kernels = compiled_attention() if on_processor else None

        def product(*layers: torch.nn.Linear) -> Callable[..., Rows]:
            linear = joined(precision, *layers)
            return linear.rows if self._kernels else linear

        def norm(module: torch.nn.LayerNorm) -> Callable[[Rows], Rows]:
            return _norm(module, dtype, self._kernels)

        self._layers = [_Layer(layer, product, norm) for layer in decoder.decoders]
        self._after_norm = norm(decoder.after_norm) if decoder.normalize_before else _identity
        self._output = product(decoder.output_layer)
        sources = [layer.src_attn for layer in decoder.decoders]
        keys_values = [part for source in sources for part in (source.linear_k, source.linear_v)]
        self._project = joined(precision, *keys_values)
        self._empty = self._embedding.new_empty(len(sources), 2, sources[0].h, 0, sources[0].d_k)
        layers, heads = self.attentions
        self.shown: HeadPairs = tuple(itertools.product(range(layers), range(heads)))

    @property
    def attentions(self) -> tuple[int, int]:
        """How many layers have source attention, and how many heads each of them has."""
        return self._empty.shape[0], self._empty.shape[2]

    def memory(self) -> Any:
        """A memory without frames."""
        if self._kernels:
            return self._kernels.PanelMemory(self._project, *self.attentions, self._empty.shape[4])
        return Memory(self._project, self._empty)

    def start(self) -> DecoderState:
        """The state of one hypothesis that has read nothing."""
        return DecoderState(Slots(self._empty), self._embedding.new_empty((1, 0), dtype=torch.int64))

    def step(
        self, tokens: Tensor, state: DecoderState, memory: Any, *, attention: bool = False
    ) -> tuple[Tensor, DecoderState]:
        """Read one token of each hypothesis, (n,) int64. The old state is not changed.

        attention: whether the new state has the source attention.
        Returns: log p of the next token, (n, V) float32, and the new state.

        Raises SimulstError: the memory is empty.
        """
        log_p, states = self.read_together([Read(tokens, state, memory, attention)])
        return log_p, states[0]

    def prefill(
        self, tokens: Tensor, memory: Any, *, attention: bool = False, draft: int = 0
    ) -> tuple[Tensor, DecoderState]:
        """Read a prefix at once, (length,) int64 from <sos> on, as steps would read it one by one.

        draft: how many of the last tokens are a draft; see `simulst.search.beam.Decoder`.
        Returns: log p of the next token, (1 + draft, V) float32, and the state of one hypothesis.

        Raises SimulstError: the memory is empty.
        """
        log_p, states = self.read_together([Read(tokens, None, memory, attention, draft)])
        return log_p, states[0]

    def together(self, tokens: int, state: DecoderState, memory: Any) -> Hashable:
        """All reads with these weights, if products don't depend on the rows beside."""
        return self if self._batches else None

    @torch.inference_mode()
    def read_together(self, reads: Sequence[Read]) -> tuple[Tensor, list[DecoderState]]:
        """See `simulst.search.beam.Decoder`. Only attention is computed for each search by itself.

        Raises SimulstError: a memory is empty.
        """
        searches: list[Search] = []
        positions: list[int] = []
        ends: list[int] = []
        layers, heads = self.attentions
        for tokens, state, memory, attention, draft in reads:
            frames, first, rows, starts = len(memory), len(positions), tokens.shape[0], state is None
            if not frames:
                raise SimulstError("the decoder has no encoder frames to attend to; append frames to the memory first.")
            state = (self.start() if starts else state).with_room(rows)
            slot = state.slots.take(rows)
            places = torch.arange(slot, slot + rows, device=self._embedding.device)
            places = places[None] if starts else torch.cat([state.places, places[:, None]], 1)
            positions += range(rows) if starts else [state.length] * rows
            ends += range(first + rows - 1 - draft if starts else first, first + rows)
            seen = self._seen(tokens, frames, draft) if starts and rows > 1 else None
            weights = None
            if attention:
                weights = self._embedding.new_empty(layers * heads, len(places), 1, frames, dtype=torch.float32)
            searches.append(Search(first, rows, starts, state.slots, slot, places, memory, seen, weights))
        x = self._embed(torch.cat([read.tokens for read in reads]), positions)
        attend = (self._kernels.Compiled if self._kernels else ByTorch)(searches, heads)
        for number, layer in enumerate(self._layers):
            found = attend.to_tokens(number, layer.self_in(layer.before[0](x)))
            x = layer.after[0](layer.self_out(found, add=x))
            found = attend.to_frames(number, layer.source_in(layer.before[1](x)))
            x = layer.after[1](layer.source_out(found, add=x))
            x = layer.after[2](layer.down(layer.up(layer.before[2](x), relu=True), add=x))
        last = self._after_norm(x if len(ends) == len(x) else x[ends])
        scores = self._output(last)
        last, scores = (torch.from_numpy(rows) if self._kernels else rows for rows in (last, scores))
        hidden = last.split([1 + read.draft if read.state is None else len(read.tokens) for read in reads])
        states = [
            DecoderState(search.slots, search.places, search.weights, rows)
            for search, rows in zip(searches, hidden, strict=True)
        ]
        return torch.log_softmax(scores, -1, dtype=torch.float32), states

    def _seen(self, tokens: Tensor, frames: int, draft: int) -> Tensor | None:
        """(n, frames) which frames the n tokens of a prefix and a draft see; None: all."""
        if self.lagging is None:
            return None
        seen = self.lagging.visible(tokens, frames)
        seen[-1 - draft :] = True
        return seen

    def _embed(self, tokens: Tensor, positions: list[int]) -> Rows:
        """The first layer's input (m, width): tokens (m,) with the encodings of their positions."""
        if max(positions) >= len(self._positions):
            # Extend ESPnet's own table. Only the size, type and device of the argument matter.
            self._encoding.extend_pe(self._embedding.new_zeros(1, 2 * max(positions) + 2, dtype=torch.float32))
            self._positions = self._encoding.pe[0].to(self._embedding)
        scale = self._encoding.xscale
        if self._kernels:
            return self._embedding.numpy()[tokens.numpy()] * np.float32(scale) + self._positions.numpy()[positions]
        encodings = self._positions[torch.tensor(positions, device=self._embedding.device)]
        return torch.add(encodings, functional.embedding(tokens, self._embedding), alpha=scale)


def _identity(x: Rows) -> Rows:
    return x


def _norm(norm: torch.nn.LayerNorm, dtype: torch.dtype, kernels: Any) -> Callable[[Rows], Rows]:
    shape, eps = norm.normalized_shape, norm.eps
    weight, bias = (part.detach().to(dtype, copy=True) for part in (norm.weight, norm.bias))
    if kernels:
        arrays = weight.numpy(), bias.numpy()
        return lambda x: kernels.normed(x, *arrays, eps)
    return lambda x: functional.layer_norm(x, shape, weight, bias, eps)


def _check_supported(decoder: Any) -> None:
    """Raise SimulstError if an option changes the output and is not implemented here.

    Options of training do not change the output, nor does use_flash_attn. They are accepted.
    """
    if type(decoder).__name__ != "TransformerDecoder":
        raise SimulstError(f"decoder: '{type(decoder).__name__}' is not implemented; use 'transformer'.")
    attentions = [attention for layer in decoder.decoders for attention in (layer.self_attn, layer.src_attn)]
    for option, differs in (
        ("input_layer", not isinstance(decoder.embed[0], torch.nn.Embedding)),
        ("pos_enc_class", type(decoder.embed[-1]).__name__ != "PositionalEncoding"),
        ("use_output_layer", decoder.output_layer is None),
        ("concat_after", any(layer.concat_after for layer in decoder.decoders)),
        ("qk_norm", not all(isinstance(attention.q_norm, torch.nn.Identity) for attention in attentions)),
    ):
        if differs:
            raise SimulstError(f"decoder_conf: {option} is implemented only with its default; train without it.")
