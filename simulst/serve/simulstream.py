"""Our loop as a speech processor of simulstream, the interface of IWSLT's simultaneous track since 2026.

    type: simulst.serve.simulstream.StreamProcessor
    model: egs/prompts/models/whisper-base
    decoding: conf/decode/la2_1000ms.yaml
    source_lang: es
    target_lang: en
    detokenizer_type: simuleval
    latency_unit: char

simulstream's server, HTTP server and inference command take this file as `--speech-processor-config`, its scorers as
`--eval-config` (docs/simulstream.md).
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from simulstream.server.speech_processors import SpeechProcessor
from simulstream.server.speech_processors.incremental_output import IncrementalOutput

from simulst.config import Decoding, load_decoding, parse_decoding
from simulst.context import NOTHING, Background, known_of_all
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.models.base import Model
from simulst.options import build_options
from simulst.streams import AnyStream, open_stream, skipped_steps

logger = logging.getLogger(__name__)

WHERE = "the speech processor's configuration"


@dataclass(frozen=True)
class ProcessorOptions:
    """The configuration of a speech processor.

    type: our class, as simulstream finds it. model, model_options: as `simulst evaluate` takes them.
    decoding: the file of a decoding configuration, or the configuration itself.
    context: a table (TSV) whose line `*` says what is known of all recordings; empty: nothing is. simulstream does not
        tell processors a recording's name.
    source_lang, target_lang: of clients that name none. unit: what is written at once; empty: by the target language.
    speech_chunk_size: seconds of audio that simulstream collects before it hands them on and logs them. Decoding
        happens where READ says in any case; delays are rounded up to whole chunks.
    detokenizer_type, latency_unit: tell simulstream's scorers that the log's tokens, joined, are the text. (The unit in
        which they count is an option of their commands.)
    """

    type: str
    model: str
    decoding: str | dict[str, Any]
    source_lang: str
    target_lang: str
    model_options: dict[str, Any] = field(default_factory=dict)
    context: str = ""
    unit: Literal["", "word", "char"] = ""
    speech_chunk_size: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    detokenizer_type: Literal["simuleval"] = "simuleval"
    latency_unit: Literal["char"] = "char"

    @property
    def model_key(self) -> Hashable:
        """Processors that agree in it share a loaded model."""
        return self.model, tuple(sorted(self.model_options.items()))


@dataclass(frozen=True)
class _Loaded:
    """A model, and the lock of the processors that share it: simulstream runs each client in a thread of its own."""

    model: Model
    lock: threading.Lock = field(default_factory=threading.Lock)


class StreamProcessor(SpeechProcessor):
    """One stream after the other, of one client at a time. All processors of a process share the loaded model.

    Languages belong to a stream: they are named before its audio, and `clear` returns to the configuration's.
    """

    _loaded: ClassVar[dict[Hashable, _Loaded]] = {}

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__(config)
        self._options = read_options(config)
        self._decoding = _decoding(self._options)
        self._background = _background(self._options)
        self._shared = self._loaded[self._options.model_key]
        self._stream: AnyStream | None = None
        self.clear()

    @property
    def speech_chunk_size(self) -> float:
        """Seconds of audio that simulstream collects for `process_chunk`."""
        return self._options.speech_chunk_size

    @classmethod
    def load_model(cls, config: SimpleNamespace) -> None:
        """Load the model, unless it is loaded already. What is wrong ends simulstream's command in one sentence."""
        try:
            options = read_options(config)
            decoding = _decoding(options)
            known = _background(options)
            if options.model_key not in cls._loaded:
                cls._loaded[options.model_key] = _Loaded(load_model(options.model, **options.model_options))
            model, languages = cls._loaded[options.model_key].model, (options.source_lang, options.target_lang)
            open_stream(model, decoding, *languages, background=known)
        except SimulstError as error:
            raise SystemExit(f"error: {error}") from None

    def process_chunk(self, waveform: np.ndarray) -> IncrementalOutput:
        """Take in audio, shape (n,), float32, 16 kHz; give the words that became final.

        Raises SimulstError: audio that is no audio, a language pair that the model does not have.
        """
        return self._push(waveform)

    def end_of_stream(self) -> IncrementalOutput:
        """Give the rest of the text; audio after that begins another stream."""
        if self._stream is None:  # nothing was heard
            return self._output([])
        return self._push(np.zeros(0, dtype=np.float32), finished=True)

    def set_source_language(self, language: str) -> None:
        """Raises SimulstError: in the middle of a stream."""
        self._set_languages(language, self._target)

    def set_target_language(self, language: str) -> None:
        """Raises SimulstError: in the middle of a stream."""
        self._set_languages(self._source, language)

    def tokens_to_string(self, tokens: list[str]) -> str:
        """Tokens carry their own spaces."""
        return "".join(tokens)

    def clear(self) -> None:
        """Forget the stream and its languages."""
        stream, self._stream = self._stream, None
        if stream is not None:
            _tell_skipped(stream)
        self._source, self._target = self._options.source_lang, self._options.target_lang

    def _set_languages(self, source: str, target: str) -> None:
        if self._stream is not None and (source, target) != (self._source, self._target):
            raise SimulstError(
                f"the stream is {self._source}-{self._target} and can't become {source}-{target} on the way; "
                "end it first, and name the languages before the next one's audio."
            )
        self._source, self._target = source, target

    def _push(self, samples: np.ndarray, finished: bool = False) -> IncrementalOutput:
        # The HTTP server may `clear` a session while it works here; its stream is then kept in this variable alone.
        asked = time.perf_counter()
        with self._shared.lock:
            waited = time.perf_counter() - asked
            stream = self._stream
            if stream is None:
                model, languages = self._shared.model, (self._source, self._target)
                stream = open_stream(model, self._decoding, *languages, self._options.unit, background=self._background)
                self._stream = stream
            if finished:
                self._stream = None
            words = stream.push(samples, finished)
            stream.wait(waited)  # only now: a step that has waited for its turn is not left out for that
            if finished:
                _tell_skipped(stream)
            return self._output([word.text for word in words])

    def _output(self, tokens: list[str]) -> IncrementalOutput:
        return IncrementalOutput(tokens, self.tokens_to_string(tokens), [], "")


def read_options(config: SimpleNamespace) -> ProcessorOptions:
    """Raises SimulstError: an option that is unknown, missing or wrong."""
    return build_options(ProcessorOptions, _plain(config), WHERE, "it")


def _decoding(options: ProcessorOptions) -> Decoding:
    if isinstance(options.decoding, str):
        return load_decoding(options.decoding)
    return parse_decoding(options.decoding, f"{WHERE}, 'decoding'")


def _background(options: ProcessorOptions) -> Background:
    return known_of_all(options.context) if options.context else NOTHING


def _tell_skipped(stream: AnyStream) -> None:
    if slow := skipped_steps(stream):
        logger.warning("the stream of a client: %s", slow)


def _plain(value: Any) -> Any:
    """simulstream makes namespaces of YAML's mappings."""
    if isinstance(value, SimpleNamespace):
        return {name: _plain(part) for name, part in vars(value).items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _in_one_sentence(record: logging.LogRecord) -> bool:
    """What a client did wrong is told in one sentence. Only faults of the code show where in the code they came up."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, SimulstError):
        record.exc_info = None
    elif isinstance(error, ValueError | ArithmeticError) and not _is_in_our_code(error):
        # simulstream could not make samples of a message: half a sample, a sample rate of 0.
        record.msg, record.args = f"a client sent what is no audio ({error}); its connection is closed.", ()
        record.exc_info = None
    return True


def _is_in_our_code(error: BaseException) -> bool:
    frames = traceback.walk_tb(error.__traceback__)
    return any(str(frame.f_globals.get("__name__")).startswith("simulst.") for frame, _ in frames)


logging.getLogger("simulstream.websocket_server").addFilter(_in_one_sentence)
