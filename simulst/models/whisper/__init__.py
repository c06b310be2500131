"""Whisper in CTranslate2 format: an offline model that re-encodes all audio in its window at every step.

The model is trained on 30 s inputs. Encoding 30 s for 2 s of speech is a waste, but a decoder that sees only a short
window repeats itself. So only the speech and a little silence are encoded. The rest of the 30 s is filled with the
encoder's output for silence, which is computed once (benchmarks/whisper_window.py has the figures).

If the audio is longer, the window slides: committed words leave it together with their audio. The model's own attention
says where they end (CTranslate2's `align`). The decoder still gets them as previous text.

If a translation is asked for, the model sometimes writes what was said, in the language spoken. Such a text is as
probable under the prompt for transcription; a translation is much less so. If another hypothesis is a translation, it
is taken.
"""

from __future__ import annotations

from pathlib import Path

from simulst.models.base import Family
from simulst.models.whisper.files import FILES, VOCABULARY, VOCABULARY_LINES, languages_of, read_config, read_vocabulary
from simulst.models.whisper.model import Whisper
from simulst.models.whisper.network import WhisperOptions
from simulst.models.whisper.prompts import Languages


def _languages(path: Path, options: WhisperOptions) -> Languages | None:
    """None: what its files say of them does not fit, which loading tells."""
    if not (path / "config.json").is_file():
        return None
    vocabulary, config = read_vocabulary(path), read_config(path)
    if any(token >= len(vocabulary) for token in config.lang_ids):
        return None
    return languages_of(path, vocabulary, config, options.other_targets)


def _check(path: Path, options: WhisperOptions, source: str, target: str) -> None:
    if languages := _languages(path, options):
        languages.prompt(source, target, special=lambda token: 0)


def _tells(path: Path, options: WhisperOptions) -> bool:
    languages = _languages(path, options)
    return languages is None or len(languages.pairs) > 1


family = Family(
    looks_like="a CTranslate2 Whisper (model.bin, vocabulary.json)",
    recognises=lambda path: (
        (path / "model.bin").is_file() and any((path / name).is_file() for name in (VOCABULARY, VOCABULARY_LINES))
    ),
    options=WhisperOptions,
    load=Whisper,
    files=lambda path, options: tuple(path / name for name in (*FILES, VOCABULARY_LINES) if (path / name).is_file()),
    check=_check,
    tells=_tells,
)
