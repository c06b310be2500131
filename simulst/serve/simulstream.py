"""Our loop as a speech processor of simulstream, the interface of IWSLT's simultaneous track since 2026.

    type: simulst.serve.simulstream.StreamProcessor
    model: models/whisper-base
    decoding: conf/decode/live.yaml
    source_lang: es
    target_lang: en
    detokenizer_type: simuleval
    latency_unit: char

simulstream's server, HTTP server and inference command take this file as `--speech-processor-config`, its scorers as
`--eval-config` (docs/simulstream.md).
"""

from __future__ import annotations

import functools
import itertools
import json
import logging
import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from simulstream.server.speech_processors import SpeechProcessor
from simulstream.server.speech_processors.incremental_output import IncrementalOutput

from simulst.audio.read import digest_of_beginning
from simulst.audio.units import SAMPLE_RATE
from simulst.background import ALL, NOTHING, Background, Known, known_of_all, read_known
from simulst.config import Decoding, load_decoding, parse_decoding
from simulst.errors import SimulstError, one_sentence
from simulst.models.registry import check_languages, load_model
from simulst.options import build_options
from simulst.serve.sent import LONGEST
from simulst.serve.simulstream_patches import patch
from simulst.session import Model
from simulst.stream import check_samples
from simulst.streams import OpenStream, open_stream, skipped_steps
from simulst.streams.driver import DriverThread

logger = logging.getLogger(__name__)

WHERE = "the speech processor's configuration"
CLOSED = (
    "the session was closed while its audio waited or was worked on; send it again, and give the server a longer ttl."
)


@dataclass(frozen=True)
class ProcessorOptions:
    """The configuration of a speech processor.

    type: our class, as simulstream finds it. model, model_options: as `simulst evaluate` takes them.
    decoding: the file of a decoding configuration, or the configuration itself.
    context: a table (TSV) of what is known of the recordings; empty: nothing is.
    context_by: simulstream does not tell processors a recording's name. So all streams get the line `*`; or the n-th
        stream since the program began gets the n-th line (order); or a stream gets the line with the digest of how it
        begins (audio), and what is silent to the last bit there waits until it is known. A stream that has no line of
        its own gets `*`, or nothing, with a warning.
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
    context_by: Literal["all", "order", "audio"] = "all"
    unit: Literal["", "word", "char"] = ""
    speech_chunk_size: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    detokenizer_type: Literal["simuleval"] = "simuleval"
    latency_unit: Literal["char"] = "char"

    @property
    def model_key(self) -> Hashable:
        """Processors that agree in it share a loaded model."""
        return self.model, json.dumps(self.model_options, sort_keys=True, default=str)


class StreamProcessor(SpeechProcessor):
    """One stream after the other, of one client at a time. All processors of a process share the loaded model.

    simulstream runs each client in a thread of its own. The streams of all clients, whatever their models, are in one
    driver, which serves them together.

    Languages belong to a stream: they are named before its audio, and `clear` returns to the configuration's.
    """

    _loaded: ClassVar[dict[Hashable, Model]] = {}
    _begun: ClassVar[Iterator[int]] = itertools.count()  # streams

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__(config)
        self._options = read_options(config)
        self._decoding = _decoding(self._options)
        self._known = _known(self._options)
        self._unknown = np.zeros(0, dtype=np.float32)  # the beginning of a stream whose context is not known yet
        self._model = self._loaded[self._options.model_key]
        self._stream: OpenStream | None = None
        self._owner = threading.Lock()  # of the stream and its languages
        self._session = 0  # counts what `clear` has ended
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
            known = _known(options)
            languages = options.source_lang, options.target_lang
            check_languages(options.model, options.model_options, *languages)
            if options.model_key not in cls._loaded:
                cls._loaded[options.model_key] = load_model(options.model, **options.model_options)
            model = cls._loaded[options.model_key]
            open_stream(model, decoding, *languages, background=known.by_name.get(ALL, NOTHING))
            patch()
            _driver()  # now, as clients are threads
            one_sentence()
        except SimulstError as error:
            raise SystemExit(f"error: {error}") from None

    def process_chunk(self, waveform: np.ndarray) -> IncrementalOutput:
        """Take in audio, shape (n,), float32, 16 kHz; give the words that became final.

        Raises SimulstError: audio that is no audio, or very long; a language pair that the model does not have; an
            error has ended the stream, and all its words were given; over HTTP: the session was closed while its audio
            waited.
        """
        samples = check_samples(waveform)
        if samples.size > LONGEST * SAMPLE_RATE:
            raise SimulstError(
                f"a chunk of {samples.size / SAMPLE_RATE:.0f} s came; give at most {LONGEST} s at once, and "
                "sample_rate in Hz."
            )
        return self._push(samples)

    def end_of_stream(self) -> IncrementalOutput:
        """Give the rest of the text; audio after that begins another stream.

        Raises SimulstError: an error has ended the stream; it lasts until `clear`.
        """
        if self._stream is None and not self._unknown.size:  # nothing was heard
            return self._output([])
        return self._push(np.zeros(0, dtype=np.float32), finished=True)

    def set_source_language(self, language: str) -> None:
        """Raises SimulstError: in the middle of a stream."""
        self._set_languages(language, self._target)

    def set_target_language(self, language: str) -> None:
        """Raises SimulstError: in the middle of a stream."""
        self._set_languages(self._source, language)

    def tokens_to_string(self, tokens: list[str]) -> str:
        """Tokens carry their own spaces. Raises SimulstError: no list of strings."""
        if not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
            raise SimulstError("the tokens are no list of strings; give those that the server sent.")
        return "".join(tokens)

    def clear(self) -> None:
        """Forget the stream and its languages."""
        with self._owner:
            self._session += 1
            stream, self._stream = self._stream, None
            self._unknown = self._unknown[:0]
            self._source, self._target = self._options.source_lang, self._options.target_lang
        if stream is not None:
            _driver().cancel(stream)  # a thread may wait for it
            _warn_of_skipped(stream)

    def _set_languages(self, source: str, target: str) -> None:
        for language in (source, target):
            if not isinstance(language, str):
                raise SimulstError(f"{language!r} is no language; give a code such as de.")
        if self._stream is not None and (source, target) != (self._source, self._target):
            raise SimulstError(
                f"the stream is {self._source}-{self._target} and can't become {source}-{target} on the way; "
                "end it first, and name the languages before the next one's audio."
            )
        self._source, self._target = source, target

    def _push(self, samples: np.ndarray, finished: bool = False) -> IncrementalOutput:
        # The HTTP server may `clear` a session while it waits or works here, and give this processor to another one.
        with self._owner:
            session, stream = self._session, self._stream
            if self._stream is None and self._options.context_by == "audio":
                samples = self._unknown = np.concatenate([self._unknown, samples])
                if not finished and not digest_of_beginning(samples):
                    return self._output([])
        driver = _driver()
        if stream is None:
            stream = driver.call(lambda: self._stream_of(session, samples))
        written = len(stream.emissions)
        try:
            tokens = [word.text for word in driver.push(stream, samples, finished)]
        except SimulstError as error:
            if self._session != session:
                raise SimulstError(CLOSED) from error
            return self._last_words([word.text for word in stream.emissions[written:]], error, finished)
        if finished:
            _warn_of_skipped(stream)
        with self._owner:
            if self._session == session:
                self._stream = None if finished else stream
                self._unknown = self._unknown[:0]
            elif not finished:
                logger.warning("a session was closed while it was served; its next audio begins anew. Raise the ttl.")
        return self._output(tokens)

    def _last_words(self, tokens: list[str], error: SimulstError, finished: bool) -> IncrementalOutput:
        """What a stream that an error has ended has written since the last answer. The next request gets the error.

        Raises SimulstError: there is nothing to give, or no next request, so the error has the words.
        """
        if not tokens:
            raise error
        if finished:
            raise SimulstError(f"{error} Words that were final before: {''.join(tokens)!r}.") from error
        logger.error("a client's stream has ended: %s", error)
        return self._output(tokens)

    def _stream_of(self, session: int, samples: np.ndarray) -> OpenStream:
        """The stream of a session. samples: how it begins, if it is not open yet."""
        with self._owner:
            if self._session != session:
                raise SimulstError(CLOSED)
            if self._stream is None:
                languages, known = (self._source, self._target), self._background(samples)
                self._stream = open_stream(
                    self._model, self._decoding, *languages, self._options.unit, background=known
                )
            return self._stream

    def _background(self, samples: np.ndarray) -> Background:
        """What is known of a stream that begins. samples: its first ones."""
        for_all = self._known.by_name.get(ALL, NOTHING)
        own: Background | None = for_all
        if self._options.context_by == "order":
            number = next(self._begun)
            own = dict(enumerate(self._known.in_order)).get(number)
        elif self._options.context_by == "audio":
            own = self._known.by_audio.get(digest_of_beginning(samples))
        if own is None:
            logger.warning("%s: has no line for a stream, by its %s.", self._options.context, self._options.context_by)
        return for_all if own is None else own

    def _output(self, tokens: list[str]) -> IncrementalOutput:
        return IncrementalOutput(tokens, self.tokens_to_string(tokens), [], "")


@functools.cache
def _driver() -> DriverThread:
    """Of this process."""
    return DriverThread()


def read_options(config: SimpleNamespace) -> ProcessorOptions:
    """Raises SimulstError: an option that is unknown, missing or wrong."""
    return build_options(ProcessorOptions, _plain(config), WHERE, "it")


def _decoding(options: ProcessorOptions) -> Decoding:
    if isinstance(options.decoding, str):
        return load_decoding(options.decoding)
    return parse_decoding(options.decoding, f"{WHERE}, 'decoding'")


def _known(options: ProcessorOptions) -> Known:
    """The table of context. Raises SimulstError: a broken one, or none of the lines that are asked for."""
    if not options.context:
        if options.context_by != "all":
            raise SimulstError(f"{WHERE}: 'context_by' says how to use 'context', a table; give that, too.")
        return Known({}, {})
    known = read_known(options.context)
    if options.context_by == "all":
        known_of_all(options.context)
    elif not (known.in_order if options.context_by == "order" else known.by_audio):
        what = "lines of recordings" if options.context_by == "order" else "column audio"
        raise SimulstError(f"{options.context}: has no {what}; write it by egs/iwslt/local/prepare_iwslt.py.")
    return known


def _warn_of_skipped(stream: OpenStream) -> None:
    if slow := skipped_steps(stream):
        logger.warning("the stream of a client: %s", slow)


def _plain(value: Any) -> Any:
    """simulstream makes namespaces of YAML's mappings."""
    if isinstance(value, SimpleNamespace):
        return {name: _plain(part) for name, part in vars(value).items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value
