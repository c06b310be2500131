"""Does `simulst serve` leave anything behind, and do hostile clients change the words of others?

    PYTHONPATH=tests python benchmarks/serve_stress.py --model fake:FakeModel --source-lang es \
        --target-lang en --decoding conf/decode/la2_1000ms.yaml
    ... benchmarks/serve_stress.py --files TALK.mp3 TALK.mp3 --model fake:FakeModel ...

All but the script's own options goes to `simulst serve`. Three parts: short sessions of all interfaces, of which a
third is broken off; hostile clients beside honest ones; TERM while both go on. With --files, these are sent at once,
and the most memory is told instead.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import soundfile

from simulst.audio.units import SAMPLE_RATE

PROGRAM = """
import asyncio, gc, signal, sys
def count(*_):
    tasks = sum(isinstance(one, asyncio.Task) and not one.done() for one in gc.get_objects())
    print(f"tasks: {tasks};\\n", end="", file=sys.stderr, flush=True)
signal.signal(signal.SIGUSR1, count)
from simulst.commands.main import entry
entry()
"""
HANGS = 90.0  # seconds after which a hostile client should have been left
PLACES = 200


def noise(seconds: float, rate: int = SAMPLE_RATE) -> bytes:
    """Integers of 16 bits."""
    return np.random.default_rng(0).integers(-9000, 9000, round(seconds * rate), dtype="<i2").tobytes()


def encoded(samples: np.ndarray, kind: str, rate: int = SAMPLE_RATE) -> bytes:
    """A file."""
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format=kind, subtype="PCM_16")
    return out.getvalue()


@dataclass
class Server:
    """A running server. words: of each kind of session and its seconds, as it has them alone."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path
    http: aiohttp.ClientSession
    words: dict[tuple[str, float], str] = field(default_factory=dict)

    @property
    def log(self) -> str:
        """What it has told so far."""
        return (self.folder / "log").read_text()

    def figures(self) -> dict[str, float]:
        """What it holds."""
        place, told = Path(f"/proc/{self.process.pid}"), self.log.count(";\n")
        self.process.send_signal(signal.SIGUSR1)
        while self.log.count(";\n") == told:
            time.sleep(0.01)
        return {
            "MiB": memory(place),
            "descriptors": len(list((place / "fd").iterdir())),
            "threads": len(list((place / "task").iterdir())),
            "tasks": int(self.log.rpartition("tasks:")[2].split(";")[0]),
            "files": len(list((self.folder / "temporary").iterdir())),
        }

    async def rest(self) -> None:
        """Wait until it has noticed who went, and has decoded their files, for a minute at most."""
        until = time.monotonic() + 60
        while (self.figures()["tasks"] > 1 or self.figures()["files"]) and time.monotonic() < until:
            await asyncio.sleep(0.5)

    # ---- honest clients: each returns its text; broken: it goes in the middle ----

    async def ours(self, seconds: float, broken: bool = False) -> str:
        """Our protocol, which is simulstream's."""
        text = ""
        async with self.http.ws_connect(f"http://127.0.0.1:{self.port}/") as socket:
            await socket.send_bytes(noise(seconds))
            if broken:
                return await cut(socket)
            await socket.send_str('{"end_of_stream": true}')
            while "end_of_processing" not in (answer := await socket.receive_json()):
                text += answer["new"]
        return text.strip()

    async def file(self, seconds: float, broken: bool = False, **asked: str) -> str:
        """OpenAI's interface for files."""
        form = aiohttp.FormData()
        form.add_field("file", encoded(np.frombuffer(noise(seconds), "<i2"), "WAV"), filename="a.wav")
        for name, value in {"model": "any:en", **asked}.items():
            form.add_field(name, value)
        try:
            async with asyncio.timeout(0.3 if broken else None):
                async with self.http.post(f"http://127.0.0.1:{self.port}/v1/audio/transcriptions", data=form) as found:
                    return await found.text() if asked else str((await found.json())["text"])
        except TimeoutError:
            return ""

    async def stream(self, seconds: float, broken: bool = False) -> str:
        """The same as server-sent events."""
        events = (await self.file(seconds, broken, stream="true")).split("\n\n")
        return "" if broken else str(json.loads(events[-2].removeprefix("data: "))["text"])

    async def realtime(self, seconds: float, broken: bool = False) -> str:
        """OpenAI's interface for live audio."""
        async with self.http.ws_connect(f"http://127.0.0.1:{self.port}/v1/realtime?model=any:en") as socket:
            audio = noise(seconds, 24_000)
            for start in range(0, len(audio), 48_000):
                part = base64.b64encode(audio[start : start + 48_000]).decode()
                await socket.send_json({"type": "input_audio_buffer.append", "audio": part})
            if broken:
                return await cut(socket)
            await socket.send_json({"type": "input_audio_buffer.commit"})
            while "transcript" not in (answer := await socket.receive_json()):
                assert answer["type"] != "error", answer
        return str(answer["transcript"])

    async def idle(self, seconds: float, broken: bool = False) -> str:
        """A client that says nothing more."""
        async with self.http.ws_connect(f"http://127.0.0.1:{self.port}/") as socket:
            await socket.send_str('{"details": true}')
            await asyncio.sleep(0.2)
            return await cut(socket)

    async def live_until_the_end(self, seconds: float, heard: asyncio.Event) -> str:
        """A client that speaks when the server ends. heard: is set once all of its audio is."""
        text = ""
        async with self.http.ws_connect(f"http://127.0.0.1:{self.port}/") as socket:
            await socket.send_str('{"details": true}')
            await socket.send_bytes(noise(seconds))
            async for message in socket:
                answer = json.loads(message.data)
                text += answer.get("new", "")
                if answer.get("simulst", {}).get("heard_ms", 0) >= 1000 * seconds - 1:
                    heard.set()
            return text.strip() if socket.close_code == 1001 else f"closed by {socket.close_code}"

    # ---- hostile ones: each returns what became of it ----

    async def raw(self, *parts: bytes, again: bytes = b"", every: float = 0.0) -> str:
        """Send bytes. again: is sent until the connection closes, `every` so many seconds."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)

        async def send() -> None:
            with contextlib.suppress(ConnectionError):
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                while again:
                    await asyncio.sleep(every)
                    writer.write(again)
                    await writer.drain()

        sending = asyncio.create_task(send())
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = await reader.read(1 << 16)
            while await reader.read(1 << 16):
                pass
        sending.cancel()
        writer.close()
        head, _, body = answer.decode(errors="replace").partition("\r\n\r\n")
        status = head.split(" ")[1] if " " in head else ""
        return f"{status} {body.strip().splitlines()[0][:110] if body.strip() else ''}".strip() or "closed"

    async def talk(self, path: str, *messages: str | bytes) -> str:
        """Send messages by a WebSocket; the last sentence that comes before it closes, or for a second."""
        said = ""
        async with self.http.ws_connect(f"http://127.0.0.1:{self.port}{path}", max_msg_size=0) as socket:
            with contextlib.suppress(ConnectionError, TimeoutError):
                for message in messages:
                    await (socket.send_str(message) if isinstance(message, str) else socket.send_bytes(message))
                while (got := await socket.receive(timeout=5)).type == aiohttp.WSMsgType.TEXT:
                    error = json.loads(got.data).get("error")
                    said = (error["message"] if isinstance(error, dict) else error) or said
                said = str(got.extra or said)
            return f"{said[:110]} {socket.close_code or ''}".strip()

    async def unread(self, path: str, message: bytes | str) -> str:
        """Send on and on, and read nothing."""
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.setblocking(False)
        await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", self.port))
        _, writer = await asyncio.open_connection(sock=small, limit=1024)
        writer.write(upgrade(path))
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(frame(message))
                await writer.drain()
                await asyncio.sleep(0.01)  # others of this program are to be served, too
        writer.transport.abort()
        return "closed"


async def cut(socket: aiohttp.ClientWebSocketResponse) -> str:
    """Go without a word."""
    assert socket._response.connection is not None and socket._response.connection.transport is not None
    socket._response.connection.transport.abort()
    return ""


def memory(place: Path) -> float:
    """MiB that a process holds."""
    return int((place / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def upgrade(path: str) -> bytes:
    """The handshake of a WebSocket."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ).encode()


def frame(content: bytes | str, first: int | None = None) -> bytes:
    """A message of a WebSocket, masked by zeros."""
    data = content if isinstance(content, bytes) else content.encode()
    kind = (0x82 if isinstance(content, bytes) else 0x81) if first is None else first
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    if len(data) >= 1 << 16:
        size = b"\xff" + len(data).to_bytes(8, "big")
    return bytes([kind]) + size + bytes(4) + data


def post(body: bytes = b"", *headers: str, boundary: str = "; boundary=x") -> bytes:
    """A request with a file. headers: instead of its length."""
    lines = headers or (f"Content-Length: {len(body)}",)
    head = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Type: multipart/form-data{boundary}\r\n"
    return head.encode() + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def part(name: str, content: bytes = b"", more: bytes = b"") -> bytes:
    """A field of a form; more: behind its name."""
    return b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (name.encode(), more, content)


def form(content: bytes, name: bytes = b"a.wav") -> bytes:
    """A request with a whole form."""
    return post(part("model", b"any:en") + part("file", content, b'; filename="%s"' % name) + b"--x--\r\n")


def chunk(content: bytes) -> bytes:
    """A piece of a body that does not tell its length."""
    return b"%x\r\n%s\r\n" % (len(content), content)


def hostile(server: Server) -> dict[str, Callable[[], Coroutine[Any, Any, str]]]:
    """By what they do."""
    raw, talk, get = server.raw, server.talk, b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    chunked = "Transfer-Encoding: chunked"
    begin = part("file", b"", b'; filename="a.wav"')[:-2]
    silence = form(encoded(np.zeros(5 * 3600 * 1000, "<i2"), "FLAC", 1000))
    real, append = "/v1/realtime?model=any:en", '{"type": "input_audio_buffer.append", "audio": "%s"}'
    gzip = "Content-Encoding: gzip"
    terms = json.dumps({"terms": "\n".join(f"word{i}" for i in range(100_000))})
    words = [{"text": f" w{i}", "delay_ms": i} for i in range(20_000)]
    subtitles = json.dumps({"subtitles": "srt", "words": words})
    deep = '{"type": "session.update", "session": %s}' % ('{"a":' * 900 + "1" + "}" * 900)
    file = encoded(np.frombuffer(noise(3), "<i2"), "WAV")
    return {
        "silent": lambda: raw(),
        "not HTTP": lambda: raw(random.Random(0).randbytes(5000)),
        "TLS": lambda: raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)),
        "half a header": lambda: raw(get),
        "a header, byte by byte": lambda: raw(get + b"X: ", again=b"x", every=0.5),
        "a huge header": lambda: raw(get + b"X: " + b"x" * 10**6 + b"\r\n\r\n"),
        "100 000 headers": lambda: raw(get + b"X: x\r\n" * 100_000 + b"\r\n"),
        "10 000 requests at once": lambda: raw((get + b"\r\n") * 10_000),
        "another's proxy header": lambda: raw(
            get[:-2] + b"\r\nOrigin: http://a\r\nX-Forwarded-Proto: \xff\r\nUpgrade: websocket\r\n\r\n"
        ),
        "a target that is none": lambda: raw(b"GET http://[::1/\xff?%zz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        "CONNECT": lambda: raw(b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"x" * 9999),
        "a handshake that is none": lambda: raw(upgrade("/").replace(b"Version: 13", b"Version: 99")),
        "frames that are none": lambda: raw(upgrade("/"), b"\xff" * 500),
        "a frame of 2^63 bytes": lambda: raw(upgrade("/"), b"\x82\xff" + b"\x7f" + b"\xff" * 7 + bytes(4)),
        "a message without end": lambda: raw(upgrade("/"), frame(b"x", 0x02), again=frame(bytes(5000), 0x00)),
        "pings without end": lambda: server.unread("/", b""),
        "text that is no UTF-8": lambda: raw(upgrade("/"), frame(b"\xff\xfe", 0x81)),
        "text instead of bytes": lambda: talk("/", noise(1), "x" * 50_000, b"\x00" * 3),
        "bytes instead of text": lambda: talk(real, noise(1)),
        "floats": lambda: talk("/", np.random.default_rng(0).normal(0, 0.1, 40_000).astype("<f4").tobytes()),
        "terms of 100 000 words": lambda: talk("/", terms),
        "20 000 words in subtitles": lambda: talk("/", *[subtitles] * 3),
        "a viewer of nobody": lambda: talk(f"/view/{'0' * 32}"),
        "reads nothing": lambda: server.unread("/", subtitles[:60_000].rpartition(", {")[0] + "]}"),
        "reads nothing, realtime": lambda: server.unread(real, "{}"),
        "events out of order": lambda: talk(real, '{"type": "input_audio_buffer.commit"}', '{"type": "x"}', "[]", deep),
        "base64 that is none": lambda: talk(real, append % "*", append % "AAA", append % "\\ud800"),
        "half a sample": lambda: talk(real, append % "AAAA", '{"type": "input_audio_buffer.commit"}'),
        "10 GB announced": lambda: raw(post(b"", "Content-Length: 10000000000"), again=bytes(1 << 16)),
        "a length that is none": lambda: raw(post(b"", "Content-Length: -1")),
        "two lengths": lambda: raw(post(b"", "Content-Length: 5", chunked)),
        "a field without end": lambda: raw(post(b"", chunked), chunk(part("prompt")[:-2]), again=chunk(bytes(1 << 16))),
        "a file without end": lambda: raw(post(b"", chunked), chunk(begin), again=chunk(bytes(1 << 16))),
        "a preamble without end": lambda: raw(post(b"", chunked), again=chunk(b"nothing\r\n" * 1000)),
        "a line without end": lambda: raw(post(b"", chunked), again=chunk(b"x" * 4096)),
        "fields without end": lambda: raw(post(b"", chunked), again=chunk(part("prompt") * 500)),
        "10 000 fields": lambda: raw(post(b"".join(part(f"f{i}") for i in range(10_000)) + b"--x--\r\n")),
        "1000 headers of a field": lambda: raw(post(part("prompt", more=b"\r\nX: x" * 1000) + b"--x--\r\n")),
        "a header of a field": lambda: raw(post(part("prompt", more=b"; x=" + b"x" * 10_000) + b"--x--\r\n")),
        "a header that is none": lambda: raw(post(part("prompt", more=b"\r\n\x00 : \xff") + b"--x--\r\n")),
        "a charset that is none": lambda: raw(post(part("_charset_", b"x" * 40) + b"--x--\r\n")),
        "an encoding that is none": lambda: raw(
            post(part("prompt", b"x", b"\r\nContent-Transfer-Encoding: x") + b"--x--\r\n")
        ),
        "a part of parts": lambda: raw(
            post(part("file", b"--y--", b"\r\nContent-Type: multipart/mixed; boundary=y") + b"--x--")
        ),
        "a length of a part": lambda: raw(
            post(part("file", b"xx", b'; filename="a"\r\nContent-Length: x') + b"--x--\r\n")
        ),
        "no boundary": lambda: raw(post(b"x" * 99, boundary="")),
        "a long boundary": lambda: raw(post(b"x" * 99, boundary=f"; boundary={'x' * 99}")),
        "no form": lambda: raw(post(b"{}").replace(b"multipart/form-data", b"text/\xff")),
        "a body that stops": lambda: raw(post(begin + b"RIFF", "Content-Length: 99999")),
        "a body, byte by byte": lambda: raw(post(begin, "Content-Length: 40000"), again=b"x", every=1),
        "a body that is no gzip": lambda: raw(post(b"x" * 99, gzip, "Content-Length: 99")),
        "a file's name that leaves": lambda: raw(form(b"RIFF", b"../../../etc/passwd")),
        "a file's name of bytes": lambda: raw(form(b"RIFF", b"\xff\x00\x1b[31m\xed\xa0\x80")),
        "a file's name without end": lambda: raw(form(b"RIFF", b"x" * 8000)),
        "a file of no bytes": lambda: raw(form(b"")),
        "no audio": lambda: raw(form(random.Random(0).randbytes(99_999))),
        "MP3 that is none": lambda: raw(form(b"ID3" + random.Random(0).randbytes(99_999))),
        "an Ogg that is none": lambda: raw(form(b"OggS" + random.Random(0).randbytes(99_999))),
        "a list of other files": lambda: raw(form(b"#EXTM3U\n#EXTINF:9,\nfile:///etc/passwd\n", b"a.m3u8")),
        "5 hours of silence": lambda: raw(silence),
        "goes within its file": lambda: server.file(3, broken=True),
        "a file, pipelined": lambda: raw(form(file) * 20),
    }


# ---- the parts ----


async def sessions(server: Server, count: int) -> None:
    """Short sessions, six at a time. What is held afterwards stands in a line for each third."""
    chance, broken = random.Random(0), 0
    kinds = (server.ours, server.file, server.stream, server.realtime, server.idle)

    async def one(number: int) -> None:
        nonlocal broken
        kind, seconds, breaks = kinds[number % len(kinds)], chance.choice(SECONDS), chance.random() < 1 / 3
        broken += breaks
        text = await kind(seconds, breaks)
        expected = server.words.get((kind.__name__, seconds), "")
        assert breaks or text == expected, (kind.__name__, seconds, text, expected)

    for third in range(3):
        numbers = iter(range(third * count // 3, (third + 1) * count // 3))

        async def work(numbers: Iterator[int] = numbers) -> None:
            for number in numbers:
                await one(number)

        await asyncio.gather(*(work() for _ in range(6)))
        await server.rest()
        print(f"after {(third + 1) * count // 3} sessions:", shown(server.figures()))
    print(f"{count} sessions, {broken} of them broken off; the others had the words that they have alone")


SECONDS = (0.5, 1.2, 2.7, 4.1)


async def alone(server: Server) -> None:
    """The words of each kind of session and its seconds."""
    for kind in (server.ours, server.file, server.stream, server.realtime):
        for seconds in SECONDS:
            server.words[kind.__name__, seconds] = await kind(seconds)
    assert any(server.words.values()), "the model writes no words for noise; choose another"


async def attack(server: Server, over: asyncio.Event, tell: bool = True) -> None:
    """Hostile clients, all at once. over: is set afterwards."""
    outcomes = Counter[str]()

    async def one(name: str, work: Callable[[], Coroutine[Any, Any, str]]) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(HANGS):
                became = await work()
        except TimeoutError:
            became = "STILL OPEN"
        except (aiohttp.ClientError, OSError, ValueError, TypeError) as error:
            became = f"closed ({type(error).__name__})"
        outcomes[became] += 1
        if tell:
            print(f"  {name}: {became} ({time.monotonic() - began:.1f} s)")

    clients = hostile(server)
    await asyncio.gather(*(one(name, work) for name, work in clients.items()))
    over.set()
    if tell:
        print(f"{len(clients)} hostile clients; still open after {HANGS:g} s: {outcomes['STILL OPEN']}")


async def beside(server: Server, over: asyncio.Event, number: int) -> int:
    """An honest client, again and again. Returns its sessions."""
    chance, count = random.Random(number), 0
    kinds = (server.ours, server.file, server.stream, server.realtime)
    while not over.is_set():
        kind, seconds = chance.choice(kinds), chance.choice(SECONDS)
        text = await kind(seconds)
        assert text == server.words[kind.__name__, seconds], (kind.__name__, seconds, text)
        count += 1
        await asyncio.sleep(0.5)
    return count


async def term(server: Server) -> None:
    """TERM while live clients speak and hostile ones do what they do."""
    attacking = asyncio.create_task(attack(server, asyncio.Event(), tell=False))
    heard = [asyncio.Event() for _ in range(5)]
    live = [asyncio.create_task(server.live_until_the_end(2.7, event)) for event in heard]
    await asyncio.gather(*(event.wait() for event in heard))
    began = time.monotonic()
    server.process.terminate()
    found = await asyncio.gather(*live, return_exceptions=True)
    last = time.monotonic() - began
    code = await asyncio.to_thread(server.process.wait)
    right = sum(text == server.words["ours", 2.7] for text in found)
    print(f"TERM: {right} of {len(found)} live clients had all words after {last:.1f} s; exit code {code}", end=" ")
    left = len(list((server.folder / "temporary").iterdir()))
    print(f"after {time.monotonic() - began:.1f} s; temporary files: {left}")
    attacking.cancel()
    await asyncio.wait({attacking})


async def files(server: Server, paths: list[Path]) -> None:
    """Send files at once, and see how much memory that takes."""
    highest, apart, over = 0.0, 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal highest, apart
        tasks = Path(f"/proc/{server.process.pid}/task")
        while not over.is_set():
            highest = max(highest, memory(tasks.parent))
            children = [child for task in tasks.iterdir() for child in (task / "children").read_text().split()]
            with contextlib.suppress(FileNotFoundError):
                apart = max(apart, sum(memory(Path(f"/proc/{child}")) for child in children))
            await asyncio.sleep(0.05)

    async def send(path: Path) -> str:
        began = time.monotonic()
        body = aiohttp.FormData({"model": "any:en"})
        with path.open("rb") as opened:
            body.add_field("file", opened, filename=path.name)
            async with server.http.post(f"http://127.0.0.1:{server.port}/v1/audio/transcriptions", data=body) as answer:
                return f"{path.name}: {answer.status} {(await answer.text())[:120]} ({time.monotonic() - began:.0f} s)"

    print("at first:", shown(server.figures()))
    watching = asyncio.create_task(watch())
    for line in await asyncio.gather(*map(send, paths)):
        print(" ", line)
    over.set()
    await watching
    print(f"most memory: the server {highest:.0f} MiB, its decoders together {apart:.0f} MiB")
    print("afterwards:", shown(server.figures()))


def shown(figures: dict[str, float]) -> str:
    return ", ".join(f"{value:.0f} {name}" for name, value in figures.items())


@contextlib.contextmanager
def serving(options: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A server with a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "temporary").mkdir()
        environment = {**os.environ, "TMPDIR": str(folder / "temporary"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", PROGRAM, "serve", "--port", "0", "--clients", str(PLACES), *options]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        if not line:
            raise SystemExit((folder / "log").read_text())
        try:
            yield process, int(line.split("/")[2].split(":")[1]), folder
        finally:
            process.kill()
            process.wait()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--honest", type=int, default=25, help="Clients beside the hostile ones.")
    parser.add_argument("--files", type=Path, nargs="+", default=[])
    given, options = parser.parse_known_args()
    unlimited = aiohttp.ClientTimeout(total=None, sock_read=None)
    with serving([one for one in options if one != "--"]) as (process, port, folder):
        async with aiohttp.ClientSession(timeout=unlimited, connector=aiohttp.TCPConnector(limit=0)) as http:
            server = Server(process, port, folder, http)
            if given.files:
                await files(server, given.files)
                return
            await alone(server)
            await sessions(server, given.sessions)
            over = asyncio.Event()
            found = await asyncio.gather(attack(server, over), *(beside(server, over, i) for i in range(given.honest)))
            count = sum(count or 0 for count in found)
            print(f"beside them: {count} sessions of {given.honest} honest clients, with the words as alone")
            await server.rest()
            print("afterwards:", shown(server.figures()))
            await term(server)
        lines = [line for line in server.log.splitlines() if not line.startswith("tasks:")]
        print(f"the log has {len(lines)} lines, {server.log.count('Traceback')} tracebacks")
        print(*lines[-60:], sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
