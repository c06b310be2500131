"""What simulstream 1.0.0's servers do wrong, set right from outside: the only place that changes its classes.

Each entry of `_patches` has the line of the fault in simulstream's folder `server`. Once simulstream has mended it,
the entry goes, with its function.
"""

from __future__ import annotations

import functools
import itertools
import logging
import queue
import sys
import traceback
import uuid
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from types import TracebackType
from typing import Any

import librosa
import numpy as np
from simulstream.server.message_processor import MessageProcessor

from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError
from simulst.serve.sent import RATES, check_sent

logger = logging.getLogger(__name__)

BODY = 16 << 20  # bytes of a request over HTTP; two minutes of audio are 10 MB
WEBSOCKET_SERVER = "simulstream.server.websocket_server"
HTTP_SERVER = "simulstream.server.speech_processors.remote.http_speech_processor_server"
_numbers = itertools.count()  # of streams in simulstream's log
_reasons: dict[int, str] = {}
"""The number of a WebSocket client → why its connection is closed."""


def patch() -> None:
    """Patch those of simulstream's classes that this process has; once patched, they stay so."""
    # message_processor.py, line 87: librosa compiles for seconds at its first call, which is not to be a client's.
    librosa.resample(np.zeros(SAMPLE_RATE, dtype=np.float32), orig_sr=48_000, target_sr=SAMPLE_RATE)
    for place, wrapper, names in _patches():
        for name in names:
            method = getattr(place, name, None)
            if method is not None and not hasattr(method, "__wrapped__"):
                setattr(place, name, wrapper(method))
    # websocket_server.py, line 162: a traceback for each error of a client.
    logging.getLogger("simulstream.websocket_server").addFilter(_in_one_sentence)


def _patches() -> Iterator[tuple[Any, Callable[[Any], Any], tuple[str, ...]]]:
    """A class or module of simulstream, what wraps functions of it, their names. As a program, a server is __main__."""
    here = sys.modules.get("__main__")
    http = getattr(sys.modules.get(HTTP_SERVER, here), "HttpSpeechProcessorHandler", None)
    # message_processor.py, lines 58 and 84: any rate and any length of audio are taken in and resampled.
    yield MessageProcessor, _bounded, ("process_speech", "_run_speech_processor")
    # message_processor.py, line 97: audio that is kept back is taken to have the rate of what follows.
    yield MessageProcessor, _keeping_time, ("process_metadata",)
    # message_processor.py, line 67: in the log, a stream has the id of its connection's object, which comes again. The
    # end of a stream is a call of `clear`, too (line 146).
    yield MessageProcessor, _numbering, ("__init__", "clear")
    # websocket_server.py, line 161: after an error, the connection closes without a reason.
    yield sys.modules.get(WEBSOCKET_SERVER, here), _telling, ("connection_handler_factory",)
    # http_speech_processor_server.py, line 121: a body of any length; line 71: whoever guesses a session's id has it.
    yield http, _checking, ("_read_json",)
    # http_speech_processor_server.py, lines 135, 139 and 143: errors close the connection without an answer.
    yield http, _answering, ("do_GET", "do_POST", "do_PUT")
    # http_speech_processor_server.py, line 130: a client that goes away leaves a traceback.
    yield http, _outliving, ("handle",)


def _bounded(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of `MessageProcessor` that takes audio. What is wrong with the audio is seen before it is resampled."""

    @functools.wraps(method)
    def take(messages: MessageProcessor, *data: bytes) -> Any:
        try:
            check_sent(messages.client_buffer + b"".join(data), messages.sample_rate, whole=not data)
            return method(messages, *data)
        except SimulstError as error:
            _reasons[getattr(messages, "connection", messages.client_id)] = str(error)
            raise

    return take


def _keeping_time(method: Callable[[Any, dict[str, Any]], None]) -> Callable[[Any, dict[str, Any]], None]:
    """A method that changes the sample rate. What is kept back for the next chunk comes to have the new one, too."""

    @functools.wraps(method)
    def change(messages: MessageProcessor, metadata: dict[str, Any]) -> None:
        before = messages.sample_rate
        method(messages, metadata)
        whole = len(messages.client_buffer) // 2 * 2
        known = all(RATES[0] <= rate <= RATES[1] for rate in (before, messages.sample_rate))  # others are refused later
        if messages.sample_rate != before and whole and known:
            kept = np.frombuffer(messages.client_buffer[:whole], dtype="<i2").astype(np.float32)
            kept = librosa.resample(kept, orig_sr=before, target_sr=messages.sample_rate)
            kept = np.clip(np.rint(kept), -(2**15), 2**15 - 1).astype("<i2")
            messages.client_buffer = kept.tobytes() + messages.client_buffer[whole:]

    return change


def _telling(factory: Callable[[Any], Callable[[Any], Awaitable[None]]]) -> Callable[[Any], Any]:
    """A factory of handlers of WebSocket connections, which also tell why they close one."""

    @functools.wraps(factory)
    def make(pool: Any) -> Callable[[Any], Awaitable[None]]:
        handler = factory(pool)

        async def handle(connection: Any) -> None:
            await handler(connection)
            if reason := _reasons.pop(id(connection), ""):
                await connection.close(1008, reason.encode()[:120].decode(errors="ignore"))  # its frame has 123 bytes

        return handle

    return make


def _checking(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A method that reads a request's body. Whoever knows a session's id owns it, so nobody may come upon one."""

    @functools.wraps(method)
    def read(handler: Any) -> Any:
        try:
            if not 0 <= int(handler.headers.get("Content-Length", "0")) <= BODY:
                raise SimulstError(f"the request's body is too long; send at most {BODY} bytes.")
            body = method(handler)
        except (ValueError, RecursionError) as error:
            raise SimulstError(f"the request's body is not JSON ({error}).") from error
        if isinstance(body, dict) and "session_id" in body and not _is_random(body["session_id"]):
            raise SimulstError("session_id is no random UUID (version 4), so other clients may have it; make one.")
        return body

    return read


def _is_random(session: Any) -> bool:
    try:
        return uuid.UUID(session).version == 4
    except (ValueError, AttributeError, TypeError):
        return False


def _numbering(method: Callable[..., None]) -> Callable[..., None]:
    """A method of `MessageProcessor` after which another stream begins, with a number of its own in simulstream's log.

    simulstream's is that of a connection's object, which Python gives to a later one again. A stream that names no
    recording would continue that of an earlier client.
    """

    @functools.wraps(method)
    def number(messages: Any, *given: Any) -> None:
        method(messages, *given)
        if not hasattr(messages, "connection"):
            messages.connection = messages.client_id
        messages.client_id = next(_numbers)

    return number


def _outliving(method: Callable[[Any], None]) -> Callable[[Any], None]:
    """A method that may lose its client."""

    @functools.wraps(method)
    def handle(handler: Any) -> None:
        try:
            method(handler)
        except ConnectionError as error:
            logger.error("a client went away in the middle of a request (%s)", error)

    return handle


def _answering(method: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(method)
    def answer(handler: Any) -> None:
        try:
            method(handler)
        except queue.Empty:
            code, sentence = HTTPStatus.SERVICE_UNAVAILABLE, "all places are taken; try again later"
        except SimulstError as error:
            code, sentence = HTTPStatus.BAD_REQUEST, str(error)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            if error.__traceback__ and _is_in_our_code(error.__traceback__.tb_next):  # after this function
                raise
            code, sentence = HTTPStatus.BAD_REQUEST, f"this request can't be served ({error})"
        else:
            return
        logger.error("a client's request failed: %s", sentence)
        handler._send_json_response(code, {"error": sentence})

    return answer


def _in_one_sentence(record: logging.LogRecord) -> bool:
    """What a client did wrong is told in one sentence. Only faults of the code show where in the code they came up."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, SimulstError):
        record.exc_info = None
    return True


def _is_in_our_code(trace: TracebackType | None) -> bool:
    return any(str(frame.f_globals.get("__name__")).startswith("simulst.") for frame, _ in traceback.walk_tb(trace))
