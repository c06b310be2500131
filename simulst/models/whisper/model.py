"""A loaded CTranslate2 Whisper."""

from __future__ import annotations

import numpy as np

from simulst.audio.units import SAMPLE_RATE
from simulst.hypotheses import Tokens
from simulst.models.whisper.network import WINDOW_SECONDS, Network
from simulst.models.whisper.session import WhisperSession
from simulst.opening import Opening


class Whisper(Network):
    """A CTranslate2 Whisper folder: model.bin, vocabulary.json, tokenizer.json, config.json.

    path: the folder.
    options: the options of the family.
    cores: how many processors to use. 0: all that are available.

    Raises SimulstError: a missing or broken file.
    """

    sample_rate = SAMPLE_RATE

    def session(self, opening: Opening) -> WhisperSession:
        """Open a new utterance. Its target is the source language (transcription) or en (translation).

        Raises SimulstError: a language or direction that the model does not have.
        """
        source, target = opening.languages
        start, transcription, others = self._start_tokens(source, target), self._start_tokens(source, source), None
        if self.options.check_language and start[2:] != transcription[2:]:
            others = (transcription, (start[0], self.special("<|en|>"), *start[2:]))
        return WhisperSession(self, opening, start, others)

    @property
    def language_pairs(self) -> dict[str, tuple[str, ...]]:
        """Spoken → written languages: English, and the spoken one."""
        return self._languages.pairs

    def spoken_languages(self, samples: np.ndarray) -> dict[str, float]:
        """How probable each language is in the first 30 s of audio, (n,) float32; empty: it knows English alone."""
        window = samples[: WINDOW_SECONDS * SAMPLE_RATE]
        return self.tell(self.encode(window), window.size / SAMPLE_RATE)

    def _start_tokens(self, source: str, target: str) -> Tokens:
        return self._languages.prompt(source, target, self.special)
