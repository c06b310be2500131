"""Asking a server for JSON over HTTP: within a time, again if it is busy, and what went wrong in one sentence."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import math
import queue
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from simulst.errors import SimulstError, first_line

MOST_BYTES = 1 << 20  # of an answer
PASSING = {408, 429, 502, 503, 504, 529}  # statuses of a server that is busy, or starts
HERE = re.compile(r"(localhost|127\.[\d.]+|\[::1\])(:\d+)?", re.IGNORECASE)  # hosts that are this machine
FIRST_PAUSE = 0.5  # seconds until such a server is asked again, if it does not say when; then twice as long


def ask_server(address: str, body: Mapping[str, Any], headers: Mapping[str, str], timeout: float) -> Any:
    """What the server answers to a POST, parsed. timeout: seconds for all of it.

    Raises Refused: the server tells an error. SimulstError: no answer came in time, or none that is whole and JSON.
    """
    # The timeout of urlopen holds for each read, so a server that answers in drops would never be late.
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    request = urllib.request.Request(
        address, json.dumps(body).encode(), {"Content-Type": "application/json", **headers}
    )
    threading.Thread(target=_ask, args=(request, timeout, answers), daemon=True).start()
    try:
        answer = answers.get(timeout=timeout)
    except queue.Empty:
        answer = _late(timeout)
    if isinstance(answer, SimulstError):
        raise answer
    return answer


class Refused(SimulstError):
    """An error that the server tells: its status, its words, and the seconds after which to ask again (None: never)."""

    def __init__(self, status: int, said: str, again: float | None) -> None:
        super().__init__(f"the server answered with status {status} ({said}); see its log.")
        self.status, self.said, self.again = status, said, again


def _late(timeout: float) -> SimulstError:
    return SimulstError(f"no answer within {timeout:g} s; give it a longer 'timeout', or a lower 'at_once'.")


def _ask(request: urllib.request.Request, timeout: float, answers: queue.SimpleQueue[Any]) -> None:
    """Put the answer, or the last error, into `answers`. A server that is busy is asked again while there is time."""
    ends, pause = time.monotonic() + timeout, FIRST_PAUSE
    while True:
        try:
            answers.put(_answer_of(request, timeout))
            return
        except Refused as error:
            wait = pause if error.again is None else error.again
            if error.status not in PASSING or time.monotonic() + wait >= ends:
                answers.put(error)
                return
        except SimulstError as error:  # raised by the thread that waits
            answers.put(error)
            return
        time.sleep(wait)
        pause *= 2


def _answer_of(request: urllib.request.Request, timeout: float) -> Any:
    """Raises Refused, or SimulstError: why there is no answer, and the remedy."""
    other = "give the address of a server with OpenAI's interface."
    handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
    if HERE.fullmatch(request.host):
        handlers.append(urllib.request.ProxyHandler({}))  # no proxy reaches this machine's own servers
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=timeout) as answer:
            body = answer.read(MOST_BYTES)
            if answer.length and len(body) < MOST_BYTES:  # read() does not raise if it is told how much to read
                raise http.client.IncompleteRead(body, answer.length)
    except urllib.error.HTTPError as error:
        if 300 <= error.code < 400:
            place = error.headers.get("Location", "")[:100]
            raise SimulstError(
                f"the server redirects to '{place}', which is not followed; give the address that answers."
            ) from error
        said = error.msg
        with contextlib.suppress(Exception):  # what the server says may be anything, also cut short
            said = _said(json.loads(error.read(MOST_BYTES)))
        raise Refused(error.code, said, _seconds(error.headers.get("Retry-After") or "")) from error
    except OSError as error:
        cause = getattr(error, "reason", error)
        if isinstance(cause, TimeoutError):
            raise _late(timeout) from error
        raise SimulstError(f"the server cannot be reached ({cause}); check that it runs.") from error
    except http.client.IncompleteRead as error:
        raise SimulstError("the answer is cut short; see the server's log.") from error
    except http.client.HTTPException as error:
        raise SimulstError(f"the answer is not HTTP ({first_line(error)}); {other}") from error
    except Exception as error:  # of what is asked
        raise SimulstError(
            "the request cannot be sent; check 'url', and the characters of the server's key."
        ) from error
    if len(body) == MOST_BYTES:
        raise SimulstError(f"the answer is longer than {MOST_BYTES >> 20} MiB; {other}")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise SimulstError(f"the answer is not JSON; {other}") from error
    if isinstance(found, dict) and (told := found.get("error")) and not found.get("choices"):  # though it is a 200
        code = told.get("code") if isinstance(told, dict) else None
        said = "an error without words"
        with contextlib.suppress(Exception):
            said = _said(found)
        raise Refused(code if isinstance(code, int) else 200, said, None)
    return found


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: the server that it names would get the key of the server that was asked."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _seconds(again: str) -> float | None:
    """A Retry-After: seconds, or a date."""
    with contextlib.suppress(ValueError):
        if math.isfinite(seconds := float(again)):
            return max(0.0, seconds)
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(again).timestamp() - time.time())
    return None


def _said(answer: Any) -> str:
    """The server's own message in an error. Raises any error: there is none."""
    error = answer.get("error", answer)
    return shortened(error if isinstance(error, str) else error["message"])


def shortened(words: Any) -> str:
    words = " ".join(str(words).split())
    return words if len(words) <= 200 else f"{words[:200]} ..."


def is_address(url: str) -> bool:
    """Whether a request can be sent there."""
    try:
        parts = urllib.parse.urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0  # a port that is no number raises ValueError
    except ValueError:
        return False
    return named and parts.scheme in ("http", "https") and url.isascii() and url.isprintable() and " " not in url
