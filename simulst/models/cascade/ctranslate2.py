"""A text-to-text model in CTranslate2's form, under CTranslate2's own search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError, first_line
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.models.cascade.settings import beside
from simulst.models.cascade.translators import MORE_TOKENS, TOKENS_PER_TOKEN, Opener, Past, Translation, Translator
from simulst.models.ctranslate2_file import cannot_load
from simulst.policy.stop import Stopping, end_of
from simulst.search import BeamSearch, SearchOptions
from simulst.search.calls import Steps, ask
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
        return lambda source, target: CTranslate2Translation(place, model, tokenizer, *languages.around(source, target))


class CTranslate2Translation(Translation):
    """path: of the model, for errors. front, prompt: the tokens before every source and before every translation."""

    default_search = BeamSearch(beam=5)

    def __init__(self, path: Path, model: Any, tokenizer: Any, front: Tokens, prompt: Tokens) -> None:
        self._path, self._model, self._tokenizer = path, model, tokenizer
        self._front, self._prompt = front, prompt

    def text(self, tokens: Tokens) -> str:
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def search_steps(
        self, sentence: str, prefix: Tokens, options: SearchOptions, stop: Stopping | None, past: Past = ()
    ) -> Steps[Beam]:
        assert isinstance(options, BeamSearch)

        def search(used: BeamSearch) -> Steps[Beam]:
            return ask(TranslateBatch(self, sentence, prefix, used))

        beam = yield from without_loops(options, search, self.text, len(prefix))
        if stop is None:
            return beam
        new = [h.tokens[len(prefix) :] for h in beam]
        return [replace(h, tokens=prefix + t[: end_of(stop, t)]) for h, t in zip(beam, new, strict=True)]

    def translate(self, sentence: str, prefix: Tokens, options: BeamSearch) -> Beam:
        """CTranslate2's own search. Raises SimulstError: the text is too long."""
        tokenizer = self._tokenizer
        ids = [*self._front, *tokenizer.encode(sentence, add_special_tokens=False), tokenizer.eos_token_id]
        begin = [*self._prompt, *prefix]
        most = round(TOKENS_PER_TOKEN * len(ids)) + MORE_TOKENS
        if len(prefix) >= most:
            return [Hypothesis(prefix)]
        settings = {
            "beam_size": options.beam,
            "num_hypotheses": options.beam,
            "length_penalty": options.length_penalty,
            "no_repeat_ngram_size": options.no_repeat_ngram,
            "max_decoding_length": len(self._prompt) + most,
            "return_scores": True,
        }
        # CTranslate2 knows tokens by their names, as its numbers are not always the tokeniser's.
        named = [tokenizer.convert_ids_to_tokens(ids)], [tokenizer.convert_ids_to_tokens(begin)]
        try:
            [result] = self._model.translate_batch(named[0], target_prefix=named[1], **settings)
        except RuntimeError as error:  # such as no more positions
            raise SimulstError(
                f"{self._path}: CTranslate2 cannot translate a text of {len(ids)} tokens ({first_line(error)}); let "
                "sentences be shorter (most_words)."
            ) from error
        beam = []
        for names, score in zip(result.hypotheses, result.scores, strict=True):
            tokens = tuple(tokenizer.convert_tokens_to_ids(names))[len(begin) :]
            beam.append(Hypothesis(prefix + tokens, score))
        return beam


@dataclass(frozen=True)
class TranslateBatch:
    """A call: CTranslate2's own search. See `CTranslate2Translation.translate`."""

    translation: CTranslate2Translation
    sentence: str
    prefix: Tokens
    options: BeamSearch

    def answer(self) -> Beam:
        return self.translation.translate(self.sentence, self.prefix, self.options)
