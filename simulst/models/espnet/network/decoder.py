"""ESPnet's TransformerDecoder, run with cached keys and values (Vaswani et al. 2017, section 3).

ESPnet's `batch_score` projects the whole encoder memory and all earlier tokens again, for every hypothesis, layer and
step. Here each encoder frame is projected once for all layers, and each token once per layer. Hypotheses share the
memory, and they share the tokens that they have in common. A state is only a mask over a common pool of tokens. So the
beam is re-ordered without moving keys or values, and the attention of n hypotheses is one matrix product per head.

The keys and values of a token are computed when it is read. They do not change if the memory grows later. ESPnet's
states behave the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from simulst.errors import SimulstError
from simulst.models.espnet.network.linear import Linear, check_precision, dtype_of, joined
from simulst.search.beam import Read

if TYPE_CHECKING:
    from espnet2.asr.decoder.transformer_decoder import TransformerDecoder

    from simulst.models.espnet.network.lagging import Lagging

LEAST_SLOTS = 64  # the least capacity of a pool of tokens; smaller pools would be copied too often

Norm = Callable[[Tensor], Tensor]


class _Slots:
    """Keys and values of all layers.

    data: (layers, 2, heads, capacity, d_k).
    used: how many slots are filled, from the first on.
    """

    def __init__(self, data: Tensor, used: int = 0) -> None:
        self.data = data
        self.used = used

    def has_room(self, count: int) -> bool:
        return self.used + count <= self.data.shape[3]

    def moved(self, kept: Tensor, room: int) -> _Slots:
        """A copy of some slots (layers, 2, heads, n, d_k), with room for twice as many and `room`."""
        count = kept.shape[3]
        capacity = max(LEAST_SLOTS, 2 * (count + room))
        data = self.data.new_empty((*self.data.shape[:3], capacity, self.data.shape[4]))
        data[:, :, :, :count] = kept
        return _Slots(data, count)


class Memory:
    """The encoder frames that the decoder attends to, projected once to the keys and values of all layers."""

    def __init__(self, project: Linear, empty: Tensor) -> None:
        self._project = project
        self._slots = _Slots(empty)

    def __len__(self) -> int:
        return self._slots.used

    @torch.inference_mode()
    def append(self, frames: Tensor) -> None:
        """More encoder frames, (t, width)."""
        count = frames.shape[0]
        if not count:
            return
        if not self._slots.has_room(count):
            self._slots = self._slots.moved(self.keys_values, count)
        slots = self._slots
        layers, _, heads, _, d_k = slots.data.shape
        projected = self._project(frames.to(slots.data)).view(count, layers, 2, heads, d_k)
        slots.data[:, :, :, slots.used : slots.used + count] = projected.permute(1, 2, 3, 0, 4)
        slots.used += count

    @property
    def keys_values(self) -> Tensor:
        """The filled part, (layers, 2, heads, T, d_k); a view."""
        return self._slots.data[:, :, :, : self._slots.used]


@dataclass(frozen=True, eq=False)
class DecoderState:
    """What n hypotheses have read. Their tokens are in a common pool, and nothing in the pool is overwritten.

    length: how many tokens each hypothesis has read.
    slots: the pool.
    visible: (n, size) 0 if the slot is a token of the hypothesis, else -inf.
    attention: (layers, n, heads, T) float32, source attention of the last token; each row sums to 1. None unless it was
        asked for.
    """

    length: int
    slots: _Slots
    visible: Tensor
    attention: Tensor | None = None

    def __len__(self) -> int:
        return self.visible.shape[0]

    def __getitem__(self, rows: Tensor) -> DecoderState:
        """Select hypotheses. rows: (m,) int64, their numbers, in any order; they may repeat."""
        attention = None if self.attention is None else self.attention[:, rows]
        return replace(self, visible=self.visible[rows], attention=attention)

    def with_room(self, count: int) -> DecoderState:
        """The same hypotheses in a pool with room for `count` more tokens. A full pool is copied, not changed."""
        if self.slots.has_room(count):
            return self
        seen = (self.visible == 0).any(0).nonzero()[:, 0]
        slots = self.slots.moved(self.slots.data.index_select(3, seen), count)
        return replace(self, slots=slots, visible=self.visible[:, seen])


@dataclass(frozen=True)
class _Layer:
    """One decoder layer.

    before: the norms of the inputs of its three parts (self-attention, source attention, feed-forward).
    after: the norms of their outputs, after the residual sum.
    """

    self_in: Linear  # queries, keys and values
    self_out: Linear
    source_in: Linear
    source_out: Linear
    up: Linear
    down: Linear
    before: tuple[Norm, ...]
    after: tuple[Norm, ...]


@dataclass(frozen=True)
class _Part:
    """What one search's rows of a batch attend to.

    slots: its pool of tokens, which is filled up to `last`.
    mask: (m, last) over the pool.
    source: (layers, 2, heads, T, d_k) keys and values of its encoder frames.
    seen: (m, T) which of them are seen; None: all.
    length: how many tokens each hypothesis has read then.
    weights: the source attention of each layer, if it is asked for.
    """

    slots: _Slots
    last: int
    mask: Tensor
    source: Tensor
    seen: Tensor | None
    length: int
    weights: list[Tensor]


class CachedDecoder:
    """A decoder that reads one token at a time.

    decoder: ESPnet's decoder with its weights, on the CPU or a GPU. The weights are copied.
    precision: of weights and arithmetic: float32, bfloat16, or int8, which is for linear layers on the CPU.
    lagging: what the decoder saw in training, if it was trained for wait-k. If it reads a prefix, each token sees that
        again, and only the last one sees all frames.

    Raises SimulstError: an option of ESPnet that is not implemented; a precision that the device does not have.
    """

    def __init__(self, decoder: TransformerDecoder, precision: str = "float32", lagging: Lagging | None = None) -> None:
        _check_supported(decoder, precision)
        embedding, self._encoding = decoder.embed
        dtype = dtype_of(precision)
        self.lagging = lagging
        self._embedding = embedding.weight.detach().to(dtype, copy=True)
        self._positions = self._embedding[:0]
        self.layers = [_layer(layer, precision, dtype) for layer in decoder.decoders]
        self._after_norm = _norm(decoder.after_norm, dtype) if decoder.normalize_before else _identity
        self._output = joined(precision, decoder.output_layer)
        sources = [layer.src_attn for layer in decoder.decoders]
        keys_values = [part for source in sources for part in (source.linear_k, source.linear_v)]
        self.project = joined(precision, *keys_values)
        self.empty = self._embedding.new_empty(len(sources), 2, sources[0].h, 0, sources[0].d_k)

    @property
    def attentions(self) -> tuple[int, int]:
        """How many layers have source attention, and how many heads each of them has."""
        return self.empty.shape[0], self.empty.shape[2]

    def memory(self) -> Memory:
        """A memory without frames."""
        return Memory(self.project, self.empty)

    def start(self) -> DecoderState:
        """The state of one hypothesis that has read nothing."""
        return DecoderState(0, _Slots(self.empty), self._embedding.new_empty(1, 0))

    @torch.inference_mode()
    def step(
        self, tokens: Tensor, state: DecoderState, memory: Memory, *, attention: bool = False
    ) -> tuple[Tensor, DecoderState]:
        """Read one token of each hypothesis. The old state is not changed.

        tokens: (n,) int64.
        attention: whether the new state has the source attention, which takes longer.
        Returns: log p of the next token, (n, V) float32, and the new state.

        Raises SimulstError: the memory is empty.
        """
        own_only = self._masked(len(tokens)).fill_diagonal_(0)
        positions = self.encodings(state.length, 1)
        return self._read(tokens, positions, own_only, state, memory, None, slice(None), attention)

    @torch.inference_mode()
    def prefill(self, tokens: Tensor, memory: Memory, *, attention: bool = False) -> tuple[Tensor, DecoderState]:
        """Read a prefix at once. The result equals that of steps which read its tokens one by one.

        tokens: (length,) int64; the first one is <sos>.
        attention: as in `step`.
        Returns: log p of the next token, (1, V) float32, and the state of one hypothesis.

        Raises SimulstError: the memory or the prefix is empty.
        """
        if not len(tokens):
            raise SimulstError("a prefix needs at least one token, <sos>.")
        causal = self._masked(len(tokens)).triu_(1)
        positions = self.encodings(0, len(tokens))
        seen = self._seen(len(tokens), len(memory))
        return self._read(tokens, positions, causal, self.start(), memory, seen, slice(-1, None), attention)

    def together(self, tokens: int, state: DecoderState, memory: Memory) -> Hashable:
        """All reads with these weights."""
        return self

    @torch.inference_mode()
    def read_together(self, reads: Sequence[Read]) -> tuple[Tensor, list[DecoderState]]:
        """See `simulst.search.beam.BatchDecoder`. Only attention is computed for each search by itself.

        Raises SimulstError: a memory is empty.
        """
        parts, positions, rows, ends = [], [], 0, []
        for tokens, state, memory, _ in reads:
            if not len(memory):
                raise SimulstError("the decoder has no encoder frames to attend to.")
            count = tokens.shape[0]
            among = self._masked(count)
            if state is None:
                state, steps, among = self.start(), count, among.triu_(1)
                ends.append(rows + count - 1)
            else:
                steps, among = 1, among.fill_diagonal_(0)
                ends += range(rows, rows + count)
            rows += count
            seen = self._seen(count, len(memory)) if steps > 1 else None
            positions.append(self.encodings(state.length, steps).expand(count, -1))
            state = state.with_room(count)
            last = state.slots.used + count
            mask = among.new_full((count, last), -torch.inf)
            mask[:, : state.visible.shape[1]] = state.visible
            mask[:, state.slots.used :] = among
            parts.append(_Part(state.slots, last, mask, memory.keys_values, seen, state.length + steps, []))
        x = self.embed(torch.cat([read.tokens for read in reads]), torch.cat(positions))
        sizes = [part.mask.shape[0] for part in parts]
        heads, d_k = self.empty.shape[2], self.empty.shape[4]
        for number, layer in enumerate(self.layers):
            qkv = layer.self_in(layer.before[0](x)).view(rows, 3, heads, d_k).permute(1, 2, 0, 3)
            found = []
            for part, query, new in zip(parts, qkv[0].split(sizes, 1), qkv[1:].split(sizes, 2), strict=True):
                own = part.slots.data[number]
                own[:, :, part.slots.used : part.last] = new
                found.append(_attend(query, own[:, :, : part.last], part.mask))
            x = layer.after[0](layer.self_out(torch.cat(found), add=x))
            queries = layer.source_in(layer.before[1](x)).view(rows, heads, d_k).transpose(0, 1).split(sizes, 1)
            found = []
            for read, part, query in zip(reads, parts, queries, strict=True):
                source = part.source[number]
                if read.attention:
                    part.weights.append(_weights(query if read.state is not None else query[:, -1:], source[0]))
                found.append(_attend(query, source, part.seen))
            x = layer.after[1](layer.source_out(torch.cat(found), add=x))
            x = layer.after[2](layer.down(layer.up(layer.before[2](x), relu=True), add=x))
        states = []
        for read, part in zip(reads, parts, strict=True):
            part.slots.used = part.last
            visible = part.mask if read.state is not None else part.mask[-1:]
            weights = torch.stack(part.weights) if part.weights else None
            states.append(DecoderState(part.length, part.slots, visible, weights))
        return self.log_p(x if len(ends) == rows else x[ends]), states

    def _seen(self, tokens: int, frames: int) -> Tensor | None:
        """(tokens, frames) which frames the tokens of a prefix see; None: all."""
        if self.lagging is None:
            return None
        seen = self.lagging.visible(tokens, frames, self._embedding.device)
        seen[-1] = True
        return seen

    def _read(
        self,
        tokens: Tensor,
        positions: Tensor,
        among: Tensor,
        state: DecoderState,
        memory: Memory,
        seen: Tensor | None,
        ends: slice,
        attention: bool,
    ) -> tuple[Tensor, DecoderState]:
        """Read tokens, (m,). Each sees what its hypothesis has read.

        positions: (m or 1, width) encodings of positions, one for each token that a hypothesis gets.
        among: (m, m) mask: which of the new tokens see each other.
        seen: (m, T) which frames they see; None: all.
        ends: the last token of each hypothesis.
        """
        if not len(memory):
            raise SimulstError("the decoder has no encoder frames to attend to; append frames to the memory first.")
        count = len(tokens)
        state = state.with_room(count)
        slots = state.slots
        last = slots.used + count
        mask = state.visible.new_full((count, last), -torch.inf)  # other states may have added to the pool meanwhile
        mask[:, : state.visible.shape[1]] = state.visible
        mask[:, slots.used :] = among
        x = self.embed(tokens, positions)
        heads, d_k = slots.data.shape[2], slots.data.shape[4]
        weights = []
        for layer, own, source in zip(self.layers, slots.data, memory.keys_values, strict=True):
            qkv = layer.self_in(layer.before[0](x)).view(count, 3, heads, d_k).permute(1, 2, 0, 3)
            own[:, :, slots.used : last] = qkv[1:]
            found = _attend(qkv[0], own[:, :, :last], mask)
            x = layer.after[0](layer.self_out(found, add=x))
            query = layer.source_in(layer.before[1](x)).view(count, heads, d_k).transpose(0, 1)
            if attention:
                weights.append(_weights(query[:, ends], source[0]))
            x = layer.after[1](layer.source_out(_attend(query, source, seen), add=x))
            x = layer.after[2](layer.down(layer.up(layer.before[2](x), relu=True), add=x))
        slots.used = last
        log_p = self.log_p(x[ends])
        seen = torch.stack(weights) if attention else None
        return log_p, DecoderState(state.length + len(positions), slots, mask[ends], seen)

    def _masked(self, count: int) -> Tensor:
        return self._embedding.new_full((count, count), -torch.inf)

    def embed(self, tokens: Tensor, encodings: Tensor) -> Tensor:
        """The first layer's input (m, width): tokens (m,) with the encodings of their positions, (m or 1, width)."""
        return torch.add(encodings, functional.embedding(tokens, self._embedding), alpha=self._encoding.xscale)

    def log_p(self, x: Tensor) -> Tensor:
        """The last layer's output (m, width) → log p of the next token (m, V) float32."""
        return torch.log_softmax(self._output(self._after_norm(x)), -1, dtype=torch.float32)

    def encodings(self, first: int, count: int) -> Tensor:
        """The encodings (count, width) of `count` positions, from `first` on."""
        last = first + count
        if last > len(self._positions):
            # Extend ESPnet's own table. Only the size, type and device of the argument matter.
            self._encoding.extend_pe(self._embedding.new_zeros(1, 2 * last, dtype=torch.float32))
            self._positions = self._encoding.pe[0].to(self._embedding)
        return self._positions[first:last]


def _layer(layer: Any, precision: str, dtype: torch.dtype) -> _Layer:
    own, source, forward = layer.self_attn, layer.src_attn, layer.feed_forward
    norms = tuple(_norm(norm, dtype) for norm in (layer.norm1, layer.norm2, layer.norm3))
    none = (_identity,) * 3
    return _Layer(
        self_in=joined(precision, own.linear_q, own.linear_k, own.linear_v),
        self_out=joined(precision, own.linear_out),
        source_in=joined(precision, source.linear_q),
        source_out=joined(precision, source.linear_out),
        up=joined(precision, forward.w_1),
        down=joined(precision, forward.w_2),
        before=norms if layer.normalize_before else none,
        after=none if layer.normalize_before else norms,
    )


def _attend(query: Tensor, key_value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of queries (heads, m, d_k) over shared keys and values (2, heads, T, d_k) → (m, heads * d_k)."""
    key, value = key_value.unsqueeze(1)
    found = functional.scaled_dot_product_attention(query[None], key, value, mask)
    return found[0].transpose(0, 1).flatten(1)


def _weights(query: Tensor, key: Tensor) -> Tensor:
    """Queries (heads, n, d_k), keys (heads, T, d_k) → attention weights (n, heads, T) float32."""
    scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])
    return torch.softmax(scores, -1, dtype=torch.float32).transpose(0, 1)


def _identity(x: Tensor) -> Tensor:
    return x


def _norm(norm: torch.nn.LayerNorm, dtype: torch.dtype) -> Norm:
    shape, eps = norm.normalized_shape, norm.eps
    weight, bias = (part.detach().to(dtype, copy=True) for part in (norm.weight, norm.bias))
    return lambda x: functional.layer_norm(x, shape, weight, bias, eps)


def _check_supported(decoder: Any, precision: str) -> None:
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
    check_precision(precision, decoder.output_layer.weight.device)
