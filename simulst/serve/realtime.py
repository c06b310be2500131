"""OpenAI's realtime interface, as a session that transcribes: events of JSON, with audio in them.

Words come as deltas while the audio comes; `commit` ends the stream and completes the item, as does the end of a turn
that the server finds (turns.py). The text is that of other clients: a stream of ours stands behind it.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError
from simulst.languages import AUTO
from simulst.options import read_fields
from simulst.serve.client import Message, Send, Service, Speaker, content_of
from simulst.serve.turns import ServerVad, Turns

ITEM = "conversation.item.input_audio_transcription"


@dataclass(frozen=True)
class Format:
    """Integers of 16 bits, mono. rate: in Hz."""

    type: Literal["audio/pcm"] = "audio/pcm"
    rate: int = 24_000


@dataclass(frozen=True)
class Transcription:
    """model: `any-name:de` writes German. language: that is spoken. prompt: a text about the speech."""

    model: str | None = None
    language: str | None = None
    prompt: str | None = None


@dataclass(frozen=True)
class Input:
    """turn_detection: null if the client commits."""

    format: Format | None = None
    transcription: Transcription | None = None
    turn_detection: ServerVad | None = None


@dataclass(frozen=True)
class Audio:
    """What is said of the audio that comes."""

    input: Input = field(default_factory=Input)


@dataclass(frozen=True)
class Session:
    """What a client chooses."""

    type: Literal["transcription"] = "transcription"
    audio: Audio = field(default_factory=Audio)


def pair_of(service: Service, language: str | None, model: str, translates: bool = False) -> tuple[str, str]:
    """The languages that are meant. Programs name a model, and hardly a target: `any-name:de` writes German.

    Raises SimulstError: none can be told, or this server does not have them.
    """
    _, named, target = model.rpartition(":")
    found = AUTO if AUTO in service.pairs and (named or translates) else service.usual[0] if service.usual else ""
    source = language or found
    if source not in service.pairs:
        what = f"does not hear '{source[:40]}'" if source else "needs the spoken language, as 'language'"
        raise SimulstError(f"this server {what}; it hears {', '.join(service.pairs)}.")
    written = service.pairs[source]
    if not named:
        target = source if not translates else "en" if "en" in written else written[0]
    if target not in written:
        offer = f"it writes {', '.join(written)}: name one after the model, as in 'model:{written[0]}'"
        raise SimulstError(f"this server does not write '{target[:40]}' from '{source}'; {offer}.")
    return source, target


class Realtime(Speaker):
    """A client of the realtime interface. model: named in the address."""

    def __init__(self, service: Service, send: Send, number: Callable[[], int], model: str) -> None:
        super().__init__(service, self._tell_answer, number)
        self._tell, self._event_number = send, itertools.count().__next__
        self._session = Session(audio=Audio(Input(Format(), Transcription(model))))
        self._written, self._failed = "", False
        self._item, self._last_item = "", ""
        self._turns: Turns | None = None

    async def begin(self) -> None:
        """Tell the client that it may begin."""
        await self._event("session.created", session=self._shown())

    async def take(self, message: str | bytes, more: bool = False) -> None:
        """Take an event in. What is wrong with it is told; what is wrong with audio ends the connection."""
        event: Mapping[str, Any] = {}
        audio = b""
        try:
            if isinstance(message, bytes):
                raise SimulstError("bytes came; send events of JSON, with audio in base64.")
            event = content_of(message)
            kind = event.get("type")
            if kind == "session.update":
                await self._update(event)
            elif kind == "input_audio_buffer.append":
                audio = await self._audio_of(event)
            elif kind == "input_audio_buffer.clear":
                if self._turns is not None:
                    self._turns.drop()
                await self.ask(Message(clear=True))
                await self._event("input_audio_buffer.cleared")
            elif kind != "input_audio_buffer.commit":
                raise SimulstError(f"this server has no event '{str(kind)[:60]}'; it transcribes audio, and no more.")
            elif not self.speaks:
                raise SimulstError("there is nothing to commit; append audio first.")
        except SimulstError as error:
            await self._refuse(str(error), event.get("event_id"))
            return
        if audio and self._turns is not None:
            await self._hear(self._turns, audio, more)
        elif audio:
            await super().take(audio, more)
        elif kind == "input_audio_buffer.commit":
            if self._turns is not None:
                await self._hear(self._turns, b"", more=True, all_of_it=True)
                self._turns.drop()
            if self.speaks:  # unless its turn has just ended
                await self.end()

    async def _hear(self, turns: Turns, audio: bytes, more: bool, all_of_it: bool = False) -> None:
        """Begin and end items where the turns in the audio do."""
        heard = self._service.driver.call_async(lambda: turns.hear(audio, all_of_it))
        for event in (events := await self._while_alive(heard)):
            if isinstance(event, bytes):
                await super().take(event, more or event is not events[-1])
                continue
            kind, ms = event
            if kind == "speech_started":
                await self._begin_item()
            at = {"audio_start_ms" if kind == "speech_started" else "audio_end_ms": ms}
            await self._event(f"input_audio_buffer.{kind}", item_id=self._item, **at)
            if kind == "speech_stopped":
                await self.end()

    async def end(self) -> None:
        """The item is complete: send the rest of its words."""
        await self._event("input_audio_buffer.committed", item_id=self._item, previous_item_id=self._last_item or None)
        await super().end()

    async def wrong(self, sentence: str) -> None:
        """Tell the client what is wrong with its item, which has no end then."""
        self._failed = True
        await self._refuse(sentence, None)

    async def _refuse(self, sentence: str, event_id: Any) -> None:
        error = {"type": "invalid_request_error", "code": None, "message": sentence, "param": None}
        await self._event("error", error={**error, "event_id": event_id if isinstance(event_id, str) else None})

    async def _update(self, event: Mapping[str, Any]) -> None:
        session = read_fields(Session, event.get("session"), "your session", "correct it")
        new, old = session.audio.input, self._session.audio.input
        given = (event["session"].get("audio") or {}).get("input") or {}
        vad = new.turn_detection if "turn_detection" in given else old.turn_detection
        merged = Input(new.format or old.format, new.transcription or old.transcription, vad)
        if self.speaks and (merged.turn_detection, merged.format) != (old.turn_detection, old.format):
            raise SimulstError("turn_detection and the format can't change within a stream; commit it first.")
        await self.ask(self._asked(merged))
        if (merged.turn_detection, merged.format) != (old.turn_detection, old.format):
            assert merged.format is not None
            options, rate = vad, merged.format.rate
            make = self._service.driver.call_async(lambda: Turns(options, rate) if options else None)
            self._turns = await self._while_alive(make)
        self._session = Session(audio=Audio(merged))
        await self._event("session.updated", session=self._shown())

    def _asked(self, chosen: Input) -> Message:
        assert chosen.format is not None and chosen.transcription is not None
        asked = chosen.transcription
        source, target = pair_of(self._service, asked.language, asked.model or "")
        rate = SAMPLE_RATE if chosen.turn_detection else chosen.format.rate
        return Message(sample_rate=rate, source_lang=source, target_lang=target, text=asked.prompt)

    async def _audio_of(self, event: Mapping[str, Any]) -> bytes:
        """The audio of an event. Where no turns are found, an item begins with the first one."""
        try:
            audio = base64.b64decode(event.get("audio", ""), validate=True)
        except (ValueError, TypeError) as error:
            raise SimulstError("the audio is no base64.") from error
        if audio and not self.speaks and self._turns is None:
            await self._begin_item()
        return audio

    async def _begin_item(self) -> None:
        await self.ask(self._asked(self._session.audio.input))
        self._last_item, self._item = self._item, f"item_{self._event_number()}"
        self._written, self._failed = "", False

    async def _tell_answer(self, message: Mapping[str, Any]) -> None:
        item: dict[str, Any] = {"item_id": self._item, "content_index": 0}
        if new := message.get("new", ""):
            new = new if self._written else new.lstrip()
            self._written += new
            await self._event(f"{ITEM}.delta", **item, delta=new)
        if "end_of_processing" in message and not self._failed:
            usage = {"type": "duration", "seconds": self.channel.heard_ms / 1000}
            await self._event(f"{ITEM}.completed", **item, transcript=self._written.rstrip(), usage=usage)

    async def _event(self, kind: str, **content: Any) -> None:
        await self._tell({"type": kind, "event_id": f"event_{self._event_number()}", **content})

    def _shown(self) -> dict[str, Any]:
        """The session, as the client is told it."""
        audio = dataclasses.asdict(self._session.audio)
        return {"object": "realtime.transcription_session", "type": "transcription", "audio": audio}
