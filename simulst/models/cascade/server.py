"""A language model behind a server with OpenAI's interface, such as vLLM."""

from __future__ import annotations

import functools
import http.client
import json
import logging
import os
import queue
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from simulst.errors import SimulstError, first_line
from simulst.models.cascade.chat import ChatOptions
from simulst.models.cascade.translators import Opener, Past, PlainTranslation

MOST_BYTES = 1 << 20  # of an answer
THOUGHT = re.compile(r"\s*<think>.*?</think>\s*", re.DOTALL)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Server(ChatOptions):
    """Options of a server, and those of `ChatOptions`.

    url: its address, such as http://localhost:8000/v1.
    model: the name of the model there.
    timeout: the seconds that an answer may take.
    max_tokens: the most tokens of an answer.
    key: the environment variable that holds the server's key. Empty: the server needs none.

    The committed text is the beginning of the assistant's answer. The server is told to continue it
    (`continue_final_message`, as in vLLM). So prompts share their beginnings, and a server with prefix caching computes
    little again.
    """

    url: str
    model: str
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 30.0
    max_tokens: Annotated[int, Field(ge=1)] = 256
    key: str = ""

    def load(self, path: Path, cores: int) -> Opener:
        """Raises SimulstError: an address that is none, a key that is not there."""
        if not _is_address(self.url):
            raise SimulstError(
                f"{path}: 'url' must begin with http:// or https:// and name a server, such as "
                f"http://localhost:8000/v1; found '{self.url}'."
            )
        if self.key and not os.environ.get(self.key):
            raise SimulstError(f"{path}: the environment has no {self.key}, which 'key' names; export it.")
        self.check(path)
        return lambda source, target: ServerTranslation(self, source, target)


class ServerTranslation(PlainTranslation):
    """It goes on with the committed text."""

    def __init__(self, server: Server, source: str, target: str) -> None:
        super().__init__(target)
        self._server, self._languages = server, (source, target)
        self.history = server.history
        self._keeps_spaces = False  # whether the server has continued a text with a space

    def translate(self, sentence: str, begin: str, past: Past = ()) -> tuple[str, bool]:
        server = self._server
        messages = server.messages(*self._languages, sentence, past, self.background)
        body: dict[str, Any] = {"model": server.model, "messages": messages, "temperature": 0}
        body["max_tokens"] = server.max_tokens
        # For models that may think before they answer.
        body["chat_template_kwargs"] = {"enable_thinking": False}
        if begin:
            messages.append({"role": "assistant", "content": begin})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        answer = self._answer(body)
        self._keeps_spaces |= bool(begin) and answer[:1].isspace()
        return after(begin, answer, self._keeps_spaces)

    def _answer(self, body: dict[str, Any]) -> str:
        """The first line of the server's answer. Raises SimulstError: as `_asked`; an answer without text."""
        server = self._server
        answer = self._asked(body)
        try:
            choice = answer["choices"][0]
            text, cut = choice["message"]["content"], choice.get("finish_reason") == "length"
        except (KeyError, IndexError, TypeError, AttributeError):
            text, cut = None, False
        if isinstance(text, str):
            text = THOUGHT.sub("", text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        if cut and (not text or "<think>" in text):
            raise SimulstError(
                f"{server.url}: the model thought for {server.max_tokens} tokens and wrote nothing; take a model that "
                "can answer at once, or a larger 'max_tokens'."
            )
        if not isinstance(text, str):
            raise SimulstError(f"{server.url}: the answer holds no text; the server must have OpenAI's interface.")
        if cut:
            tell_of_cut_answers(server.url, server.max_tokens)
        return next((line for line in text.splitlines() if line.strip()), "")

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
        except ValueError as error:
            raise SimulstError(
                f"{server.url}: the answer is not JSON; give the address of a server with OpenAI's interface."
            ) from error


def after(begin: str, answer: str, keeps_spaces: bool) -> tuple[str, bool]:
    """What an answer adds to `begin`, and whether that is known: False comes with the whole answer.

    A server that does not know how to continue a text gives the whole answer again. Another may take the space at the
    beginning away. So a letter or a figure begins a new word, if the server has not shown that it keeps spaces.
    """
    whole = answer.strip()
    if begin and whole.startswith(begin):
        rest = whole[len(begin) :]
        return (rest, True) if not (begin[-1].isalnum() and rest[:1].isalnum()) else (whole, False)
    return (f" {answer}" if begin and answer[:1].isalnum() and not keeps_spaces else answer), True


@functools.cache
def tell_of_cut_answers(url: str, most: int) -> None:
    """Warn once per server."""
    logger.warning("%s: an answer was cut after %d tokens; give it a larger 'max_tokens'.", url, most)


def _ask(request: urllib.request.Request, timeout: float, answers: queue.SimpleQueue[bytes | Exception]) -> None:
    """Put the body of the answer, or the error, into `answers`."""
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            body = answer.read(MOST_BYTES)
            if len(body) == MOST_BYTES:
                raise OverflowError
            if answer.length:  # read() does not raise if it is told how much to read
                raise http.client.IncompleteRead(body, answer.length)
            answers.put(body)
    except Exception as error:  # raised by the thread that waits
        answers.put(error)


def _reason(error: Exception, timeout: float) -> str:
    """Why no answer came, and the remedy."""
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered with status {error.code}{_said(error)}; see its log."
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return f"no answer within {timeout:g} s; give it a longer 'timeout'."
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


def _said(error: urllib.error.HTTPError) -> str:
    """The server's own message, in brackets."""
    try:
        told = json.loads(error.read(MOST_BYTES))
        message = told.get("message") or told["error"]["message"]
    except Exception:  # it may be anything, also cut short
        return ""
    words = " ".join(str(message).split())
    return f" ({words if len(words) <= 200 else words[:200] + ' ...'})"


def _is_address(url: str) -> bool:
    """Whether a request can be sent there."""
    try:
        parts = urllib.parse.urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0  # a port that is no number raises ValueError
    except ValueError:
        return False
    return named and parts.scheme in ("http", "https") and url.isascii() and url.isprintable() and " " not in url
