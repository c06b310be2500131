"""One client of our server: simulstream's messages, and a few of our own that only a client that asks receives.

From the client, as JSON: `sample_rate`, `source_lang` (`auto`: it is found), `target_lang`, `metrics_metadata`, then
`end_of_stream`; audio as integers of 16 bits. To the client: `{"new": final words, "deleted": ""}`, then
`{"end_of_processing": true}`.

Our own: `details: true` asks for the key `simulst` in answers (channel.py); `decoding` chooses settings (settings.py);
`terms`, `text` and `target_text` tell what is known of the speech, also while it runs; `clear: true` drops a stream;
`share: SECRET` asks for a viewer's link; `subtitles: srt|vtt` with `words` and `source` for a file of subtitles.
`{"error": sentence}` tells what was wrong with a message, which is ignored.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import soxr
from pydantic import Field

from simulst.audio.units import SAMPLE_RATE
from simulst.background import NOTHING, Background, told
from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.languages import AUTO
from simulst.models.base import language_pairs
from simulst.needs import Need
from simulst.opening import Opening
from simulst.options import read_fields
from simulst.serve.channel import Channel, Mark, link_of
from simulst.serve.log import Log
from simulst.serve.sent import check_sent
from simulst.serve.settings import chosen, offered
from simulst.session import Model
from simulst.stream import Emission
from simulst.streams import OpenStream, open_stream
from simulst.streams.driver import DriverThread
from simulst.subtitles import Cue, Layout, as_srt, as_vtt, cues_of, spoken_words, with_source, written_words
from simulst.subtitles import Word as TimedWord

COLLECTED = 0.1  # seconds of audio that are pushed at once, at least
ALIVE = 5.0  # seconds after which a client that asks for details hears something, however long a step computes
PIECE = SAMPLE_RATE  # samples of a client that is behind that are pushed at once; then it gets the words
TEXT = 1 << 20  # bytes of a message of text; a file of subtitles has its words in it
TOLD = ("terms", "text", "target_text")  # what a client may say of its speech
SECRET = re.compile(r"[0-9a-f]{32}")
T = TypeVar("T")
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Text = Annotated[str, Field(max_length=200)]
Ms = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


@dataclass(frozen=True)
class Word:
    """A word that a client wants to have in subtitles. spoken: first and last ms, if they are known."""

    text: Text
    delay_ms: Ms
    spoken: tuple[Ms, Ms] | None = None


@dataclass(frozen=True)
class Message:
    """What a message of text may ask for; other keys are ignored, as simulstream does."""

    sample_rate: int | None = None
    source_lang: Annotated[str, Field(max_length=40)] | None = None
    target_lang: Annotated[str, Field(max_length=40)] | None = None
    metrics_metadata: Any = None
    details: bool = False
    decoding: dict[str, Any] | None = None
    terms: str | None = None
    text: str | None = None
    target_text: str | None = None
    clear: bool = False
    share: str | None = None
    subtitles: Literal["srt", "vtt"] | None = None
    words: Annotated[list[Word], Field(max_length=20_000)] = field(default_factory=list)
    source: Annotated[list[Word], Field(max_length=20_000)] = field(default_factory=list)


@dataclass
class Service:
    """What all clients of a server share.

    pairs: spoken → written languages on offer. usual: those of clients that name none; None: they must.
    longest: seconds that a stream may last. log: words and times are added to it.
    channels: by the names of viewers' links. settings: what clients may choose. dividing: held while a text
        is divided into subtitles, one at once.
    """

    model: Model
    decoding: Decoding
    pairs: Mapping[str, tuple[str, ...]]
    usual: tuple[str, str] | None = None
    unit: str = ""
    background: Background = NOTHING
    longest: float = 14_400.0
    log: Log | None = None
    driver: DriverThread = field(default_factory=DriverThread)
    channels: dict[str, Channel] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    dividing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def open(
        self, decoding: Decoding, pair: tuple[str, str], timed: bool = False, told: Background | None = None
    ) -> OpenStream:
        """A new stream. told: what its client says of it; None: nothing, what is known of all streams holds.

        Raises SimulstError: the model lacks these languages, or can't run the configuration.
        """
        known = self.background if told is None else told
        among = [source for source, targets in self.pairs.items() if source != AUTO and pair[1] in targets]
        return open_stream(self.model, decoding, *pair, self.unit, background=known, timed=timed, among=among)

    def check(self) -> None:
        """Open a stream, and see what clients may choose. Raises SimulstError: it can't be opened."""
        pair = self.usual or next((source, targets[0]) for source, targets in self.pairs.items())
        self.open(self.decoding, pair)
        named = [source for source in (pair[0], *self.pairs, *language_pairs(self.model)) if source != AUTO]
        gives = self.model.session(Opening(named[0], pair[1])).traits.gives if named else frozenset()
        self.settings = offered(self.decoding, Need.ATTENTION in gives)


class Speaker:
    """A client that sends audio, one stream after the other. `take` takes each message; `end` and `leave` end it.

    Raises SimulstError, from `take` and `end`: the client is told why, and its connection has to be closed.
    """

    def __init__(self, service: Service, send: Send, number: Callable[[], int]) -> None:
        self._service, self._send, self._number = service, send, number
        self.channel = Channel()
        self._link = ""
        self._details = False
        self._decoding = service.decoding
        self._forget()

    async def take(self, message: str | bytes, more: bool = False) -> None:
        """Take a message in, and answer it. more: the next one is there already, so audio may wait for it."""
        if isinstance(message, bytes):
            await self._audio(message, more)
            return
        try:
            content = content_of(message)
            if "end_of_stream" not in content:
                await self.ask(_message(content))
                return
        except SimulstError as error:
            await self.wrong(str(error))
            return
        await self.end()

    async def wrong(self, sentence: str) -> None:
        """Tell the client what is wrong."""
        await self._send({"error": sentence})

    @property
    def speaks(self) -> bool:
        """Whether a stream has begun and not ended."""
        return self._stream is not None or bool(self._buffer)

    async def end(self) -> None:
        """The stream ends: send the rest of its words."""
        error: SimulstError | None = None
        try:
            if self._buffer:
                await self._push_sent(whole=True)
            if self._resampler is not None:
                await self._push(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))
            if self._stream is not None:
                await self._push(np.zeros(0, np.float32), finished=True)
            else:
                await self._answer(0)
        except SimulstError as wrong:
            error = wrong
            await self.wrong(str(wrong))
        await self._send({"end_of_processing": True})
        self._forget()
        if error is not None:
            raise error

    def leave(self) -> None:
        """The client has gone."""
        if self._stream is not None:
            self._service.driver.cancel(self._stream)
        self._forget()
        self.channel.ended = True
        self.channel.tell()
        if self._service.channels.get(self._link) is self.channel:
            del self._service.channels[self._link]

    def _forget(self) -> None:
        self._stream: OpenStream | None = None
        self._pair = self._service.usual
        self._told: Background | None = None
        self._logged = 0, 0  # languages that were found, and words of the source text
        self._rate = SAMPLE_RATE
        self._resampler: soxr.ResampleStream | None = None
        self._buffer = b""
        self._heard = 0  # samples
        self.channel.since(mark := Mark())  # what ended is not sent again
        self._mark = mark
        self._id = self._number()

    # ---- text ----

    async def ask(self, message: Message) -> None:
        """Do what a message of text asks for. Raises SimulstError: it can't be, and nothing has changed."""
        if message.clear:
            self._forget()
        if message.sample_rate is not None:
            check_sent(b"", message.sample_rate, whole=False)
            if self.speaks and message.sample_rate != self._rate:
                raise SimulstError("the sample rate can't change within a stream; end it first.")
            self._rate = message.sample_rate
        self._choose_languages(message.source_lang, message.target_lang)
        if message.decoding is not None:
            if self.speaks:
                raise SimulstError("settings can't change within a stream; end it first.")
            self._decoding = chosen(self._service.decoding, self._service.settings, message.decoding)
        said = {name: value for name in TOLD if (value := getattr(message, name)) is not None}
        if said:
            self._told = told(**said) if any(said.values()) else None
            if self._stream is not None:
                stream, known = self._stream, self._told or self._service.background
                await self._while_alive(self._service.driver.call_async(lambda: stream.tell(known)))
        self._details = self._details or message.details
        if message.metrics_metadata is not None:
            self._log({"metadata": message.metrics_metadata})
        if message.share is not None:
            await self._share(message.share)
        if message.subtitles is not None:
            await self._send(await self._while_alive(_subtitles(self._service, message)))

    def _choose_languages(self, source: str | None, target: str | None) -> None:
        if source is None and target is None:
            return
        pairs, usual = self._service.pairs, self._pair or ("", "")
        source, target = source or usual[0], target or usual[1]
        if source not in pairs:
            raise SimulstError(f"this server does not hear '{source}'; it hears {', '.join(pairs)}.")
        if target not in pairs[source]:
            written = ", ".join(pairs[source])
            raise SimulstError(f"this server does not write '{target}' from '{source}'; it writes {written}.")
        if self.speaks and (source, target) != self._pair:
            raise SimulstError("languages can't change within a stream; end it first.")
        self._pair = source, target

    async def _share(self, secret: str) -> None:
        if not SECRET.fullmatch(secret):
            raise SimulstError("share has no secret of 32 hexadecimal digits; make a random one.")
        link = link_of(secret)
        if self._service.channels.setdefault(link, self.channel) is not self.channel:
            raise SimulstError("another stream is shared by this secret; make a random one.")
        if self._link not in ("", link):
            del self._service.channels[self._link]
        self._link = link
        await self._send({"link": link})

    # ---- audio ----

    async def _audio(self, data: bytes, more: bool) -> None:
        seconds = self._heard / SAMPLE_RATE + len(self._buffer) / 2 / self._rate
        if (longest := self._service.longest) <= seconds:
            await self.end()
            raise SimulstError(f"a stream lasts at most {longest:g} s here; begin another one.")
        self._buffer += data
        if len(self._buffer) >= 2 * self._rate * (PIECE / SAMPLE_RATE if more else COLLECTED):
            await self._push_sent(whole=False)

    async def _push_sent(self, whole: bool) -> None:
        check_sent(self._buffer, self._rate, whole)
        even = len(self._buffer) // 2 * 2
        samples = np.frombuffer(self._buffer[:even], dtype="<i2").astype(np.float32) / 2**15
        self._buffer = self._buffer[even:]
        if self._rate != SAMPLE_RATE:
            if self._resampler is None:
                self._resampler = soxr.ResampleStream(self._rate, SAMPLE_RATE, 1, dtype="float32")
            samples = self._resampler.resample_chunk(samples)
        await self._push(samples)

    async def _push(self, samples: np.ndarray, finished: bool = False) -> None:
        if not (samples.size or finished):  # the resampler holds some back
            return
        came = time.monotonic()
        for start in range(0, max(1, samples.size), PIECE):
            piece = samples[start : start + PIECE]
            if self._stream is None:
                await self._open()
            stream = self._stream
            assert stream is not None
            before = len(self.channel.words), stream.meter.seconds
            self._heard += piece.size
            error: SimulstError | None = None
            waited = 0.0
            try:
                waited = await self._while_alive(self._service.driver.push_async(stream, piece, finished))
            except SimulstError as wrong:
                error = wrong
            self.channel.take(stream, self._heard * 1000 / SAMPLE_RATE, waited, 1000 * (time.monotonic() - came))
            if finished:
                self.channel.unstable = ""
            await self._answer(*before)
            if error is not None:
                raise error

    async def _open(self) -> None:
        if self._pair is None:
            raise SimulstError("name source_lang and target_lang before the audio; this server has several.")
        make = functools.partial(self._service.open, self._decoding, self._pair, self._details, self._told)
        self._stream = await self._while_alive(self._service.driver.call_async(make))
        self.channel.begin(self._pair)

    async def _while_alive(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of the work. Meanwhile the client is told now and then that the connection lives."""
        task = asyncio.create_task(work)
        try:
            while not (await asyncio.wait({task}, timeout=ALIVE))[0]:
                if self._details:
                    await self._send({"simulst": self.channel.since(self._mark)})
            return task.result()
        finally:
            task.cancel()

    async def _answer(self, written: int, computed: float = 0.0) -> None:
        """Send what a push has changed. written, computed: words and seconds of the stream before it."""
        new = self._stream.emissions[written:] if self._stream is not None else []
        answer: dict[str, Any] = {"new": "".join(word.text for word in new), "deleted": ""}
        if self._details:
            answer["simulst"] = self.channel.since(self._mark)
        self.channel.tell()
        if self._stream is not None:
            self._log_push(new, computed, self._stream.meter.seconds)
        await self._send(answer)

    def _log_push(self, new: Sequence[Emission], begun: float, ended: float) -> None:
        """A row for each position at which words were written, and one for the audio that was heard after it.

        So delays do not depend on how much audio was pushed at once, as more is if the machine is slow.

        begun, ended: seconds that the stream had computed before the push, and after it.
        """
        rows = [(delay_ms, list(words)) for delay_ms, words in itertools.groupby(new, lambda word: word.delay_ms)]
        heard_ms, more = self._heard * 1000 / SAMPLE_RATE, self._more_to_log()
        if not rows or more or rows[-1][0] < heard_ms:
            rows.append((heard_ms, []))
        for number, (delay_ms, words) in enumerate(rows, start=1):
            until = ended if number == len(rows) else (words[-1].elapsed_ms - delay_ms) / 1000
            audio = {"total_audio_processed": delay_ms / 1000, "computation_time": until - begun}
            tokens = {"generated_tokens": [word.text for word in words], "deleted_tokens": []}
            self._log({**audio, **tokens, **(more if number == len(rows) else {})})
            begun = until

    def _more_to_log(self) -> dict[str, Any]:
        """What a row has besides: languages that were found, each with its ms, and words of the source text."""
        assert self._stream is not None
        languages, source = self._stream.languages, self._stream.source or ()
        known, self._logged = self._logged, (len(languages), len(source))
        more = {"languages": languages[known[0] :], "source_tokens": [word.text for word in source[known[1] :]]}
        return {key: value for key, value in more.items() if value}

    def _log(self, row: dict[str, Any]) -> None:
        if self._service.log is not None:
            self._service.log.write({"id": self._id, **row})


def content_of(text: str) -> dict[str, Any]:
    """The object of a message of text. Raises SimulstError: it has none."""
    if len(text) > TEXT:
        raise SimulstError(f"a message of text has more than {TEXT} characters; send less at once.")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SimulstError("a message of text is no JSON.") from error
    if not isinstance(content, dict):
        raise SimulstError("a message of text is no object of JSON.")
    return content


def _message(content: dict[str, Any]) -> Message:
    try:
        return read_fields(Message, content, "your message", "correct it")
    except (SimulstError, RecursionError) as error:
        raise SimulstError(str(error)[:500]) from error


async def answer_of_viewer(service: Service, message: str | bytes) -> dict[str, Any]:
    """What is sent to a viewer, who may ask for subtitles alone."""
    try:
        asked = _message(content_of(message)) if isinstance(message, str) else Message()
        if asked.subtitles is None:
            raise SimulstError("viewers may ask for subtitles alone.")
        return await _subtitles(service, asked)
    except SimulstError as error:
        return {"error": str(error)}


async def _subtitles(service: Service, message: Message) -> dict[str, Any]:
    """A file of the words of a message. Raises SimulstError: their times fall."""
    _, cues = await cues_for(service, message.words, message.source)
    text = as_srt(cues) if message.subtitles == "srt" else as_vtt(cues)
    times = "spoken" if all(word.spoken for word in message.words) else "written"
    return {"subtitles": message.subtitles, "times": times, "text": text}


async def cues_for(
    service: Service, words: Sequence[Word], source: Sequence[Word] = ()
) -> tuple[list[TimedWord], list[Cue]]:
    """Words with times, spoken if all are known and else written, and their subtitles. source: above them.

    Raises SimulstError: their times fall.
    """
    layout = Layout()
    emissions = [Emission(word.text, word.delay_ms, word.delay_ms) for word in words]
    if any(later.delay_ms < word.delay_ms for word, later in itertools.pairwise(words)):
        raise SimulstError("the words' delays fall; send them in order.")
    spoken = [word.spoken for word in words if word.spoken is not None]
    times = itertools.pairwise(itertools.chain.from_iterable(spoken))
    if any(later < sooner for sooner, later in times):
        raise SimulstError("the words' times fall; send them in order.")
    known = len(spoken) == len(words)
    timed = spoken_words(emissions, spoken) if known else written_words(emissions, layout.reading_speed)
    said = [Emission(word.text, word.delay_ms, word.delay_ms) for word in source]
    async with service.dividing:
        return timed, await _in_thread(lambda: with_source(cues_of(timed, layout), said, layout))


async def _in_thread(function: Callable[[], T]) -> T:
    """Like asyncio.to_thread, in a thread that a server which ends does not wait for."""
    found = Future[T]()
    found.set_running_or_notify_cancel()

    def work() -> None:
        try:
            found.set_result(function())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(found)


def pairs_of(
    model: Model, sources: tuple[str, ...], targets: tuple[str, ...]
) -> tuple[dict[str, tuple[str, ...]], tuple[str, str] | None]:
    """The languages on offer, spoken → written, and those of clients that name none (None: they must).

    sources, targets: those that the server's owner has named. Where none are, the model tells its own.
    Raises SimulstError: the model tells none.
    """
    known = language_pairs(model)
    if not known and not (sources and targets):
        raise SimulstError("the model does not tell its languages; give --source-lang and --target-lang.")
    finds = AUTO in sources or (len(sources or known) > 1 and hasattr(model, "spoken_languages"))
    every = {target for written in known.values() for target in written}
    found = [target for target in sorted(every) if sum(target in written for written in known.values()) > 1]
    offered = dict.fromkeys((*(sources or known), *((AUTO,) if finds else ())))
    pairs = {source: targets or (tuple(found) if source == AUTO else known.get(source, ())) for source in offered}
    if lacking := [source for source, written in pairs.items() if not written]:
        raise SimulstError(f"the model does not hear '{lacking[0]}'; it hears {', '.join(known)}.")
    first = next(iter(pairs))
    return pairs, (first, pairs[first][0]) if sources or len(pairs) == 1 else None
