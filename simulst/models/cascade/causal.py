"""A decoder-only model, driven token by token by our searches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from simulst.hypotheses import Tokens
from simulst.models.huggingface.decoder import Memory, State, SteppedDecoder, cache_of, pairs_of


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

    def _read(self, tokens: Tensor, state: State, memory: Memory, attention: bool) -> tuple[Tensor, State]:
        cache = cache_of(state.pairs)
        output = self._model(input_ids=tokens, past_key_values=cache, use_cache=True, return_dict=True)
        log_p = torch.log_softmax(output.logits[:, -1], -1, dtype=torch.float32)
        log_p[:, self.eos] = log_p[:, self._ends].logsumexp(-1)
        log_p[:, self._never] = -torch.inf
        return log_p, State(pairs_of(output.past_key_values))
