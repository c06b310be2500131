"""One utterance inside a speech LLM: the chat, with the window's audio in it, and the committed text as its answer.

When audio comes, the window is encoded again. What the chat then has in common with the one before is not read again:
the tokens before the audio, and those of its embeddings that are the same (of encoders that work in blocks).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from simulst.background import Background
from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.languages import unit_of
from simulst.models.heads import looked_at
from simulst.models.huggingface.architectures import Encoded
from simulst.models.huggingface.attention import Wanted
from simulst.models.huggingface.causal import CausalDecoder
from simulst.models.huggingface.decoder import Memory
from simulst.models.huggingface.model import GIVES, HuggingFaceSession
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.context import HeadPairs
from simulst.policy.stop import Stopping
from simulst.search import SearchOptions


class SpeechLLMSession(HuggingFaceSession):
    """architecture: a `simulst.models.speech_llm.architectures.SpeechLLM`."""

    _gives = GIVES | {Need.ATTENTION_OF_STEPS}
    _beam = 1

    def __init__(self, architecture: Any, opening: Opening) -> None:
        super().__init__(architecture, opening)
        # An answer begins without a space.
        self._between = self.spell(" ") if unit_of(opening.target) == "word" else ()
        self._places = Places()
        self._known: Memory | None = None
        self._told: tuple[Tokens, tuple[Tokens, Tokens]] | None = None  # the text before the window, and the chat

    def _search_window(self, prefix: Tokens, options: SearchOptions, stop: Stopping | None) -> Any:
        heads = looked_at(stop, self._model.alignment_heads, self._model.path)
        if heads != self._shown_heads:
            self._shown_heads, self._open = heads, None
        return (yield from super()._search_window(prefix, options, stop))

    def _search_over(self, encoded: Encoded, options: Any) -> Any:
        search = super()._search_over(encoded, options)
        self._known = search.memory
        return search

    def _decoder(self, encoded: Encoded, heads: HeadPairs) -> CausalDecoder:
        model: Any = self._model
        first, prompt, heard = len(self._chat()[0]), self._prompt(), encoded.heard
        audio = range(first, first + len(encoded.frames))
        wanted = Wanted(heads, first, first + heard, len(prompt) - 1) if heads else None
        return CausalDecoder(model.model, prompt, model.ends, model.never, self._known, wanted, audio, heard)

    def tell(self, background: Background) -> None:
        super().tell(background)
        self._told = None

    def _chat(self) -> tuple[Tokens, Tokens]:
        """The tokens before the audio and after it."""
        model: Any = self._model
        previous = self._previous()
        if self._told is None or self._told[0] != previous:
            self._told = previous, model.chat(*self.opening.languages, previous, self.opening.background)
        return self._told[1]

    def _prompt(self) -> Tokens:
        before, after = self._chat()
        prompt = before + self._places.of(self._encoded.frames) + after
        if len(prompt) >= self._model.positions:
            raise SimulstError(
                f"{self._model.path}: the audio and what the model is told are {len(prompt)} tokens, but it reads "
                f"{self._model.positions}; give it a shorter window or less history (--model-option)."
            )
        return prompt

    def _previous(self) -> Tokens:
        """The text before the window that the chat shows."""
        count = self._model.options.history
        return self._past[-count:] if count else ()


class Places:
    """Numbers that stand for embeddings of audio among tokens: negative, and the same for those that are the same."""

    def __init__(self) -> None:
        self._rows: Tensor | None = None
        self._numbers: Tokens = ()
        self._next = -1

    def of(self, rows: Tensor) -> Tokens:
        """The numbers of embeddings (T, width). Those up to the first that differs from the last ones stay."""
        if self._rows is rows:
            return self._numbers
        same = 0
        if self._rows is not None:
            both = min(len(rows), len(self._rows))
            same = int((rows[:both] == self._rows[:both]).all(-1).long().cumprod(0).sum())
        new = range(self._next, self._next - (len(rows) - same), -1)
        self._rows, self._numbers, self._next = rows, (*self._numbers[:same], *new), new.stop
        return self._numbers
