"""Connections of clients: how many there may be, and a WebSocket whose client may be slow, silent or gone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from simulst.errors import SimulstError

logger = logging.getLogger(__name__)

STALLS = 30.0  # seconds after which a client that does not take its words is left


@dataclass(frozen=True)
class Limits:
    """clients, viewers: connections at once. idle: seconds without a message. message: bytes of one."""

    clients: int = 8
    viewers: int = 100
    idle: float = 300.0
    message: int = 1 << 20


class Full(SimulstError):
    """All places are taken."""


@dataclass
class Connections:
    """All connections of a server. speakers, viewers: taken places.

    number: gives each stream its own. stopping: is set when the server ends.
    """

    limits: Limits = field(default_factory=Limits)
    number: Callable[[], int] = field(default_factory=lambda: itertools.count().__next__)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    speakers: int = 0
    viewers: int = 0

    @contextlib.contextmanager
    def speaker(self) -> Iterator[None]:
        """The place of a client that sends audio. Raises Full."""
        if self.speakers >= self.limits.clients:
            raise Full(f"all {self.limits.clients} places are taken; try again later")
        self.speakers += 1
        try:
            yield
        finally:
            self.speakers -= 1

    @contextlib.contextmanager
    def viewer(self) -> Iterator[None]:
        """The place of one who watches. Raises Full."""
        if self.viewers >= self.limits.viewers:
            raise Full(f"all {self.limits.viewers} viewers' places are taken; try again later")
        self.viewers += 1
        try:
            yield
        finally:
            self.viewers -= 1

    @contextlib.asynccontextmanager
    async def socket(self, request: web.BaseRequest) -> AsyncIterator[Socket]:
        """The request's WebSocket. What fails within the context ends this connection alone."""
        socket = Socket(self)
        await socket.answer.prepare(request)
        try:
            yield socket
        except Full as error:
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
        self.answer = web.WebSocketResponse(compress=False, max_msg_size=self._limits.message)

    async def send(self, message: Any) -> None:
        """Send a message as JSON."""
        async with asyncio.timeout(STALLS):
            await self.answer.send_str(json.dumps(message))

    async def receive(self) -> str | bytes:
        """The next message."""
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
        """End the connection at once."""
        if request.transport is not None:
            request.transport.abort()


async def left(receiving: asyncio.Task[Any]) -> None:
    """Receive no more, before anybody else does. An error of a connection that is closed is told elsewhere."""
    receiving.cancel()
    await asyncio.wait({receiving})
    if not receiving.cancelled():
        receiving.exception()
