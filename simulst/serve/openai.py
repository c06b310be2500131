"""OpenAI's interfaces: `/v1/audio/transcriptions`, `/v1/audio/translations`, `/v1/models` and `/v1/realtime`.

A file is a client like a live one: it takes a place, and is pushed second by second. What is ignored, and what is
refused, stands in docs/serve.md.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import BodyPartReader, web
from aiohttp.http import HttpProcessingError

from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError
from simulst.serve.client import Message, Service, Speaker, Word, cues_for
from simulst.serve.connections import ENDS, STALLS, Connections, Refusal, dressed, told
from simulst.serve.pcm import MOST, QUICK, TooMuch, decode_apart
from simulst.serve.realtime import Realtime, pair_of
from simulst.subtitles import as_srt, as_vtt

FORMATS = ("json", "text", "srt", "vtt", "verbose_json")
KNOWN = ("file", "model", "language", "prompt", "response_format", "stream", "timestamp_granularities")
IGNORED = ("temperature", "chunking_strategy")
FIELDS = 1 << 16  # bytes of a form beside its file
PARTS = 32  # of a form; aiohttp takes a fifth of a millisecond for each, in which nobody else is served
DECODED = 4  # files at once, within bounds that whoever exceeds them waits for the others of its kind
LONGEST_NAME = 100  # characters of a file's name
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def error_of(status: int, sentence: str) -> dict[str, Any]:
    """What is wrong with a request, as OpenAI says it."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": sentence, "type": kind, "param": None, "code": None}}


@dataclass
class OpenAI:
    """OpenAI's interfaces, on a server. title: the model's name."""

    service: Service
    connections: Connections
    title: str
    _decoding: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(DECODED))
    _large: asyncio.Lock = field(default_factory=asyncio.Lock)  # one at once, as each may take much memory

    def handlers(self) -> dict[tuple[str, str], Handler]:
        """By method and path."""
        return {
            ("GET", "/v1/models"): self._models,
            ("GET", "/v1/realtime"): self._realtime,
            ("POST", "/v1/audio/transcriptions"): functools.partial(self._file, translates=False),
            ("POST", "/v1/audio/translations"): functools.partial(self._file, translates=True),
        }

    async def _models(self, request: web.BaseRequest) -> web.StreamResponse:
        written = sorted({target for targets in self.service.pairs.values() for target in targets})
        names = [self.title, *(f"{self.title}:{target}" for target in written)]
        rows = [{"id": name, "object": "model", "created": 0, "owned_by": "simulst"} for name in names]
        return web.json_response({"object": "list", "data": rows})

    async def _realtime(self, request: web.BaseRequest) -> web.StreamResponse:
        async with self.connections.socket(request) as socket:
            model = request.query.get("model", "")
            client = Realtime(self.service, socket.send, self.connections.number, model)
            await client.begin()
            await self.connections.converse(socket, client)
        return socket.answer

    async def _file(self, request: web.BaseRequest, translates: bool) -> web.StreamResponse:
        with self.connections.place("clients"), tempfile.TemporaryDirectory(prefix="simulst-") as folder:
            path, pcm = Path(folder, "file"), Path(folder, "pcm")
            form = await self.connections.before_end(self._taken(request, path, pcm, translates))
            events = web.StreamResponse(headers={"Content-Type": "text/event-stream"}) if form.stream else None
            if events is not None:
                await dressed(events).prepare(request)
            try:
                speaker = await self._heard(request, form, pcm, events)
                return await self._answer(form, speaker, events)
            except Exception as error:
                if events is None or isinstance(error, ConnectionError | TimeoutError):
                    raise
                await _tell(events, error_of(*told(error)))
                return events

    async def _taken(self, request: web.BaseRequest, path: Path, pcm: Path, translates: bool) -> Form:
        """What a client asks for, once its file is decoded."""
        form = await _received(request, path, self.connections.limits.upload)
        form.pair = pair_of(self.service, form.language, form.model, translates)
        try:
            try:
                async with self._decoding:
                    form.seconds = await decode_apart(path, pcm, self.service.longest, QUICK)
            except TooMuch:  # once more, when the others have had their turn
                async with self._large:
                    form.seconds = await decode_apart(path, pcm, self.service.longest, MOST)
        except SimulstError as error:
            raise SimulstError(str(error).replace(str(path), form.name)) from error
        path.unlink()
        return form

    async def _heard(
        self, request: web.BaseRequest, form: Form, pcm: Path, events: web.StreamResponse | None
    ) -> Speaker:
        """The speaker of a file, once it has ended."""

        begun = False

        async def send(message: Mapping[str, Any]) -> None:
            nonlocal begun
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError("the client has gone")
            if events is not None and (new := message.get("new")):
                new, begun = new if begun else new.lstrip(), True
                await _tell(events, {"type": "transcript.text.delta", "delta": new})

        speaker = Speaker(self.service, send, self.connections.number)
        try:
            source, target = form.pair
            name = {"wav_name": form.name}
            await speaker.ask(Message(None, source, target, name, details=True, text=form.prompt))
            with pcm.open("rb") as file:
                while audio := file.read(2 * SAMPLE_RATE):
                    if self.connections.stopping.is_set():
                        raise Refusal(*ENDS)
                    await speaker.take(audio, more=True)
            await speaker.end()
        finally:
            speaker.leave()
        return speaker

    async def _answer(self, form: Form, speaker: Speaker, events: web.StreamResponse | None) -> web.StreamResponse:
        rows = speaker.channel.words
        text = "".join(word for word, *_ in rows).strip()
        if events is not None:
            await _tell(events, {"type": "transcript.text.done", "text": text})
            return events
        if form.format == "text":
            return web.Response(text=f"{text}\n")
        if form.format == "json":
            return web.json_response({"text": text, "usage": {"type": "duration", "seconds": form.seconds}})
        spoken = speaker.channel.spoken
        times = spoken if len(spoken) == len(rows) else [None] * len(rows)
        words = [Word(word, delay, span) for (word, delay, _), span in zip(rows, times, strict=True)]
        timed, cues = await cues_for(self.service, words)
        if form.format in ("srt", "vtt"):
            return web.Response(text=as_srt(cues) if form.format == "srt" else as_vtt(cues))
        spaced = " " in text  # Chinese and Japanese have no spaces, at the ends of lines either
        lines = [(cue, (" " if spaced else "").join(cue.lines)) for cue in cues]
        found = {
            "task": "transcribe" if form.pair[0] == form.pair[1] else "translate",
            "language": form.pair[1],
            "duration": form.seconds,
            "text": text,
            "segments": [
                {"id": i, "start": cue.begin_ms / 1000, "end": cue.end_ms / 1000, "text": line}
                for i, (cue, line) in enumerate(lines)
            ],
        }
        if form.words:
            found["words"] = [
                {"word": word.text.strip(), "start": word.begin_ms / 1000, "end": word.end_ms / 1000} for word in timed
            ]
        return web.json_response(found)


@dataclass
class Form:
    """What a client asks for.

    name: of its file. prompt: a text about the speech. words: whether it wants the words' times. pair, seconds: found.
    """

    name: str
    model: str
    language: str | None
    prompt: str | None
    format: str
    stream: bool
    words: bool
    pair: tuple[str, str] = ("", "")
    seconds: float = 0.0


async def _tell(events: web.StreamResponse, event: Mapping[str, Any]) -> None:
    async with asyncio.timeout(STALLS):
        await events.write(f"data: {json.dumps(event)}\n\n".encode())


async def _received(request: web.BaseRequest, path: Path, most: int) -> Form:
    """Write the file of a form to a path. most: its bytes. Raises SimulstError: it is no form of OpenAI's."""
    if (request.content_length or 0) > most + FIELDS:
        raise _too_much(most)
    name, fields, rest = "", dict[str, list[str]](), FIELDS
    try:
        reader = await request.multipart()
        for number in itertools.count():
            async with asyncio.timeout(STALLS):
                part = await reader.next()
            if part is None:
                break
            if number == PARTS or not isinstance(part, BodyPartReader):
                raise ValueError("too many, or parts of a part")
            key = (part.name or "").partition("[")[0]
            if key != "file":
                value = b"".join([chunk async for chunk in _chunks(part, rest)])
                rest -= len(value)
                fields.setdefault(key, []).append(value.decode())
            elif name:
                raise SimulstError("the form has two files; send one.")
            else:
                name = re.split(r"[/\\]", part.filename or "")[-1][-LONGEST_NAME:] or "file"
                with path.open("wb") as file:
                    async for chunk in _chunks(part, most):
                        file.write(chunk)
    except (ValueError, RuntimeError, AssertionError, HttpProcessingError, web.RequestPayloadError) as error:
        raise SimulstError("the body is no whole form; send it as multipart/form-data.") from error
    if not name:
        raise SimulstError("the form has no file; send it as the field 'file'.")
    if unknown := fields.keys() - {*KNOWN, *IGNORED}:
        raise SimulstError(f"this server can't meet the field '{min(unknown)[:40]}'; leave it out.")

    def last(key: str, usual: str = "") -> str:
        return fields.get(key, [usual])[-1]

    stream, chosen = last("stream").lower() in ("true", "1"), last("response_format", "json")
    words = "word" in fields.get("timestamp_granularities", ())
    if chosen not in FORMATS:
        raise SimulstError(f"this server has no response_format '{chosen[:40]}'; it has {', '.join(FORMATS)}.")
    if words and chosen != "verbose_json":
        raise SimulstError("times of words come with response_format verbose_json alone.")
    if stream and chosen not in ("json", "text"):
        raise SimulstError(f"{chosen} can't be streamed: it is made of the whole text; leave stream out.")
    return Form(name, last("model"), last("language") or None, last("prompt") or None, chosen, stream, words)


async def _chunks(part: BodyPartReader, most: int) -> AsyncIterator[bytes]:
    """What comes of a part of a form. most: bytes."""
    came = 0
    while True:
        async with asyncio.timeout(STALLS):
            chunk = await part.read_chunk(1 << 16)
        if not chunk:
            return
        came += len(chunk)
        if came > most:
            raise _too_much(most)
        yield chunk


def _too_much(most: int) -> Refusal:
    if most <= FIELDS:
        return Refusal(413, f"a form has at most {FIELDS >> 10} KiB beside its file; send less.")
    return Refusal(413, f"a file has at most {most >> 20} MiB here; send a smaller one, or a compressed one.")
