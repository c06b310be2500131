"""A speech LLM, driven token by token by our searches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from simulst.hypotheses import Tokens
from simulst.models.huggingface.attention_rows import Wanted
from simulst.models.huggingface.causal import CausalDecoder, Kept
from simulst.models.huggingface.decoder import Memory
from simulst.policy.context import HeadPairs


class SpeechDecoder(CausalDecoder):
    """A decoder for one search. The memory's frames are embeddings, which stand in the prompt.

    audio: where they do. heard: how many of them are of speech and no padding.
    heads: those whose attention to these is shown, if a search asks for it.
    The others are as in `CausalDecoder`.
    """

    def __init__(
        self,
        model: Any,
        prompt: Tokens,
        ends: Tokens,
        never: Tokens,
        known: Kept | None,
        audio: range,
        heard: int,
        heads: HeadPairs = (),
    ) -> None:
        wanted = Wanted(heads, audio.start, audio.start + heard, len(prompt) - 1) if heads else None
        super().__init__(model, prompt, ends, never, known, wanted)
        self._audio, self._heard = audio, heard

    def memory(self) -> Kept:
        memory = super().memory()
        memory._heard = self._heard
        return memory

    def _inputs(self, tokens: Tensor, before: int, memory: Memory) -> dict[str, Tensor]:
        rows = self._model.get_input_embeddings()(tokens.clamp(min=0))
        here = torch.arange(before, before + tokens.shape[1], device=tokens.device) - self._audio.start
        audio = (here >= 0) & (here < len(self._audio))
        if audio.any():
            assert memory.frames is not None
            rows[:, audio] = memory.frames[0, here[audio]].to(rows.dtype)
        return {"inputs_embeds": rows}
