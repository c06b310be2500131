"""Whisper in CTranslate2 form: an offline model, put online by re-encoding all audio in its window at every step.

The model is trained on 30 s inputs. Encoding 30 s for 2 s of speech is a waste, but a decoder that sees only a short
window repeats itself. So only the speech and a little silence are encoded, and what is missing to 30 s is filled with
the encoder's output for silence, which is computed once (benchmarks/whisper_window.py has the figures). Longer audio
slides: what has been committed leaves the window with its audio, found by the model's own attention (CTranslate2's
`align`), and stays before the decoder's eyes as previous text.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from simulst.errors import SimulstError
from simulst.models.base import Memo
from simulst.policy.stop import EnoughWords, Evidence, Stop
from simulst.search import Beam, BeamSearch, Hypothesis, Tokens
from simulst.vad import check_pause

SAMPLE_RATE = 16000
HOP = 160  # samples per frame (10 ms)
FFT = 400
WINDOW_SECONDS = 30
POSITIONS = 448  # of the decoder
PREVIOUS_TOKENS = 64  # of text before the window that are shown to the decoder
STATE_SECONDS = 0.02  # one encoder frame, the unit of `align`
LOOP_NGRAM = 3  # n-grams of this length may not come twice once the model has been caught in a loop
WORD_TOKENS = 10  # that a word has at most, nearly always
SILENCE = -0.5  # log-mel of silence after speech: 8 decades under usual speech, in Whisper's scaling

logger = logging.getLogger(__name__)


class Whisper:
    """A CTranslate2 Whisper folder: model.bin, vocabulary.json, tokenizer.json, config.json.

    target_language: the source language (transcription) or en (translation).
    device, compute_type, threads: see CTranslate2; threads 0: all cores.
    padding_seconds: silence that is encoded with the speech; 30 encodes the full window, as Whisper was trained.
    silence_seconds: ready-made silence that the decoder sees behind that, as far as 30 s go.
    pause: seconds without speech that end a sentence, see simulst/pauses.py; 0: never.
    Raises SimulstError: a missing or broken file, a language or direction that the model does not have.
    """

    sample_rate = SAMPLE_RATE

    def __init__(
        self,
        path: str | Path,
        source_language: str,
        target_language: str,
        *,
        device: str = "cpu",
        compute_type: str = "int8",
        threads: int = 0,
        padding_seconds: float = 2.0,
        silence_seconds: float = 30.0,
        pause: float = 0.0,
    ) -> None:
        import ctranslate2
        from tokenizers import Tokenizer

        path = Path(path)
        for name in ("model.bin", "vocabulary.json", "tokenizer.json", "config.json"):
            if not (path / name).is_file():
                raise SimulstError(f"{path}: the file {name} is missing; bring the model again (the recipe's stage 2).")
        try:
            self._config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        except ValueError as error:  # not JSON, or not even text
            raise SimulstError(f"{path}: config.json is broken ({error}); bring the model again.") from error
        try:
            self._tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        except Exception as error:  # the library has no class of its own for it
            raise SimulstError(f"{path}: tokenizer.json is broken ({error}); bring the model again.") from error
        self._start = self._start_tokens(path, source_language, target_language)
        self._previous = self._special("<|startofprev|>")
        self._eos = self._special("<|endoftext|>")
        self.padding_seconds = padding_seconds
        self.silence_seconds = silence_seconds
        self.pause = check_pause(pause)
        try:
            self._model = ctranslate2.models.Whisper(
                str(path), device=device, compute_type=compute_type, intra_threads=threads
            )
        except (RuntimeError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise SimulstError(f"{path}: CTranslate2 cannot load the model ({reason}).") from error

    def session(self, memo: Memo | None = None) -> WhisperSession:
        """A new utterance."""
        return WhisperSession(self, memo or Memo(keep=False))

    def encode(self, samples: np.ndarray) -> Any:
        """Encoder output of a window of audio, shape (n,) → CTranslate2 StorageView (1, states, width)."""
        import ctranslate2

        states = self._encode(log_mel(samples, self._frames(samples.size), self._filters))
        begin = states.shape[1]
        # CTranslate2 takes an array of as many states as there are mels for features.
        end = max(begin + round(self.silence_seconds / STATE_SECONDS), self._model.n_mels + 1)
        silence = self._silence[:, begin:end]
        states = np.concatenate([states, silence], axis=1)
        return ctranslate2.StorageView.from_array(states)

    def _encode(self, features: np.ndarray) -> np.ndarray:
        import ctranslate2

        return np.array(self._model.encode(ctranslate2.StorageView.from_array(features[None]), to_cpu=True))

    @cached_property
    def _silence(self) -> np.ndarray:
        return self._encode(np.full((self._model.n_mels, WINDOW_SECONDS * SAMPLE_RATE // HOP), SILENCE, np.float32))

    def generate(self, encoded: Any, previous: Tokens, prefix: Tokens, options: BeamSearch, max_new: int) -> Beam:
        """Beam search after the forced `prefix`, given the text `previous` to the window; tokens include the prefix."""
        # Where positions are short, the text of this window comes before that of earlier ones.
        room = POSITIONS - 2 - len(self._start) - len(prefix) - min(max_new, POSITIONS // 2)
        previous = previous[-room:] if room > 0 else ()
        context = (self._previous, *previous) if previous else ()
        prompt = [*context, *self._start, *prefix]
        # One position is for the <eos> that `align` adds.
        max_new = min(max_new, POSITIONS - 1 - len(prompt))
        if max_new < 1:
            return [Hypothesis(prefix)]
        length = len(prefix) + max_new
        result = self._model.generate(
            encoded,
            [prompt],
            beam_size=options.beam,
            num_hypotheses=options.beam,
            length_penalty=options.length_penalty,
            no_repeat_ngram_size=options.no_repeat_ngram,
            # CTranslate2 stops at min(max_length / 2, max_length - what is before <|notimestamps|>) tokens, the prefix
            # among them.
            max_length=length + max(length, len(prompt) - len(prefix) - 1),
            return_scores=True,
            # The rule that the first token be no space and no <eos> is for beginnings: behind a prefix it would force
            # a token out of the model at every step.
            suppress_blank=not (prefix or previous),
        )[0]
        return [
            Hypothesis(self._plain(ids), score) for ids, score in zip(result.sequences_ids, result.scores, strict=True)
        ]

    def end_times(self, encoded: Any, tokens: Tokens, frames: int) -> list[float]:
        """When each token had been spoken, seconds from the start of the window, from the decoder's attention."""
        if not tokens:
            return []
        alignment = self._model.align(encoded, list(self._start[:-1]), [list(tokens)], frames)[0].alignments
        starts = [0] * (len(tokens) + 1)
        for token, frame in reversed(alignment):
            starts[token] = frame
        return [frame * STATE_SECONDS for frame in starts[1:]]

    def text(self, tokens: Tokens) -> str:
        """Plain text; a character cut in two ends in U+FFFD."""
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True)

    def begins_word(self, token: int) -> bool:
        """Whether a token starts with a space."""
        return self.text((token,)).startswith(" ")

    def _plain(self, ids: list[int]) -> Tokens:
        # Text never contains special tokens (<eos> and all behind it in the vocabulary).
        return tuple(token for token in ids if token < self._eos)

    def _frames(self, samples: int) -> int:
        seconds = min(samples / SAMPLE_RATE + self.padding_seconds, WINDOW_SECONDS)
        return 2 * max(1, math.ceil(seconds * SAMPLE_RATE / HOP / 2))  # the encoder halves it

    @cached_property
    def _filters(self) -> np.ndarray:
        import librosa

        return librosa.filters.mel(sr=SAMPLE_RATE, n_fft=FFT, n_mels=self._model.n_mels).astype(np.float32)

    def _start_tokens(self, path: Path, source: str, target: str) -> Tokens:
        languages = sorted(str(self._tokenizer.id_to_token(i)).strip("<|>") for i in self._config.get("lang_ids", []))
        if source not in languages:
            raise SimulstError(f"{path}: the model has no language '{source}'; it has {', '.join(languages)}.")
        if target not in ("en", source):
            raise SimulstError(
                f"{path}: Whisper writes the source language or English, not '{target}'; choose '{source}' or 'en'."
            )
        task = "<|transcribe|>" if target == source else "<|translate|>"
        return tuple(self._special(t) for t in ("<|startoftranscript|>", f"<|{source}|>", task, "<|notimestamps|>"))

    def _special(self, token: str) -> int:
        number = self._tokenizer.token_to_id(token)
        if number is None:
            raise SimulstError(f"the model's tokenizer.json has no token {token}; it is not a multilingual Whisper.")
        return number


class WhisperSession:
    """One utterance: the audio of the window and the tokens that belong to it."""

    sample_rate = SAMPLE_RATE

    def __init__(self, model: Whisper, memo: Memo) -> None:
        self._model = model
        self._memo = memo
        self._audio = np.zeros(0, dtype=np.float32)
        self._offset = 0  # samples that have left the window
        self._states: tuple[Any, Any] | None = None  # of the encoder, and what they are of
        self._gone: Tokens = ()  # committed tokens that have left with them

    @property
    def length(self) -> int:
        return self._offset + self._audio.size

    @property
    def saved_seconds(self) -> float:
        return self._memo.saved_seconds

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        self._audio = np.concatenate([self._audio, samples])

    def search(self, committed: Tokens, options: BeamSearch, stop: Stop) -> Beam:
        if not isinstance(options, BeamSearch):
            raise SimulstError("Whisper in CTranslate2 needs another search; write 'search: {type: beam}'.")
        if stop.needs and not isinstance(stop, EnoughWords):
            raise SimulstError(f"stop: {stop!r} looks into the decoder, which CTranslate2's Whisper does not show.")
        prefix = self._in_window(committed)
        seconds = self._audio.size / SAMPLE_RATE
        max_new = max(1, math.ceil(options.max_tokens_per_second * seconds) + 5 - len(prefix))
        if stop.max_new_tokens is not None:
            max_new = min(max_new, stop.max_new_tokens)
        if isinstance(stop, EnoughWords):
            # CTranslate2 can't be stopped at a token: it is asked for few, and for all if these do not suffice.
            few = min(WORD_TOKENS * stop.n, max_new)
            beam = self._generated(prefix, options, few)
            new = beam[0].tokens[len(prefix) :] if beam else ()
            if few < max_new and len(new) == few and not stop.ends(Evidence(tokens=new)):
                beam = self._generated(prefix, options, max_new)
        else:
            beam = self._generated(prefix, options, max_new)
        return [Hypothesis(self._gone + h.tokens, h.score) for h in beam] if self._gone else beam

    def text(self, tokens: Tokens) -> str:
        return self._model.text(tokens)

    def block_end(self, count: int) -> float:
        raise SimulstError("Whisper's encoder has no blocks; write 'read: {type: chunk, ms: ...}'.")

    def limit(self) -> float:
        return self._offset + WINDOW_SECONDS * SAMPLE_RATE

    def is_full(self) -> bool:
        return self.length >= self.limit()

    def spoken(self, tokens: Tokens) -> Tokens:
        """All but what was spoken in the last second: that word may be cut in two."""
        ends = self._end_times(tokens)
        whole = sum(end <= self._audio.size / SAMPLE_RATE - 1.0 for end in ends)
        return tokens[: len(self._gone) + whole]

    def slide(self, committed: Tokens) -> None:
        """Cut behind the last committed word that leaves a third of the window, or else behind the first one."""
        prefix = self._in_window(committed)
        ends = self._end_times(committed)
        words = [i for i in range(1, len(prefix) + 1) if i == len(prefix) or self._model.begins_word(prefix[i])]
        # Cuts of less than a second would have the window full again at once.
        cuts = [(ends[i - 1], i) for i in words if ends[i - 1] >= 1.0]
        early = [cut for cut in cuts if cut[0] <= WINDOW_SECONDS * 2 / 3]
        if cuts:
            seconds, tokens = early[-1] if early else cuts[0]
        else:
            seconds, tokens = WINDOW_SECONDS / 2, len(prefix)
            logger.warning("%.1f s of audio left the model's window without a word.", seconds)
        self._gone += prefix[:tokens]
        samples = min(round(seconds * SAMPLE_RATE), self._audio.size)
        self._offset += samples
        self._audio = self._audio[samples:]

    def _generated(self, prefix: Tokens, options: BeamSearch, max_new: int) -> Beam:
        previous = self._gone[-PREVIOUS_TOKENS:]
        key = ("search", self._offset, self.length, previous, prefix, options, max_new)
        encoded = self._encoded()
        return self._memo.get(key, lambda: self._search(encoded, previous, prefix, options, max_new))

    def _search(self, encoded: Any, previous: Tokens, prefix: Tokens, options: BeamSearch, max_new: int) -> Beam:
        beam = self._model.generate(encoded, previous, prefix, options, max_new)
        if beam and loops(beam[0].tokens) and not options.no_repeat_ngram:
            # Whisper repeats itself over noise and long pauses, and two steps agree on it only too well.
            options = replace(options, no_repeat_ngram=LOOP_NGRAM)
            beam = self._model.generate(encoded, previous, prefix, options, max_new)
        return beam

    def _in_window(self, committed: Tokens) -> Tokens:
        return committed[len(self._gone) :]

    def _encoded(self) -> Any:
        # Asked of the memo once: a run alone does not encode the same window twice either.
        key = ("encode", self._offset, self.length)
        if self._states is None or self._states[0] != key:
            self._states = (key, self._memo.get(key, lambda: self._model.encode(self._audio)))
        return self._states[1]

    def _end_times(self, tokens: Tokens) -> list[float]:
        return self._model.end_times(self._encoded(), self._in_window(tokens), self._audio.size // HOP)


def loops(tokens: Tokens, times: int = 3, longest: int = 8) -> bool:
    """Whether a text ends in the same 1 to `longest` tokens `times` times over."""
    return any(
        len(tokens) >= size * times and tokens[-size:] * times == tokens[-size * times :]
        for size in range(1, longest + 1)
    )


def log_mel(samples: np.ndarray, frames: int, filters: np.ndarray) -> np.ndarray:
    """Whisper's input: log10 mel energies of the audio and the silence after it.

    samples: (n,) float32 16 kHz. frames: length to fill with silence, at least n / 160.
    filters: (mels, 201). Returns (mels, frames) float32, clipped 8 decades under the loudest and scaled to about
    [-1, 1] (Radford et al. 2022, section 2.2, and the released models).
    """
    padded = np.pad(samples, (0, max(0, frames * HOP - samples.size)))
    padded = np.pad(padded, FFT // 2, mode="reflect")
    pieces = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][:frames]
    window = np.hanning(FFT + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(pieces * window, axis=1)).astype(np.float32) ** 2
    log = np.log10(np.maximum(filters @ power.T, 1e-10))
    return np.ascontiguousarray((np.maximum(log, log.max() - 8.0) + 4.0) / 4.0)
