"""A language model behind a server with OpenAI's interface, such as vLLM."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import logging
import os
import queue
import threading
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from simulst.calls import Turns
from simulst.errors import SimulstError, first_line
from simulst.models.cascade.chat import ChatOptions
from simulst.models.cascade.translators import Opener, Past, PlainTranslation
from simulst.words import is_letter

MOST_BYTES = 1 << 20  # of an answer
MOST_CHARACTERS = 64  # of a token; more are an error of the server
CLOSING = frozenset(",.;:!?…%)]}»”’'-")  # no space stands before them

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Server(ChatOptions):
    """Options of a server, and those of `ChatOptions`.

    url: its address, such as http://localhost:8000/v1.
    model: the name of the model there.
    timeout: the seconds that an answer may take.
    at_once: the most requests at once, of several streams. The server's own queue counts as time of the answer.
    max_tokens: the most tokens of an answer.
    key: the environment variable that holds the server's key. Empty: the server needs none.
    extra: further fields of each request.
    strips_spaces: whether the server takes the spaces away with which an answer begins.

    The committed text is the beginning of the assistant's answer. The server is told to continue it
    (`continue_final_message`, as in vLLM). So prompts share their beginnings, and a server with prefix caching computes
    little again.
    """

    url: str
    model: str
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 30.0
    at_once: Annotated[int, Field(ge=1)] = 16
    max_tokens: Annotated[int, Field(ge=1)] = 256
    key: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    strips_spaces: bool = False

    def load(self, path: Path, cores: int) -> Opener:
        """Raises SimulstError: an address that is none, a key that is not there."""
        if not _is_address(self.url):
            raise SimulstError(
                f"{path}: 'url' must begin with http:// or https:// and name a server, such as "
                f"http://localhost:8000/v1; found '{self.url}'."
            )
        if self.key and not os.environ.get(self.key):
            raise SimulstError(f"{path}: the environment has no {self.key}, which 'key' names; export it.")
        try:
            json.dumps(self.extra)
        except (TypeError, ValueError) as error:
            raise SimulstError(f"{path}: 'extra' cannot be sent as JSON ({first_line(error)}); change it.") from error
        self.check(path)
        turn = Turns(self.at_once)
        return lambda source, target: ServerTranslation(self, source, target, turn)


class ServerTranslation(PlainTranslation):
    """It goes on with the committed text."""

    def __init__(self, server: Server, source: str, target: str, turn: Turns) -> None:
        super().__init__(target, turn)
        self._server, self._languages = server, (source, target)
        self.history = server.history

    def translate(self, sentence: str, begin: str, past: Past = ()) -> tuple[str, bool]:
        server = self._server
        messages = server.messages(*self._languages, sentence, past, self.background)
        body: dict[str, Any] = {"model": server.model, "messages": messages, "temperature": 0}
        body |= {"max_tokens": server.max_tokens, **server.extra}
        if begin:
            messages.append({"role": "assistant", "content": begin})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        return after(begin, self._answer(body), server.strips_spaces and self._unit == "word")

    def _answer(self, body: dict[str, Any]) -> str:
        """What the model wrote after its thoughts. Raises SimulstError: as `_asked`; an answer without text."""
        server = self._server
        answer = self._asked(body)
        try:
            choice = answer["choices"][0]
            text, cut = choice["message"]["content"], choice.get("finish_reason") == "length"
        except (KeyError, IndexError, TypeError, AttributeError):
            text, cut = None, False
        thinks = isinstance(text, str) and "<think>" in text and "</think>" not in text
        if cut and (not text or thinks):
            raise SimulstError(
                f"{server.url}: the model thought for {server.max_tokens} tokens and wrote nothing; tell it not to "
                "think ('extra'), or give it a larger 'max_tokens'."
            )
        if not isinstance(text, str):
            raise SimulstError(f"{server.url}: the answer holds no text; the server must have OpenAI's interface.")
        if len(text) > MOST_CHARACTERS * int(body["max_tokens"]):
            raise SimulstError(
                f"{server.url}: an answer of {len(text)} characters is far longer than 'max_tokens' allows; check the "
                "server."
            )
        if cut:
            warn_of_cut_answers(server.url, server.max_tokens)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        _, thought, rest = text.rpartition("</think>")
        return rest.lstrip("\r\n") if thought else text

    def _asked(self, body: dict[str, Any]) -> Any:
        """The server's answer. Raises SimulstError: none came in time; it is an error, not whole, or not JSON."""
        server = self._server
        headers = {"Content-Type": "application/json"}
        if server.key:
            headers["Authorization"] = f"Bearer {os.environ.get(server.key, '')}"
        address = server.url.rstrip("/") + "/chat/completions"
        request = urllib.request.Request(address, json.dumps(body).encode(), headers)
        # The timeout of urlopen holds for each read, so a server that answers in drops would never be late.
        answers: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        threading.Thread(target=_ask, args=(request, server.timeout, answers), daemon=True).start()
        try:
            answer = answers.get(timeout=server.timeout)
        except queue.Empty:
            answer = TimeoutError()
        if isinstance(answer, Exception):
            raise SimulstError(f"{server.url}: {_reason(answer, server.timeout)}") from answer
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise SimulstError(
                f"{server.url}: the answer is not JSON; give the address of a server with OpenAI's interface."
            ) from error


def after(begin: str, answer: str, strips_spaces: bool = False) -> tuple[str, bool]:
    """The first line of an answer, and whether it is only what follows `begin`; else it is the whole translation.

    A server that does not know how to continue a text gives the whole translation again. One word at the beginning of a
    continuation may be the committed one by chance, but hardly three.
    """
    whole = answer.strip().partition("\n")[0].rstrip()
    if not begin:
        return whole, True
    if whole.startswith(begin) and (len(begin.split()) >= 3 or not (answer[:1].isspace() or strips_spaces)):
        rest = whole[len(begin) :]
        return (whole, False) if is_letter(begin[-1]) and any(map(is_letter, rest[:1])) else (rest, True)
    following = answer.partition("\n")[0]  # nothing, if the translation had ended
    apart = strips_spaces and following[:1] not in CLOSING
    return f" {following}" if apart else following, True


@functools.cache
def warn_of_cut_answers(url: str, most: int) -> None:
    """Warn once per server."""
    logger.warning("%s: an answer was cut after %d tokens; give it a larger 'max_tokens'.", url, most)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: the server that it names would get the key of the server that was asked."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def _ask(request: urllib.request.Request, timeout: float, answers: queue.SimpleQueue[bytes | Exception]) -> None:
    """Put the body of the answer, or the error, into `answers`."""
    try:
        with _OPENER.open(request, timeout=timeout) as answer:
            body = answer.read(MOST_BYTES)
            if len(body) == MOST_BYTES:
                raise OverflowError
            if answer.length:  # read() does not raise if it is told how much to read
                raise http.client.IncompleteRead(body, answer.length)
            answers.put(body)
    except urllib.error.HTTPError as error:
        with contextlib.suppress(Exception):  # what the server says may be anything, also cut short
            error.msg = _said(error.read(MOST_BYTES))
        answers.put(error)
    except Exception as error:  # raised by the thread that waits
        answers.put(error)


def _reason(error: Exception, timeout: float) -> str:
    """Why no answer came, and the remedy."""
    if isinstance(error, urllib.error.HTTPError) and 300 <= error.code < 400:
        place = error.headers.get("Location", "") if error.headers else ""
        return f"the server redirects to '{place[:100]}', which is not followed; give the address that answers."
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered with status {error.code} ({error.msg}); see its log."
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return f"no answer within {timeout:g} s; give it a longer 'timeout', or a lower 'at_once'."
    if isinstance(error, OSError):
        return f"the server cannot be reached ({cause}); check that it runs."
    if isinstance(error, http.client.IncompleteRead):
        return "the answer is cut short; see the server's log."
    if isinstance(error, http.client.HTTPException):
        return f"the answer is not HTTP ({first_line(error)}); give the address of a server with OpenAI's interface."
    if isinstance(error, OverflowError):
        return (
            f"the answer is longer than {MOST_BYTES >> 20} MiB; give the address of a server with OpenAI's interface."
        )
    return "the request cannot be sent; check 'url', and the characters of the server's key."


def _said(body: bytes) -> str:
    """The server's own message in the body of an error. Raises what reading JSON does: there is none."""
    answer = json.loads(body)
    error = answer.get("error", answer)
    words = " ".join(str(error if isinstance(error, str) else error["message"]).split())
    return words if len(words) <= 200 else f"{words[:200]} ..."


def _is_address(url: str) -> bool:
    """Whether a request can be sent there."""
    try:
        parts = urllib.parse.urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0  # a port that is no number raises ValueError
    except ValueError:
        return False
    return named and parts.scheme in ("http", "https") and url.isascii() and url.isprintable() and " " not in url
