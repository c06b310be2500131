"""OpenAI's interfaces, by its official client: files, their streams, live audio; and what is refused."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import io
import json
import re
import socket
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from fake import FakeModel, Loudness
from waiting import HANGS, closed, eventually

pytest.importorskip("openai")
import openai
from sites import LA2, Running, connect, noise, run, serving, speak

from simulst.errors import SimulstError
from simulst.serve.log import Log
from simulst.serve.pcm import MOST, QUICK, TooMuch, decode_apart
from simulst.serve.server import Limits

ITEM = "conversation.item.input_audio_transcription"
TRANSCRIBES = {"pairs": {"es": ("es", "en"), "fr": ("en",)}, "usual": ("es", "es")}


def wav(seconds: float, rate: int = 16_000, kind: str = "WAV") -> tuple[str, bytes]:
    """A file's name and content."""
    out = io.BytesIO()
    soundfile.write(out, np.frombuffer(noise(seconds, rate), "<i2"), rate, format=kind, subtype="PCM_16")
    return f"talk.{kind.lower()}", out.getvalue()


def client_of(server: Running) -> Any:
    return openai.OpenAI(base_url=f"{server.page}v1", api_key="none", max_retries=0)


def live(server: Running, seconds: float, target: str = "en") -> str:
    return run(lambda: speak(server.uri, noise(seconds), {"target_lang": target}))[0].strip()


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """No file of a client stays."""
    (folder := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert not list(folder.iterdir())


# ---- files ----


def test_a_file_has_the_words_of_a_live_client(tmp_path: Path) -> None:
    """In every form. The fake model's text depends on the length of the audio alone."""
    log = tmp_path / "log.jsonl"
    with contextlib.closing(Log(log)) as opened, serving(log=opened) as server:
        text, create = live(server, 5.3), client_of(server).audio.transcriptions.create
        asked: dict[str, Any] = {"file": wav(5.3), "model": "whisper-1:en", "temperature": 0, "prompt": "?"}
        assert create(**{**asked, "file": wav(5.3, 44_100, "FLAC")}).text == text
        assert create(**asked, response_format="text") == f"{text}\n"
        *deltas, done = create(**asked, stream=True)
        assert len(deltas) > 2 and {event.type for event in deltas} == {"transcript.text.delta"}
        assert (done.type, done.text) == ("transcript.text.done", text)
        assert "".join(event.delta for event in deltas) == text
        found = create(**asked, response_format="verbose_json", timestamp_granularities=["word", "segment"])
        assert found.text == text == " ".join(part.text for part in found.segments)
        assert found.duration == pytest.approx(5.3, abs=1e-3) and found.language == "en"
        assert "".join(word.word for word in found.words) == text.replace(" ", "")
        assert all(one.start <= one.end for one in (*found.words, *found.segments))
        for form, point in (("srt", ","), ("vtt", ".")):
            body = create(**asked, response_format=form)
            lines = [
                line for line in body.splitlines() if line and not re.fullmatch(r"WEBVTT|\d+|[\d:,.]+ --> .*", line)
            ]
            assert " ".join(lines) == text and f"00:00:03{point}000 -->" in body
    names = [json.loads(row)["metadata"]["wav_name"] for row in log.read_text().splitlines() if "metadata" in row]
    assert names == ["talk.flac", *["talk.wav"] * 5]


def test_languages_are_those_that_are_named() -> None:
    """By the model's name, or by the way: a transcript has the spoken language, a translation is in English."""
    with serving(**TRANSCRIBES) as server:
        audio = client_of(server).audio

        def found(create: Any, **asked: Any) -> tuple[str, str]:
            answer = create(file=wav(1.2), model="m", response_format="verbose_json", **asked).model_dump()
            return answer["task"], answer["language"]

        assert found(audio.transcriptions.create) == ("transcribe", "es")
        assert found(audio.transcriptions.create, extra_body={"model": "m:en"}) == ("translate", "en")
        assert found(audio.translations.create) == ("translate", "en")
        assert found(audio.translations.create, extra_body={"language": "fr"}) == ("translate", "en")
        assert [model.id for model in client_of(server).models.list()] == ["fake", "fake:en", "fake:es"]


WRONG_REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"model": "m"}, "does not write 'es' from 'es'; it writes en, ar, zh: name one after the model"),
    ({"model": "m:xx"}, "does not write 'xx' from 'es'"),
    ({"language": "de"}, "does not hear 'de'; it hears es, fr"),
    ({"include": ["logprobs"]}, "can't meet the field 'include'; leave it out"),
    ({"response_format": "diarized_json"}, "has no response_format 'diarized_json'"),
    ({"response_format": "srt", "stream": True}, "srt can't be streamed"),
    ({"timestamp_granularities": ["word"]}, "verbose_json alone"),
    ({"file": ("talk.wav", b"RIFF")}, "talk.wav: not readable as audio"),
    ({"file": ("talk.wav", wav(3)[1][:-100])}, "talk.wav: truncated"),
    ({"file": ("talk.wav", b"")}, "talk.wav: the file is empty"),
    ({"file": wav(5)}, "talk.wav: lasts 5 s; give at most 4 s"),
    ({"file": (f"../..\\{'x' * 300}", b"RIFF")}, f"400 - {'x' * 100}: not readable as audio"),
]


@pytest.mark.parametrize(("stream", "cases"), [(False, WRONG_REQUESTS), (True, WRONG_REQUESTS[4:9:2])])
def test_wrong_requests(stream: bool, cases: list[tuple[dict[str, Any], str]]) -> None:
    """One sentence in OpenAI's form, which its client raises; the server serves the next one."""
    with serving(longest=4.0) as server:
        create = client_of(server).audio.transcriptions.create
        for asked, says in cases:
            with pytest.raises(openai.BadRequestError, match=re.escape(says)) as raised:
                create(**{"file": wav(1), "model": "m:en", "stream": stream, **asked})
            assert raised.value.type == "invalid_request_error"
        assert create(file=wav(2.2), model="m:en").text == live(server, 2.2)


def posted(port: int, *chunks: bytes, **headers: str) -> tuple[int, str]:
    """The status and the sentence of an answer to a body that may not have an end."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.putrequest("POST", "/v1/audio/transcriptions", skip_accept_encoding=True)
    for name, value in {"Content_Type": "multipart/form-data; boundary=x", **headers}.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    with contextlib.suppress(ConnectionError):  # the answer may come before the last ones
        for chunk in chunks:
            connection.send(chunk)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, json.loads(body)["error"]["message"]


HEAD = b'--x\r\nContent-Disposition: form-data; name="%s"; filename="a.wav"\r\n\r\n'


NO_FORMS = (
    b"".join(HEAD.replace(b'; filename="a.wav"', b"") % b"f%d" % i + b"\r\n" for i in range(40)),
    HEAD.replace(b"\r\n\r\n", b"\r\nX: x" * 200 + b"\r\n\r\n") % b"file",
    HEAD % (b"x" * 10_000),
    HEAD % b"\x00",
    HEAD % b"_charset_" + b"x" * 40 + b"\r\n",
    HEAD.replace(b"\r\n\r\n", b"\r\nContent-Type: multipart/mixed; boundary=y\r\n\r\n") % b"file",
)


def test_a_body_that_is_too_large_or_no_form(caplog: pytest.LogCaptureFixture) -> None:
    """10 GB are refused before they come; what does not tell its size, once it is too much."""
    with serving(limits=Limits(upload=1 << 20)) as server:
        too_much = (413, "a file has at most 1 MiB here; send a smaller one, or a compressed one.")
        assert posted(server.port, Content_Length="10000000000") == too_much
        many = [b"%x\r\n%s\r\n" % (len(part), part) for part in (HEAD % b"file", *[bytes(1 << 18)] * 5)]
        assert posted(server.port, *many, Transfer_Encoding="chunked") == too_much
        field = [b"%x\r\n%s\r\n" % (len(part), part) for part in (HEAD % b"prompt", bytes(1 << 18))]
        assert posted(server.port, *field, Transfer_Encoding="chunked")[0] == 413
        for body, says in (
            (b"{}", "no whole form"),
            (HEAD % b"file" + b"cut", "no whole form"),
            (HEAD % b"prompt" + b"\r\n--x--\r\n", "has no file"),
            (2 * (HEAD % b"file" + b"a\r\n") + b"--x--\r\n", "has two files"),
            *((one + b"--x--\r\n", "no whole form") for one in NO_FORMS),
        ):
            status, sentence = posted(server.port, body, Content_Length=str(len(body)))
            assert status == 400 and says in sentence
        assert not caplog.text  # aiohttp tells of them by several kinds of errors
        assert posted(server.port, Content_Type="application/json", Content_Length="0")[0] == 400
        assert posted(server.port, Content_Length="9", Origin="http://evil.example")[0] == 403


def test_a_file_takes_a_place(tmp_path: Path) -> None:
    """Like a live client. Whoever goes away leaves it."""
    (gate := tmp_path / "gate").touch()
    log = tmp_path / "begun"
    with serving(FakeModel(gate=str(gate), log=str(log)), Limits(clients=1)) as server, closed(gate) as release:
        name, content = wav(3)
        body = (
            HEAD % b"file"
            + content
            + b"\r\n"
            + HEAD.replace(b'; filename="a.wav"', b"") % b"model"
            + b"m:en\r\n--x--\r\n"
        )
        lost = http.client.HTTPConnection("127.0.0.1", server.port)
        lost.request("POST", "/v1/audio/transcriptions", body, {"Content-Type": "multipart/form-data; boundary=x"})
        eventually(log.exists)
        with pytest.raises(openai.RateLimitError, match="all 1 places are taken"):
            client_of(server).audio.transcriptions.create(file=(name, content), model="m:en")
        lost.close()
        release()
        eventually(lambda: not server.site.connections.taken["clients"])
        assert client_of(server).audio.transcriptions.create(file=(name, content), model="m:en").text == live(server, 3)


@pytest.mark.parametrize(("name", "status"), [("file", 507), ("pcm", 400)])
def test_a_disk_that_is_full(
    name: str, status: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    """One sentence, and no traceback in the log, whether the file has no room or its audio."""

    class Full(tempfile.TemporaryDirectory):  # type: ignore[type-arg]
        def __enter__(self) -> str:
            Path(self.name, name).symlink_to("/dev/full")
            return super().__enter__()

    with serving() as server:
        monkeypatch.setattr(tempfile, "TemporaryDirectory", Full)
        with pytest.raises(openai.APIStatusError, match="room") as raised:
            client_of(server).audio.transcriptions.create(file=wav(2), model="m:en")
    assert raised.value.status_code == status
    assert "Traceback" not in caplog.text + capfd.readouterr().err


def test_large_files_do_not_keep_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are decoded side by side. Those that need more come to it one at a time, as a decoder may take 4 GiB."""
    under_way, most = dict.fromkeys((QUICK, MOST), 0), dict.fromkeys((QUICK, MOST), 0)

    async def decode(path: Path, out: Path, longest: float, bounds: tuple[int, int]) -> float:
        under_way[bounds] += 1
        most[bounds] = max(most[bounds], under_way[bounds])
        try:
            if len(path.read_bytes()) == size:
                out.write_bytes(noise(1))
            elif bounds == QUICK:
                while most[QUICK] < 3:  # all are there
                    await asyncio.sleep(0.01)
                raise TooMuch("too much")
            else:
                while not served.is_set():
                    await asyncio.sleep(0.01)
                raise SimulstError("too much")
            return 1.0
        finally:
            under_way[bounds] -= 1

    served, size = threading.Event(), len(wav(1)[1])
    monkeypatch.setattr("simulst.serve.openai.decode_apart", decode)
    with serving() as server, ThreadPoolExecutor(3) as pool:
        create = client_of(server).audio.transcriptions.create
        large = [pool.submit(create, file=wav(2), model="m:en") for _ in range(3)]
        eventually(lambda: under_way[MOST])
        assert create(file=wav(1), model="m:en").text == live(server, 1)
        served.set()
        for one in large:
            assert "too much" in str(one.exception())
    assert most == {QUICK: 3, MOST: 1}


def test_a_file_that_needs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its decoder fails within the first bounds, and not within the others."""
    monkeypatch.setattr("simulst.serve.openai.QUICK", (1 << 20, 10))
    with serving() as server:
        create = client_of(server).audio.transcriptions.create
        assert create(file=wav(2.2), model="m:en").text == live(server, 2.2)
        monkeypatch.setattr("simulst.serve.openai.MOST", (1 << 20, 10))
        with pytest.raises(openai.BadRequestError, match=r"too much memory|decoder failed"):
            create(file=wav(2.2), model="m:en")


def test_a_decoder_has_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds count addresses. With many processors, those of NumPy's threads would leave no room for the file."""
    (program := tmp_path / "python").write_text('#!/bin/sh\necho "$OPENBLAS_NUM_THREADS"\n')
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "64")
    assert asyncio.run(decode_apart(tmp_path / "in", tmp_path / "out", 1.0, QUICK)) == 1


def test_a_server_that_ends_does_not_wait_for_a_body() -> None:
    with serving() as server, socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n" + HEAD % b"file"
        )
        eventually(lambda: server.site.connections.taken["clients"])
        server.end()
        assert slow.recv(1 << 16).startswith(b"HTTP/1.1 503")


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_ends_says_so(tmp_path: Path, stream: bool) -> None:
    """Half of a text is not given as the whole."""
    (gate := tmp_path / "gate").touch()
    log = tmp_path / "begun"
    with serving(FakeModel(gate=str(gate), log=str(log))) as server, closed(gate) as release:

        def end() -> None:
            eventually(log.exists)
            ending = threading.Thread(target=server.end)
            ending.start()
            eventually(server.site.connections.stopping.is_set)
            release()
            ending.join()

        thread = threading.Thread(target=end)
        thread.start()
        with pytest.raises(openai.APIError, match="the server ends; send the file again"):
            list(client_of(server).audio.transcriptions.create(file=wav(9), model="m:en", stream=stream))
        thread.join()


# ---- live audio ----


def session_of(rate: int = 24_000, **chosen: Any) -> dict[str, Any]:
    audio = {
        "format": {"type": "audio/pcm", "rate": rate},
        "transcription": {"model": "m:en", "language": "es"},
        **chosen,
    }
    return {"type": "transcription", "audio": {"input": audio}}


def base(audio: bytes) -> str:
    return base64.b64encode(audio).decode()


def realtime(server: Running) -> Any:
    limits = {"open_timeout": HANGS, "ping_interval": None}
    return client_of(server).realtime.connect(model="any:en", websocket_connection_options=limits)  # type: ignore[arg-type]


def test_live_audio() -> None:
    """Its words are those of other clients, of each item; deltas come before the audio has ended."""
    with serving() as server, realtime(server) as connection:
        assert connection.recv().type == "session.created"
        last = None
        for seconds, updated in ((5.3, False), (2.2, True)):
            if updated:
                connection.session.update(session=session_of())
                assert connection.recv().session.audio.input.format.rate == 24_000
            audio = noise(seconds, 24_000)
            for start in range(0, len(audio), 4800):
                connection.input_audio_buffer.append(audio=base(audio[start : start + 4800]))
            first = connection.recv() if seconds > 5 else None
            assert first is None or first.type == f"{ITEM}.delta"
            connection.input_audio_buffer.commit()
            events = [first] if first else []
            while not events or events[-1].type != f"{ITEM}.completed":
                events.append(connection.recv())
            [committed] = [event for event in events if event.type == "input_audio_buffer.committed"]
            assert committed.previous_item_id == last
            last = committed.item_id
            assert {event.item_id for event in events} == {last}
            text = live(server, seconds)
            assert events[-1].transcript == text and events[-1].usage.seconds == pytest.approx(seconds, abs=1e-3)
            assert "".join(event.delta for event in events if event.type == f"{ITEM}.delta") == text


VAD = {"type": "server_vad", "prefix_padding_ms": 200, "silence_duration_ms": 400}


def test_turns_that_the_server_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is an item of the speech, what is asked for before it, and the silence after it. Its words are as alone."""
    monkeypatch.setattr("simulst.serve.turns.start_of_stream", lambda threshold: Loudness())
    speech, rate = ((1.0, 2.2), (4.2, 1.3)), 24_000  # begin, and seconds
    audio = bytearray(2 * 7 * rate)
    for begin, seconds in speech:
        first = round(begin * rate) * 2
        audio[first : first + round(seconds * rate) * 2] = noise(seconds, rate)
    often = {**LA2, "read": {"type": "chunk", "ms": 200}}
    with serving(decoding=often) as server, realtime(server) as connection:
        connection.session.update(session=session_of(turn_detection=VAD))
        assert connection.recv().type == "session.created"
        assert connection.recv().session.audio.input.turn_detection.silence_duration_ms == 400
        for start in range(0, len(audio), 4801):  # also halves of samples
            connection.input_audio_buffer.append(audio=base(bytes(audio[start : start + 4801])))
        last = None
        for begin, seconds in speech:
            events = [connection.recv()]
            while events[-1].type != f"{ITEM}.completed":
                events.append(connection.recv())
            kinds = [event.type.rpartition(".")[2] for event in events if event.type != f"{ITEM}.delta"]
            assert kinds == ["speech_started", "speech_stopped", "committed", "completed"]
            started, stopped, committed, completed = [e for e in events if e.type != f"{ITEM}.delta"]
            assert started.audio_start_ms == pytest.approx(1000 * begin - 200, abs=40)
            assert stopped.audio_end_ms == pytest.approx(1000 * (begin + seconds) + 400, abs=70)  # chunks of 32 ms
            assert committed.previous_item_id == last
            last = committed.item_id
            assert {event.item_id for event in events} == {last}
            lasts = (stopped.audio_end_ms - started.audio_start_ms) / 1000
            assert completed.usage.seconds == pytest.approx(lasts, abs=2e-3)
            assert completed.transcript == live(server, completed.usage.seconds)
        for number, seconds in enumerate((8.8, 10.65), start=1):  # dropped silence counts
            connection.send({**APPEND, "audio": base(noise(1.8, rate))})
            events = [connection.recv()]
            while events[-1].type != f"{ITEM}.delta":  # come while it speaks
                events.append(connection.recv())
            connection.input_audio_buffer.commit()  # who does not wait for a silence loses nothing
            while events[-1].type != f"{ITEM}.completed":
                events.append(connection.recv())
            lasts = events[-1].usage.seconds
            assert events[0].type.endswith("speech_started")
            assert lasts == pytest.approx(seconds - events[0].audio_start_ms / 1000, abs=2e-3)
            assert events[-1].transcript == live(server, lasts)
            if number == 1:
                connection.send({**APPEND, "audio": base(bytes(2 * rate // 20))})
                connection.input_audio_buffer.clear()
                assert connection.recv().type == "input_audio_buffer.cleared"


APPEND = {"type": "input_audio_buffer.append"}
WRONG_EVENTS: list[tuple[Any, str]] = [
    ({"type": "input_audio_buffer.commit"}, "nothing to commit; append audio first"),
    ({"type": "response.create", "event_id": "mine"}, "has no event 'response.create'"),
    ({**APPEND, "audio": "*"}, "no base64"),
    ({**APPEND, "audio": 3}, "no base64"),
    ({"type": "session.update", "session": {"type": "realtime"}}, "'transcription'"),
    ({"type": "session.update", "session": session_of(format={"type": "audio/pcmu"})}, "audio/pcm"),
    ({"type": "session.update", "session": session_of(turn_detection={"type": "semantic_vad"})}, "'server_vad'"),
    ({"type": "session.update", "session": session_of(turn_detection={**VAD, "threshold": 2})}, "less than or equal"),
    ({"type": "session.update", "session": session_of(turn_detection={**VAD, "create_response": True})}, "False"),
    ({"type": "session.update", "session": session_of(1, turn_detection=VAD)}, "sample_rate is 1"),
    ({"type": "session.update", "session": session_of(transcription={"language": "de"})}, "does not hear 'de'"),
    ({"type": "session.update", "session": session_of(1)}, "sample_rate is 1"),
    ({}, "has no event 'None'"),
    ([], "no object of JSON"),
    (b"\x00\x00", "bytes came"),
]


def test_events_that_are_wrong_or_out_of_order() -> None:
    """Each is told, with its own number, and changes nothing; audio that is none ends the connection."""

    async def work() -> None:
        async with connect(f"{server.uri}v1/realtime?model=m:en", subprotocols=["realtime"]) as connection:
            assert json.loads(await connection.recv())["type"] == "session.created"

            async def refused(event: Any, says: str) -> None:
                await connection.send(event if isinstance(event, bytes) else json.dumps(event))
                answer = json.loads(await connection.recv())
                assert answer["type"] == "error" and says in answer["error"]["message"], answer
                assert answer["error"]["event_id"] == (event.get("event_id") if isinstance(event, dict) else None)

            for event, says in WRONG_EVENTS:
                await refused(event, says)
            await connection.send(json.dumps({**APPEND, "audio": base(noise(0.9, 24_000))}))
            await refused({"type": "session.update", "session": session_of(16_000)}, "can't change within a stream")
            await connection.send(json.dumps({"type": "input_audio_buffer.clear"}))
            assert json.loads(await connection.recv())["type"] == "input_audio_buffer.cleared"
            await refused({"type": "input_audio_buffer.commit"}, "nothing to commit")
            await connection.send(json.dumps({**APPEND, "audio": base(noise(2.2, 24_000))}))
            await connection.send(json.dumps({"type": "input_audio_buffer.commit"}))
            while "transcript" not in (answer := json.loads(await connection.recv())):
                pass
            assert answer["transcript"] == await asyncio.to_thread(live, server, 2.2)
            floats = np.random.default_rng(0).normal(0, 0.1, 24_000).astype("<f4").tobytes()
            await connection.send(json.dumps({**APPEND, "audio": base(floats)}))
            assert "look like floats" in json.loads(await connection.recv())["error"]["message"]
            await connection.wait_closed()
            assert connection.close_code == 1008

    with serving() as server:
        run(work)
