"""A text model in CTranslate2's form, under CTranslate2's own search: one that translates, or one that chats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulst.calls import Batched, Steps, ask
from simulst.errors import SimulstError, first_line
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.models.cascade.chat import INSTRUCTION, REMEDY, Chat, ChatOptions
from simulst.models.cascade.settings import beside
from simulst.models.cascade.translators import MORE_TOKENS, TOKENS_PER_TOKEN, Opener, Past, Translation
from simulst.models.ctranslate2_library import alike, cannot_load, kind_of, reaches
from simulst.opening import Opening
from simulst.options import read_json_fields
from simulst.policy.stop import Stopping, end_of
from simulst.search import BeamSearch, SearchOptions
from simulst.search.loops import without_loops

KINDS = {"TransformerSpec": "Translator", "TransformerDecoderSpec": "Generator"}  # of CTranslate2's classes
MOST_BEGINNINGS = 16  # of chats that CTranslate2 keeps: one for each pair of languages, and it forgets none


@dataclass(frozen=True)
class CTranslate2Text(ChatOptions):
    """Options of a model that `ct2-transformers-converter` made: an encoder-decoder, or a language model that chats.

    model: its folder, relative to the cascade's file.
    tokenizer: the folder or the name on the hub of the model that was converted. Empty: its files are beside the model
        (the converter's `--copy_files`).
    Those of `ChatOptions` are for language models.
    """

    model: str
    tokenizer: str = ""
    device: str = "cpu"
    compute_type: str = "int8"

    def files(self, path: Path) -> tuple[Path, ...]:
        """See Translator. Raises SimulstError: no such tokeniser."""
        from simulst.models.huggingface.folder import find_folder, settings_of_folder

        place = Path(beside(path, self.model))
        found = [place / "model.bin", *settings_of_folder(place)]
        if self.tokenizer:
            other = settings_of_folder(find_folder(Path(beside(path, self.tokenizer))))
            chats = _class_of(place) == "Generator"
            found += [file for file in other if chats or file.name != "generation_config.json"]
        return tuple(dict.fromkeys(found))

    def load(self, path: Path, cores: int) -> Opener:
        """Raises SimulstError: no such model, no tokeniser, no text model; a language model that does not chat."""
        import ctranslate2

        from simulst.models.huggingface.folder import find_folder
        from simulst.models.huggingface.language_tokens import LanguageTokens
        from simulst.models.huggingface.loading import NO_CODE, quiet, read_tokenizer

        self.check(path)
        place = Path(beside(path, self.model))
        name = _class_of(place)
        original = Path(beside(path, self.tokenizer)) if self.tokenizer else place
        with quiet():
            from transformers import AutoTokenizer

            folder = find_folder(original)
            try:
                tokenizer = read_tokenizer(original, lambda: AutoTokenizer.from_pretrained(folder, **NO_CODE))
            except SimulstError as error:
                if self.tokenizer:
                    raise
                raise SimulstError(
                    f"{place}: has no tokeniser; convert the model again with --copy_files, or name the model that was "
                    "converted under 'tokenizer'."
                ) from error
        chat = Chat(place, tokenizer, _ends(folder)) if name == "Generator" else None
        if chat is None and (self.instruction != INSTRUCTION or self.examples or self.history):
            raise SimulstError(
                f"{path}: instruction, examples and history are for language models; {place} translates without a chat."
            )
        try:
            model = getattr(ctranslate2, name)(
                str(place), device=self.device, compute_type=self.compute_type, intra_threads=cores
            )
        except (RuntimeError, ValueError, TypeError) as error:
            raise cannot_load(place, error, self.device) from error
        if chat is not None:
            beginnings: dict[tuple[str, str], Tokens] = {}
            return lambda opening: ChatTranslation(model, chat, self, opening, beginnings)
        languages = LanguageTokens(tokenizer, place)
        return lambda opening: EncoderDecoderTranslation(place, model, tokenizer, *languages.around(*opening.languages))


def _class_of(place: Path) -> str:
    """The class of CTranslate2 that runs a model. Raises SimulstError: there is no model, or none for text."""
    file = place / "model.bin"
    if not file.is_file():
        raise SimulstError(f"{place}: no model.bin; convert a model with ct2-transformers-converter.")
    kind = kind_of(file)
    if kind.endswith("Spec") and kind not in KINDS:
        raise SimulstError(f"{place}: a {kind.removesuffix('Spec')}, which translates no text; give a text model.")
    return KINDS.get(kind, "Translator")  # of a broken file, CTranslate2 says what is wrong


def _ends(folder: Path) -> int | list[int] | None:
    """The tokens that end a text, by generation_config.json; None: it does not say."""
    file = folder / "generation_config.json"
    return read_json_fields(Generation, file, "copy it again").eos_token_id if file.is_file() else None


@dataclass(frozen=True)
class Generation:
    """What is needed of generation_config.json."""

    eos_token_id: int | list[int] | None = None


@dataclass(frozen=True)
class Source:
    """What the model reads of a sentence. most: tokens that the translation may have."""

    tokens: Tokens
    most: int


class CTranslate2Translation(Translation):
    """path: of the model, for errors."""

    bound_counts_prefix = True  # whether CTranslate2 counts a forced prefix among the tokens that it bounds

    def __init__(self, path: Path, model: Any, tokenizer: Any) -> None:
        self._path, self._model, self._tokenizer = path, model, tokenizer

    def text(self, tokens: Tokens) -> str:
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def search(
        self, sentence: str, prefix: Tokens, options: SearchOptions, stop: Stopping | None, past: Past = ()
    ) -> Steps[Beam]:
        assert isinstance(options, BeamSearch)
        source = self.source(sentence, past)

        def search(used: BeamSearch) -> Steps[Beam]:
            return ask(translating(self, source, prefix, used))

        beam = yield from without_loops(options, search, self.text, len(prefix))
        if stop is None:
            return beam
        new = [h.tokens[len(prefix) :] for h in beam]
        return [replace(h, tokens=prefix + t[: end_of(stop, t)]) for h, t in zip(beam, new, strict=True)]

    @abstractmethod
    def source(self, sentence: str, past: Past = ()) -> Source:
        """What the model reads. Raises SimulstError: it is too long."""

    @abstractmethod
    def together(self, source: Source, prefix: Tokens, options: BeamSearch) -> Hashable:
        """Searches for which this is equal find in one batch what they find alone."""

    @abstractmethod
    def _searched(
        self, sources: Sequence[Source], prefixes: Sequence[Tokens], options: BeamSearch, most: int
    ) -> list[tuple[list[Tokens], list[float]]]:
        """CTranslate2's own search: for each text the tokens after the prefix, best first, and their scores."""

    def translate(self, sources: Sequence[Source], prefixes: Sequence[Tokens], options: BeamSearch) -> list[Beam]:
        """CTranslate2's own search, of several texts.

        CTranslate2 has one bound of the length for all. A text that reaches the bound of its own is translated again by
        itself.

        Raises SimulstError: a text is too long.
        """
        if len(sources) == 1 and len(prefixes[0]) >= sources[0].most:
            return [[Hypothesis(prefixes[0])]]
        counted = [len(prefix) if self.bound_counts_prefix else 0 for prefix in prefixes]
        bounds = [s.most - len(p) + n for s, p, n in zip(sources, prefixes, counted, strict=True)]
        try:
            results = self._searched(sources, prefixes, options, max(bounds))
        except RuntimeError as error:  # such as no more positions
            raise SimulstError(
                f"{self._path}: CTranslate2 cannot translate a text of {max(len(s.tokens) for s in sources)} tokens "
                f"({first_line(error)}); let sentences be shorter (most_words)."
            ) from error
        beams = []
        for i, (new, scores) in enumerate(results):
            if reaches(bounds[i], max(bounds), (counted[i] + len(tokens) for tokens in new)):
                beams += self.translate([sources[i]], [prefixes[i]], options)
            else:
                beams.append([Hypothesis(prefixes[i] + t, score) for t, score in zip(new, scores, strict=True)])
        return beams

    def _named(self, tokens: Tokens) -> list[str]:
        """CTranslate2's numbers are not always the tokeniser's."""
        return self._tokenizer.convert_ids_to_tokens(list(tokens))

    def _numbers(self, names: list[str]) -> Tokens:
        return tuple(self._tokenizer.convert_tokens_to_ids(names))


class EncoderDecoderTranslation(CTranslate2Translation):
    """front, prompt: the tokens before every source and before every translation."""

    traits = replace(Translation.traits, default_search=BeamSearch(beam=5))

    def __init__(self, path: Path, model: Any, tokenizer: Any, front: Tokens, prompt: Tokens) -> None:
        super().__init__(path, model, tokenizer)
        self._front, self._prompt = front, prompt

    def source(self, sentence: str, past: Past = ()) -> Source:
        spelled = self._tokenizer.encode(sentence, add_special_tokens=False)
        tokens = (*self._front, *spelled, self._tokenizer.eos_token_id)
        return Source(tokens, most_tokens(tokens))

    def together(self, source: Source, prefix: Tokens, options: BeamSearch) -> Hashable:
        return self._model, self._prompt, alike(options, self._prompt + prefix, source.most)

    def _searched(
        self, sources: Sequence[Source], prefixes: Sequence[Tokens], options: BeamSearch, most: int
    ) -> list[tuple[list[Tokens], list[float]]]:
        results = self._model.translate_batch(
            [self._named(source.tokens) for source in sources],
            target_prefix=[self._named((*self._prompt, *prefix)) for prefix in prefixes],
            beam_size=options.beam,
            num_hypotheses=options.beam,
            length_penalty=options.length_penalty,
            no_repeat_ngram_size=options.no_repeat_ngram,
            max_input_length=0,  # or longer texts would lose their end
            max_decoding_length=len(self._prompt) + most,
            return_scores=True,
        )
        begins = (len(self._prompt) + len(prefix) for prefix in prefixes)
        return [
            ([self._numbers(names)[begin:] for names in result.hypotheses], result.scores)
            for begin, result in zip(begins, results, strict=True)
        ]


class ChatTranslation(CTranslate2Translation):
    """Of a language model. The prefix is the beginning of its answer.

    beginnings: how chats between two languages begin, which CTranslate2 reads once. Streams share them.
    """

    bound_counts_prefix = False

    def __init__(
        self,
        model: Any,
        chat: Chat,
        options: ChatOptions,
        opening: Opening,
        beginnings: dict[tuple[str, str], Tokens],
    ) -> None:
        super().__init__(chat.path, model, chat.tokenizer)
        self._chat, self._options, self._opening = chat, options, opening
        self.history, self.between = options.history, chat.between(opening.target)
        if opening.languages not in beginnings and len(beginnings) < MOST_BEGINNINGS:
            beginnings[opening.languages] = self._beginning()
        self._begin = beginnings.get(opening.languages, ())

    def _beginning(self) -> Tokens:
        """What the chats about all sentences begin with if nothing is known of the recording."""
        first, second = (self._chat.prompt(self._options.messages(*self._opening.languages, s, ())) for s in "a1")
        return first[: next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)]

    def source(self, sentence: str, past: Past = ()) -> Source:
        languages, known = self._opening.languages, self._opening.background
        prompt = self._chat.prompt(self._options.messages(*languages, sentence, past, known))
        most = most_tokens(self._chat.spelled(sentence))
        if (reads := self._tokenizer.model_max_length) <= len(prompt):
            raise SimulstError(
                f"{self._path}: the chat has {len(prompt)} tokens, but the model reads {reads}; {REMEDY}."
            )
        return Source(prompt, min(most, reads - len(prompt)))

    def together(self, source: Source, prefix: Tokens, options: BeamSearch) -> Hashable:
        # CTranslate2 forces the rest of texts that are longer than others of the batch. Only greedy search does not
        # mind that: see `alike`; and n-grams would be those of the rest, too.
        same = options.beam == 1 and not options.no_repeat_ngram
        length = None if same else len(source.tokens) + len(prefix)
        return self._model, self._static(source), length, alike(options, (), source.most)

    def _static(self, source: Source) -> Tokens:
        """The part of the chat that is read once."""
        begin = self._begin
        return begin if source.tokens[: len(begin)] == begin and len(begin) < len(source.tokens) else ()

    def _searched(
        self, sources: Sequence[Source], prefixes: Sequence[Tokens], options: BeamSearch, most: int
    ) -> list[tuple[list[Tokens], list[float]]]:
        static = self._static(sources[0])
        texts = [source.tokens[len(static) :] + prefix for source, prefix in zip(sources, prefixes, strict=True)]
        results = self._model.generate_batch(
            [self._named(text) for text in texts],
            static_prompt=self._named(static) or None,
            include_prompt_in_result=False,  # so that it is read at once
            beam_size=options.beam,
            num_hypotheses=options.beam,
            length_penalty=options.length_penalty,
            no_repeat_ngram_size=options.no_repeat_ngram,
            max_length=most,
            end_token=self._named(self._chat.ends),
            suppress_sequences=[[name] for name in self._named(self._chat.never)],
            return_scores=True,
        )
        return [([self._numbers(names) for names in result.sequences], result.scores) for result in results]


def most_tokens(source: Sequence[int]) -> int:
    """That a translation may have."""
    return round(TOKENS_PER_TOKEN * len(source)) + MORE_TOKENS


def translating(translation: CTranslate2Translation, source: Source, prefix: Tokens, options: BeamSearch) -> Batched:
    """A call: CTranslate2's own search. See `CTranslate2Translation.translate`."""
    alike = translation.together(source, prefix, options) if len(prefix) < source.most else None
    return Batched(_translate, (translation, options, source, prefix), len(source.tokens), alike)


def _translate(searches: Sequence[tuple[CTranslate2Translation, BeamSearch, Source, Tokens]]) -> list[Beam]:
    translations, options, sources, prefixes = zip(*searches, strict=True)
    return translations[0].translate(sources, prefixes, options[0])
