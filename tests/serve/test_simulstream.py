"""Our processor inside simulstream's own programs: their text, delays and scores are those of our runs."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import itertools
import json
import logging
import os
import socket
import struct
import sys
import threading
import urllib.error
import urllib.request
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from fake import FakeModel, FakeSession, Loudness, noted

import simulst
from simulst.audio.read import digest_of_beginning, load_audio
from simulst.background import Background
from simulst.config import LIVE, load_decoding, parse_decoding
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.log import read_log
from simulst.log.instance import Instance
from simulst.opening import Opening
from simulst.runs.decode import instance_of
from simulst.streams import open_stream

pytest.importorskip("simulstream")
import tiny_whisper
import websockets as ws
from servers import FAKE, LA2, close_metrics, http, websockets, write_wavs, write_yaml
from simulstream import inference
from simulstream.client import wav_reader_client
from simulstream.config import yaml_config
from simulstream.metrics.readers import LogReader
from simulstream.server.message_processor import MessageProcessor
from simulstream.server.speech_processors import build_speech_processor
from waiting import HANGS

from simulst.serve import simulstream as module
from simulst.serve.simulstream import StreamProcessor, read_options
from simulst.streams.driver import DriverThread

SIZES = (84800, 33600, 46400)  # simulstream tells the end after the last chunk: no step lies there


class Unopened(FakeModel):
    def session(self, opening: Opening | None = None) -> FakeSession:
        raise TypeError("no such thing")


def ours(folder: Path, twice: bool = False, source: str = "es", target: str = "en", **options: Any) -> list[Instance]:
    """Our own runs. twice: simulstream's wav client sends the last 100 ms of each file twice."""
    instances = []
    for i in range(len(SIZES)):
        stream = open_stream(FakeModel(**options), parse_decoding(LA2, "test"), source, target)
        audio = load_audio(folder / f"talk{i}.wav")
        audio = np.concatenate([audio, audio[-1600:]]) if twice else audio
        stream.push(audio, finished=True)
        utterance = Utterance(f"talk{i}", folder / f"talk{i}.wav", None)
        instances.append(instance_of(stream, utterance, i, audio.size / 16))
    return instances


def same(log: list[Instance], expected: list[Instance]) -> None:
    assert [i.name for i in log] == [i.name for i in expected]
    assert [i.prediction for i in log] == [i.prediction for i in expected]
    assert [i.source_length for i in log] == pytest.approx([i.source_length for i in expected])
    for theirs, mine in zip(log, expected, strict=True):
        assert theirs.delays == pytest.approx(mine.delays)
    assert sum(len(i.delays) for i in log) > 10


def infer(folder: Path, processor: dict[str, Any], source: str | None = None, target: str | None = None) -> Path:
    """What `simulstream_inference` writes."""
    log = folder / "inference.jsonl"
    arguments = Namespace(
        speech_processor_config=str(write_yaml(folder / "inference.yaml", processor)),
        wav_list_file=str(folder / "wavs.txt"),
        src_lang=source,
        tgt_lang=target,
        metrics_log_file=str(log),
    )
    inference.main(arguments)
    close_metrics()
    return log


def send(uri: str, wavs: Path, source: str | None = None, target: str | None = None) -> None:
    """What `simulstream_wavs_client` does."""
    arguments = Namespace(uri=uri, wav_list_file=str(wavs), chunk_duration_ms=100, tgt_lang=target, src_lang=source)
    asyncio.run(wav_reader_client.main(arguments))


def test_server_and_wav_client(tmp_path: Path) -> None:
    with websockets(tmp_path, FAKE) as uri:
        send(uri, write_wavs(tmp_path, SIZES), "fr", "de")
    log = read_log(tmp_path / "metrics.jsonl")
    same(log, ours(tmp_path, twice=True, source="fr", target="de"))
    for instance in log:
        times = zip(instance.elapsed, instance.chunk_elapsed, instance.delays, strict=True)
        assert all(elapsed >= alone >= delay for elapsed, alone, delay in times)


def test_streams_have_numbers_of_their_own() -> None:
    """simulstream's are those of objects, which come back: a stream without a name would continue another one's."""
    processor = build_speech_processor(SimpleNamespace(**FAKE))
    messages = MessageProcessor(7, processor)
    numbers = [messages.client_id]
    for _ in range(2):
        messages.end_of_stream()
        numbers.append(messages.client_id)
    assert len({*numbers, MessageProcessor(7, processor).client_id}) == 4


@pytest.mark.parametrize(("before", "after"), [(48_000, 16_000), (8_000, 44_100)])
def test_a_rate_that_changes_while_audio_is_kept_back(before: int, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent before it keeps its length and its sound."""
    processor, heard = build_speech_processor(SimpleNamespace(**FAKE)), list[np.ndarray]()
    monkeypatch.setattr(processor, "process_chunk", lambda samples: (heard.append(samples), processor._output([]))[1])
    messages = MessageProcessor(7, processor)
    for rate in (before, after):
        messages.process_metadata({"sample_rate": rate})
        tone = 9000 * np.sin(2 * np.pi * 440 * np.arange(round(0.06 * rate)) / rate)
        messages.process_speech(tone.astype("<i2").tobytes())
    [samples] = heard
    assert samples.size == pytest.approx(0.12 * 16000, abs=2)
    crossings = np.flatnonzero(np.diff(np.signbit(samples[:960])))
    assert np.diff(crossings) == pytest.approx(16000 / 880, abs=1.5)


def test_inference_and_http_agree(tmp_path: Path) -> None:
    """The scorers' reader and ours find the same words at the same times."""
    write_wavs(tmp_path, SIZES)
    log = infer(tmp_path, FAKE)
    same(read_log(log), ours(tmp_path))
    theirs = LogReader(yaml_config(str(tmp_path / "inference.yaml")), str(log)).final_outputs_and_latencies()
    for instance in read_log(log):
        found = theirs[instance.name]
        assert found.final_text == instance.prediction
        assert [1000 * seconds for seconds in found.ideal_delays] == pytest.approx(instance.delays)
        assert [1000 * seconds for seconds in found.computational_aware_delays] == pytest.approx(instance.chunk_elapsed)
    log.unlink()
    with http(tmp_path, FAKE) as proxy:
        same(read_log(infer(tmp_path, proxy, "fr", "de")), ours(tmp_path, source="fr", target="de"))


def test_characters(tmp_path: Path) -> None:
    """The scorers count spaces as characters, we do not; the text is the same."""
    write_wavs(tmp_path, SIZES)
    options = {"vocabulary": "chars"}
    log = infer(tmp_path, {**FAKE, "model_options": options, "target_lang": "zh"})
    same(read_log(log, "char"), ours(tmp_path, target="zh", **options))
    reader = LogReader(yaml_config(str(tmp_path / "inference.yaml")), str(log), latency_unit="char")
    for instance in read_log(log, "char"):
        found = reader.final_outputs_and_latencies()[instance.name]
        assert found.final_text == instance.prediction
        pairs = zip(found.ideal_delays, found.final_text, strict=True)
        kept = [seconds for seconds, character in pairs if character != " "]
        assert [1000 * seconds for seconds in kept] == pytest.approx(instance.delays)


def test_clients_share_a_model_and_not_their_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = noted(monkeypatch, FakeModel, "__init__", lambda model, **_: model)
    opened = noted(monkeypatch, FakeModel, "session", lambda model, opening: (opening.source, opening.target))
    write_wavs(tmp_path, SIZES)
    audio = (load_audio(tmp_path / "talk0.wav") * 2**15).astype(np.int16)

    async def speak(uri: str, name: str, languages: dict[str, str]) -> str:
        text = ""
        async with ws.connect(uri, open_timeout=HANGS) as socket:
            await socket.send(json.dumps({"metrics_metadata": {"wav_name": name}, **languages}))
            for start in range(0, audio.size, 1600):
                await socket.send(audio[start : start + 1600].tobytes())
                await asyncio.sleep(0)
            await socket.send(json.dumps({"end_of_stream": True}))
            async for message in socket:
                if "end_of_processing" in message:
                    return text
                text += json.loads(message)["new"]
        return text

    async def both(uri: str) -> list[str]:
        named = {"target_lang": "de", "source_lang": "fr"}
        return await asyncio.gather(speak(uri, "talk0", {}), speak(uri, "talk1", named), speak(uri, "talk2", {}))

    options = {"seed": 7}  # a model that no other test has loaded
    with websockets(tmp_path, {**FAKE, "model_options": options}, pool=2) as uri:
        texts = asyncio.run(both(uri))
    assert len(made) == 1
    assert texts == [ours(tmp_path, seed=7)[0].prediction] * 3
    assert sorted(opened[2:5]) == [("es", "en"), ("es", "en"), ("fr", "de")]


class Turns:
    """A clock that moves only while a model works. An order to the driver waits until the one before is done."""

    def __init__(self, step_seconds: float) -> None:
        self.now = self.free = 0.0
        self.step_seconds = step_seconds

    def taken(self, ordered: Callable[..., Any]) -> Callable[..., Any]:
        def order(*about: Any) -> Any:
            self.now = max(self.now, self.free)
            found = ordered(*about)
            found.exception()  # waits until it is done
            self.free = self.now
            return found

        return order

    def work(self, *about: object) -> None:
        self.now += self.step_seconds

    def perf_counter(self) -> float:
        return self.now


@pytest.mark.parametrize("segment", [{"type": "none"}, {"type": "pause", "seconds": 0.5}])
def test_clients_of_one_model_skip_steps_for_each_other(
    segment: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A step takes 0.7 s of each second: one client is in time. The lag of three may not grow, and none is left out."""
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    seconds, piece, ordered = 30, np.full(1600, 0.1, dtype=np.float32), DriverThread._begin

    def live(clients: int, late: str) -> tuple[float, list[int]]:
        """The largest lag, in seconds, of clients that all send in real time, and how many steps each of them made."""
        turns = Turns(0.7)
        for place in ("simulst.meter.time", "simulst.streams.driver.time"):
            monkeypatch.setattr(place, turns)
        monkeypatch.setattr(FakeModel, "work", turns.work)
        monkeypatch.setattr(DriverThread, "_begin", turns.taken(ordered))
        options = SimpleNamespace(**FAKE | {"decoding": {**LA2, "segment": segment, "late": {"type": late}}})
        monkeypatch.setitem(StreamProcessor._loaded, read_options(options).model_key, FakeModel(unstable=0))
        processors = [StreamProcessor(options) for _ in range(clients)]
        texts = [""] * clients
        lag = 0.0
        waiting = [(0.1, client, 1) for client in range(clients)]  # when the next piece can be taken, whose, its number
        while waiting:
            waiting.sort(key=lambda turn: turn[0])  # who asks first is first
            turns.now, client, number = waiting.pop(0)
            texts[client] += processors[client].process_chunk(piece).new_string
            lag = max(lag, turns.now - number / 10)
            if number < 10 * seconds:
                waiting.append((max(turns.now, (number + 1) / 10), client, number + 1))
        steps = [len(processor._stream.reads) for processor in processors if processor._stream]
        for client, processor in enumerate(processors):
            texts[client] += processor.end_of_stream().new_string
            processor.clear()
        assert [text.strip() for text in texts] == [FakeModel().truth(16000 * seconds).strip()] * clients
        return lag, steps

    assert live(1, "skip")[0] < 1 and "left out" not in caplog.text
    assert live(3, "wait")[0] > 30
    lag, steps = live(3, "skip")
    assert lag < 1 + 3 * 0.7  # it begins less than a second late, then each has its turn
    assert 10 < min(steps) >= max(steps) - 1
    told = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert len(told) == 3 and all(text.startswith("the stream of a client: the machine is too slow: ") for text in told)


def test_skipped_steps_of_a_client_that_leaves_are_told(caplog: pytest.LogCaptureFixture) -> None:
    fast = {"read": {"type": "chunk", "ms": 50}, "commit": {"type": "all"}, "late": {"type": "skip"}}
    slow = {**FAKE, "decoding": fast, "model_options": {"sleep": 0.06}}
    processor = build_speech_processor(SimpleNamespace(**slow))
    processor.process_chunk(np.full(8000, 0.1, dtype=np.float32))
    assert "left out" not in caplog.text
    processor.clear()
    processor.clear()
    assert caplog.text.count("decoding steps were left out") == 1


def test_context(tmp_path: Path, told: list[Background]) -> None:
    """All streams are told the line `*`; a client that changes the languages hears the side of its own."""
    write_wavs(tmp_path, SIZES)
    (tmp_path / "context.tsv").write_text("recording\tterms\ntalk0\tno\n*\tgato=cat\n")
    options = {**FAKE, "context": str(tmp_path / "context.tsv")}
    infer(tmp_path, options)
    assert len(told) > len(SIZES) and {known.target_terms for known in told} == {("cat",)}
    told.clear()
    with http(tmp_path, options) as proxy:
        infer(tmp_path, proxy, "es", "es")
    assert told[-1].target_terms == ("gato",)


def test_context_by_order_and_by_what_is_heard(
    tmp_path: Path, told: list[Background], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each stream is told its own line, in a program and over HTTP; words and delays are those of our runs."""
    write_wavs(tmp_path, SIZES)
    expected = ours(tmp_path)
    lines = [f"talk{i}\t{digest_of_beginning(load_audio(tmp_path / f'talk{i}.wav'))}\tterm{i}" for i in range(3)]
    table = tmp_path / "context.tsv"
    for by, order in (("order", lines), ("audio", lines[::-1])):
        table.write_text("recording\taudio\tterms\n" + "\n".join([*order, "*\t\tall"]) + "\n")
        options = {**FAKE, "context": str(table), "context_by": by}
        for over_http in (False, True):
            told.clear()
            monkeypatch.setattr(StreamProcessor, "_begun", itertools.count())
            (tmp_path / "inference.jsonl").unlink(missing_ok=True)  # simulstream appends
            with http(tmp_path, options) if over_http else contextlib.nullcontext(options) as processor:
                log = infer(tmp_path, processor)
            terms = [term for known in told for term in known.target_terms]
            assert list(dict.fromkeys(terms)) == ["all", "term0", "term1", "term2"]  # one is to try
            same(read_log(log, "word"), expected)
    assert "has no line" not in caplog.text


@pytest.mark.parametrize("by", ["order", "audio"])
def test_a_stream_without_a_line_of_its_own(by: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It gets `*`, or nothing, with a warning; one of silence alone ends with its text, too."""
    (tmp_path / "context.tsv").write_text("recording\taudio\tterms\nother\t0123456789abcdef\tno\n")
    options = {**FAKE, "context": str(tmp_path / "context.tsv"), "context_by": by}
    processor = build_speech_processor(SimpleNamespace(**options))
    processor._begun = iter([1, 2])
    for audio in (np.full(24000, 0.1, dtype=np.float32), np.zeros(24000, dtype=np.float32)):
        caplog.clear()
        processor.process_chunk(audio)
        processor.end_of_stream()
        processor.clear()
        assert caplog.text.count(f"has no line for a stream, by its {by}") == 1


def test_a_server_goes_on_after_bad_clients(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Garbage, an unknown language, other languages on the way, an end within a word: a sentence each."""
    caplog.set_level(logging.INFO)
    loud = np.full(1600, 1000, dtype=np.int16).tobytes()

    async def closed(socket: Any, *messages: str | bytes) -> str:
        """How the server closes the connection, which may be before the last message is sent."""
        with pytest.raises(ws.exceptions.ConnectionClosed) as caught:
            for message in messages:
                await socket.send(message)
            while True:
                await socket.recv()
        return str(caught.value)

    async def misbehave(uri: str) -> None:
        async with ws.connect(uri, open_timeout=HANGS) as socket:  # no JSON, a number, languages in between
            for message in ("{", "5", json.dumps({"sample_rate": "fast"})):
                await socket.send(message)
            await socket.send(loud)
            await socket.recv()
            await socket.send(json.dumps({"target_lang": "de"}))
            await socket.send(loud)
            await socket.recv()  # it goes on as before
        async with ws.connect(uri, open_timeout=HANGS) as socket:
            assert "half a sample came" in await closed(socket, b"odd", loud)
        async with ws.connect(uri, open_timeout=HANGS) as socket:
            await closed(socket, json.dumps({"source_lang": "ru"}), loud)
        for rate in (0, 1, 16, -8000, 10**12, True):
            async with ws.connect(uri, open_timeout=HANGS) as socket:
                reason = await closed(socket, json.dumps({"sample_rate": rate}), loud)
                assert "1008" in reason and f"sample_rate is {int(rate)}; give the audio's" in reason
        async with ws.connect(uri, open_timeout=HANGS) as socket:  # named when audio waits for more of its chunk
            await closed(socket, loud[:1600], json.dumps({"sample_rate": 1}), json.dumps({"end_of_stream": True}), loud)
        async with ws.connect(uri, open_timeout=HANGS) as socket:  # digital silence is the same in both
            floats = np.linspace(-0.1, 0.1, 1600, dtype=np.float32).tobytes()
            assert "the samples look like floats of 32 bits" in await closed(socket, bytes(1600), floats)
        idle = await ws.connect(uri, open_timeout=HANGS)  # sends a part of a word, and nothing more
        await idle.send(loud)
        await asyncio.to_thread(send, uri, wavs)
        await idle.close()

    wavs = write_wavs(tmp_path, SIZES)
    with websockets(tmp_path, FAKE, pool=2) as uri:
        with monkeypatch.context() as patch:
            resample = Mock(side_effect=AssertionError("resampled"))
            patch.setattr("simulstream.server.message_processor.librosa.resample", resample)
            asyncio.run(misbehave(uri))
        assert "the stream is es-en and can't become es-de on the way; end it first" in caplog.text
        [unknown] = [r for r in caplog.records if "no language 'ru'" in r.getMessage()]
        assert unknown.exc_info is None
        assert "half a sample came; send integers of 16 bits." in caplog.text
        assert "Traceback" not in caplog.text and "resampled" not in caplog.text
        told = [r.getMessage() for r in caplog.records if "sample_rate is" in r.getMessage()]
        assert len(told) == 8 and "give the audio's, from 4000 to 384000 Hz." in told[0]
    same(read_log(tmp_path / "metrics.jsonl"), ours(tmp_path, twice=True))


def test_faults_of_our_code_keep_their_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamProcessor, "_push", Mock(side_effect=ValueError("a fault")))
    processor = build_speech_processor(SimpleNamespace(**FAKE))
    with pytest.raises(ValueError) as caught:
        processor.process_chunk(np.full(48000, 0.1, dtype=np.float32))
    found = (caught.type, caught.value, caught.tb)
    record = logging.LogRecord("simulstream.websocket_server", logging.ERROR, "", 0, "Error: a fault", (), found)
    assert logging.getLogger(record.name).filter(record)
    assert record.exc_info == found and record.getMessage() == "Error: a fault"


def test_48_khz(tmp_path: Path) -> None:
    """simulstream resamples each chunk; the words come when they would at 16 kHz."""
    write_wavs(tmp_path, tuple(3 * size for size in SIZES), rate=48000)
    log = read_log(infer(tmp_path, FAKE))
    assert [i.prediction for i in log] == [i.prediction for i in ours(tmp_path)]
    assert [i.delays for i in log] == [pytest.approx(i.delays) for i in ours(tmp_path)]


CHUNK = np.full(48000, 0.1, dtype=np.float32).tobytes()


def number_of(session: str) -> str:
    """A random UUID, which is always the same."""
    return uuid.UUID(bytes=session.encode().ljust(16, b"-"), version=4).hex


def post(proxy: dict[str, Any], session: str, waveform: str | bytes = CHUNK) -> dict[str, Any]:
    """A chunk for a session of the HTTP server, and its answer. Text is sent as it is."""
    coded = waveform if isinstance(waveform, str) else base64.b64encode(waveform).decode()
    body = json.dumps({"session_id": number_of(session), "waveform": coded}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{proxy['port']}/process_chunk", body, method="POST")
    with urllib.request.urlopen(request) as response:
        return dict(json.load(response))


def test_a_client_that_goes_away_over_http(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with http(tmp_path, FAKE) as proxy:
        for sent in (b"POST /process_ch", b"POST /process_chunk HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"):
            with socket.create_connection(("127.0.0.1", proxy["port"])) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset at the end
                client.sendall(sent)
        assert post(proxy, "a")["new_string"]
    assert caplog.text.count("a client went away in the middle of a request") == 2
    assert "Exception occurred during processing of request" not in capfd.readouterr().err


def test_what_is_wrong_is_told_over_http(tmp_path: Path) -> None:
    """A status and a sentence; the session goes on, and a place that is free again is given."""

    def refused(action: str, method: str = "POST", **body: Any) -> tuple[int, str]:
        return sent(action, method, json.dumps(body).encode())

    def sent(action: str, method: str, body: bytes) -> tuple[int, str]:
        address = f"http://127.0.0.1:{proxy['port']}/{action}"
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(address, body, method=method))
        return caught.value.code, json.load(caught.value)["error"]

    with http(tmp_path, FAKE, pool=1) as proxy:
        first = post(proxy, "a")["new_string"]
        for waveform, told in (
            (base64.b64encode(np.full(16, np.nan, dtype=np.float32).tobytes()).decode(), "NaN or infinite"),
            (base64.b64encode(bytes(4 * 16000 * 121)).decode(), "a chunk of 121 s came; give at most 120 s"),
            ("odd", "this request can't be served (Incorrect padding"),
        ):
            code, sentence = refused("process_chunk", session_id=number_of("a"), waveform=waveform)
            assert code == 400 and told in sentence
        assert refused("nowhere")[0] == refused("process_chunk", waveform="")[0] == 400
        assert refused("target_language", "PUT", session_id=number_of("a"), language=5) == (
            400,
            "5 is no language; give a code such as de.",
        )
        for tokens in (5, [1]):
            code, sentence = refused("tokens_to_string", "GET", session_id=number_of("a"), tokens=tokens)
            assert code == 400 and sentence.startswith("the tokens are no list of strings")
        assert sent("process_chunk", "POST", b"[" * 100_000)[0] == 400
        code, sentence = refused("process_chunk", session_id=number_of("b"), waveform="")
        assert (code, sentence) == (503, "all places are taken; try again later")
        for known in ("1", 1, None, str(uuid.uuid1()), [number_of("a")]):  # other clients may come upon them
            code, sentence = refused("clear", session_id=known)
            assert code == 400 and sentence.startswith("session_id is no random UUID")
        for length in (17 << 20, -1):
            with socket.create_connection(("127.0.0.1", proxy["port"])) as client:
                client.sendall(f"POST /clear HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
                assert b"the request's body is too long" in b"".join(iter(functools.partial(client.recv, 999), b""))
        assert post(proxy, "a")["new_string"] not in ("", first)


def test_difficult_audio_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digital silence, an offset, clipping: the session goes on. Samples of 16 bits are refused, and nothing else."""
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    whisper = tiny_whisper.write(tmp_path / "whisper", eos=7.0)
    options = {"model": str(whisper), "model_options": {"compute_type": "float32", "threads": 1}}
    live = {**LA2, "commit": {"type": "all"}, "segment": {"type": "pause", "seconds": 0.3}}
    speech = np.random.default_rng(0).uniform(-0.3, 0.3, 16000)
    silence = np.zeros(16000)
    with http(tmp_path, {**FAKE, **options, "decoding": live}) as proxy:
        for difficult in (silence, speech + 0.6, np.clip(50 * speech, -1, 1), np.full(16000, 1.0), silence):
            said = [post(proxy, "a", part.astype(np.float32).tobytes())["new_string"] for part in (difficult, silence)]
            assert bool("".join(said)) == bool(difficult.any())
        with pytest.raises(OSError):
            post(proxy, "a", (32768 * speech).astype(np.float32).tobytes())
        said = [post(proxy, "a", part.astype(np.float32).tobytes())["new_string"] for part in (speech, silence)]
        assert "".join(said)


def failing(monkeypatch: pytest.MonkeyPatch, search: int) -> None:
    """The fake model fails in so many searches, counted from now."""
    count = itertools.count(1)

    def work(self: FakeModel, name: str) -> None:
        if next(count) == search:
            raise RuntimeError("busy")

    monkeypatch.setattr(FakeModel, "work", work)


@pytest.mark.parametrize("seconds", [0.5, 6.0])
def test_an_error_ends_a_clients_stream_after_its_words(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Nothing that was final is lost, and no audio after the error is taken for the stream's next."""
    piece = np.full(round(16000 * seconds), 0.1, dtype=np.float32)
    options = {**FAKE, "decoding": {"read": {"type": "chunk", "ms": 500}, "commit": {"type": "all"}}}
    whole, processor = (build_speech_processor(SimpleNamespace(**options)) for _ in range(2))
    expected = whole.process_chunk(np.full(16000 * 2, 0.1, dtype=np.float32)).new_string
    failing(monkeypatch, 5)  # at 2.5 s
    said = ""
    with pytest.raises(SimulstError, match="RuntimeError: busy"):
        for _ in range(12):
            said += processor.process_chunk(piece).new_string
    assert said == expected
    for request in (processor.end_of_stream, lambda: processor.process_chunk(piece), processor.end_of_stream):
        with pytest.raises(SimulstError, match=r"this stream has ended with an error \(RuntimeError: busy"):
            request()
    processor.clear()
    assert processor.process_chunk(np.full(16000 * 2, 0.1, dtype=np.float32)).new_string == expected


def test_an_error_at_the_end_has_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = build_speech_processor(SimpleNamespace(**FAKE))
    words = processor.process_chunk(np.full(48000, 0.1, dtype=np.float32)).new_string
    failing(monkeypatch, 1)
    with pytest.raises(SimulstError, match="RuntimeError: busy"):
        processor.end_of_stream()
    with pytest.raises(SimulstError, match="has ended with an error"):
        processor.end_of_stream()
    processor.clear()
    assert words == processor.process_chunk(np.full(48000, 0.1, dtype=np.float32)).new_string


@contextlib.contextmanager
def held_driver() -> Iterator[Callable[[int], None]]:
    """The clients' driver answers nothing. Yields what waits until so many clients have asked for something."""
    driver, entered, left = module._driver(), threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        left.wait()

    def until_asked(count: int) -> None:
        while len(driver._orders) < count:
            os.sched_yield()

    driver._order(hold)
    entered.wait()
    try:
        yield until_asked
    finally:
        left.set()


def test_audio_of_a_session_that_was_closed_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The HTTP server closes a session whose audio waits, or is worked on, for longer than its `ttl`."""
    processor = build_speech_processor(SimpleNamespace(**FAKE))
    assert isinstance(processor, StreamProcessor)
    piece = np.full(48000, 0.1, dtype=np.float32)
    fresh = processor.process_chunk(piece).new_string
    processor.clear()

    failed: list[str] = []

    def speak() -> None:
        try:
            processor.process_chunk(piece)
        except SimulstError as error:
            failed.append(str(error))

    with held_driver() as until_asked:
        waiting = threading.Thread(target=speak)
        waiting.start()
        until_asked(1)
        processor.clear()  # and another session gets this processor
    waiting.join()
    assert failed and failed[0].startswith("the session was closed while its audio waited or was worked on; send")
    assert processor.process_chunk(piece).new_string == fresh, "the next session begins afresh"
    processor.clear()

    def close(*about: object) -> None:
        processor.clear()

    monkeypatch.setattr(FakeModel, "work", close)  # closed while it works
    with pytest.raises(SimulstError, match="closed"):
        processor.process_chunk(np.full(96000, 0.1, dtype=np.float32))
    monkeypatch.undo()
    assert processor.process_chunk(piece).new_string == fresh


def test_what_is_wrong_in_an_inference_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    processor = build_speech_processor(SimpleNamespace(**FAKE))
    processor.set_source_language("ru")
    for kind, printed in ((SimulstError, "error: the fake has no language 'ru'"), (ValueError, "Traceback")):
        try:
            if kind is SimulstError:
                processor.process_chunk(np.full(1600, 0.1, dtype=np.float32))
            raise ValueError("a fault")
        except (SimulstError, ValueError) as error:
            assert type(error) is kind
            sys.excepthook(type(error), error, error.__traceback__)
        assert capsys.readouterr().err.startswith(printed)


def test_the_configurations_that_come_with_it() -> None:
    root = Path(simulst.__file__).parents[1]
    options = read_options(yaml_config(str(root / "conf/simulstream/whisper.yaml")))
    assert load_decoding(root / str(options.decoding)) == LIVE
    for name, keys in (
        ("server", {"hostname", "port", "pool_size", "acquire_timeout", "metrics"}),
        ("http_server", {"hostname", "port", "pool_size", "ttl"}),
    ):
        found = yaml_config(str(root / f"conf/simulstream/{name}.yaml"))
        assert vars(found).keys() == keys and found.hostname == "127.0.0.1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "/nowhere"}, "/nowhere: no such model folder"),
        ({"decoding": {"read": {"type": "chunk", "ms": 100}}}, "the key 'commit' is missing"),
        ({"target_lang": None}, "'target_lang'"),
        ({"context": "/nowhere.tsv"}, "/nowhere.tsv: no such file; write it"),
        ({"context_by": "order"}, "'context_by' says how to use 'context', a table; give that, too"),
        ({"latency_unit": "word"}, "'latency_unit'.*should be 'char'"),
        ({"model_options": {"wings": [1, {"a": 2}]}}, "unexpected keyword argument 'wings'"),
        ({"speech_chunk_size": 0}, "'speech_chunk_size'.*greater than 0"),
        ({"model": "test_simulstream:Unopened", "model_options": {}}, r"cannot be opened \(TypeError: no such thing"),
    ],
)
def test_bad_configurations_end_the_command(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    write_wavs(tmp_path, SIZES)
    with pytest.raises(SystemExit, match=f"error: .*{message}") as error:
        infer(tmp_path, {**FAKE, **change})
    assert "\n" not in str(error.value)
