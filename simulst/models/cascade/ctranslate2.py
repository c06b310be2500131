"""A text-to-text model in CTranslate2's form, under CTranslate2's own search."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulst.calls import Batchable, Steps, ask
from simulst.errors import SimulstError, first_line
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.models.cascade.settings import beside
from simulst.models.cascade.translators import MORE_TOKENS, TOKENS_PER_TOKEN, Opener, Past, Translation, Translator
from simulst.models.ctranslate2_batches import alike, reaches
from simulst.models.ctranslate2_file import cannot_load
from simulst.policy.stop import Stopping, end_of
from simulst.search import BeamSearch, SearchOptions
from simulst.search.loops import without_loops


@dataclass(frozen=True)
class CTranslate2Text(Translator):
    """Options of a model that `ct2-transformers-converter` made.

    model: its folder, relative to the cascade's file.
    tokenizer: the folder or the name on the hub of the model that was converted. Empty: its files are beside the model
        (the converter's `--copy_files`).
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
            found += [file for file in other if file.name != "generation_config.json"]
        return tuple(dict.fromkeys(found))

    def load(self, path: Path, cores: int) -> Opener:
        """Raises SimulstError: no such model, no tokeniser."""
        import ctranslate2

        from simulst.models.huggingface.folder import find_folder
        from simulst.models.huggingface.language_tokens import LanguageTokens
        from simulst.models.huggingface.loading import NO_CODE, quiet, read_tokenizer

        place = Path(beside(path, self.model))
        if not (place / "model.bin").is_file():
            raise SimulstError(f"{place}: no model.bin; convert a model with ct2-transformers-converter.")
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
        try:
            model = ctranslate2.Translator(
                str(place), device=self.device, compute_type=self.compute_type, intra_threads=cores
            )
        except (RuntimeError, ValueError, TypeError) as error:
            raise cannot_load(place, error, self.device) from error
        languages = LanguageTokens(tokenizer, place)
        return lambda opening: CTranslate2Translation(place, model, tokenizer, *languages.around(*opening.languages))


class CTranslate2Translation(Translation):
    """path: of the model, for errors. front, prompt: the tokens before every source and before every translation."""

    traits = replace(Translation.traits, default_search=BeamSearch(beam=5))

    def __init__(self, path: Path, model: Any, tokenizer: Any, front: Tokens, prompt: Tokens) -> None:
        self._path, self._model, self._tokenizer = path, model, tokenizer
        self._front, self._prompt = front, prompt

    def text(self, tokens: Tokens) -> str:
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def search(
        self, sentence: str, prefix: Tokens, options: SearchOptions, stop: Stopping | None, past: Past = ()
    ) -> Steps[Beam]:
        assert isinstance(options, BeamSearch)
        source = self.source(sentence)

        def search(used: BeamSearch) -> Steps[Beam]:
            return ask(Translate(self, source, prefix, used))

        beam = yield from without_loops(options, search, self.text, len(prefix))
        if stop is None:
            return beam
        new = [h.tokens[len(prefix) :] for h in beam]
        return [replace(h, tokens=prefix + t[: end_of(stop, t)]) for h, t in zip(beam, new, strict=True)]

    def source(self, sentence: str) -> list[int]:
        """The tokens that the model reads."""
        return [*self._front, *self._tokenizer.encode(sentence, add_special_tokens=False), self._tokenizer.eos_token_id]

    def translate(self, sources: Sequence[list[int]], prefixes: Sequence[Tokens], options: BeamSearch) -> list[Beam]:
        """CTranslate2's own search, of several texts.

        CTranslate2 has one bound of the length for all. A text that reaches the bound of its own is translated again by
        itself.

        Raises SimulstError: a text is too long.
        """
        most = [most_tokens(source) for source in sources]
        if len(sources) == 1 and len(prefixes[0]) >= most[0]:
            return [[Hypothesis(prefixes[0])]]
        named = self._tokenizer.convert_ids_to_tokens  # CTranslate2's numbers are not always the tokeniser's
        try:
            results = self._model.translate_batch(
                [named(source) for source in sources],
                target_prefix=[named([*self._prompt, *prefix]) for prefix in prefixes],
                beam_size=options.beam,
                num_hypotheses=options.beam,
                length_penalty=options.length_penalty,
                no_repeat_ngram_size=options.no_repeat_ngram,
                max_input_length=0,  # or longer texts would lose their end
                max_decoding_length=len(self._prompt) + max(most),
                return_scores=True,
            )
        except RuntimeError as error:  # such as no more positions
            raise SimulstError(
                f"{self._path}: CTranslate2 cannot translate a text of {max(map(len, sources))} tokens "
                f"({first_line(error)}); let sentences be shorter (most_words)."
            ) from error
        beams = []
        for source, prefix, result, bound in zip(sources, prefixes, results, most, strict=True):
            begin = len(self._prompt) + len(prefix)
            new = [tuple(self._tokenizer.convert_tokens_to_ids(names)[begin:]) for names in result.hypotheses]
            if reaches(bound, max(most), (len(prefix) + len(t) for t in new)):
                beams += self.translate([source], [prefix], options)
            else:
                beams.append([Hypothesis(prefix + t, score) for t, score in zip(new, result.scores, strict=True)])
        return beams

    @property
    def model(self) -> tuple[Any, Tokens]:
        """Translations for which this is equal can be made together."""
        return self._model, self._prompt


def most_tokens(source: Sequence[int]) -> int:
    """That a translation may have."""
    return round(TOKENS_PER_TOKEN * len(source)) + MORE_TOKENS


@dataclass(frozen=True)
class Translate(Batchable):
    """A call: CTranslate2's own search. See `CTranslate2Translation.translate`.

    source: the tokens that the model reads.
    """

    translation: CTranslate2Translation
    source: list[int]
    prefix: Tokens
    options: BeamSearch

    @property
    def together(self) -> Hashable:
        most, (model, prompt) = most_tokens(self.source), self.translation.model
        room = len(self.prefix) < most
        return (model, prompt, alike(self.options, prompt + self.prefix, most)) if room else None

    @property
    def size(self) -> float:
        return len(self.source)

    def answer(self) -> Beam:
        return self.answer_together([self])[0]

    @classmethod
    def answer_together(cls, calls: Sequence[Translate]) -> list[Beam]:
        sources, prefixes = [call.source for call in calls], [call.prefix for call in calls]
        return calls[0].translation.translate(sources, prefixes, calls[0].options)
