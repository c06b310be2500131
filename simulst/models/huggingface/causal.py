"""A decoder-only model, driven token by token by our searches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from simulst.hypotheses import Tokens
from simulst.models.huggingface.attention import STEPPED, Wanted, recorded
from simulst.models.huggingface.decoder import Memory, State, SteppedDecoder, cache_of, last_logits, pairs_of
from simulst.search.beam import Read

BATCHED = frozenset({"llama", "mistral", "qwen2", "qwen3", "granite", "qwen2_5_omni_text", "phi4_multimodal"})
"""Types that can be told positions, and whose attention gets the keys and values of the cache as they are."""


class CausalDecoder(SteppedDecoder):
    """A decoder for one search: see `simulst.search.beam.Decoder`.

    In its states, `attention` is (heads, n, rows, span) float32: see `Recorder.rows`.

    prompt: the tokens before the text. They replace the search's <sos>.
    ends: the tokens that end a text. For the search they are one, `eos`.
    never: tokens that must not be written.
    known: what the search before this one has read. What this one has in common with it is not read again.
    wanted: which rows of attention are shown, if a search asks for attention. They are those of the whole text, of what
        was read before, too.
    audio: where in the prompt the memory's frames stand, as embeddings. heard: how many of them are no padding.
    """

    def __init__(
        self,
        model: Any,
        prompt: Tokens,
        ends: Tokens,
        never: Tokens,
        known: Memory | None = None,
        wanted: Wanted | None = None,
        audio: range = range(0),
        heard: int | None = None,
    ) -> None:
        super().__init__(model, prompt, (*never, *ends[1:]), heard=heard)
        self.eos, self._audio = ends[0], audio
        self._ends = torch.tensor(ends, device=model.device)
        self._known, self._wanted = Memory() if known is None else known, wanted
        self.shown = wanted.heads if wanted else ()

    def memory(self) -> Memory:
        """What is known, and its rows, if they are those that are wanted."""
        memory, known = Memory(self._heard), self._known
        memory.read, memory.state, memory.wanted = known.read, known.state, self._wanted
        if known.wanted != self._wanted:
            memory.state = replace(known.state, attention=None)
        return memory

    def _reused(self, memory: Memory, length: int, attention: bool) -> State:
        """With its rows of attention. A text whose rows are wanted and not known is read again."""
        if not attention:
            return memory.state.cut(length)
        assert self._wanted is not None
        rows, count = memory.state.attention, length - self._wanted.first
        if rows is None or count <= 0:
            return memory.state.cut(min(length, self._wanted.first))
        return replace(memory.state.cut(length), attention=rows[:, :, :count])

    def spoken(self, tokens: Tokens, memory: Memory) -> Tensor:
        _, state = self.prefill(self._ends.new_tensor([self.eos, *tokens]), memory, attention=True)
        assert state.attention is not None
        return state.attention[:, 0, : len(tokens)]

    def together(self, tokens: int, state: State, memory: Memory) -> Hashable:
        """One token of each hypothesis, if the model's type and options allow it."""
        shares = tokens == 1 and state.length and _is_batched(self._model.get_decoder().config)
        return self._key if shares else None

    def _rows_together(
        self, reads: Sequence[Read], tokens: Tensor, own: Any, sizes: tuple[int, ...]
    ) -> tuple[Tensor, list[Tensor | None]]:
        positions = torch.cat([torch.full_like(read.tokens, read.state.length) for read in reads])
        with recorded(*(read.memory.wanted if read.attention else None for read in reads)) as found:
            logits = self._logits({"input_ids": tokens}, own, position_ids=positions[:, None])
        return logits, [_longer(read.state.attention, found.rows(number)) for number, read in enumerate(reads)]

    def _read(self, tokens: Tensor, state: State, memory: Memory, attention: bool) -> tuple[Tensor, State]:
        cache = cache_of(state.pairs)
        with recorded(self._wanted if attention else None) as found:
            log_p = self._log_p(self._logits(self._inputs(tokens, state.length, memory), cache))
        return log_p, State(pairs_of(cache), _longer(state.attention, found.rows(0)))

    def _inputs(self, tokens: Tensor, before: int, memory: Memory) -> dict[str, Tensor]:
        """How the model is given tokens (n, m) after so many others: where audio stands, as embeddings."""
        if not self._audio:
            return {"input_ids": tokens}
        rows = self._model.get_input_embeddings()(tokens.clamp(min=0))
        here = torch.arange(before, before + tokens.shape[1], device=tokens.device) - self._audio.start
        audio = (here >= 0) & (here < len(self._audio))
        if audio.any():
            assert memory.frames is not None
            rows[:, audio] = memory.frames[0, here[audio]].to(rows.dtype)
        return {"inputs_embeds": rows}

    def _logits(self, inputs: dict[str, Tensor], cache: Any, **options: Any) -> Tensor:
        """Of what follows the tokens (n, m), (n, V). The cache gets the tokens' keys and values."""
        return last_logits(self._model(**inputs, past_key_values=cache, use_cache=True, return_dict=True, **options))

    def _log_p(self, logits: Tensor, first: bool = False) -> Tensor:
        """log p of the next tokens, (n, V) float32. All ends are one. first: makes no difference here."""
        log_p = torch.log_softmax(logits, -1, dtype=torch.float32)
        log_p[:, self.eos] = log_p[:, self._ends].logsumexp(-1)
        log_p[:, self._never] = -torch.inf
        return log_p


def _longer(rows: Tensor | None, new: Tensor | None) -> Tensor | None:
    """Rows of attention and those of tokens that were read after them; None: none are wanted."""
    return new if rows is None or new is None else torch.cat([rows, new], 2)


def _is_batched(config: Any) -> bool:
    """Whether steps can share a batch: they can't if a row depends on the longest one, or does not see all tokens."""
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in BATCHED
        and config._attn_implementation == STEPPED
        and rope.get("rope_type", "default") not in ("dynamic", "longrope")
        and not getattr(config, "sliding_window", None)
    )
