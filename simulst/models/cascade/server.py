"""A language model behind a server with OpenAI's interface, such as vLLM."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue

from simulst.calls import Turns
from simulst.errors import SimulstError, warn_once
from simulst.models.cascade.ask import Refused, ask_server, is_address, shortened
from simulst.models.cascade.chat import ChatOptions
from simulst.models.cascade.translators import Opener, Past, PlainTranslation
from simulst.opening import Opening
from simulst.words import is_letter, split

MOST_CHARACTERS = 64  # of a token; more are an error of the server
LENGTHS = ("max_tokens", "max_completion_tokens")  # fields by which a request bounds its answer
BEGUN = {"continue_final_message", "add_generation_prompt"}  # fields that not all servers know
CLOSING = frozenset(",.;:!?…%)]}»”’'-")  # no space stands before them


@dataclass(frozen=True)
class Server(ChatOptions):
    """Options of a server, and those of `ChatOptions`.

    url: its address, such as http://localhost:8000/v1.
    model: the name of the model there.
    timeout: the seconds that an answer may take. Within them, a server that is busy (429, 503 and the like) is asked
        again, as its Retry-After says.
    at_once: the most requests at once, of several streams. The server's own queue counts as time of the answer.
    max_tokens: the most tokens of an answer.
    key: the environment variable that holds the server's key. Empty: the server needs none.
    extra: further fields of each request; null: the request has no such field.
    strips_spaces: whether the server takes the spaces away with which an answer begins.

    The committed text is the beginning of the assistant's answer. The server is told to continue it
    (`continue_final_message`, as in vLLM). So prompts share their beginnings, and a server with prefix caching computes
    little again. A server that translates all of it anew is understood, with a warning: what follows the beginning that
    is nearest to the committed text is taken.
    """

    url: str
    model: str
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 30.0
    at_once: Annotated[int, Field(ge=1)] = 16
    max_tokens: Annotated[int, Field(ge=1)] = 256
    key: str = ""
    extra: dict[str, JsonValue] = field(default_factory=dict)
    strips_spaces: bool = False

    def load(self, path: Path, cores: int) -> Opener:
        """Raises SimulstError: an address that is none, a key that is not there."""
        if not is_address(self.url):
            raise SimulstError(
                f"{path}: 'url' must begin with http:// or https:// and name a server, such as "
                f"http://localhost:8000/v1; found '{self.url}'."
            )
        if self.key and not os.environ.get(self.key):
            raise SimulstError(f"{path}: the environment has no {self.key}, which 'key' names; export it.")
        for name in ("messages", "stream"):
            if self.extra.get(name):
                raise SimulstError(f"{path}: 'extra' has '{name}', which is not read; leave it out.")
        for name in LENGTHS:
            most = self.extra.get(name)
            if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
                raise SimulstError(f"{path}: '{name}' in 'extra' is {most!r}; give a number of tokens, or null.")
        self.check(path)
        turn = Turns(self.at_once)
        return lambda opening: ServerTranslation(self, opening, turn)


class ServerTranslation(PlainTranslation):
    """It goes on with the committed text."""

    def __init__(self, server: Server, opening: Opening, turn: Turns) -> None:
        super().__init__(opening.target, turn)
        self._server, self._opening = server, opening
        self.history = server.history

    def translate(self, sentence: str, begin: str, past: Past = ()) -> tuple[str, bool]:
        server = self._server
        messages = server.messages(*self._opening.languages, sentence, past, self._opening.background)
        body: dict[str, Any] = {"model": server.model, "messages": messages, "temperature": 0}
        body["max_tokens"] = server.max_tokens
        if begin:
            messages.append({"role": "assistant", "content": begin})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        body |= server.extra
        answer = self._answer({name: value for name, value in body.items() if value is not None})
        text, follows = after(begin, answer, server.strips_spaces, self._unit)
        if not follows:
            warn_once(
                f"{server.url}: the server does not go on with an answer that is begun, but translates anew; what "
                "follows the committed text in it is taken. A server that knows continue_final_message, such as vLLM, "
                "does better."
            )
        return text, follows

    def _answer(self, body: dict[str, Any]) -> str:
        """What the model wrote after its thoughts. Raises SimulstError: as `_asked`; an answer without text."""
        server = self._server
        answer = self._asked(body)
        try:
            choice = answer["choices"][0]
            message, cut = choice["message"], choice.get("finish_reason") == "length"
            text, thoughts = _text(message["content"]), message.get("reasoning_content") or message.get("reasoning")
            refusal = message.get("refusal")
        except (KeyError, IndexError, TypeError, AttributeError):
            text, cut, thoughts, refusal = None, False, None, None
        most = max(int(body.get(name, 0)) for name in LENGTHS) or server.max_tokens
        thinks = isinstance(text, str) and "<think>" in text and "</think>" not in text
        if cut and (not text or thinks):
            raise SimulstError(
                f"{server.url}: the model thought for {most} tokens and wrote nothing; tell it not to think ('extra'), "
                "or give it a larger 'max_tokens'."
            )
        if not text and thoughts:
            raise SimulstError(
                f"{server.url}: the whole answer is in 'reasoning_content'; tell the model not to think ('extra'), "
                "and start the server without a reasoning parser."
            )
        if not text and refusal:
            raise SimulstError(f"{server.url}: the model refuses to translate ({shortened(refusal)}); ask another one.")
        if not isinstance(text, str):
            raise SimulstError(f"{server.url}: the answer holds no text; the server must have OpenAI's interface.")
        if len(text) > MOST_CHARACTERS * most:
            raise SimulstError(
                f"{server.url}: an answer of {len(text)} characters is far longer than 'max_tokens' allows; check the "
                "server."
            )
        if cut:
            warn_once(f"{server.url}: an answer was cut after {most} tokens; give it a larger 'max_tokens'.")
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        _, thought, rest = text.rpartition("</think>")
        return rest.lstrip("\r\n") if thought else text

    def _asked(self, body: dict[str, Any]) -> Any:
        """The server's answer. Raises SimulstError: none came in time; it is an error, not whole, or not JSON."""
        server = self._server
        headers = {"Authorization": f"Bearer {os.environ.get(server.key, '')}"} if server.key else {}
        try:
            return ask_server(server.url.rstrip("/") + "/chat/completions", body, headers, server.timeout)
        except Refused as error:
            if body.keys() & BEGUN and any(name in error.said for name in BEGUN):  # the server does not know them
                return self._asked({name: value for name, value in body.items() if name not in BEGUN})
            raise SimulstError(f"{server.url}: {error}") from error
        except SimulstError as error:
            raise SimulstError(f"{server.url}: {error}") from error


def after(begin: str, answer: str, strips_spaces: bool = False, unit: str = "word") -> tuple[str, bool]:
    """The first line of an answer, and whether it is only what follows `begin`; else it is the whole translation.

    A server that does not know how to continue a text gives the whole translation again, which may begin a little
    otherwise. One word at the beginning of a continuation may be the committed one by chance, but hardly three.
    """
    whole = answer.strip().partition("\n")[0].rstrip()
    if not begin:
        return whole, True
    strips_spaces = strips_spaces and unit == "word"
    if whole.startswith(begin) and (len(begin.split()) >= 3 or not (answer[:1].isspace() or strips_spaces)):
        rest = whole[len(begin) :]
        return (whole, False) if is_letter(begin[-1]) and any(map(is_letter, rest[:1])) else (rest, True)
    following = answer.partition("\n")[0]  # nothing, if the translation had ended
    if following[:1] and not following[0].isspace():
        if _begins_alike(begin, whole, unit):
            return whole, False
        if not strips_spaces and begin[-1].islower() and following[0].isupper():  # no word goes on so
            return whole, False
    apart = strips_spaces and following[:1] not in CLOSING
    return f" {following}" if apart else following, True


def _begins_alike(begin: str, whole: str, unit: str) -> bool:
    """Whether at least two units, and half of them, stand in both, in the same order."""
    committed, written = ([one.strip().casefold() for one in split(text, unit)] for text in (begin, whole))
    matcher = difflib.SequenceMatcher(None, committed, written[: len(committed) + 2], autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return same >= max(2, len(committed) / 2)


def _text(content: Any) -> Any:
    """A text as it is, or the parts of one, of which thoughts are none."""
    if not isinstance(content, list):
        return content
    return "".join(part["text"] for part in content if part.get("type") == "text")
