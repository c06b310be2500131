"""Whisper in CTranslate2 form: an offline model, put online by re-encoding all audio in its window at every step.

The model is trained on 30 s inputs. Encoding 30 s for 2 s of speech is a waste, but a decoder that sees only a short
window repeats itself. So only the speech and a little silence are encoded, and what is missing to 30 s is filled with
the encoder's output for silence, which is computed once (benchmarks/whisper_window.py has the figures). Longer audio
slides: what has been committed leaves the window with its audio, found by the model's own attention (CTranslate2's
`align`), and stays before the decoder's eyes as previous text.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simulst.errors import SimulstError
from simulst.meter import Meter
from simulst.models.base import Family
from simulst.models.window import WindowedSession
from simulst.needs import Need
from simulst.policy.context import TokensView
from simulst.policy.stop import Stopping
from simulst.search import Beam, BeamSearch, Found, Hypothesis, SearchOptions, Tokens
from simulst.units import FRAME, SAMPLE_RATE

FFT = 400
WINDOW_SECONDS = 30
POSITIONS = 448  # of the decoder
PREVIOUS_TOKENS = 64  # of text before the window that are shown to the decoder
STATE_SECONDS = 0.02  # one encoder frame, the unit of `align`
LOOP_NGRAM = 3  # n-grams of this length may not come twice once the model has been caught in a loop
SILENCE = -0.5  # log-mel of silence after speech: 8 decades under usual speech, in Whisper's scaling
FILES = ("model.bin", "vocabulary.json", "tokenizer.json", "config.json")

Seconds = Annotated[float, Field(ge=0, le=WINDOW_SECONDS)]


@dataclass(frozen=True)
class WhisperOptions:
    """Options of a Whisper model.

    device, compute_type, threads: see CTranslate2; threads 0: all that are available.
    padding_seconds: silence that is encoded with the speech; 30 encodes the full window, as Whisper was trained.
    silence_seconds: ready-made silence that the decoder sees after that, as far as 30 s go.
    """

    device: str = "cpu"
    compute_type: str = "int8"
    threads: Annotated[int, Field(ge=0)] = 0
    padding_seconds: Seconds = 2.0
    silence_seconds: Seconds = 30.0


class Whisper:
    """A CTranslate2 Whisper folder: model.bin, vocabulary.json, tokenizer.json, config.json.

    cores: threads, where the options name none; 0: all.
    Raises SimulstError: a missing or broken file.
    """

    sample_rate = SAMPLE_RATE

    def __init__(self, path: Path, options: WhisperOptions, cores: int = 0) -> None:
        import ctranslate2
        from tokenizers import Tokenizer

        self.path, self._options = path, options
        for name in FILES:
            if not (path / name).is_file():
                raise SimulstError(f"{path}: the file {name} is missing; bring the model again.")
        self._config = _read_json(path / "config.json", dict)
        _read_json(path / "vocabulary.json", list)
        try:
            self._tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        except Exception as error:  # the library has no class of its own for it
            raise SimulstError(f"{path}: tokenizer.json is broken ({error}); bring the model again.") from error
        self._previous = self._special("<|startofprev|>")
        self._eos = self._special("<|endoftext|>")
        try:
            self._model = ctranslate2.models.Whisper(
                str(path),
                device=options.device,
                compute_type=options.compute_type,
                intra_threads=options.threads or cores,
            )
        except (RuntimeError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise SimulstError(f"{path}: CTranslate2 cannot load the model ({reason}).") from error

    def session(self, source: str, target: str, meter: Meter | None = None) -> WhisperSession:
        """A new utterance. target: the source language (transcription) or en (translation).

        Raises SimulstError: a language or direction that the model does not have.
        """
        return WhisperSession(self, self._start_tokens(source, target), meter or Meter())

    def encode(self, samples: np.ndarray) -> Any:
        """Encoder output of a window of audio, shape (n,) → CTranslate2 StorageView (1, states, width)."""
        import ctranslate2

        states = self._encode(log_mel(samples, self._frames(samples.size), self._filters))
        begin = states.shape[1]
        # CTranslate2 takes an array of as many states as there are mels for features.
        end = max(begin + round(self._options.silence_seconds / STATE_SECONDS), self._model.n_mels + 1)
        silence = self._silence[:, begin:end]
        states = np.concatenate([states, silence], axis=1)
        return ctranslate2.StorageView.from_array(states)

    def _encode(self, features: np.ndarray) -> np.ndarray:
        import ctranslate2

        return np.array(self._model.encode(ctranslate2.StorageView.from_array(features[None]), to_cpu=True))

    @cached_property
    def _silence(self) -> np.ndarray:
        return self._encode(np.full((self._model.n_mels, WINDOW_SECONDS * SAMPLE_RATE // FRAME), SILENCE, np.float32))

    def generate(
        self, encoded: Any, start: Tokens, previous: Tokens, prefix: Tokens, options: BeamSearch, max_new: int
    ) -> Beam:
        """Beam search after the forced `prefix`, given the text `previous` to the window; tokens include the prefix.

        start: the tokens that name languages and task.
        """
        # Where positions are short, the text of this window comes before that of earlier ones.
        room = POSITIONS - 2 - len(start) - len(prefix) - min(max_new, POSITIONS // 2)
        previous = previous[-room:] if room > 0 else ()
        context = (self._previous, *previous) if previous else ()
        prompt = [*context, *start, *prefix]
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
            # The rule that the first token be no space and no <eos> is for beginnings: after a prefix it would force
            # a token out of the model at every step.
            suppress_blank=not (prefix or previous),
        )[0]
        return [
            Hypothesis(self._plain(ids), score) for ids, score in zip(result.sequences_ids, result.scores, strict=True)
        ]

    def begins(self, encoded: Any, start: Tokens, tokens: Tokens, frames: int) -> list[int]:
        """The encoder frame (20 ms) at which each token begins, and that at which the last one has ended.

        They come from the decoder's attention. frames: those of log_mel (10 ms) that are audio.
        """
        if not tokens:
            return [0]
        alignment = self._model.align(encoded, list(start[:-1]), [list(tokens)], frames)[0].alignments
        begins = [0] * (len(tokens) + 1)
        for token, frame in reversed(alignment):
            begins[token] = frame
        return begins

    def text(self, tokens: Tokens) -> str:
        """Plain text; a character cut in two ends in U+FFFD."""
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True)

    def begins_word(self, token: int) -> bool:
        """Whether a token starts with a space."""
        return self.text((token,)).startswith(" ")

    def _plain(self, ids: list[int]) -> Tokens:
        # Text never contains special tokens (<eos> and all after it in the vocabulary).
        return tuple(token for token in ids if token < self._eos)

    def _frames(self, samples: int) -> int:
        seconds = min(samples / SAMPLE_RATE + self._options.padding_seconds, WINDOW_SECONDS)
        return 2 * max(1, math.ceil(seconds * SAMPLE_RATE / FRAME / 2))  # the encoder halves it

    @cached_property
    def _filters(self) -> np.ndarray:
        import librosa

        return librosa.filters.mel(sr=SAMPLE_RATE, n_fft=FFT, n_mels=self._model.n_mels).astype(np.float32)

    def _start_tokens(self, source: str, target: str) -> Tokens:
        path = self.path
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


class WhisperSession(WindowedSession):
    """One utterance: the audio of the window and the tokens that belong to it. start: names languages and task."""

    gives = frozenset({Need.LIBRARY_SEARCH, Need.ATTENTION})

    def __init__(self, model: Whisper, start: Tokens, meter: Meter) -> None:
        super().__init__(WINDOW_SECONDS, meter)
        self._model, self._begin = model, start
        self._states: tuple[Any, Any] | None = None  # of the encoder, and what they are of

    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Found:
        assert isinstance(options, BeamSearch)
        prefix = self._in_window(committed)
        most = math.ceil(options.max_tokens_per_second * self._audio.size / SAMPLE_RATE) + 5 - len(prefix)
        beam = self._stopped_beam(prefix, options, max(1, most), stop)
        return Found([Hypothesis(self._gone + h.tokens, h.score) for h in beam])

    def text(self, tokens: Tokens) -> str:
        return self._model.text(tokens)

    def _stopped_beam(self, prefix: Tokens, options: BeamSearch, most: int, stop: Stopping | None) -> Beam:
        """What a search that STOP could end between two tokens would find; CTranslate2's can't be."""
        enough = most if stop is None else min(stop.options.enough_tokens or most, most)
        beam = self._generated(prefix, options, enough)
        if stop is None or not beam:
            return beam
        end = self._end(stop, beam[0].tokens, len(prefix))
        if enough < most and end is None and len(beam[0].tokens) == len(prefix) + enough:
            beam = self._generated(prefix, options, most)
            end = self._end(stop, beam[0].tokens, len(prefix))
        return [replace(h, tokens=h.tokens[:end]) for h in beam]

    def _end(self, stop: Stopping, best: Tokens, given: int) -> int | None:
        """Of how many tokens the best hypothesis is where STOP ends its search; None where it does not.

        given: how many of them were committed before.
        """
        left = functools.cache(lambda: self._frames_left(best)[given:])
        for end in range(given, len(best)):
            if stop.ends(TokensView(best[given:end], left)):
                return max(given, end - stop.discard)
        return None

    def _frames_left(self, tokens: Tokens) -> list[int]:
        """Encoder frames of audio after the one at which each token begins, the window's last text included."""
        last = self._audio.size // FRAME // 2 - 1
        return [last - begin for begin in self._begins(tokens)]

    def _generated(self, prefix: Tokens, options: BeamSearch, max_new: int) -> Beam:
        previous = self._gone[-PREVIOUS_TOKENS:]
        key = ("search", self._offset, self.length, self._begin, previous, prefix, options, max_new)
        encoded = self._encoded()
        return self.meter.shared(key, lambda: self._search(encoded, previous, prefix, options, max_new))

    def _search(self, encoded: Any, previous: Tokens, prefix: Tokens, options: BeamSearch, max_new: int) -> Beam:
        beam = self._model.generate(encoded, self._begin, previous, prefix, options, max_new)
        if beam and loops(beam[0].tokens) and not options.no_repeat_ngram:
            # Whisper repeats itself over noise and long pauses, and two steps agree on it only too well.
            options = replace(options, no_repeat_ngram=LOOP_NGRAM)
            beam = self._model.generate(encoded, self._begin, previous, prefix, options, max_new)
        return beam

    def _encoded(self) -> Any:
        # Asked of the memo once: a run alone does not encode the same window twice either.
        key = ("encode", self._offset, self.length)
        if self._states is None or self._states[0] != key:
            self._states = (key, self.meter.shared(key, lambda: self._model.encode(self._audio)))
        return self._states[1]

    def _begins(self, tokens: Tokens) -> list[int]:
        key = ("align", self._offset, self.length, self._begin, tokens)
        encoded, frames = self._encoded(), self._audio.size // FRAME
        return self.meter.shared(key, lambda: self._model.begins(encoded, self._begin, tokens, frames))

    def _end_times(self, tokens: Tokens) -> list[float]:
        """A token has been spoken when the next one begins."""
        return [frame * STATE_SECONDS for frame in self._begins(tokens)[1:]]

    def _begins_word(self, tokens: Tokens, place: int) -> bool:
        return self._model.begins_word(tokens[place])


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
    padded = np.pad(samples, (0, max(0, frames * FRAME - samples.size)))
    padded = np.pad(padded, FFT // 2, mode="reflect")
    pieces = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::FRAME][:frames]
    window = np.hanning(FFT + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(pieces * window, axis=1)).astype(np.float32) ** 2
    log = np.log10(np.maximum(filters @ power.T, 1e-10))
    return np.ascontiguousarray((np.maximum(log, log.max() - 8.0) + 4.0) / 4.0)


def _read_json(path: Path, kind: type) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # not JSON, or not even text
        raise SimulstError(f"{path.parent}: {path.name} is broken ({error}); bring the model again.") from error
    if not isinstance(content, kind) or not content:
        raise SimulstError(
            f"{path.parent}: {path.name} is broken (it is empty or another file); bring the model again."
        )
    return content


def _digest(path: Path, options: WhisperOptions) -> str:
    whole = hashlib.sha256()
    for name in FILES:
        if (path / name).is_file():
            with (path / name).open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:16]


family = Family(
    name="whisper",
    looks_like="a CTranslate2 Whisper (model.bin, vocabulary.json)",
    recognises=lambda path: (path / "model.bin").is_file() and (path / "vocabulary.json").is_file(),
    options=WhisperOptions,
    load=Whisper,
    digest=_digest,
)
