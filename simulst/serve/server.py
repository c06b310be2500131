"""`simulst serve`: a page, and simulstream's protocol, on one port.

Pages of this server may connect (Host and Origin are checked), and programs, which send no Origin. What is and is not
defended stands in docs/serve.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.resources
import ipaddress
import json
import logging
import os
import re
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from simulst.audio.name import recording_name, recordings_in
from simulst.audio.read import as_int16, load_audio, seconds_of
from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError
from simulst.serve.channel import Channel, Mark
from simulst.serve.client import ALIVE, Service, Speaker, answer_of_viewer
from simulst.serve.connections import Connections, Limits, Refusal, Socket, dressed, left, told
from simulst.serve.keys import Keys
from simulst.serve.openai import OpenAI, error_of

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
PAGES = (  # host: to which the page may connect; some browsers do not take 'self' for WebSockets
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self' blob:; "
    "connect-src 'self' ws://{host} wss://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
PART = 30  # seconds of a recording in one answer
AROUND = 1  # seconds around it that are read, too: a resampler hears what comes before and after
OPENING = 10.0  # seconds in which a connection has to say what it wants
STRANGER = 1.0  # seconds until a wrong key is refused
REFUSALS = 100  # of which the log tells
ENDING = 30.0  # seconds in which all streams have to end when the server does
HANGS = 5.0  # seconds more in which the model has to end its last computation
HOST = re.compile(r"(?P<name>[\w.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])(:\d{1,5})?", re.ASCII)
KEY = "openai-insecure-api-key."
VIEW = re.compile(r"/view/([0-9a-f]{32})")


@dataclass
class Site:
    """A server. recordings: files that the page offers. hosts: further names by which it is reached.

    keys: of which each client needs one, but for viewers. None: nobody needs one.
    """

    service: Service
    title: str
    limits: Limits = field(default_factory=Limits)
    recordings: list[tuple[Path, float]] = field(default_factory=list)
    hosts: tuple[str, ...] = ()
    keys: Keys | None = None
    _strangers: int = 0
    _refused: set[tuple[str, ...]] = field(default_factory=set)
    _handlers: set[asyncio.Task[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.connections = Connections(self.limits)
        self._more = OpenAI(self.service, self.connections, self.title).handlers()
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
    async def open(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[asyncio.Server]:
        """Serve inside the context. At its end, streams end as by `end_of_stream`: clients get the last words."""
        quiet = logging.getLogger(f"{__name__}.aiohttp")
        quiet.setLevel(logging.CRITICAL)  # whoever sends what is no HTTP is nobody's business
        most = 2 * (self.limits.clients + self.limits.viewers) + 64
        server = _Bounded(self._handle, most, access_log=None, logger=quiet, keepalive_timeout=OPENING)
        try:
            listener = await asyncio.get_running_loop().create_server(server, host, port, ssl=tls)
        except OSError as error:
            raise _unusable(host, port, error) from error
        try:
            yield listener
        finally:
            listener.close()
            self.connections.stopping.set()
            handlers = set(self._handlers)
            if handlers:
                await asyncio.wait(handlers, timeout=ENDING)
            for task in handlers:
                task.cancel()
            server.pre_shutdown()
            await server.shutdown(HANGS)  # from its beginning on, it takes nothing in
            self.service.driver.close(HANGS)

    # ---- HTTP ----

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        try:
            self._check(request)
            return dressed(await self._answer(request))
        except web.HTTPException as refusal:  # of a handshake that is none
            status, sentence = refusal.status, "ask for a WebSocket as RFC 6455 says."
        except (ConnectionError, TimeoutError):  # the client has gone, or does not take its answer
            if request.transport is not None:
                request.transport.abort()
            raise
        except Exception as error:
            status, sentence = told(error)
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if request.raw_path.startswith("/v1/"):
            return dressed(web.json_response(error_of(status, sentence), status=status, headers=headers))
        return dressed(web.Response(status=status, text=f"{sentence}\n", headers=headers))

    def _check(self, request: web.BaseRequest) -> None:
        """Refuse pages of other servers: by another name than this server's, or from another origin."""
        host = request.headers.getall("Host", [])
        if len(host) != 1 or not self._is_ours(host[0]):
            sentence = "this server is not known by that name; give the name by --allow-host."
            raise self._refusal(421, "Host", host, sentence)
        if _upgrades(request) or request.method not in ("GET", "HEAD"):
            seen = request.headers.get("X-Forwarded-Proto", request.scheme)  # by a proxy; browsers send none
            here = f"{seen.partition(',')[0].strip().lower()}://{host[0]}".encode("ascii", "backslashreplace").decode()
            origins = request.headers.getall("Origin", [])
            if any(not _same_place(origin, here) for origin in origins):
                sentence = f"pages of other servers may not connect; this is {here[:200]}."
                raise self._refusal(403, "Origin", origins, sentence)

    async def _allowed(self, request: web.BaseRequest, path: str) -> bool:
        """Whether a request needs no key, or has a right one.

        A wrong one is told after a while: as connections are bounded, so is the rate of tries.
        """
        if self.keys is None or VIEW.fullmatch(path) or (path in PAGE and not _upgrades(request)):
            return True  # the page asks for a key
        key = _key_of(request)
        allowed = self.keys.allow(key)
        if key and not allowed:
            self._strangers += 1
            if self._strangers in (1, 10, 100, 1000, 10_000, 100_000):
                logger.warning("wrong keys were refused: %d so far. See docs/serve.md.", self._strangers)
            await asyncio.sleep(STRANGER)
        return allowed

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0]
        if not await self._allowed(request, path):
            if path == "/about.json" and request.method == "GET":
                return web.json_response({"locked": True})  # for the page; browsers complain of every 401
            raise Refusal(401, "this server asks for a key; send a right one as 'Authorization: Bearer KEY'.")
        if handler := self._more.get((request.method, path)):
            return await handler(request)
        if request.method not in ("GET", "HEAD"):
            raise Refusal(405, "ask by GET.")
        if _upgrades(request):
            if path == "/":
                return await self._speak(request)
            if found := VIEW.fullmatch(path):
                return await self._view(request, found[1])
        elif path in self._files:
            body, kind = self._files[path]
            policy = PAGES.format(host=request.headers["Host"])
            answer = web.Response(body=body, content_type=kind, charset="utf-8" if kind.startswith("text/") else None)
            answer.headers["Content-Security-Policy"] = policy
            return answer
        elif found := re.fullmatch(r"/recordings/(\d{1,6})/(\d{1,6})", path):
            return await self._part(int(found[1]), int(found[2]))
        raise Refusal(404, "nothing here.")

    def _refusal(self, status: int, header: str, values: list[str], sentence: str) -> Refusal:
        """Refuse a browser, and tell the server's owner, once for each header, who has perhaps to set up a proxy."""
        if (header, *values) not in self._refused and len(self._refused) < REFUSALS:
            self._refused.add((header, *values))
            given = ", ".join(values)[:200]
            logger.warning("refused a request with %s %r: %s See docs/serve.md.", header, given, sentence)
        return Refusal(status, sentence)

    async def _part(self, number: int, part: int) -> web.Response:
        """So many seconds of a recording, as integers of 16 bits, 16 kHz."""
        if number >= len(self.recordings) or part * PART >= self.recordings[number][1]:
            raise Refusal(404, "nothing here.")
        (path, seconds), begin = self.recordings[number], part * PART
        first, last = max(0, begin - AROUND), begin + PART + AROUND
        try:
            samples = await asyncio.to_thread(load_audio, path, first, last if last < seconds else None)
        except SimulstError as error:
            logger.error("%s", error)
            raise Refusal(500, "the recording can't be read.") from error
        samples = samples[(begin - first) * SAMPLE_RATE :][: PART * SAMPLE_RATE]
        return web.Response(body=as_int16(samples).astype("<i2").tobytes())

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

    async def _speak(self, request: web.BaseRequest) -> web.StreamResponse:
        async with self.connections.socket(request) as socket:
            await self.connections.converse(socket, Speaker(self.service, socket.send, self.connections.number))
        return socket.answer

    async def _view(self, request: web.BaseRequest, link: str) -> web.StreamResponse:
        async with self.connections.socket(request) as socket:
            channel = self.service.channels.get(link)
            if channel is None:
                await socket.close(1008, "nobody speaks at this link now")
                return socket.answer
            with self.connections.place("viewers"):
                channel.viewers += 1
                try:
                    await self._show(socket, channel)
                finally:
                    channel.viewers -= 1
            await socket.close(1001, "the speaker has gone")
        return socket.answer

    async def _show(self, socket: Socket, channel: Channel) -> None:
        """Send a channel's text until its speaker has gone."""
        mark, asked = Mark(), asyncio.create_task(socket.receive())
        try:
            while True:
                changed, over = channel.changed, channel.ended
                await socket.send({"simulst": channel.since(mark)})
                if over:
                    return
                change = asyncio.create_task(changed.wait())
                await asyncio.wait({change, asked}, timeout=ALIVE, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if asked.done():
                    await socket.send(await answer_of_viewer(self.service, asked.result()))
                    asked = asyncio.create_task(socket.receive())
        finally:
            await left(asked)


class _Bounded(web.Server):
    """A server that has only so many connections, also of those that say nothing."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], most: int, **options: Any) -> None:
        super().__init__(handler, **options)
        self._most = most

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self.connections) > self._most:
            transport.abort()


def _key_of(request: web.BaseRequest) -> str:
    """The key that a request has, or nothing. A browser's WebSocket has it among its protocols, as OpenAI's have."""
    kind, _, key = request.headers.get("Authorization", "").partition(" ")
    offered = [one.strip() for one in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    keys = [one.removeprefix(KEY) for one in offered if one.startswith(KEY)]
    return key.strip() if kind.lower() == "bearer" else keys[0] if keys else ""


def _upgrades(request: web.BaseRequest) -> bool:
    return any("websocket" in offer.lower() for offer in request.headers.getall("Upgrade", []))


def _same_place(origin: str, here: str) -> bool:
    """Whether a page's origin is this server's: scheme, host and port."""
    try:
        page, own = urlsplit(origin), urlsplit(here)
        usual = {"http": 80, "https": 443}[page.scheme]
        return (page.scheme, page.hostname, page.port or usual) == (own.scheme, own.hostname, own.port or usual)
    except (ValueError, KeyError):
        return False


def is_loopback(host: str) -> bool:
    """Whether this machine alone reaches a server of that address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
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
