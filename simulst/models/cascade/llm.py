"""A decoder-only language model of transformers, which chats, under our own search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simulst.calls import Steps
from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.models.base import check_device
from simulst.models.cascade.chat import REMEDY, Chat, ChatOptions
from simulst.models.cascade.settings import beside
from simulst.models.cascade.translators import MORE_TOKENS, TOKENS_PER_TOKEN, Opener, Past, Translation
from simulst.models.window import warn_of_full_context
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.stop import Stopping
from simulst.search import JointBeamSearch, SearchOptions
from simulst.search.beam import JointSearch, joint_beam_search
from simulst.search.loops import without_loops
from simulst.search.terms import terms_of
from simulst.session import Traits

if TYPE_CHECKING:
    from simulst.models.huggingface.causal import Kept


@dataclass(frozen=True)
class LLM(ChatOptions):
    """Options of a language model, and those of `ChatOptions`. It must have a chat template.

    model: a folder, relative to the cascade's file, or a name on the hub.
    The others are as in HuggingFaceOptions.
    """

    model: str
    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    trust_remote_code: bool = False

    def files(self, path: Path) -> tuple[Path, ...]:
        """See Translator. Raises SimulstError: no such model."""
        from simulst.models.huggingface.folder import files_of_folder

        return files_of_folder(Path(beside(path, self.model)), self.trust_remote_code)

    def load(self, path: Path, cores: int) -> Opener:
        """Raises SimulstError: no such model, or none that chats."""
        import torch

        from simulst.models.huggingface.attention import attend_by_steps
        from simulst.models.huggingface.decoder import read_last_only
        from simulst.models.huggingface.folder import find_folder
        from simulst.models.huggingface.loading import quiet, read_model, read_tokenizer

        self.check(path)
        check_device(self.device)
        place = Path(beside(path, self.model))
        with quiet():
            from transformers import AutoTokenizer

            folder, trust = find_folder(place), {"trust_remote_code": self.trust_remote_code}
            model = read_model(
                place,
                folder,
                "AutoModelForCausalLM",
                self.dtype,
                self.trust_remote_code,
                lambda config: not config.is_encoder_decoder,
                "is not a decoder-only language model; give one such as llama or qwen3, or another type of translator.",
            )
            load = AutoTokenizer.from_pretrained
            tokenizer = read_tokenizer(place, lambda: load(folder, **trust), model.config)
            attend_by_steps(model)  # not all models can
        read_last_only(model.to(self.device).eval())
        torch.set_num_threads(cores)
        loaded = Loaded(place, model, tokenizer)
        return lambda opening: LLMTranslation(self, loaded, opening)


class Loaded(Chat):
    """A model that chats."""

    def __init__(self, path: Path, model: Any, tokenizer: Any) -> None:
        super().__init__(path, tokenizer, model.generation_config.eos_token_id)
        self.model = model


class LLMTranslation(Translation):
    """The committed tokens are the beginning of the answer. What was read of a chat is not read again."""

    traits = Traits(frozenset({Need.STEPS}), JointBeamSearch(beam=1, ctc_weight=0.0, max_length_ratio=TOKENS_PER_TOKEN))

    def __init__(self, options: LLM, loaded: Loaded, opening: Opening) -> None:
        self._options, self._loaded, self._opening = options, loaded, opening
        self._positions: int = getattr(loaded.model.config, "max_position_embeddings", None) or 1 << 20
        self.history = options.history
        self.between = loaded.between(opening.target)
        self._open: tuple[Tokens, SearchOptions, JointSearch] | None = None
        self._read: Kept | None = None

    def text(self, tokens: Tokens) -> str:
        return self._loaded.text(tokens)

    def search(
        self, sentence: str, prefix: Tokens, options: SearchOptions, stop: Stopping | None, past: Past = ()
    ) -> Steps[Beam]:
        assert isinstance(options, JointBeamSearch)
        chat = self._options.messages(*self._opening.languages, sentence, past, self._opening.background)
        prompt = self._loaded.prompt(chat)
        if len(prompt) < self._positions <= len(prompt) + len(prefix):
            warn_of_full_context(self._loaded.path, self._positions, REMEDY)
            return [Hypothesis(prefix)]

        def search(used: JointBeamSearch) -> Steps[Beam]:
            return joint_beam_search(self._over(prompt, sentence, used), prefix, stop)

        return (yield from without_loops(options, search, self.text, len(prefix))) or [Hypothesis(prefix)]

    def _over(self, prompt: Tokens, sentence: str, options: JointBeamSearch) -> JointSearch:
        if self._open is None or self._open[:2] != (prompt, options):
            self._open = (prompt, options, self._search(prompt, sentence, options))
        return self._open[2]

    def _search(self, prompt: Tokens, sentence: str, options: JointBeamSearch) -> JointSearch:
        import torch

        from simulst.models.huggingface.causal import CausalDecoder

        loaded = self._loaded
        size = len(loaded.spelled(sentence))
        most = min(options.length_ratio * size + MORE_TOKENS, self._positions - len(prompt))
        if most < 1:
            raise SimulstError(
                f"{loaded.path}: the chat has {len(prompt)} tokens, but the model reads {self._positions}; {REMEDY}."
            )
        decoder = CausalDecoder(loaded.model, prompt, loaded.ends, loaded.never, self._read)
        known, language, count = self._opening.background, self._opening.target, len(loaded.tokenizer)
        terms = terms_of(known, options, language, loaded.spelled, loaded.text, count)
        bounded = replace(options, max_length_ratio=most / size)
        search = JointSearch(decoder, bounded, decoder.eos, decoder.eos, terms=terms)
        search.append(torch.zeros(size, 1, device=loaded.model.device))
        self._read = search.memory
        return search
