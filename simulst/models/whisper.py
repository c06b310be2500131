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

import functools
import json
import logging
import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from simulst.audio.units import FRAME, SAMPLE_RATE
from simulst.background import Background
from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Found, Hypothesis, Tokens
from simulst.languages import code_of
from simulst.meter import Meter
from simulst.models.base import Family
from simulst.models.ctranslate2_file import cannot_load, read_variables
from simulst.models.window import WindowedSession, warn_of_full_context
from simulst.needs import Need
from simulst.options import read_fields
from simulst.policy.stop import Stopping, end_of
from simulst.search import BeamSearch, SearchOptions
from simulst.search.calls import Batchable, Steps, ask, run_alone
from simulst.search.loops import without_loops

logger = logging.getLogger(__name__)

FFT = 400
WINDOW_SECONDS = 30
ENGLISH_VOCABULARY = 51864  # tokens of Whisper's models for English alone; the others have more
POSITIONS = 448  # of the decoder
PREVIOUS_TOKENS = 64  # of text before the window that are shown to the decoder
STATE_SECONDS = 0.02  # one encoder frame, the unit of `align`
LEAST_P = 1e-9  # of a token; less is rounded to 0
LEAST_TOKENS = 4  # of a text whose language is told
TRANSLATED = 0.2  # log p per token by which a translation is more probable under its own prompt than under the other
HEARD_SECONDS = 3.0  # after which the language of a recording is told
# So many times more probable must a language be than the one that was named. Of 44 Spanish, French, Italian and Russian
# recordings (3 s, Whisper base), 54 was the most; with French named for the 33 others, 266 was the least.
MORE_PROBABLE = 100.0
MOST_WINDOWS = 8  # of a batch: the decoder's keys and values of a window take up to half a gigabyte
LEAST_NEW = 20  # tokens that a search must be allowed to add so that it may share a batch: see `generate_together`
SILENCE = -0.5  # log-mel of silence after speech: 8 decades under usual speech, in Whisper's scaling
VOCABULARY, VOCABULARY_LINES = "vocabulary.json", "vocabulary.txt"
FILES = ("model.bin", VOCABULARY, "tokenizer.json", "config.json")
_LAYER = re.compile(r"decoder/layer_\d+/ffn/linear_0/weight")

Seconds = Annotated[float, Field(ge=0, le=WINDOW_SECONDS)]


@dataclass(frozen=True)
class WhisperOptions:
    """Options of a Whisper model.

    device: CTranslate2's device.
    compute_type: CTranslate2's compute type.
    threads: CTranslate2's threads. 0: all that are available.
    padding_seconds: seconds of silence that are encoded with the speech. 30 encodes the full window, as in training.
    silence_seconds: seconds of precomputed silence that the decoder sees after that, up to 30 s in all.
    other_targets: whether any language may be asked for by its token. Whisper learns that by fine-tuning only.
    check_language: whether another text is looked for if it should be a translation, but is in the language spoken.
    """

    device: str = "cpu"
    compute_type: str = "int8"
    threads: Annotated[int, Field(ge=0)] = 0
    padding_seconds: Seconds = 2.0
    silence_seconds: Seconds = 30.0
    other_targets: bool = False
    check_language: bool = True


class Whisper:
    """A CTranslate2 Whisper folder: model.bin, vocabulary.json, tokenizer.json, config.json.

    path: the folder.
    options: the options of the family.
    cores: how many threads to use if the options name none. 0: all that are available.

    Raises SimulstError: a missing or broken file.
    """

    sample_rate = SAMPLE_RATE

    def __init__(self, path: Path, options: WhisperOptions, cores: int = 0) -> None:
        import ctranslate2
        import librosa
        from tokenizers import Tokenizer

        self.path, self._options = path, options
        for name in FILES:
            if not (path / name).is_file() and not (name == VOCABULARY and (path / VOCABULARY_LINES).is_file()):
                raise SimulstError(f"{path}: the file {name} is missing; fetch the model again.")
        again = "fetch the model again"
        config = _read_json(path / "config.json")
        self._config = read_fields(_Config, config, f"{path}: config.json is broken", again)
        vocabulary = _vocabulary(path)
        try:
            self._tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        except Exception as error:  # the library has no class of its own for it
            raise SimulstError(f"{path}: tokenizer.json is broken ({error}); fetch the model again.") from error
        self._english = len(vocabulary) == ENGLISH_VOCABULARY
        self._previous = self._special("<|startofprev|>")
        self._eos = self._special("<|endoftext|>")
        for token in ("<|startoftranscript|>", "<|endoftext|>"):
            if vocabulary[self._special(token) : self._special(token) + 1] != [token]:
                raise SimulstError(f"{path}: its vocabulary and tokenizer.json do not fit; {again}.")
        try:
            self._model = ctranslate2.models.Whisper(
                str(path),
                device=options.device,
                compute_type=options.compute_type,
                intra_threads=options.threads or cores,
            )
        except (RuntimeError, ValueError, TypeError) as error:
            raise cannot_load(path, error, options.device) from error
        self._config.check(path)
        # Here, not at the first window: no utterance is charged for it.
        self._filters = librosa.filters.mel(sr=SAMPLE_RATE, n_fft=FFT, n_mels=self._model.n_mels).astype(np.float32)
        frames = WINDOW_SECONDS * SAMPLE_RATE // FRAME
        self._silence = self._encode(np.full((1, self._model.n_mels, frames), SILENCE, np.float32))

    def session(self, source: str, target: str, meter: Meter | None = None) -> WhisperSession:
        """Open a new utterance.

        source: language spoken.
        target: the source language (transcription) or en (translation).
        meter: the clock of the stream.

        Raises SimulstError: a language or direction that the model does not have.
        """
        start, transcription, others = self._start_tokens(source, target), self._start_tokens(source, source), None
        if self._options.check_language and start[2:] != transcription[2:]:
            others = (transcription, (start[0], self._special("<|en|>"), *start[2:]))
        return WhisperSession(self, start, meter or Meter(), others)

    def encode(self, samples: np.ndarray) -> Any:
        """Encode a window of audio, (n,) float32 → encoder output, a CTranslate2 StorageView (1, states, width)."""
        return self.encode_together([samples])[0]

    def encode_together(self, windows: Sequence[np.ndarray]) -> list[Any]:
        """As `encode`, for windows with equally many `frames`."""
        import ctranslate2

        frames = self.frames(windows[0].size)
        encoded = self._encode(np.stack([log_mel(samples, frames, self._filters) for samples in windows]))
        begin = encoded.shape[1]
        # If there are as many states as mels, CTranslate2 takes the array for features.
        end = max(begin + round(self._options.silence_seconds / STATE_SECONDS), self._model.n_mels + 1)
        silence = self._silence[:, begin:end]
        each = [np.concatenate([states[None], silence], axis=1) for states in encoded]
        return [ctranslate2.StorageView.from_array(states) for states in each]

    def _encode(self, features: np.ndarray) -> np.ndarray:
        """(n, mels, frames) → (n, states, width)."""
        import ctranslate2

        return np.array(self._model.encode(ctranslate2.StorageView.from_array(features), to_cpu=True))

    def generate(
        self, encoded: Any, start: Tokens, previous: Tokens, prefix: Tokens, options: BeamSearch, max_new: int
    ) -> Beam:
        """Beam search after the forced `prefix`, given the text `previous` to the window; tokens include the prefix.

        start: the tokens that name languages and task.
        """
        return self.generate_together([Generate(self, encoded, start, previous, prefix, options, max_new)])[0]

    def generate_together(self, asked: Sequence[Generate]) -> list[Beam]:
        """As `generate`, for searches whose `together` is equal.

        CTranslate2 has one bound of the length for all. A text that reaches the bound of its own is searched again by
        itself.
        """
        begins = [self.begin(one.start, one.previous, one.prefix, one.max_new) for one in asked]
        if begins[0].max_new < 1:  # then there is only one
            warn_of_full_context(self.path, POSITIONS)
            return [[Hypothesis(asked[0].prefix)]]
        lengths = [len(one.prefix) + begin.max_new for one, begin in zip(asked, begins, strict=True)]
        options, length, before = asked[0].options, max(lengths), len(begins[0].context) + len(asked[0].start) - 1
        results = self._model.generate(
            _joined([one.encoded for one in asked]),
            [[*begin.context, *one.start, *one.prefix] for one, begin in zip(asked, begins, strict=True)],
            beam_size=options.beam,
            num_hypotheses=options.beam,
            length_penalty=options.length_penalty,
            no_repeat_ngram_size=options.no_repeat_ngram,
            # CTranslate2 stops at min(max_length / 2, max_length - what is before <|notimestamps|>) tokens, the prefix
            # among them.
            max_length=length + max(length, before),
            return_scores=True,
            # With suppress_blank, the first token can be neither a space nor <eos>. After a prefix, this would force
            # the model to add a token at every step.
            suppress_blank=not (asked[0].prefix or begins[0].context),
        )
        beams = []
        for one, result, most in zip(asked, results, lengths, strict=True):
            if most < length and max(map(len, result.sequences_ids)) >= most - 1:
                beams.append(one.answer())
                continue
            found = zip(result.sequences_ids, result.scores, strict=True)
            beams.append([Hypothesis(self._plain(ids), score) for ids, score in found])
        return beams

    def begin(self, start: Tokens, previous: Tokens, prefix: Tokens, max_new: int) -> Begin:
        """What stands before `start` in a prompt. If there are too few positions, previous text is cut first."""
        room = POSITIONS - 2 - len(start) - len(prefix) - min(max_new, POSITIONS // 2)
        previous = previous[-room:] if room > 0 else ()
        context = (self._previous, *previous) if previous else ()
        # One position is for the <eos> that `align` adds.
        return Begin(context, min(max_new, POSITIONS - 1 - len(context) - len(start) - len(prefix)))

    def align(self, encoded: Any, start: Tokens, tokens: Tokens, frames: int) -> Aligned:
        """Where each token begins, by the decoder's attention, and how probable it is.

        start: the tokens that name languages and task. frames: how many frames of log_mel (10 ms) are audio.
        """
        if not tokens:
            return Aligned([0], 0.0)
        return self.align_together([Align(self, encoded, start, tokens, frames)])[0]

    def align_together(self, asked: Sequence[Align]) -> list[Aligned]:
        """As `align`, for texts whose `together` is equal."""
        results = self._model.align(
            _joined([one.encoded for one in asked]),
            list(asked[0].start[:-1]),
            [list(one.tokens) for one in asked],
            [one.frames for one in asked],
        )
        aligned = []
        for one, found in zip(asked, results, strict=True):
            begins = [0] * (len(one.tokens) + 1)
            for token, frame in reversed(found.alignments):
                begins[token] = frame
            aligned.append(Aligned(begins, float(np.log(np.maximum(found.text_token_probs, LEAST_P)).sum())))
        return aligned

    def languages(self, encoded: Any, seconds: float) -> dict[str, float]:
        """How probable each language is in the first `seconds` of a window; empty: it knows English alone."""
        import ctranslate2

        if not self._model.is_multilingual:
            return {}
        # Not the silence that fills the window: reading it would take as long as encoding the speech.
        states = np.array(encoded)[:, : max(round((seconds + 1) / STATE_SECONDS), self._model.n_mels + 1)]
        [found] = self._model.detect_language(ctranslate2.StorageView.from_array(states))
        return {code_of(token.strip("<|>")): p for token, p in reversed(found)}

    @property
    def language_pairs(self) -> dict[str, tuple[str, ...]]:
        """Spoken → written languages: English, and the spoken one."""
        if self._english:
            return {"en": ("en",)}
        names = (str(self._tokenizer.id_to_token(i)).strip("<|>") for i in self._config.lang_ids)
        return {code: tuple(dict.fromkeys(("en", code))) for code in sorted(map(code_of, names))}

    def spoken_language(self, samples: np.ndarray) -> str:
        """The most probable language of the first 30 s. samples: (n,) float32."""
        window = samples[: WINDOW_SECONDS * SAMPLE_RATE]
        found = self.languages(self.encode(window), window.size / SAMPLE_RATE)
        return max(found, key=found.__getitem__, default="en")

    def text(self, tokens: Tokens) -> str:
        """Plain text. An incomplete character at the end becomes U+FFFD."""
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True)

    def tokens(self, text: str) -> Tokens:
        """The tokens of a text, which begins with a space if it is not empty."""
        words = text.strip()
        return tuple(self._tokenizer.encode(f" {words}", add_special_tokens=False).ids) if words else ()

    def begins_word(self, token: int) -> bool:
        """Whether a token starts with a space."""
        return self.text((token,)).startswith(" ")

    def _plain(self, ids: list[int]) -> Tokens:
        # Text never contains special tokens (<eos> and all after it in the vocabulary).
        return tuple(token for token in ids if token < self._eos)

    def frames(self, samples: int) -> int:
        """Of log_mel, for a window of so many samples."""
        seconds = min(samples / SAMPLE_RATE + self._options.padding_seconds, WINDOW_SECONDS)
        return 2 * max(1, math.ceil(seconds * SAMPLE_RATE / FRAME / 2))  # the encoder halves it

    def _start_tokens(self, source: str, target: str) -> Tokens:
        path = self.path
        if self._english:
            check_english(path, source, target)
            return tuple(self._special(t) for t in ("<|startoftranscript|>", "<|notimestamps|>"))
        names = {i: str(self._tokenizer.id_to_token(i)).strip("<|>") for i in self._config.lang_ids}
        languages = {code_of(name): i for i, name in names.items()}

        def token_of(language: str) -> int:
            if language not in languages:
                known = ", ".join(sorted(names.values()))
                raise SimulstError(f"{path}: the model has no language '{language}'; it has {known}.")
            return languages[language]

        source, target = code_of(source), code_of(target)
        token_of(source)
        language, task = whisper_task(path, source, target, self._options.other_targets)
        start, end = self._special("<|startoftranscript|>"), self._special("<|notimestamps|>")
        return (start, token_of(language), self._special(task), end)

    def _special(self, token: str) -> int:
        number = self._tokenizer.token_to_id(token)
        if number is None:
            raise SimulstError(f"the model's tokenizer.json has no token {token}; it is not a multilingual Whisper.")
        return number


class Begin(NamedTuple):
    """context: what stands before `start` in a prompt. max_new: how many tokens may be added; below 1: none."""

    context: Tokens
    max_new: int


@dataclass(frozen=True)
class Encode(Batchable):
    """A call: the encoder's output for a window of audio, (n,) float32. See `Whisper.encode`."""

    model: Whisper
    samples: np.ndarray

    most = MOST_WINDOWS

    def answer(self) -> Any:
        return self.model.encode(self.samples)

    @property
    def together(self) -> Hashable:
        return self.model, self.model.frames(self.samples.size)

    @classmethod
    def answer_together(cls, calls: Sequence[Encode]) -> list[Any]:
        return calls[0].model.encode_together([call.samples for call in calls])


@dataclass(frozen=True)
class Generate(Batchable):
    """A call: CTranslate2's own search. See `Whisper.generate`."""

    model: Whisper
    encoded: Any
    start: Tokens
    previous: Tokens
    prefix: Tokens
    options: BeamSearch
    max_new: int

    most = MOST_WINDOWS

    def answer(self) -> Beam:
        return self.model.generate(self.encoded, self.start, self.previous, self.prefix, self.options, self.max_new)

    @property
    def together(self) -> Hashable:
        """In CTranslate2's batches, <|startoftranscript|> and <|notimestamps|> have equal places."""
        begin = self.model.begin(self.start, self.previous, self.prefix, self.max_new)
        if begin.max_new < LEAST_NEW:
            return None
        blank = bool(self.prefix or begin.context)
        return self.model, tuple(self.encoded.shape), self.options, len(begin.context), len(self.start), blank

    @classmethod
    def answer_together(cls, calls: Sequence[Generate]) -> list[Beam]:
        return calls[0].model.generate_together(calls)


@dataclass(frozen=True)
class Align(Batchable):
    """A call: when the tokens of a text were spoken. See `Whisper.align`."""

    model: Whisper
    encoded: Any
    start: Tokens
    tokens: Tokens
    frames: int

    most = MOST_WINDOWS

    def answer(self) -> Aligned:
        return self.model.align(self.encoded, self.start, self.tokens, self.frames)

    @property
    def together(self) -> Hashable:
        return (self.model, tuple(self.encoded.shape), self.start) if self.tokens else None

    @classmethod
    def answer_together(cls, calls: Sequence[Align]) -> list[Aligned]:
        return calls[0].model.align_together(calls)


def _joined(encoded: Sequence[Any]) -> Any:
    """The encoder outputs of several windows as one, (n, states, width)."""
    import ctranslate2

    if len(encoded) == 1:
        return encoded[0]
    return ctranslate2.StorageView.from_array(np.concatenate([np.asarray(one) for one in encoded]))


@dataclass(frozen=True)
class Tell:
    """A call: which language is spoken. See `Whisper.languages`."""

    model: Whisper
    encoded: Any
    seconds: float

    def answer(self) -> dict[str, float]:
        return self.model.languages(self.encoded, self.seconds)


@functools.cache
def warn_of_language(path: Path, source: str, heard: str) -> None:
    """Warn, once for each pair, of speech in another language than was said."""
    logger.warning(
        "%s: a recording sounds like '%s', not '%s'; check the source language (--source-lang).", path, heard, source
    )


class WhisperSession(WindowedSession):
    """One utterance: the audio in the window, and the tokens that belong to it.

    start: the tokens that name the languages and the task.
    others: if the task is translation, those of transcription, and those of translation if English were spoken.
    """

    gives = frozenset({Need.LIBRARY_SEARCH, Need.ATTENTION, Need.END_TIMES})

    def __init__(self, model: Whisper, start: Tokens, meter: Meter, others: tuple[Tokens, Tokens] | None) -> None:
        super().__init__(WINDOW_SECONDS, meter)
        self._model, self._begin, self._others = model, start, others
        self._states: tuple[Hashable, Any] | None = None  # of which audio the encoder's states are, and they
        self._alignments: dict[tuple[Tokens, Tokens], Aligned] = {}  # of these states: by prompt and text
        self._prompt: Tokens = ()  # of the recording's background

    def remember(self, text: str) -> None:
        self._before = self._model.tokens(text)

    def text(self, tokens: Tokens) -> str:
        return self._model.text(tokens)

    def spell(self, text: str) -> Tokens:
        return self._model.tokens(text)

    def prompt(self, background: Background) -> None:
        """Its text takes the place of previous text in the prompt.

        Terms do not: after a list of terms, Whisper base left out words.
        """
        super().prompt(background)
        self._prompt = self._model.tokens(background.target_text)

    def encode_steps(self) -> Steps[None]:
        # The memo is asked only once: without a memo, the same window is encoded only once, too.
        if self._states is None or self._states[0] != self.audio_key:
            call = Encode(self._model, self._audio)
            states = yield from self.meter.shared_steps(("encode", self.audio_key), lambda: ask(call))
            self._states, self._alignments = (self.audio_key, states), {}

    def search_steps(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        """CTranslate2's search can't be ended by STOP, so its hypotheses are cut where STOP would have ended it."""
        assert isinstance(options, BeamSearch)
        yield from self._check_source()
        prefix = self._in_window(committed)
        most = math.ceil(options.max_tokens_per_second * self._audio.size / SAMPLE_RATE) + 5 - len(prefix)
        most = max(1, most)
        enough = most if stop is None else min(stop.options.enough_tokens or most, most)
        beam = yield from self._generated(prefix, options, enough)
        end = yield from self._stopped_at(stop, beam, len(prefix))
        if stop and beam and enough < most and end is None and len(beam[0].tokens) == len(prefix) + enough:
            beam = yield from self._generated(prefix, options, most)
            end = yield from self._stopped_at(stop, beam, len(prefix))
        return Found([Hypothesis(self._evicted + h.tokens[:end], h.score) for h in beam])

    def _check_source(self) -> Steps[None]:
        """Warn if another language is spoken. It is looked at once in a stream, and is not part of its computation."""
        source, seconds = self.languages[0], self._audio.size / SAMPLE_RATE
        if not source or seconds < HEARD_SECONDS or not self.meter.first("language"):
            return
        with self.meter.uncounted():
            call = Tell(self._model, self._encoded, seconds)
            found = yield from self.meter.shared_steps(("language", self.audio_key), lambda: ask(call))
        heard = max(found, key=found.__getitem__, default="")
        if found and found[heard] > MORE_PROBABLE * found.get(code_of(source), 1.0):
            warn_of_language(self._model.path, source, heard)

    def _stopped_at(self, stop: Stopping | None, beam: Beam, given: int) -> Steps[int | None]:
        """Of how many tokens the best hypothesis is where STOP ends its search; None where it does not.

        given: how many of them were committed before.
        """
        if stop is None or not beam:
            return None
        best, begins, needs = beam[0].tokens, [0], stop.options.needs
        # Text without new tokens is not aligned: that takes time, and it may fill all of the decoder's positions.
        if best[given:] and needs & {Need.ATTENTION, Need.END_TIMES}:
            begins = (yield from self._aligned(self._begin, best)).begins
        last, offset = self._audio.size // FRAME // 2 - 1, self._offset / SAMPLE_RATE
        left = [*(last - begin for begin in begins[given:] if best[given:]), math.inf]
        ends = [offset + begin * STATE_SECONDS for begin in begins[given + 1 :]]
        kept = end_of(
            stop,
            best[given:],
            (lambda: left) if Need.ATTENTION in needs else None,
            (lambda: ends) if Need.END_TIMES in needs else None,
        )
        return None if kept is None else given + kept

    def _generated(self, prefix: Tokens, options: BeamSearch, max_new: int) -> Steps[Beam]:
        """A library's search is shared by all STOPs."""
        previous = (self._prompt + self._before + self._shown)[-PREVIOUS_TOKENS:]
        key = ("generate", self.key, prefix, options, max_new)
        return (yield from self.meter.shared_steps(key, lambda: self._search(previous, prefix, options, max_new)))

    def _search(self, previous: Tokens, prefix: Tokens, options: BeamSearch, max_new: int) -> Steps[Beam]:
        def found(start: Tokens) -> Steps[Beam]:
            def search(used: BeamSearch) -> Steps[Beam]:
                return ask(Generate(self._model, self._encoded, start, previous, prefix, used, max_new))

            return without_loops(options, search, self.text, len(prefix))

        def translations(beam: Beam) -> Steps[Beam]:
            kept = []
            for hypothesis in beam:
                if len(hypothesis.tokens) > len(prefix) and (yield from self._is_translation(hypothesis.tokens)):
                    kept.append(hypothesis)
            return kept

        beam = yield from found(self._begin)
        if self._others is None or not beam or len(beam[0].tokens) == len(prefix):
            return beam
        if (yield from self._is_translation(beam[0].tokens)):
            return beam
        if not (yield from self._is_translation(prefix)):
            return beam  # what is committed is in the language spoken, and so would be what follows
        others = yield from translations(beam[1:])
        if not others:
            others = yield from translations((yield from found(self._others[1])))
        return others or beam

    @property
    def _encoded(self) -> Any:
        assert self._states is not None and self._states[0] == self.audio_key
        return self._states[1]

    def _is_translation(self, tokens: Tokens) -> Steps[bool]:
        """Whether a text is not in the language spoken: then it is less probable under the prompt for transcription."""
        assert self._others is not None
        if len(tokens) < LEAST_TOKENS:
            return True
        translated = yield from self._aligned(self._begin, tokens)
        transcribed = yield from self._aligned(self._others[0], tokens)
        return translated.log_p - transcribed.log_p >= TRANSLATED * len(tokens)

    def _aligned(self, start: Tokens, tokens: Tokens) -> Steps[Aligned]:
        if (start, tokens) not in self._alignments:
            call = Align(self._model, self._encoded, start, tokens, self._audio.size // FRAME)
            key = ("align", self.audio_key, start, tokens)
            self._alignments[start, tokens] = yield from self.meter.shared_steps(key, lambda: ask(call))
        return self._alignments[start, tokens]

    def _end_times(self, tokens: Tokens) -> list[float]:
        """A token has been spoken when the next one begins."""
        run_alone(self.encode_steps())
        begins = run_alone(self._aligned(self._begin, tokens)).begins
        return [frame * STATE_SECONDS for frame in begins[1:]]

    def _begins_word(self, tokens: Tokens, place: int) -> bool:
        return self._model.begins_word(tokens[place])


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


def log_mel(samples: np.ndarray, frames: int, filters: np.ndarray) -> np.ndarray:
    """Whisper's features: log10 mel energies (Radford et al. 2022, section 2.2, and the released models).

    samples: (n,) float32, 16 kHz.
    frames: the number of frames, at least n / 160. The rest is silence.
    filters: (mels, 201).
    Returns: (mels, frames) float32, clipped at 8 decades below the maximum and scaled to about [-1, 1].
    """
    padded = np.pad(samples, (0, max(0, frames * FRAME - samples.size)))
    padded = np.pad(padded, FFT // 2, mode="reflect")
    pieces = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::FRAME][:frames]
    window = np.hanning(FFT + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(pieces * window, axis=1)).astype(np.float32) ** 2
    log = np.log10(np.maximum(filters @ power.T, 1e-10))
    return np.ascontiguousarray((np.maximum(log, log.max() - 8.0) + 4.0) / 4.0)


@dataclass(frozen=True)
class Aligned:
    """A text and the audio in the window.

    begins: the encoder frame (20 ms) at which each token begins, and the one at which the last token ends.
    log_p: the text's log probability.
    """

    begins: list[int]
    log_p: float


@dataclass
class _Config:
    """What is used here of config.json, by us and by CTranslate2.

    lang_ids: the tokens of the languages.
    alignment_heads: layers and heads that show when a token was spoken.
    suppress_ids, suppress_ids_begin: tokens that no text has, and that none begins with.
    """

    lang_ids: list[int]
    alignment_heads: list[tuple[int, int]] = field(default_factory=list)
    suppress_ids: list[int] = field(default_factory=list)
    suppress_ids_begin: list[int] = field(default_factory=list)

    def check(self, path: Path) -> None:
        """Raise SimulstError unless it fits model.bin: CTranslate2 reads beyond its arrays."""
        variables = read_variables(path / "model.bin")
        heads = int(variables.get("decoder/num_heads", variables["encoder/num_heads"]))
        layers = sum(bool(_LAYER.fullmatch(name)) for name in variables)
        size = len(variables["decoder/embeddings/weight"])
        if not self.alignment_heads:
            raise SimulstError(
                f"{path}: config.json names no alignment_heads, by which times of tokens are found; convert the model "
                "again with a newer CTranslate2, or copy them from the generation_config.json of the original model."
            )
        for layer, head in self.alignment_heads:
            if not (0 <= layer < layers and 0 <= head < heads):
                raise SimulstError(
                    f"{path}: config.json does not fit model.bin: alignment_heads names head {head} of layer {layer}, "
                    f"but the decoder has {layers} layers of {heads} heads; copy both from one model."
                )
        for name in ("lang_ids", "suppress_ids", "suppress_ids_begin"):
            if beyond := [token for token in getattr(self, name) if not 0 <= token < size]:
                raise SimulstError(
                    f"{path}: config.json does not fit model.bin: {name} names the token {beyond[0]}, but there are "
                    f"{size} tokens; copy both from one model."
                )


def _vocabulary(path: Path) -> list[str]:
    """The tokens, in order: vocabulary.json or, in older models, vocabulary.txt with a token a line."""
    if (path / VOCABULARY).is_file():
        tokens = _read_json(path / VOCABULARY)
        if not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
            raise SimulstError(f"{path}: {VOCABULARY} is broken (it is another file); fetch the model again.")
        return tokens
    try:
        return (path / VOCABULARY_LINES).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise SimulstError(f"{path}: {VOCABULARY_LINES} is broken ({error}); fetch the model again.") from error


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not JSON, or not even text
        raise SimulstError(f"{path.parent}: {path.name} is broken ({error}); fetch the model again.") from error


family = Family(
    name="whisper",
    looks_like="a CTranslate2 Whisper (model.bin, vocabulary.json)",
    recognises=lambda path: (
        (path / "model.bin").is_file() and any((path / name).is_file() for name in (VOCABULARY, VOCABULARY_LINES))
    ),
    options=WhisperOptions,
    load=Whisper,
    files=lambda path, options: tuple(path / name for name in (*FILES, VOCABULARY_LINES) if (path / name).is_file()),
)
