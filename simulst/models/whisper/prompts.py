"""What Whisper's prompts say: the languages and the task."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from simulst.background import Background
from simulst.errors import SimulstError, warn_once
from simulst.hypotheses import Tokens
from simulst.languages import code_of

ENGLISH_VOCABULARY = 51864  # tokens of Whisper's models for English alone; the others have more
PREVIOUS_TOKENS = 64  # of text before the window that are shown to the decoder
PROMPT_TOKENS = 223  # of all that stands before a text: half of the decoder's positions, without <|startofprev|>


class Languages:
    """What a CTranslate2 Whisper hears and writes.

    path: of the model, for errors. vocabulary: its tokens, in order. lang_ids: those of its languages.
    other_targets: see `whisper_task`.
    """

    def __init__(self, path: Path, vocabulary: Sequence[str], lang_ids: Sequence[int], other_targets: bool) -> None:
        self._path, self._other_targets = path, other_targets
        self._names = {i: vocabulary[i].strip("<|>") for i in lang_ids if 0 <= i < len(vocabulary)}
        self._english = len(vocabulary) == ENGLISH_VOCABULARY

    @property
    def pairs(self) -> dict[str, tuple[str, ...]]:
        """Spoken → written languages: English, and the spoken one."""
        if self._english:
            return {"en": ("en",)}
        return {code: tuple(dict.fromkeys(("en", code))) for code in sorted(map(code_of, self._names.values()))}

    def prompt(self, source: str, target: str) -> tuple[int, str] | None:
        """The token of the language and the task that the prompt names. None: English alone, it names neither.

        Raises SimulstError: a language or direction that the model does not have.
        """
        if self._english:
            check_english(self._path, source, target)
            return None
        tokens = {code_of(name): i for i, name in self._names.items()}
        source, target = code_of(source), code_of(target)

        def token_of(language: str) -> int:
            if language not in tokens:
                known = ", ".join(sorted(self._names.values()))
                raise SimulstError(f"{self._path}: the model has no language '{language}'; it has {known}.")
            return tokens[language]

        token_of(source)
        language, task = whisper_task(self._path, source, target, self._other_targets)
        return token_of(language), task


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


def check_english(path: Path, source: str, target: str) -> None:
    """Raises SimulstError: another language, for a Whisper of English alone. path: of the model."""
    if (code_of(source), code_of(target)) != ("en", "en"):
        raise SimulstError(f"{path}: this Whisper hears and writes English alone, not {source}→{target}.")


def whisper_task(path: Path, source: str, target: str, other_targets: bool) -> tuple[str, str]:
    """The language and the task that Whisper's prompt names.

    It was trained to write the source language, or English. For another target, the prompt names the target and
    transcription, although another language is spoken: models can be fine-tuned so.

    path: of the model, for errors. source, target: codes of languages, of which two equal ones are written alike.

    Raises SimulstError: another target, without `other_targets`.
    """
    if target == source:
        return source, "<|transcribe|>"
    if target == "en":
        return source, "<|translate|>"
    if not other_targets:
        choices = " or ".join(f"'{language}'" for language in dict.fromkeys((source, "en")))
        raise SimulstError(
            f"{path}: Whisper writes the source language or English, not '{target}'; choose {choices}; if "
            f"it was fine-tuned to write '{target}', give --model-option other_targets=true."
        )
    return target, "<|transcribe|>"
