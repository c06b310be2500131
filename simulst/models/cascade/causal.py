"""A decoder-only model, driven token by token by our searches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from simulst.hypotheses import Tokens
from simulst.models.huggingface.attention import STEPPED
from simulst.models.huggingface.decoder import (
    Memory,
    State,
    SteppedDecoder,
    cache_of,
    cache_of_several,
    pairs_of,
    pairs_of_one,
)
from simulst.search.beam import Read

BATCHED = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Types that can be told positions, and whose attention gets the keys and values of the cache as they are."""


class CausalDecoder(SteppedDecoder):
    """A decoder for one search: see `simulst.search.beam.Decoder`.

    prompt: the tokens before the text. They replace the search's <sos>.
    ends: the tokens that end a text. For the search they are one, `eos`.
    never: tokens that must not be written.
    known: what the search before this one has read. What this one has in common with it is not read again.
    """

    def __init__(self, model: Any, prompt: Tokens, ends: Tokens, never: Tokens, known: Memory | None = None) -> None:
        super().__init__(model, prompt, (*never, *ends[1:]))
        self.eos = ends[0]
        self._ends = torch.tensor(ends, device=model.device)
        self._known = known or Memory()

    def memory(self) -> Memory:
        memory = Memory()
        memory.read, memory.state = self._known.read, self._known.state
        return memory

    def together(self, tokens: int, state: State, memory: Memory) -> Hashable:
        """One token of each hypothesis, if the model's type and options allow it."""
        return self._key if tokens == 1 and state.length and _is_batched(self._model.config) else None

    @torch.inference_mode()
    def read_together(self, reads: Sequence[Read]) -> tuple[Tensor, list[State]]:
        """See `simulst.search.beam.BatchDecoder`. Only attention is computed for each search by itself."""
        cache = cache_of_several([read.state.pairs for read in reads], tuple(len(read.tokens) for read in reads))
        positions = torch.cat([torch.full_like(read.tokens, read.state.length) for read in reads])
        tokens = torch.cat([read.tokens for read in reads])
        log_p = self._next(tokens[:, None], cache, position_ids=positions[:, None])
        return log_p, [State(pairs_of_one(cache, number)) for number in range(len(reads))]

    def _read(self, tokens: Tensor, state: State, memory: Memory, attention: bool) -> tuple[Tensor, State]:
        cache = cache_of(state.pairs)
        return self._next(tokens, cache), State(pairs_of(cache))

    def _next(self, tokens: Tensor, cache: Any, **options: Any) -> Tensor:
        """log p of what follows the tokens (n, m) → (n, V) float32. The cache gets their keys and values."""
        output = self._model(input_ids=tokens, past_key_values=cache, use_cache=True, return_dict=True, **options)
        log_p = torch.log_softmax(output.logits[:, -1], -1, dtype=torch.float32)
        log_p[:, self.eos] = log_p[:, self._ends].logsumexp(-1)
        log_p[:, self._never] = -torch.inf
        return log_p


def _is_batched(config: Any) -> bool:
    """Whether steps can share a batch: they can't if a row depends on the longest one, or does not see all tokens."""
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in BATCHED
        and config._attn_implementation == STEPPED
        and rope.get("rope_type", "default") not in ("dynamic", "longrope")
        and not getattr(config, "sliding_window", None)
    )
