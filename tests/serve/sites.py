"""Our server in a thread of this process, with the fake model, and what tests send to it."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from fake import FakeModel
from waiting import HANGS
from websockets.asyncio import client

from simulst.config import parse_decoding
from simulst.serve.client import Service
from simulst.serve.keys import Keys
from simulst.serve.server import Limits, Site
from simulst.streams import OpenStream, open_stream

LA2 = {"read": {"type": "chunk", "ms": 1000}, "commit": {"type": "local_agreement", "n": 2}}
PAIRS = {source: ("en", "ar", "zh") for source in ("es", "fr")}
T = TypeVar("T")
connect = functools.partial(client.connect, open_timeout=HANGS, ping_interval=None)


@dataclass
class Running:
    """A server that runs."""

    site: Site
    listener: Any
    end: Callable[[], None]

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    @property
    def uri(self) -> str:
        return f"ws://127.0.0.1:{self.port}/"

    @property
    def page(self) -> str:
        return f"http://localhost:{self.port}/"

    def idle(self, seconds: float) -> None:
        """So long the server waits for a message of a client from the next message on."""
        object.__setattr__(self.site.limits, "idle", seconds)


@contextmanager
def serving(
    model: FakeModel | None = None,
    limits: Limits | None = None,
    port: int = 0,
    decoding: Mapping[str, Any] = LA2,
    recordings: Any = (),
    keys: Keys | None = None,
    **service: Any,
) -> Iterator[Running]:
    """Our server; at the end its streams end properly."""
    options = {"pairs": PAIRS, "usual": ("es", "en"), **service}
    made = Service(model or FakeModel(), parse_decoding(dict(decoding), "test"), **options)
    made.check()
    site = Site(made, "fake", limits or Limits(), list(recordings), keys=keys)
    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    found: list[asyncio.Server] = []

    async def run() -> None:
        async with site.open("127.0.0.1", port) as server:
            found.append(server)
            ready.set()
            await stop.wait()

    def work() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(run())
        finally:
            ready.set()

    def end() -> None:
        with suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(stop.set)
        thread.join()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    try:
        assert found, "the server does not listen"
        yield Running(site, next(iter(found[0].sockets)), end)
    finally:
        end()


def noise(seconds: float, rate: int = 16000) -> bytes:
    """Integers of 16 bits."""
    samples = np.random.default_rng(0).uniform(-0.3, 0.3, round(seconds * rate))
    return (samples * 32767).astype("<i2").tobytes()


def translated(audio: bytes, target: str = "en", model: FakeModel | None = None, **decoding: Any) -> OpenStream:
    """Our own stream, as `simulst translate` runs it."""
    stream = open_stream(model or FakeModel(), parse_decoding({**LA2, **decoding}, "test"), "es", target)
    stream.push(np.frombuffer(audio, "<i2").astype(np.float32) / 2**15, finished=True)
    return stream


async def answer_to(connection: Any, message: Any) -> Any:
    """Send a message of JSON; returns what comes next."""
    await connection.send(json.dumps(message))
    return json.loads(await connection.recv())


async def answers(connection: Any) -> list[dict[str, Any]]:
    """All that comes until a stream's end."""
    found: list[dict[str, Any]] = []
    while "end_of_processing" not in (found[-1] if found else {}):
        found.append(json.loads(await connection.recv()))
    return found


async def speak(
    uri: str, audio: bytes, *messages: Mapping[str, Any], piece: int = 3200
) -> tuple[str, list[dict[str, Any]]]:
    """Send messages, audio in pieces, and the end. Returns the text, and all answers."""
    async with connect(uri) as connection:
        for message in messages:
            await connection.send(json.dumps(message))

        async def send() -> None:
            for start in range(0, len(audio), piece):
                await connection.send(audio[start : start + piece])
            await connection.send(json.dumps({"end_of_stream": True}))

        sending = asyncio.create_task(send())
        try:
            found = await answers(connection)
        finally:
            sending.cancel()
            await asyncio.wait({sending})
    return "".join(answer.get("new", "") for answer in found), found


def run(work: Callable[[], Awaitable[T]]) -> T:
    """What a coroutine returns, within a minute or two."""

    async def limited() -> T:
        async with asyncio.timeout(120):
            return await work()

    return asyncio.run(limited())
