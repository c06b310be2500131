"""The decoder of any encoder-decoder model of transformers, driven token by token by our searches.

The keys and values of tokens belong to a state, those of the encoder's frames to a memory; the library's model is
called with both. So states can be re-ordered and cut, and two streams on one model do not see each other.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import BaseModelOutput

from simulst.hypotheses import Tokens
from simulst.models.base import depends_on_rows, is_fast
from simulst.models.huggingface.attention import STEPPED, Several, Wanted
from simulst.policy.commit import common_prefix
from simulst.policy.context import HeadPairs
from simulst.search.beam import Read

BATCHED = frozenset({"whisper", "canary_decoder", "mbart", "m2m_100", "marian", "seamless_m4t", "seamless_m4t_v2"})
"""Types of decoders that hand keys and values on to the attention as they are, so that these may be `Several`."""

ROWS = 16
"""The rows of each batch in bfloat16 or float16 on a processor that computes in it; padding fills what is missing.

Its library adds in another order in a product of another number of rows. With always so many rows, a row has the same
bits alone and beside 15 others. In bfloat16, 16 rows take the time of one, which goes into reading the weights."""

Pairs = tuple[tuple[Tensor, Tensor], ...]
"""Keys and values of each layer, (n, heads, length, d_k) both."""

Project = Callable[[Tensor], Pairs]


@dataclass(frozen=True, eq=False)
class State:
    """What n hypotheses have read.

    pairs: keys and values of their tokens; empty before the first one.
    attention: of the decoder's heads `shown` to the source, (heads, n, rows, T) float32, if it was asked for.
    """

    pairs: Pairs = ()
    attention: Tensor | None = None

    @property
    def length(self) -> int:
        """Tokens that each hypothesis has read, the prompt among them."""
        return self.pairs[0][0].shape[2] if self.pairs else 0

    def __getitem__(self, rows: Tensor) -> State:
        """Hypotheses by their numbers, (m,) int64, in any order and any number of times."""
        if not self.pairs:  # one that has read nothing has nothing to select
            return self
        rows = rows.to(self.pairs[0][0].device)
        attention = None if self.attention is None else self.attention[:, rows]
        return State(tuple((keys[rows], values[rows]) for keys, values in self.pairs), attention)

    def cut(self, length: int) -> State:
        """The same hypotheses when they had read so many tokens."""
        return State(tuple((keys[:, :, :length], values[:, :, :length]) for keys, values in self.pairs))


class Memory:
    """The encoder's frames, (1, T, width), and what the decoder made of them: keys and values, computed once.

    heard: how many frames are of speech; the others are padding, and attention to them is not shown. None: all.
    project: from frames (T, width) to their keys and values. None: the model does so when it reads the first tokens.

    `read` and `state` are the last hypothesis that was read at once. What the next one has in common with it is not
    read again. `wanted`: which rows of attention a decoder-only model keeps of it; None: none.
    """

    def __init__(self, heard: int | None = None, project: Project | None = None) -> None:
        self.frames: Tensor | None = None
        self.pairs: Pairs = ()
        self.read: Tokens = ()
        self.state = State()
        self.wanted: Wanted | None = None
        self._heard, self._project = heard, project

    def __len__(self) -> int:
        total = 0 if self.frames is None else self.frames.shape[1]
        return total if self._heard is None else min(total, self._heard)

    def append(self, frames: Tensor) -> None:
        """Encoder frames (T, width), all of them at once: each sees the others."""
        assert self.frames is None, "an offline encoder's frames come at once"
        self.frames = frames[None]
        if self._project is not None:
            self.pairs = self._project(frames)


@dataclass
class Frames(BaseModelOutput):
    """What the library's models take for an encoder's output. All frames may be seen; Canary's decoder asks for it."""

    attention_mask: Tensor | None = None


def most_rows(precision: torch.dtype, device: torch.device) -> int | None:
    """How many rows each batch has (see `ROWS`). 0: no search shares a batch; None: a batch has any number of rows."""
    if not depends_on_rows(precision, device):
        return None
    return ROWS if is_fast(precision) else 0  # else, 16 rows may take twelve times as long as one


class SteppedDecoder:
    """A decoder for one search: see `simulst.search.beam.Decoder`.

    prompt: the tokens before every text. They replace the search's <sos>.
    never: tokens that must not be written.
    never_first: tokens that must not be written right after the prompt.
    heard, project: see `Memory`.
    """

    def __init__(
        self,
        model: Any,
        prompt: Tokens,
        never: Tokens = (),
        never_first: Tokens = (),
        heard: int | None = None,
        project: Project | None = None,
    ) -> None:
        self._model, self._prompt, self._heard, self._project = model, prompt, heard, project
        self._key = model, never
        self.shown: HeadPairs = every_head(model)
        self.most_rows = most_rows(model.dtype, model.device)
        self._never = torch.tensor(never, dtype=torch.int64, device=model.device)
        self._never_first = torch.tensor(never_first, dtype=torch.int64, device=model.device)

    def memory(self) -> Memory:
        """No frames yet."""
        return Memory(self._heard, self._project)

    def start(self) -> State:
        """One hypothesis that has read nothing."""
        return State()

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: State, memory: Memory, *, attention: bool = False) -> tuple[Tensor, State]:
        """Read one token of each hypothesis, (n,) → log p of the next (n, V) float32, new state; the old one stays."""
        if not state.length:
            return self.prefill(tokens, memory, attention=attention)
        if len(tokens) <= (self.most_rows or 0) and self.together(1, state, memory) is not None:
            log_p, [after] = self.read_together([Read(tokens, state, memory, attention)])
            return log_p, after
        return self._read(tokens[:, None], state, memory, attention)

    @torch.inference_mode()
    def prefill(
        self, tokens: Tensor, memory: Memory, *, attention: bool = False, draft: int = 0
    ) -> tuple[Tensor, State]:
        """Read a hypothesis at once, (length,), the first being <sos> → log p of the next (1, V) float32, state.

        draft: how many of the last tokens are a draft; see `simulst.search.beam.Decoder`.
        """
        wanted = self._prompt + tuple(tokens.tolist()[1:])
        # Of the last ones, log p is wanted.
        known = min(len(common_prefix([wanted, memory.read])), len(wanted) - 1 - draft)
        before = self._reused(memory, known, attention)
        unread = tokens.new_tensor(wanted[before.length :])[None]
        with read_last(1 + draft):
            log_p, state = self._read(unread, before, memory, attention)
        memory.read, memory.state = wanted, state
        return log_p, state

    def _reused(self, memory: Memory, length: int, attention: bool) -> State:
        """The last hypothesis that was read at once, as far as it serves, when it had read so many tokens."""
        return memory.state.cut(length)

    def together(self, tokens: int, state: State, memory: Memory) -> Hashable:
        """One token of each hypothesis, if the model's type allows it. Beginnings of several tokens are read alone."""
        config = self._model.get_decoder().config
        if config.model_type not in BATCHED or config._attn_implementation != STEPPED:
            return None
        if tokens > 1 or state.length < len(self._prompt) or not memory.pairs:
            return None
        return self._key if state.pairs[0][0].shape[1] == sizes_of(self._model)[1] else None  # each head has its keys

    @torch.inference_mode()
    def read_together(self, reads: Sequence[Read]) -> tuple[Tensor, list[State]]:
        """See `simulst.search.beam.Decoder`. Only attention is computed for each search by itself."""
        all_reads = self._filled(reads)
        sizes = tuple(len(read.tokens) for read in all_reads)
        tokens = torch.cat([read.tokens for read in all_reads])[:, None]
        own = cache_of_several([read.state.pairs for read in all_reads], sizes)
        logits, seen = self._rows_together(all_reads, tokens, own, sizes)
        log_p = self._log_p(logits[: sum(sizes[: len(reads)])], first=False)
        return log_p, [State(pairs_of_one(own, number), seen[number]) for number in range(len(reads))]

    def _rows_together(
        self, reads: Sequence[Read], tokens: Tensor, own: DynamicCache, sizes: tuple[int, ...]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Logits of what follows the tokens (n, 1) of all reads, of `sizes` rows each, and the attention of each."""
        source = cache_of_several([read.memory.pairs for read in reads], sizes)
        asked = {"output_attentions": any(read.attention for read in reads)}
        with _at_positions(self._model, tokens.split(sizes), [read.state.length for read in reads]) as positions:
            output = self._forward(tokens, reads[0].memory.frames, own, source, **asked, **positions)
        return last_logits(output), [
            _stacked([layer[number] for layer in output.cross_attentions], len(read.memory)) if read.attention else None
            for number, read in enumerate(reads)
        ]

    def _filled(self, reads: Sequence[Read]) -> Sequence[Read]:
        """With one more search as padding, so that a batch has `most_rows` rows; its answer is not read. See `ROWS`."""
        rows = (self.most_rows or 0) - sum(len(read.tokens) for read in reads)
        if rows <= 0:
            return reads
        tokens, state, known, *_ = reads[0]
        memory = Memory()
        memory.pairs = State(known.pairs).cut(1).pairs
        none = tokens.new_zeros(rows)
        return [*reads, Read(none, state.cut(0)[none], memory, False)]

    def spoken(self, tokens: Tokens, memory: Memory) -> Tensor:
        """Attention of the heads that are shown at each token, when it is written: (heads, tokens, T) float32."""
        with torch.inference_mode():
            unread = torch.tensor([(*self._prompt, *tokens)], device=self._model.device)
            output = self._called(unread, State(), memory, attention=True)
        first = len(self._prompt) - 1
        return _stacked(output.cross_attentions, len(memory))[:, 0, first : first + len(tokens)]

    def _read(self, tokens: Tensor, state: State, memory: Memory, attention: bool) -> tuple[Tensor, State]:
        """Read tokens (n, m) after a state of n hypotheses."""
        output = self._called(tokens, state, memory, attention)
        first = state.length + tokens.shape[1] - (_last.get() - 1) == len(self._prompt)
        log_p = self._log_p(last_logits(output), first)
        seen = _stacked(output.cross_attentions, len(memory))[:, :, -1:] if attention else None
        return log_p, State(pairs_of(output.past_key_values.self_attention_cache), seen)

    def _log_p(self, logits: Tensor, first: bool) -> Tensor:
        """log p of the next tokens, (n, V) float32. first: whether they, or the first of a draft, follow the prompt."""
        logits = logits.float()
        logits[:, self._never] = -torch.inf
        if first:
            logits[: 1 if _last.get() > 1 else None, self._never_first] = -torch.inf
        return torch.log_softmax(logits, -1)  # over the tokens that may be written, as in CTranslate2

    def _called(self, tokens: Tensor, state: State, memory: Memory, attention: bool) -> Any:
        assert memory.frames is not None
        count = tokens.shape[0]
        if count > 1 and not memory.pairs:  # keys and values of the frames by one row, not again by each
            self._called(tokens[:1], state[torch.tensor([0])], memory, attention=False)
        source = tuple((k.expand(count, -1, -1, -1), v.expand(count, -1, -1, -1)) for k, v in memory.pairs)
        with _shown_attention(self._model, attention):
            output = self._forward(
                tokens, memory.frames, cache_of(state.pairs), cache_of(source), output_attentions=attention
            )
        if not memory.pairs:
            memory.pairs = tuple((k[:1], v[:1]) for k, v in pairs_of(output.past_key_values.cross_attention_cache))
        return output

    def _forward(self, tokens: Tensor, frames: Tensor, own: DynamicCache, source: DynamicCache, **options: Any) -> Any:
        """The library's model reads tokens (n, m). own, source: keys and values of tokens and of frames (1, T, ·)."""
        return self._model(
            encoder_outputs=Frames(last_hidden_state=frames.expand(len(tokens), -1, -1)),
            decoder_input_ids=tokens,
            past_key_values=EncoderDecoderCache(own, source),
            use_cache=True,
            return_dict=True,
            **options,
        )


_last: ContextVar[int] = ContextVar("last", default=1)  # positions of one hypothesis whose logits are wanted


@contextmanager
def read_last(count: int) -> Iterator[None]:
    """Have a model compute logits of so many positions."""
    token = _last.set(count)
    try:
        yield
    finally:
        _last.reset(token)


def read_last_only(model: Any) -> None:
    """Have a model compute logits of the last position alone: those of a long prefix would cost more than the rest."""
    output = model.get_output_embeddings()
    output.register_forward_pre_hook(lambda module, inputs: (inputs[0][:, -_last.get() :], *inputs[1:]))


def last_logits(output: Any) -> Tensor:
    """Of n hypotheses at the last position, or of a single one at the last positions of a draft, (n, V)."""
    logits: Tensor = output.logits
    return logits[:, -1] if _last.get() == 1 else logits[0, -_last.get() :]


def sizes_of(model: Any) -> tuple[int, int]:
    """The layers of a model's decoder, and the heads of each."""
    config = model.get_decoder().config
    layers = getattr(config, "decoder_layers", None) or config.num_hidden_layers
    heads = getattr(config, "decoder_attention_heads", None) or config.num_attention_heads
    return layers, heads


def every_head(model: Any) -> HeadPairs:
    """All heads of a model's decoder, layer by layer."""
    layers, heads = sizes_of(model)
    return tuple(itertools.product(range(layers), range(heads)))


def cache_of(pairs: Pairs) -> DynamicCache:
    """The library's cache with these keys and values, which are not copied."""
    cache = DynamicCache()
    for keys, values in pairs:
        layer = DynamicLayer()
        layer.keys, layer.values, layer.dtype, layer.device = keys, values, keys.dtype, keys.device
        layer.is_initialized = True
        cache.layers.append(layer)
    return cache


class _LayerOfSeveral(DynamicLayer):
    """A layer of the library's cache for `Several`."""

    keys: Any
    values: Any

    def __init__(self, keys: Several, values: Several) -> None:
        super().__init__()
        self.keys, self.values, self.is_initialized = keys, values, True

    def update(self, key_states: Tensor, value_states: Tensor, *others: Any, **options: Any) -> tuple[Any, Any]:
        self.keys, self.values = self.keys.longer(key_states), self.values.longer(value_states)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return max(part.shape[2] for part in self.keys.parts)


def cache_of_several(searches: Sequence[Pairs], sizes: tuple[int, ...]) -> DynamicCache:
    """The library's cache with the keys and values of several searches, of n hypotheses each."""
    cache = DynamicCache()
    for layer in zip(*searches, strict=True):
        keys, values = zip(*layer, strict=True)
        cache.layers.append(_LayerOfSeveral(Several(keys, sizes), Several(values, sizes)))
    return cache


def pairs_of_one(several: Any, number: int) -> Pairs:
    """The keys and values of one search in such a cache."""
    return tuple((layer.keys.parts[number], layer.values.parts[number]) for layer in several.layers)


@contextmanager
def _at_positions(model: Any, tokens: Sequence[Tensor], lengths: Sequence[int]) -> Iterator[dict[str, Tensor]]:
    """Have a model read tokens of several searches, (n, 1) each, which have read so many tokens before.

    Some models can be told positions; what is yielded tells them. Others take one position for all rows from the cache.
    So their table of positions is asked for each search.
    """
    if _takes_positions(model.forward.__func__):
        pairs = zip(tokens, lengths, strict=True)
        yield {"decoder_position_ids": torch.cat([torch.full_like(part, length) for part, length in pairs])}
        return
    parts = model.get_decoder().named_modules()
    table = next(part for name, part in parts if name.rpartition(".")[2] == "embed_positions")
    looked_up = table.forward

    def forward(rows: Any, *others: Any, **options: Any) -> Tensor:
        found = []
        for part, length in zip(tokens, lengths, strict=True):
            asked = part if isinstance(rows, Tensor) else part.shape  # as Marian does
            found.append(looked_up(asked, past_key_values_length=length).expand(len(part), -1, -1))
        return torch.cat(found)

    table.forward = forward
    try:
        yield {}
    finally:
        del table.forward


@functools.cache
def _takes_positions(forward: Callable[..., Any]) -> bool:
    return "decoder_position_ids" in inspect.signature(forward).parameters


def pairs_of(cache: Any) -> Pairs:
    return tuple((layer.keys, layer.values) for layer in cache.layers)


def _stacked(layers: Sequence[Tensor], frames: int) -> Tensor:
    """Source attention of all layers' heads, (heads, n, m, T) float32. layers: of each, (n, heads, m, T or more)."""
    return torch.cat([weights[..., :frames].float().transpose(0, 1) for weights in layers])


@contextmanager
def _shown_attention(model: Any, shown: bool) -> Iterator[None]:
    """Fused attention does not tell its weights."""
    config = model.get_decoder().config
    usual = config._attn_implementation
    if not shown or usual == "eager":
        yield
        return
    model.get_decoder().set_attn_implementation("eager")
    try:
        yield
    finally:
        model.get_decoder().set_attn_implementation(usual)
