"""A language model behind a server with OpenAI's interface, such as vLLM."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from simulst.errors import SimulstError
from simulst.models.cascade.chat import ChatOptions
from simulst.models.cascade.translators import Opener, Past, PlainTranslation


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
        if not self.url.startswith(("http://", "https://")):
            raise SimulstError(f"{path}: 'url' must begin with http:// or https://; found '{self.url}'.")
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

    def translate(self, sentence: str, begin: str, past: Past = ()) -> tuple[str, bool]:
        server = self._server
        messages = server.messages(*self._languages, sentence, past, self.background)
        body: dict[str, Any] = {"model": server.model, "messages": messages, "temperature": 0}
        body["max_tokens"] = server.max_tokens
        if begin:
            messages.append({"role": "assistant", "content": begin})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        answer = self._asked(body)
        try:
            text = answer["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError):
            text = None
        if not isinstance(text, str):
            raise SimulstError(f"{server.url}: the answer holds no text; the server must have OpenAI's interface.")
        # A server that does not know the two fields gives the whole answer again.
        return text.strip().removeprefix(begin) if begin else text, True

    def _asked(self, body: dict[str, Any]) -> Any:
        server = self._server
        headers = {"Content-Type": "application/json"}
        if server.key:
            headers["Authorization"] = f"Bearer {os.environ.get(server.key, '')}"
        address = server.url.rstrip("/") + "/chat/completions"
        request = urllib.request.Request(address, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=server.timeout) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise SimulstError(f"{server.url}: the server answered with status {error.code}; see its log.") from error
        except TimeoutError as error:
            raise SimulstError(
                f"{server.url}: no answer within {server.timeout:g} s; give it a longer 'timeout'."
            ) from error
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise SimulstError(
                    f"{server.url}: no answer within {server.timeout:g} s; give it a longer 'timeout'."
                ) from error
            raise SimulstError(f"{server.url}: the server cannot be reached ({reason}); check that it runs.") from error
        except ValueError as error:
            raise SimulstError(
                f"{server.url}: the answer is not JSON; give the address of a server with OpenAI's interface."
            ) from error
