"""What Whisper's prompts say: the languages and the task."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

from simulst.background import Background
from simulst.errors import SimulstError, warn_once
from simulst.hypotheses import Tokens
from simulst.languages import code_of

ENGLISH_VOCABULARY = 51864  # tokens of Whisper's models for English alone; the others have more
PREVIOUS_TOKENS = 64  # of text before the window that are shown to the decoder
PROMPT_TOKENS = 223  # of all that stands before a text: half of the decoder's positions, without <|startofprev|>


class Languages:
    """What a Whisper hears and writes.

    path: of the model, for errors. tokens: language → its token; empty: it hears and writes English alone.
    other_targets: whether another language than the spoken one and English may be asked for.
    """

    def __init__(self, path: Path, tokens: Mapping[str, int], other_targets: bool) -> None:
        self._path, self._tokens, self._other_targets = path, tokens, other_targets

    @property
    def pairs(self) -> dict[str, tuple[str, ...]]:
        """Spoken → written languages: English, and the spoken one."""
        return {code: tuple(dict.fromkeys(("en", code))) for code in sorted(self._tokens) or ["en"]}

    def prompt(self, source: str, target: str, special: Callable[[str], int]) -> Tokens:
        """The tokens that name the language and the task, between those with which every prompt begins and ends.

        It was trained to write the source language, or English. For another target, the prompt names the target and
        transcription, although another language is spoken: models can be fine-tuned so.

        special: finds the number of a special token.

        Raises SimulstError: a language or direction that the model does not have.
        """
        start, end = special("<|startoftranscript|>"), special("<|notimestamps|>")
        heard, written = code_of(source), code_of(target)
        if not self._tokens:
            if (heard, written) != ("en", "en"):
                raise SimulstError(f"{self._path}: this Whisper hears and writes English alone, not {source}→{target}.")
            return start, end
        spoken = self._token(heard)
        if written == heard:
            return start, spoken, special("<|transcribe|>"), end
        if written == "en":
            return start, spoken, special("<|translate|>"), end
        if not self._other_targets:
            choices = " or ".join(f"'{language}'" for language in dict.fromkeys((heard, "en")))
            raise SimulstError(
                f"{self._path}: Whisper writes the source language or English, not '{written}'; choose {choices}; if "
                f"it was fine-tuned to write '{written}', give --model-option other_targets=true."
            )
        return start, self._token(written), special("<|transcribe|>"), end

    def _token(self, language: str) -> int:
        if language not in self._tokens:
            known = ", ".join(sorted(self._tokens))
            raise SimulstError(f"{self._path}: the model has no language '{language}'; it has {known}.")
        return self._tokens[language]


def known_tokens(path: Path, background: Background, spell: Callable[[str], Tokens], most: int) -> Tokens:
    """What a prompt says of a recording, and goes on saying while the text before the window changes.

    It is what is in the language written: first the terms, as many as there is room for; then the text, or its end.

    path: of the model, for the warning. most: tokens.
    """
    terms = list(dict.fromkeys(background.target_terms)) if background.prompted else []
    sizes = itertools.accumulate(len(spell(f"{term},")) for term in terms)
    kept = terms[: sum(size <= most for size in sizes)]
    if len(kept) < len(terms):
        warn_once(
            f"{path}: the prompt has room for {len(kept)} of {len(terms)} terms; give the most important ones first."
        )
    found = spell(f"{', '.join(kept)}.")[:most] if kept else ()
    text = spell(background.target_text) if background.target_text else ()
    return found + text[len(text) - min(len(text), most - len(found)) :]


def previous_tokens(known: Tokens, before: Tokens, room: int) -> Tokens:
    """What a prompt shows before the text: what is known, and the end of the text before. room: for so many tokens."""
    known = known[: max(0, room)]
    return known + before[len(before) - min(len(before), max(0, room - len(known))) :]
