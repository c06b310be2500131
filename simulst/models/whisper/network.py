"""The network of a CTranslate2 Whisper: it encodes windows of audio, searches texts, and aligns them.

Windows and searches of several streams can share a batch, or be computed at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simulst.audio.mel import MelBands, mel_filters
from simulst.audio.units import FRAME, SAMPLE_RATE
from simulst.calls import Batched, Turns
from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.languages import code_of
from simulst.machine.threads import available_cores
from simulst.models.ctranslate2_library import alike, cannot_load, reaches
from simulst.models.whisper.features import FFT, SILENCE, frames_of, log_mel
from simulst.models.whisper.files import FILES, VOCABULARY, VOCABULARY_LINES, languages_of, read_config, read_vocabulary
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

        self.path, self.options = path, options
        for name in FILES:
            if not (path / name).is_file() and not (name == VOCABULARY and (path / VOCABULARY_LINES).is_file()):
                raise SimulstError(f"{path}: the file {name} is missing; fetch the model again.")
        self._config = read_config(path)
        vocabulary = read_vocabulary(path)
        try:
            self._tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        except Exception as error:  # the library has no class of its own for it
            raise SimulstError(f"{path}: tokenizer.json is broken ({error}); fetch the model again.") from error
        self._languages = languages_of(path, vocabulary, self._config, options.other_targets)
        self.language_pairs = self._languages.pairs
        """Spoken → written languages: English, and the spoken one."""
        self.previous, self.eos = self.special("<|startofprev|>"), self.special("<|endoftext|>")
        for token in ("<|startoftranscript|>", "<|endoftext|>"):
            if vocabulary[self.special(token) : self.special(token) + 1] != [token]:
                raise SimulstError(f"{path}: its vocabulary and tokenizer.json do not fit; fetch the model again.")
        threads = options.threads or cores
        at_once = (cores or available_cores()) // threads if threads and options.device == "cpu" else 1
        try:
            self.library = ctranslate2.models.Whisper(
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
        self.bands = MelBands(mel_filters(self.library.n_mels, FFT, SAMPLE_RATE))
        frames = WINDOW_SECONDS * SAMPLE_RATE // FRAME
        self.silence = self.encoded(np.full((1, self.library.n_mels, frames), SILENCE, np.float32))

    def encoding(self, samples: np.ndarray) -> Batched:
        """A call: the encoder's output for a window of audio. Those of equally many frames share a batch."""
        alike = self.frames(samples.size)
        return Batched(self.encode_together, samples, alike=alike, most=MOST_WINDOWS, turn=self.turn)

    def encode(self, samples: np.ndarray) -> Any:
        """One window, (n,) float32 → CTranslate2's StorageView (1, states, width)."""
        return self.encode_together([samples])[0]

    def encode_together(self, windows: Sequence[np.ndarray]) -> list[Any]:
        """The same of windows that may share a batch."""
        import ctranslate2

        frames = self.frames(windows[0].size)
        encoded = self.encoded(np.stack([log_mel(window, frames, self.bands) for window in windows]))
        begin = encoded.shape[1]
        # If there are as many states as mels, CTranslate2 takes the array for features.
        end = max(begin + round(self.options.silence_seconds / STATE_SECONDS), self.library.n_mels + 1)
        silence = self.silence[:, begin:end]
        each = [np.concatenate([states[None], silence], axis=1) for states in encoded]
        return [ctranslate2.StorageView.from_array(states) for states in each]

    def encoded(self, features: np.ndarray) -> np.ndarray:
        """(n, mels, frames) → (n, states, width)."""
        import ctranslate2

        return np.array(self.library.encode(ctranslate2.StorageView.from_array(features), to_cpu=True))

    def align(self, encoded: Any, start: Tokens, tokens: Tokens, frames: int) -> Aligned:
        """Where each token of a text begins, by the decoder's attention, and how probable it is.

        Calls share no batch: CTranslate2 would take the padding of shorter texts for tokens, and on a processor a batch
        takes up to twice the time of its texts one by one.

        encoded: see `encode`. start: the tokens that name languages and task.
        frames: how many frames of log_mel (10 ms) are audio.
        """
        if not tokens:
            return Aligned([0], 0.0)
        [found] = self.library.align(encoded, list(start[:-1]), [list(tokens)], frames)
        begins = [0] * (len(tokens) + 1)
        for token, frame in reversed(found.alignments):
            begins[token] = frame
        return Aligned(begins, float(np.log(np.maximum(found.text_token_probs, LEAST_P)).sum()))

    def tell(self, encoded: Any, seconds: float) -> dict[str, float]:
        """How probable each language is in the first seconds of a window; empty: it knows English alone."""
        import ctranslate2

        if not self.library.is_multilingual:
            return {}
        # Not the silence that fills the window: reading it would take as long as encoding the speech.
        states = np.array(encoded)[:, : max(round((seconds + 1) / STATE_SECONDS), self.library.n_mels + 1)]
        [found] = self.library.detect_language(ctranslate2.StorageView.from_array(states))
        return {code_of(token.strip("<|>")): p for token, p in reversed(found)}

    def room(self, start: Tokens, prefix: Tokens, max_new: int) -> int:
        """For how many tokens of previous text a prompt has positions; it may be negative."""
        return POSITIONS - 2 - len(start) - len(prefix) - min(max_new, POSITIONS // 2)

    def text(self, tokens: Tokens) -> str:
        """Plain text. An incomplete character at the end becomes U+FFFD."""
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True)

    def tokens(self, text: str) -> Tokens:
        """The tokens of a text, which begins with a space if it is not empty."""
        words = text.strip()
        return tuple(self._tokenizer.encode(f" {words}", add_special_tokens=False).ids) if words else ()

    def frames(self, samples: int) -> int:
        """Of log_mel, for a window of so many samples."""
        return frames_of(samples, self.options.padding_seconds, WINDOW_SECONDS)

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
    log_p: the text's log probability.
    """

    begins: list[int]
    log_p: float


@dataclass(frozen=True)
class Generate:
    """CTranslate2's beam search after the forced `prefix`, given the text `previous` to the window.

    encoded: see `Network.encode`. start: the tokens that name languages and task.
    max_new: how many tokens may be added.
    The call's answer: a beam, whose tokens include the prefix.
    """

    model: Network
    encoded: Any
    start: Tokens
    previous: Tokens
    prefix: Tokens
    options: BeamSearch
    max_new: int

    @property
    def call(self) -> Batched:
        """In CTranslate2's batches, <|startoftranscript|> and <|notimestamps|> have equal places."""
        context, new = self.begin
        same = alike(self.options, self.prefix, len(self.prefix) + new)
        key = self.model, tuple(self.encoded.shape), len(context), len(self.start), same
        return Batched(generate, self, 1.0, None if new < LEAST_NEW else key, MOST_WINDOWS, self.model.turn)

    @property
    def begin(self) -> tuple[Tokens, int]:
        """What stands before `start` in the prompt, and how many tokens may be added; below 1: none.

        If there are too few positions, previous text is cut first.
        """
        room = self.model.room(self.start, self.prefix, self.max_new)
        previous = self.previous[-room:] if room > 0 else ()
        context = (self.model.previous, *previous) if previous else ()
        # One position is for the <eos> that `align` adds.
        least = POSITIONS - 1 - len(context) - len(self.start) - len(self.prefix)
        return context, min(self.max_new, least)


def generate(calls: Sequence[Generate]) -> list[Beam]:
    """CTranslate2 has one bound of the length for all. A text that reaches its own is searched again by itself."""
    model = calls[0].model
    contexts, most_new = zip(*(call.begin for call in calls), strict=True)
    if most_new[0] < 1:  # then there is only one
        warn_of_full_context(model.path, POSITIONS)
        return [[Hypothesis(calls[0].prefix)]]
    lengths = [len(call.prefix) + new for call, new in zip(calls, most_new, strict=True)]
    options, length, before = calls[0].options, max(lengths), len(contexts[0]) + len(calls[0].start) - 1
    results = model.library.generate(
        _joined([call.encoded for call in calls]),
        [[*context, *call.start, *call.prefix] for call, context in zip(calls, contexts, strict=True)],
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
        suppress_blank=not (calls[0].prefix or contexts[0]),
    )
    beams = []
    for call, result, most in zip(calls, results, lengths, strict=True):
        if reaches(most, length, map(len, result.sequences_ids)):
            beams += generate([call])
            continue
        found = zip(result.sequences_ids, result.scores, strict=True)
        # Text never contains special tokens (<eos> and all after it in the vocabulary).
        beams.append([Hypothesis(tuple(t for t in ids if t < model.eos), score) for ids, score in found])
    return beams


def _joined(encoded: Sequence[Any]) -> Any:
    """The encoder outputs of several windows as one, (n, states, width)."""
    import ctranslate2

    if len(encoded) == 1:
        return encoded[0]
    return ctranslate2.StorageView.from_array(np.concatenate([np.asarray(one) for one in encoded]))
