"""A decoder-only language model of transformers, which chats, under our own search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from simulst.calls import Steps
from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.languages import unit_of
from simulst.models.cascade.chat import REMEDY, Chat, ChatOptions, Prompt
from simulst.models.cascade.huggingface import LibraryModel
from simulst.models.cascade.translators import MORE_TOKENS, TOKENS_PER_TOKEN, Opener, Past, Translation
from simulst.models.heads import Seen, ends_of, heads_beside, looked_at
from simulst.models.window import warn_of_full_context
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.context import HeadPairs, View, WaitToken
from simulst.policy.stop import Stopping, end_of
from simulst.search import JointBeamSearch, SearchOptions
from simulst.search.beam import AttendingView, BestHypothesis, JointSearch, joint_beam_search
from simulst.search.loops import without_loops
from simulst.search.terms import terms_of
from simulst.session import Traits

GIVES = frozenset({Need.STEPS, Need.DISTRIBUTION})
SHOWS = frozenset({Need.ATTENTION, Need.ATTENTION_OF_STEPS, Need.SOURCE_WORDS})


@dataclass(frozen=True)
class LLM(LibraryModel, ChatOptions):
    """Options of a language model, and those of `LibraryModel` and `ChatOptions`. It must have a chat template.

    draft: whether a search that goes by attention goes on where STOP ends it, to the end of the sentence. What it finds
        is held, and released without another call of the model once the recogniser has committed the words behind it.
        This is for greedy search (a `beam` of 1).
    """

    draft: bool = True

    def load(self, path: Path, cores: int) -> Opener:
        """Raises SimulstError: no such model, or none that chats."""
        loaded = self.opened(path, cores)
        return lambda opening: LLMTranslation(self, loaded, opening)

    def opened(self, path: Path, cores: int = 0) -> Loaded:
        """The model itself. cores: 0: to train it. Raises SimulstError: as `load`."""
        self.check(path)
        place, folder, model, tokenizer = self.read(
            path,
            cores,
            "AutoModelForCausalLM",
            lambda config: not config.is_encoder_decoder,
            "is not a decoder-only language model; give one such as llama or qwen3, or another type of translator.",
        )
        return Loaded(place, model, tokenizer, folder)


class Loaded(Chat):
    """A model that chats. folder: where its files are."""

    wait: WaitToken | None

    def __init__(self, path: Path, model: Any, tokenizer: Any, folder: Path) -> None:
        from simulst.models.huggingface.attention import STEPPED
        from simulst.models.huggingface.decoder import sizes_of
        from simulst.models.huggingface.wait_token import learn_wait

        super().__init__(path, tokenizer, model.generation_config.eos_token_id)
        self.model = model
        self.eos: int = self.ends[0] if tokenizer.eos_token_id is None else tokenizer.eos_token_id
        self.positions: int = getattr(model.config, "max_position_embeddings", None) or 1 << 20
        learn_wait(self)
        self.sizes = sizes_of(model)
        self.heads = heads_beside(folder, *self.sizes)
        self.shows_attention = model.config._attn_implementation == STEPPED and tokenizer.is_fast

    def tokens(self, text: str, target: str) -> Tokens:
        return self.spelled(text)


@dataclass(frozen=True)
class Draft:
    """A sentence's translation, to its end.

    about: what was searched: the chat, and how.
    search: over the chat. attention: (heads, steps, T) of all steps, the first of which chose the first token.
    """

    about: tuple[Tokens, JointBeamSearch]
    best: Hypothesis
    search: JointSearch
    attention: Any

    def cut(self, given: int, stop: Stopping | None) -> Beam:
        """As if STOP had ended the search. given: how many tokens were committed before."""
        if stop is None:
            return [self.best]
        tokens, steps = self.best.tokens, self.attention.shape[1]
        asked = tokens[given : steps - 1]  # a search that was full did not ask at its end
        end = end_of(
            stop, asked, lambda new: AttendingView(self.search, new, self.attention[:, : given + len(new) + 1])
        )
        return [self.best if end is None else replace(self.best, tokens=tokens[: given + end])]


class Unending(Stopping):
    """A STOP that ends nothing, and keeps what was shown last to the one in whose place it stands."""

    shown: BestHypothesis | None = None

    def ends(self, view: View) -> bool:
        assert isinstance(view, BestHypothesis)
        self.shown = view
        return False


class LLMTranslation(Translation):
    """The committed tokens are the beginning of the answer. What was read of a chat is not read again."""

    def __init__(self, options: LLM, loaded: Loaded, opening: Opening) -> None:
        self._options, self._loaded, self._opening = options, loaded, opening
        self._positions, self._wait = loaded.positions, loaded.wait.token if loaded.wait else None
        self.history = options.history
        self.between = loaded.between(opening.target)
        usual = JointBeamSearch(beam=1, ctc_weight=0.0, max_length_ratio=TOKENS_PER_TOKEN)
        gives = GIVES | (SHOWS if loaded.shows_attention else set())
        layers, heads = loaded.sizes
        self.traits = Traits(gives, usual, layers=layers, heads=heads, wait=loaded.wait)
        self._open: tuple[tuple[Tokens, SearchOptions, HeadPairs], JointSearch] | None = None
        self._draft: Draft | None = None
        self._read: Any = None  # the memory of the last search

    def text(self, tokens: Tokens) -> str:
        return self._loaded.text(tokens)

    def search(
        self, sentence: str, prefix: Tokens, options: SearchOptions, stop: Stopping | None, past: Past = ()
    ) -> Steps[Beam]:
        assert isinstance(options, JointBeamSearch)
        loaded, known = self._loaded, self._opening
        heads = looked_at(stop, loaded.heads, loaded.path)
        messages = self._options.messages(*known.languages, sentence, past, known.background)
        chat = loaded.placed(messages, unit_of(known.source) if heads else "")
        if len(chat.tokens) < self._positions <= len(chat.tokens) + len(prefix):
            warn_of_full_context(loaded.path, self._positions, REMEDY)
            return [Hypothesis(prefix)]

        def search(used: JointBeamSearch, ends: Stopping | None = stop) -> Steps[Beam]:
            return joint_beam_search(self._over(chat, sentence, used, heads), prefix, ends)

        draft = self._draft
        if (
            draft is not None
            and draft.about == (chat.tokens, options)
            and draft.best.tokens[: len(prefix)] == prefix
            and (draft.search.decoder.shown == heads or not heads)
        ):
            return draft.cut(len(prefix), stop)
        if stop is None or not heads or not self._options.draft or options.beam > 1:
            return (yield from without_loops(options, search, self.text, len(prefix), self._wait))
        watch = Unending(stop.options, stop.context)
        beam = yield from without_loops(options, lambda used: search(used, watch), self.text, len(prefix))
        if watch.shown is None:
            return [Hypothesis(prefix)]
        self._draft = Draft((chat.tokens, options), beam[0], watch.shown.search, watch.shown.attention)
        return self._draft.cut(len(prefix), stop)

    def seen(self, source: str, target: str) -> Seen:
        from simulst.models.huggingface.attention import Wanted
        from simulst.models.huggingface.causal import CausalDecoder
        from simulst.models.huggingface.decoder import every_head

        loaded, known = self._loaded, self._opening
        if not loaded.shows_attention:
            raise SimulstError(f"{loaded.path}: this model does not show its attention; take another one.")
        messages = self._options.messages(*known.languages, source, (), known.background)
        chat, tokens = loaded.placed(messages, unit_of(known.source)), loaded.spelled(target)
        if (size := len(chat.tokens) + len(tokens)) > self._positions:
            raise SimulstError(
                f"{loaded.path}: a chat and its answer have {size} tokens, but the model reads {self._positions}; "
                "leave long pairs out."
            )
        wanted = Wanted(every_head(loaded.model), chat.begin, chat.end, len(chat.tokens) - 1)
        decoder = CausalDecoder(loaded.model, chat.tokens, loaded.ends, loaded.never, None, wanted)
        rows = decoder.spoken(tokens, decoder.memory()).cpu().numpy()
        return Seen(rows.reshape(*loaded.sizes, *rows.shape[1:]), chat.ends, ends_of(loaded.text, tokens, target))

    def _over(self, chat: Prompt, sentence: str, options: JointBeamSearch, heads: HeadPairs) -> JointSearch:
        from simulst.models.huggingface.attention import Wanted
        from simulst.models.huggingface.causal import CausalDecoder

        loaded, prompt, about = self._loaded, chat.tokens, (chat.tokens, options, heads)
        if self._open is not None and self._open[0] == about:
            return self._open[1]
        size = len(loaded.spelled(sentence))
        most = min(options.length_ratio * size + MORE_TOKENS, self._positions - len(prompt))
        if most < 1:
            raise SimulstError(
                f"{loaded.path}: the chat has {len(prompt)} tokens, but the model reads {self._positions}; {REMEDY}."
            )
        wanted = Wanted(heads, chat.begin, chat.end, len(prompt) - 1) if heads else None
        decoder = CausalDecoder(loaded.model, prompt, loaded.ends, loaded.never, self._read, wanted)
        known, language, count = self._opening.background, self._opening.target, len(loaded.tokenizer)
        terms = terms_of(known, options, language, loaded.spelled, loaded.text, count)
        bounded = replace(options, max_length_ratio=most / size)
        search = JointSearch(
            decoder, bounded, decoder.eos, decoder.eos, terms=terms, alignment_heads=loaded.heads, words=chat.words,
            wait=self._wait,
        )  # fmt: skip
        search.append(torch.zeros(size, 1, device=loaded.model.device))
        self._read, self._open = search.memory, (about, search)
        return search
