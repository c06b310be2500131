"""Connections of clients: how many there may be, and a WebSocket whose client may be slow, silent or gone."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from aiohttp import WSMsgType, web

from simulst.errors import SimulstError
from simulst.serve.client import Speaker

T = TypeVar("T")
logger = logging.getLogger(__name__)
logging.getLogger("aiohttp.websocket").setLevel(logging.ERROR)  # warnings of it have the protocols, and keys in them

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Permissions-Policy": "microphone=(self), display-capture=(self), camera=(), geolocation=()",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "simulst",
}
PROTOCOLS = ("simulst", "realtime")  # of WebSockets: ours, and OpenAI's
STALLS = 30.0  # seconds after which a client that does not take its words is left


@dataclass(frozen=True)
class Limits:
    """clients, viewers: connections at once. idle: seconds without a message. message, upload: bytes of one, and of a
    file.
    """

    clients: int = 8
    viewers: int = 100
    idle: float = 300.0
    message: int = 1 << 20
    upload: int = 512 << 20


class Refusal(SimulstError):
    """What a client may not have. status: HTTP's number for it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


ENDS = 503, "the server ends; send the file again."  # of a Refusal, if it has not heard it by then


@dataclass
class Connections:
    """All connections of a server. taken: places.

    number: gives each stream its own. stopping: is set when the server ends.
    """

    limits: Limits = field(default_factory=Limits)
    number: Callable[[], int] = field(default_factory=lambda: itertools.count().__next__)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    taken: Counter[str] = field(default_factory=Counter)

    @contextlib.contextmanager
    def place(self, kind: Literal["clients", "viewers"]) -> Iterator[None]:
        """A place of a client that sends audio, or of a viewer. Raises Refusal: all are taken."""
        most = getattr(self.limits, kind)
        if self.taken[kind] >= most:
            places = "places" if kind == "clients" else "viewers' places"
            raise Refusal(429, f"all {most} {places} are taken; try again later")
        self.taken[kind] += 1
        try:
            yield
        finally:
            self.taken[kind] -= 1

    async def converse(self, socket: Socket, client: Speaker) -> None:
        """Give a client what comes, until one of both ends, and close the connection. Raises Refusal: as `place`."""
        with self.place("clients"):
            try:
                async with contextlib.aclosing(socket.messages()) as messages:
                    async for message, more in messages:
                        await client.take(message, more)
                if client.speaks:
                    await client.end()
                ends = self.stopping.is_set()
                code, reason = (1001, "the server ends") if ends else (1008, "nothing came for a while")
            except SimulstError as error:
                code, reason = 1008, str(error)
                await client.wrong(reason)
            finally:
                client.leave()
        await socket.close(code, reason)

    async def before_end(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of the work. Raises Refusal: the server ends first."""
        task, stopping = asyncio.create_task(work), asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Refusal(*ENDS)
            return task.result()
        finally:
            stopping.cancel()
            await left(task)

    @contextlib.asynccontextmanager
    async def socket(self, request: web.BaseRequest) -> AsyncIterator[Socket]:
        """The request's WebSocket. What fails within the context ends this connection alone."""
        socket = Socket(self)
        await socket.answer.prepare(request)
        try:
            yield socket
        except Refusal as error:  # all places are taken
            await socket.close(1013, str(error))
        except ConnectionError:
            pass
        except TimeoutError:
            socket.abort(request)
        except Exception:
            logger.exception("a client's connection failed; the others go on")
            await socket.close(1011, "the model failed; the server's log says how")


class Socket:
    """A WebSocket. Raises ConnectionError: the client has gone; TimeoutError: it does not take what it is sent."""

    def __init__(self, connections: Connections) -> None:
        self._limits, self._stopping = connections.limits, connections.stopping
        self.answer = web.WebSocketResponse(protocols=PROTOCOLS, compress=False, max_msg_size=self._limits.message)

    async def send(self, message: Any) -> None:
        """Send a message as JSON."""
        async with asyncio.timeout(STALLS):
            await self.answer.send_str(json.dumps(message))

    async def receive(self) -> str | bytes:
        message = await self.answer.receive()
        if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
            raise ConnectionResetError("the client has gone")
        return message.data

    async def messages(self) -> AsyncGenerator[tuple[str | bytes, bool], None]:
        """What a client sends, and whether the next message is there already.

        It ends if nothing comes for too long, or the server ends.
        """
        stopping = asyncio.create_task(self._stopping.wait())
        coming = asyncio.create_task(self.receive())
        try:
            while not self._stopping.is_set():
                await asyncio.wait({coming, stopping}, timeout=self._limits.idle, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    return
                message = coming.result()
                coming = asyncio.create_task(self.receive())
                await asyncio.sleep(0)  # it begins, and ends at once if it can
                yield message, coming.done()
        finally:
            stopping.cancel()
            await left(coming)

    async def close(self, code: int, reason: str) -> None:
        """Close it. What still comes is dropped; unread, it would stand before the client's own close."""
        async with asyncio.timeout(STALLS):
            await self.answer.close(code=code, message=reason.encode()[:120].decode(errors="ignore").encode())

    def abort(self, request: web.BaseRequest) -> None:
        if request.transport is not None:
            request.transport.abort()


async def left(task: asyncio.Task[Any]) -> None:
    """End a task, such as one that receives, before anybody else does its work. Its error is told elsewhere."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


def dressed(answer: web.StreamResponse) -> web.StreamResponse:
    """An answer with the headers of all; the connection ends with it."""
    if not answer.prepared:
        answer.headers.update({**HEADERS, **answer.headers})
        answer.force_close()
    return answer


def told(error: Exception) -> tuple[int, str]:
    """HTTP's number, and a sentence, for what is wrong with a request; the log has what nobody has foreseen."""
    if isinstance(error, SimulstError):
        return error.status if isinstance(error, Refusal) else 400, str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        logger.error("a client's file can't be kept (%s)", error.strerror)
        return 507, "the server has no room for your file; try again later."
    logger.error("a request failed; the others go on", exc_info=error)
    return 500, "the server failed; its log says how."
