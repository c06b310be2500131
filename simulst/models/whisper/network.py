"""The network of a CTranslate2 Whisper: it encodes windows of audio, searches texts, and aligns them.

Windows and searches of several streams can share a batch, or be computed at once.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from simulst.audio.mel import MelBands, mel_filters
from simulst.audio.units import FRAME, SAMPLE_RATE
from simulst.calls import Batchable, Threaded, Turns
from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.languages import code_of
from simulst.machine.threads import available_cores
from simulst.models.ctranslate2_batches import alike, reaches
from simulst.models.ctranslate2_file import cannot_load
from simulst.models.whisper.features import FFT, SILENCE, log_mel
from simulst.models.whisper.files import FILES, VOCABULARY, VOCABULARY_LINES, read_config, read_vocabulary
from simulst.models.whisper.prompts import Languages
from simulst.models.window import warn_of_full_context
from simulst.search import BeamSearch

WINDOW_SECONDS = 30
POSITIONS = 448  # of the decoder
STATE_SECONDS = 0.02  # one encoder frame, the unit of `align`
LEAST_P = 1e-9  # of a token; less is rounded to 0
MOST_WINDOWS = 8  # of a batch: the decoder's keys and values of a window take up to half a gigabyte
LEAST_NEW = 20  # tokens that a search must be allowed to add to share a batch; with fewer, most reach their bound

Seconds = Annotated[float, Field(ge=0, le=WINDOW_SECONDS)]


@dataclass(frozen=True)
class WhisperOptions:
    """Options of a Whisper model.

    device: CTranslate2's device.
    compute_type: CTranslate2's compute type.
    threads: CTranslate2's threads of a call. 0: all that are available. With fewer, calls of several streams are
        computed at once on the processor, in place of batches.
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


class Network:
    """The weights and the tokeniser of a CTranslate2 Whisper folder. See `Whisper`.

    turn: for the threads that answer calls. None: the driver answers them, one by one or in batches.
    """

    turn: Turns | None = None

    def __init__(self, path: Path, options: WhisperOptions, cores: int = 0) -> None:
        import ctranslate2
        from tokenizers import Tokenizer

        self.path, self._options = path, options
        for name in FILES:
            if not (path / name).is_file() and not (name == VOCABULARY and (path / VOCABULARY_LINES).is_file()):
                raise SimulstError(f"{path}: the file {name} is missing; fetch the model again.")
        self._config = read_config(path)
        vocabulary = read_vocabulary(path)
        try:
            self._tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        except Exception as error:  # the library has no class of its own for it
            raise SimulstError(f"{path}: tokenizer.json is broken ({error}); fetch the model again.") from error
        self._languages = Languages(path, vocabulary, self._config.lang_ids, options.other_targets)
        self._previous = self.special("<|startofprev|>")
        self._eos = self.special("<|endoftext|>")
        for token in ("<|startoftranscript|>", "<|endoftext|>"):
            if vocabulary[self.special(token) : self.special(token) + 1] != [token]:
                raise SimulstError(f"{path}: its vocabulary and tokenizer.json do not fit; fetch the model again.")
        threads = options.threads or cores
        at_once = (cores or available_cores()) // threads if threads and options.device == "cpu" else 1
        try:
            self._model = ctranslate2.models.Whisper(
                str(path),
                device=options.device,
                compute_type=options.compute_type,
                inter_threads=max(1, at_once),
                intra_threads=threads,
            )
        except (RuntimeError, ValueError, TypeError) as error:
            raise cannot_load(path, error, options.device) from error
        if at_once > 1:
            self.turn = Turns(at_once)
            # Python aborts if a thread comes back from CTranslate2 while it exits.
            weakref.finalize(self, self.turn.end)
        self._config.check(path)
        # Here, not at the first window: no utterance is charged for it.
        self._bands = MelBands(mel_filters(self._model.n_mels, FFT, SAMPLE_RATE))
        frames = WINDOW_SECONDS * SAMPLE_RATE // FRAME
        self._silence = self._encode(np.full((1, self._model.n_mels, frames), SILENCE, np.float32))

    def encode(self, samples: np.ndarray) -> Any:
        """Encode a window of audio, (n,) float32 → encoder output, a CTranslate2 StorageView (1, states, width)."""
        return self.encode_together([samples])[0]

    def encode_together(self, windows: Sequence[np.ndarray]) -> list[Any]:
        """As `encode`, for windows with equally many `frames`."""
        import ctranslate2

        frames = self.frames(windows[0].size)
        encoded = self._encode(np.stack([log_mel(samples, frames, self._bands) for samples in windows]))
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
            if reaches(most, length, map(len, result.sequences_ids)):
                beams.append(one.answer())
                continue
            found = zip(result.sequences_ids, result.scores, strict=True)
            beams.append([Hypothesis(self._plain(ids), score) for ids, score in found])
        return beams

    def begin(self, start: Tokens, previous: Tokens, prefix: Tokens, max_new: int) -> Begin:
        """What stands before `start` in a prompt. If there are too few positions, previous text is cut first."""
        room = self.room(start, prefix, max_new)
        previous = previous[-room:] if room > 0 else ()
        context = (self._previous, *previous) if previous else ()
        # One position is for the <eos> that `align` adds.
        return Begin(context, min(max_new, POSITIONS - 1 - len(context) - len(start) - len(prefix)))

    def room(self, start: Tokens, prefix: Tokens, max_new: int) -> int:
        """For how many tokens of previous text a prompt has positions; it may be negative."""
        return POSITIONS - 2 - len(start) - len(prefix) - min(max_new, POSITIONS // 2)

    def align(self, encoded: Any, start: Tokens, tokens: Tokens, frames: int) -> Aligned:
        """Where each token begins, by the decoder's attention, and how probable it is.

        start: the tokens that name languages and task. frames: how many frames of log_mel (10 ms) are audio.
        """
        if not tokens:
            return Aligned([0], 0.0)
        [found] = self._model.align(encoded, list(start[:-1]), [list(tokens)], frames)
        begins = [0] * (len(tokens) + 1)
        for token, frame in reversed(found.alignments):
            begins[token] = frame
        each = np.log(np.maximum(found.text_token_probs, LEAST_P))
        return Aligned(begins, float(each.sum()), tuple(each.tolist()))

    def languages(self, encoded: Any, seconds: float) -> dict[str, float]:
        """How probable each language is in the first `seconds` of a window; empty: it knows English alone."""
        import ctranslate2

        if not self._model.is_multilingual:
            return {}
        # Not the silence that fills the window: reading it would take as long as encoding the speech.
        states = np.array(encoded)[:, : max(round((seconds + 1) / STATE_SECONDS), self._model.n_mels + 1)]
        [found] = self._model.detect_language(ctranslate2.StorageView.from_array(states))
        return {code_of(token.strip("<|>")): p for token, p in reversed(found)}

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

    def special(self, token: str) -> int:
        """The number of a special token. Raises SimulstError: there is no such token."""
        number = self._tokenizer.token_to_id(token)
        if number is None:
            raise SimulstError(f"the model's tokenizer.json has no token {token}; it is not a multilingual Whisper.")
        return number


@dataclass(frozen=True)
class Aligned:
    """A text and the audio in the window.

    begins: the encoder frame (20 ms) at which each token begins, and the one at which the last token ends.
    log_p: the text's log probability. each: those of its tokens, among all that are text.
    """

    begins: list[int]
    log_p: float
    each: Sequence[float] = ()


class Begin(NamedTuple):
    """context: what stands before `start` in a prompt. max_new: how many tokens may be added; below 1: none."""

    context: Tokens
    max_new: int


@dataclass(frozen=True)
class _InTurn(Threaded):
    """A call that is answered in a thread if the model computes several calls at once."""

    model: Network

    @property
    def turn(self) -> Turns | None:
        return self.model.turn


@dataclass(frozen=True)
class Encode(_InTurn, Batchable):
    """A call: the encoder's output for a window of audio, (n,) float32. See `Whisper.encode`."""

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
class Generate(_InTurn, Batchable):
    """A call: CTranslate2's own search. See `Whisper.generate`."""

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
        same = alike(self.options, self.prefix, len(self.prefix) + begin.max_new)
        return self.model, tuple(self.encoded.shape), len(begin.context), len(self.start), same

    @classmethod
    def answer_together(cls, calls: Sequence[Generate]) -> list[Beam]:
        return calls[0].model.generate_together(calls)


@dataclass(frozen=True)
class Align(_InTurn):
    """A call: when the tokens of a text were spoken. See `Whisper.align`.

    It shares no batch: CTranslate2 would take the padding of shorter texts for tokens, and on a processor a batch takes
    up to twice the time of its texts one by one.
    """

    encoded: Any
    start: Tokens
    tokens: Tokens
    frames: int

    def answer(self) -> Aligned:
        return self.model.align(self.encoded, self.start, self.tokens, self.frames)


@dataclass(frozen=True)
class Tell(_InTurn):
    """A call: which language is spoken. See `Whisper.languages`."""

    encoded: Any
    seconds: float

    def answer(self) -> dict[str, float]:
        return self.model.languages(self.encoded, self.seconds)


def _joined(encoded: Sequence[Any]) -> Any:
    """The encoder outputs of several windows as one, (n, states, width)."""
    import ctranslate2

    if len(encoded) == 1:
        return encoded[0]
    return ctranslate2.StorageView.from_array(np.concatenate([np.asarray(one) for one in encoded]))
