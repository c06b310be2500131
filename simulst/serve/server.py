"""`simulst serve`: a page, and simulstream's protocol, on one port.

Pages of this server may connect (Host and Origin are checked), and programs, which send no Origin. What is and is not
defended stands in docs/serve.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.resources
import ipaddress
import itertools
import json
import logging
import os
import re
import signal
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from simulst.audio.name import recording_name, recordings_in
from simulst.audio.read import as_int16, load_audio, seconds_of
from simulst.errors import SimulstError
from simulst.serve.channel import Mark
from simulst.serve.client import ALIVE, Service, Speaker, answer_of_viewer

logger = logging.getLogger(__name__)

PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/text.js": ("text.js", "text/javascript"),
    "/audio.js": ("audio.js", "text/javascript"),
    "/capture.js": ("capture.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
PART = 30  # seconds of a recording in one answer
STALLS = 30.0  # seconds after which a client that does not take its words is left
REFUSALS = 100  # of which the log tells
ENDING = 30.0  # seconds in which all streams have to end when the server does
HANGS = 5.0  # seconds more in which the model has to end its last computation
HOST = re.compile(r"(?P<name>[\w.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])(:\d{1,5})?", re.ASCII)
VIEW = re.compile(r"/view/([0-9a-f]{32})")


@dataclass(frozen=True)
class Limits:
    """clients, viewers: connections at once. idle: seconds without a message. message: bytes of one."""

    clients: int = 8
    viewers: int = 100
    idle: float = 300.0
    message: int = 1 << 20


@dataclass
class Site:
    """A server. recordings: files that the page offers. hosts: further names by which it is reached."""

    service: Service
    title: str
    limits: Limits = field(default_factory=Limits)
    recordings: list[tuple[Path, float]] = field(default_factory=list)
    hosts: tuple[str, ...] = ()
    _speakers: int = 0
    _viewers: int = 0
    _numbers: Callable[[], int] = field(default_factory=lambda: itertools.count().__next__)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _refused: set[tuple[str, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        folder = importlib.resources.files("simulst.serve") / "page"
        self._files = {place: ((folder / name).read_bytes(), kind) for place, (name, kind) in PAGE.items()}
        about = {
            "model": self.title,
            "languages": self.service.pairs,
            "usual": self.service.usual,
            "settings": self.service.settings,
            "recordings": [{"name": recording_name(path), "seconds": seconds} for path, seconds in self.recordings],
            "part": PART,
        }
        self._files["/about.json"] = (json.dumps(about, ensure_ascii=False).encode(), "application/json")

    @contextlib.asynccontextmanager
    async def open(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
        """Serve inside the context. At its end, streams end as by `end_of_stream`: clients get the last words."""
        quiet = logging.getLogger(f"{__name__}.websockets")
        quiet.setLevel(logging.CRITICAL)  # whoever sends what is no HTTP is nobody's business
        options: dict[str, Any] = {
            "process_request": self._request,
            "create_connection": functools.partial(_Counted, 2 * (self.limits.clients + self.limits.viewers) + 64),
            "compression": None,
            "max_size": self.limits.message,
            "max_queue": 16,
            "ping_timeout": None,  # a client that sends faster than it is served answers no ping
            "logger": quiet,
            "server_header": None,
            "ssl": tls,
        }
        try:
            server = await serve(self._client, host, port, **options)
        except OSError as error:
            raise _unusable(host, port, error) from error
        try:
            yield server
        finally:
            server.close(close_connections=False)
            self._stopping.set()
            handlers = {task for task in server.handler_tasks if task is not asyncio.current_task()}
            if handlers:
                await asyncio.wait(handlers, timeout=ENDING)
            for task in handlers:
                task.cancel()
            self.service.driver.close(HANGS)

    # ---- HTTP ----

    async def _request(self, connection: ServerConnection, request: Request) -> Response | None:
        host, path = request.headers.get_all("Host"), request.path.partition("?")[0]
        if len(host) != 1 or not self._is_ours(host[0]):
            sentence = "this server is not known by that name; give the name by --allow-host.\n"
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "Host", host, sentence)
        if any("websocket" in offer.lower() for offer in request.headers.get_all("Upgrade")):
            scheme = "https" if connection.transport.get_extra_info("sslcontext") else "http"
            seen = (request.headers.get_all("X-Forwarded-Proto") or [scheme])[0]  # by a proxy; browsers send none
            here = f"{seen.partition(',')[0].strip().lower()}://{host[0]}"
            origins = request.headers.get_all("Origin")
            if any(not _same_place(origin, here) for origin in origins):
                sentence = f"pages of other servers may not connect; this is {here[:200]}.\n"
                return self._refuse(HTTPStatus.FORBIDDEN, "Origin", origins, sentence)
            return None if path == "/" or VIEW.fullmatch(path) else _answer(HTTPStatus.NOT_FOUND, b"nothing here.\n")
        if request.method not in ("GET", "HEAD"):
            return _answer(HTTPStatus.METHOD_NOT_ALLOWED, b"ask by GET.\n")
        found = re.fullmatch(r"/recordings/(\d{1,6})/(\d{1,6})", path)
        if path in self._files:
            body, kind = self._files[path]
            answer = _answer(HTTPStatus.OK, body, kind, host[0])
        elif found:
            answer = await self._part(int(found[1]), int(found[2]))
        else:
            answer = _answer(HTTPStatus.NOT_FOUND, b"nothing here.\n")
        if request.method == "HEAD":
            answer.body = b""
        return answer

    def _refuse(self, status: HTTPStatus, header: str, values: list[str], sentence: str) -> Response:
        """Refuse a browser, and tell the server's owner, once for each header, who has perhaps to set up a proxy."""
        if (header, *values) not in self._refused and len(self._refused) < REFUSALS:
            self._refused.add((header, *values))
            told = ", ".join(values)[:200]
            logger.warning("refused a request with %s %r: %s See docs/serve.md.", header, told, sentence.strip())
        return _answer(status, sentence.encode())

    async def _part(self, number: int, part: int) -> Response:
        """So many seconds of a recording, as integers of 16 bits, 16 kHz."""
        if number >= len(self.recordings) or part * PART >= self.recordings[number][1]:
            return _answer(HTTPStatus.NOT_FOUND, b"nothing here.\n")
        path, begin = self.recordings[number][0], part * PART
        end = begin + PART if begin + PART < self.recordings[number][1] else None
        try:
            samples = await asyncio.to_thread(load_audio, path, begin, end)
        except SimulstError as error:
            logger.error("%s", error)
            return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"the recording can't be read.\n")
        return _answer(HTTPStatus.OK, as_int16(samples).astype("<i2").tobytes(), "application/octet-stream")

    def _is_ours(self, host: str) -> bool:
        """Whether a Host header names this server: by an address, or by a name that only its owner gives."""
        found = HOST.fullmatch(host)
        if not found:
            return False
        name = found["name"].strip("[]").rstrip(".").lower()
        if name in ("localhost", socket.gethostname().lower(), *(one.lower() for one in self.hosts)):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    # ---- WebSocket ----

    async def _client(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        found = VIEW.fullmatch(connection.request.path.partition("?")[0])
        try:
            await (self._view(connection, found[1]) if found else self._speak(connection))
        except ConnectionClosed:
            pass
        except TimeoutError:  # it does not take its words
            connection.transport.abort()
        except Exception:
            logger.exception("a client's connection failed; the others go on")
            await _close(connection, 1011, "the model failed; the server's log says how")

    async def _speak(self, connection: ServerConnection) -> None:
        if self._speakers >= self.limits.clients:
            await _close(connection, 1013, f"all {self.limits.clients} places are taken; try again later")
            return

        async def send(message: Any) -> None:
            async with asyncio.timeout(STALLS):
                await connection.send(json.dumps(message))

        self._speakers += 1
        speaker = Speaker(self.service, send, self._numbers)
        code, reason = 1000, ""
        try:
            async with contextlib.aclosing(self._messages(connection)) as messages:
                async for message, more in messages:
                    await speaker.take(message, more)
            if speaker.speaks:
                await speaker.end()
            ends = self._stopping.is_set()
            code, reason = (1001, "the server ends") if ends else (1008, "nothing came for a while")
        except SimulstError as error:
            code, reason = 1008, str(error)
            await send({"error": reason})
        finally:
            self._speakers -= 1
            speaker.leave()
        await _close(connection, code, reason)

    async def _messages(self, connection: ServerConnection) -> AsyncGenerator[tuple[str | bytes, bool], None]:
        """What a client sends, and whether the next message is there already.

        It ends if nothing comes for too long, or the server ends. Raises ConnectionClosed.
        """
        stopping = asyncio.create_task(self._stopping.wait())
        coming = asyncio.create_task(connection.recv())
        try:
            while not self._stopping.is_set():
                await asyncio.wait({coming, stopping}, timeout=self.limits.idle, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    return
                message = coming.result()
                coming = asyncio.create_task(connection.recv())
                await asyncio.sleep(0)  # it begins, and ends at once if it can
                yield message, coming.done()
        finally:
            stopping.cancel()
            coming.cancel()
            await asyncio.wait({coming})  # before anybody else receives
            if not coming.cancelled():
                coming.exception()  # of a connection that is closed; it is told elsewhere

    async def _view(self, connection: ServerConnection, link: str) -> None:
        channel = self.service.channels.get(link)
        if channel is None:
            await _close(connection, 1008, "nobody speaks at this link now")
            return
        if self._viewers >= self.limits.viewers:
            await _close(connection, 1013, f"all {self.limits.viewers} viewers' places are taken; try again later")
            return
        self._viewers += 1
        channel.viewers += 1
        mark = Mark()
        asked = asyncio.create_task(connection.recv())
        try:
            while True:
                changed, over = channel.changed, channel.ended
                async with asyncio.timeout(STALLS):
                    await connection.send(json.dumps({"simulst": channel.since(mark)}))
                if over:
                    break
                change = asyncio.create_task(changed.wait())
                await asyncio.wait({change, asked}, timeout=ALIVE, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if asked.done():
                    await connection.send(json.dumps(await answer_of_viewer(self.service, asked.result())))
                    asked = asyncio.create_task(connection.recv())
            asked.cancel()
            await asyncio.wait({asked})
            await _close(connection, 1001, "the speaker has gone")
        finally:
            asked.cancel()
            with contextlib.suppress(ConnectionClosed, asyncio.CancelledError):
                await asked
            self._viewers -= 1
            channel.viewers -= 1


class _Counted(ServerConnection):
    """A connection of which there are only so many, also of those that say nothing."""

    def __init__(self, most: int, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._most = most

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self.server.handler_tasks) > self._most:
            self.transport.abort()


async def _close(connection: ServerConnection, code: int, reason: str) -> None:
    """Close a connection. What still comes is dropped; unread, it would stand before the client's own close."""
    reason = reason.encode()[:120].decode(errors="ignore")  # its frame has 123 bytes
    closing = asyncio.create_task(connection.close(code, reason))
    with contextlib.suppress(ConnectionClosed):
        while True:
            await connection.recv()
    await closing


def _answer(status: HTTPStatus, body: bytes, kind: str = "text/plain", host: str = "") -> Response:
    """host: to which the page may connect; some browsers do not take 'self' for WebSockets."""
    policy = (
        f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self' blob:; "
        f"connect-src 'self' ws://{host} wss://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    )
    headers = {
        "Content-Type": f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
        "Content-Length": str(len(body)),
        "Content-Security-Policy": policy if host else "default-src 'none'; frame-ancestors 'none'",
        "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Connection": "close",
    }
    return Response(status.value, status.phrase, Headers(headers), body)


def _same_place(origin: str, here: str) -> bool:
    """Whether a page's origin is this server's: scheme, host and port."""
    try:
        page, own = urlsplit(origin), urlsplit(here)
        usual = {"http": 80, "https": 443}[page.scheme]
        return (page.scheme, page.hostname, page.port or usual) == (own.scheme, own.hostname, own.port or usual)
    except (ValueError, KeyError):
        return False


def check_port(host: str, port: int) -> None:
    """Raise SimulstError if nobody can listen there now."""

    async def listen() -> None:
        (await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)).close()

    try:
        asyncio.run(listen())
    except OSError as error:
        raise _unusable(host, port, error) from error


def _unusable(host: str, port: int, error: OSError) -> SimulstError:
    said = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    return SimulstError(f"{host}:{port} can't be used ({said}); choose another port.")


def find_recordings(folder: Path) -> list[tuple[Path, float]]:
    """The recordings of a folder, by name, and their seconds. Raises SimulstError: there is none that can be read."""
    found = []
    for path in recordings_in(folder):
        try:
            found.append((path, seconds_of(path)))
        except SimulstError as error:
            logger.warning("%s The page does not offer it.", error)
    if not found:
        raise SimulstError(f"{folder}: has no recordings that can be read; name a folder with audio files.")
    return found


def tls_of(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """The context of a server for https. Raises SimulstError: the files can't be used."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        files = certificate if key is None else f"{certificate} and {key}"
        raise SimulstError(
            f"{files}: no certificate with its key ({error}); give PEM files as --certificate and --key."
        ) from error
    return context


async def run(site: Site, host: str, port: int, tls: ssl.SSLContext | None, tell: Callable[[int], None]) -> None:
    """Serve until TERM or Ctrl-C; a second one ends the process at once, and so does a model that hangs by then.

    tell: is called with the port once it listens.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    async with site.open(host, port, tls) as server:
        tell(next(iter(server.sockets)).getsockname()[1])
        await stop.wait()
    if not site.service.driver.closed:
        logger.error("the model hangs; the server ends without it.")
        os._exit(1)  # Python would wait for it
