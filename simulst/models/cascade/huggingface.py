"""A text-to-text model of transformers (Marian, NLLB, M2M-100, mBART-50, MADLAD, T5) under our own search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from simulst.calls import Alone, Steps
from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.languages import unit_of
from simulst.models.base import check_device
from simulst.models.cascade.settings import beside
from simulst.models.cascade.translators import MORE_TOKENS, TOKENS_PER_TOKEN, Opener, Past, Translation, Translator
from simulst.models.heads import Seen, ends_of, heads_beside
from simulst.models.window import warn_of_full_context
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.stop import Stopping
from simulst.search import JointBeamSearch, SearchOptions
from simulst.search.beam import JointSearch, joint_beam_search
from simulst.search.loops import without_loops
from simulst.session import Traits
from simulst.words import split


@dataclass(frozen=True)
class LibraryModel(Translator):
    """Options of a model of transformers.

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

    def read(
        self, path: Path, cores: int, kind: str, fits: Callable[[Any], bool], remedy: str
    ) -> tuple[Path, Path, Any, Any]:
        """Its place, its folder, the model and its tokeniser. The arguments after cores: see `read_model`.

        cores: that it may use; 0: it is to be trained, so it computes all logits.

        Raises SimulstError: there is no such model, or it does not fit.
        """
        from simulst.models.huggingface.folder import find_folder
        from simulst.models.huggingface.loading import make_ready, quiet, read_model, read_tokenizer

        check_device(self.device)
        place = Path(beside(path, self.model))
        with quiet():
            from transformers import AutoTokenizer

            folder, trust = find_folder(place), {"trust_remote_code": self.trust_remote_code}
            model = read_model(place, folder, kind, self.dtype, self.trust_remote_code, fits, remedy)
            load = AutoTokenizer.from_pretrained
            tokenizer = read_tokenizer(place, lambda: load(folder, **trust), model.config)
            make_ready(model, self.device, cores)
        return place, folder, model, tokenizer


@dataclass(frozen=True)
class HuggingFaceText(LibraryModel):
    """Options of a text model, those of `LibraryModel`."""

    def load(self, path: Path, cores: int) -> Opener:
        """Raises SimulstError: no such model, or none that turns text into text."""
        from simulst.models.huggingface.architectures import Architecture
        from simulst.models.huggingface.decoder import sizes_of
        from simulst.models.huggingface.options import HuggingFaceOptions

        remedy = "does not turn text into text with an encoder and a decoder; give one such as marian or mbart."
        place, folder, model, tokenizer = self.read(path, cores, "AutoModelForSeq2SeqLM", lambda config: True, remedy)
        parts = Architecture(place, model, None, tokenizer, HuggingFaceOptions(device=self.device))
        parts.alignment_heads = heads_beside(folder, *sizes_of(model))
        return lambda opening: TextTranslation(parts, opening)


class TextTranslation(Translation):
    """parts: a `simulst.models.huggingface.architectures.Architecture`."""

    def __init__(self, parts: Any, opening: Opening) -> None:
        from simulst.models.huggingface.decoder import sizes_of

        self._parts, self._opening = parts, opening
        layers, heads = sizes_of(parts.model)
        usual = JointBeamSearch(beam=5, ctc_weight=0.0, max_length_ratio=TOKENS_PER_TOKEN)
        gives = frozenset({Need.STEPS, Need.DISTRIBUTION, Need.ATTENTION, Need.SOURCE_WORDS})
        self.traits = Traits(gives, usual, layers=layers, heads=heads)
        self._prompt: Tokens = parts.prompt(*opening.languages)
        self._front: Tokens = ()
        if parts.languages:
            self._front, begin = parts.languages.around(*opening.languages)
            self._prompt = self._prompt[:1] + begin
        self._open: tuple[str, SearchOptions, JointSearch] | None = None

    def text(self, tokens: Tokens) -> str:
        return self._parts.text(tokens)

    def search(
        self, sentence: str, prefix: Tokens, options: SearchOptions, stop: Stopping | None, past: Past = ()
    ) -> Steps[Beam]:
        assert isinstance(options, JointBeamSearch)
        parts = self._parts
        if len(prefix) >= parts.positions - len(self._prompt):
            warn_of_full_context(parts.path, parts.positions, "let sentences be shorter (most_words)")
            return [Hypothesis(prefix)]

        def search(used: JointBeamSearch) -> Steps[Beam]:
            over = yield from self._over(sentence, used)
            return (yield from joint_beam_search(over, prefix, stop))

        return (yield from without_loops(options, search, self.text, len(prefix)))

    def _over(self, sentence: str, options: JointBeamSearch) -> Steps[JointSearch]:
        """A sentence that has not grown keeps its encoding, and what the decoder has read of its translation."""
        from simulst.models.huggingface.decoder import SteppedDecoder

        if self._open is not None and self._open[:2] == (sentence, options):
            return self._open[2]
        parts = self._parts
        ids = self._ids(sentence)
        frames = yield Alone(encode_text, (parts.model, ids))
        decoder = SteppedDecoder(parts.model, self._prompt, parts.never, parts.never_first)
        most = min(options.length_ratio * len(ids) + MORE_TOKENS, parts.positions - len(self._prompt))
        terms = parts.terms(self._opening.background, options, self._opening.target)
        bounded = replace(options, max_length_ratio=most / len(ids))
        search = JointSearch(
            decoder, bounded, parts.eos, parts.eos, terms=terms, alignment_heads=parts.alignment_heads,
            words=self._words(ids, sentence),
        )  # fmt: skip
        search.append(frames)
        self._open = sentence, options, search
        return search

    def _ids(self, sentence: str) -> list[int]:
        """The tokens that the encoder reads. Raises SimulstError: they are too many."""
        parts = self._parts
        if self._front:
            ids = [*self._front, *parts.tokenizer.encode(sentence, add_special_tokens=False), parts.eos]
        else:
            ids = parts.tokenizer.encode(sentence)
            ids = ids if ids[-1:] == [parts.eos] else [*ids, parts.eos]
        if len(ids) > parts.positions:
            raise SimulstError(
                f"{parts.path}: a text has {len(ids)} tokens, but the model reads {parts.positions}; let sentences be "
                "shorter (most_words)."
            )
        return ids

    def _words(self, ids: list[int], sentence: str) -> list[int]:
        """The word of each token of a sentence, counted from 0; -1: a special one, of no word, which <unk> is not."""
        tokenizer, unit = self._parts.tokenizer, unit_of(self._opening.source)
        special = {*tokenizer.all_special_ids, *self._front} - {tokenizer.unk_token_id}
        most, words, read = len(split(sentence, unit)), list[int](), list[int]()
        for token in ids:
            read += [] if token in special else [token]
            text = tokenizer.decode(read, clean_up_tokenization_spaces=False)
            count = len(split(text, unit)) + text[-1:].isspace()  # a piece of nothing but a space begins a word
            words.append(-1 if token in special else min(most, max(1, count)) - 1)
        return words

    def seen(self, source: str, target: str) -> Seen:
        from simulst.models.huggingface.decoder import SteppedDecoder

        parts, ids = self._parts, self._ids(source)
        tokens = parts.tokens(target, self._opening.target)
        if (size := len(self._prompt) + len(tokens)) > parts.positions:
            raise SimulstError(
                f"{parts.path}: a translation has {size} tokens, but the model reads {parts.positions}; leave long "
                "pairs out."
            )
        decoder = SteppedDecoder(parts.model, self._prompt)
        memory = decoder.memory()
        memory.append(encode_text(parts.model, ids))
        places = ends_of(parts.text, tuple(ids), source, parts.tokenizer.all_special_ids)
        rows = decoder.spoken(tokens, memory).cpu().unflatten(0, (self.traits.layers, self.traits.heads))
        return Seen(rows.numpy(), places, ends_of(parts.text, tokens, target))


def encode_text(model: Any, tokens: list[int]) -> Any:
    """The encoder's frames of a text, (T, width)."""
    with torch.inference_mode():
        source = torch.tensor([tokens], device=model.device)
        return model.get_encoder()(input_ids=source).last_hidden_state[0]
