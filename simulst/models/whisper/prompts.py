"""What Whisper's prompts say: the languages and the task."""

from __future__ import annotations

from pathlib import Path

from simulst.errors import SimulstError
from simulst.languages import code_of

ENGLISH_VOCABULARY = 51864  # tokens of Whisper's models for English alone; the others have more
PREVIOUS_TOKENS = 64  # of text before the window that are shown to the decoder


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
