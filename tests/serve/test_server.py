"""`simulst serve`: simulstream's protocol and ours, many clients, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner
from fake import FakeModel, HeardModel, Loudness
from hypothesis import example, given, settings
from hypothesis import strategies as st
from waiting import HANGS, closed, eventually, until

pytest.importorskip("websockets")
from sites import LA2, PAIRS, Running, answer_to, answers, connect, noise, run, serving, speak, translated
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from simulst.audio.read import load_audio
from simulst.background import Background, told
from simulst.commands.main import main
from simulst.config import TYPES, parse_decoding
from simulst.errors import SimulstError
from simulst.log import read_log
from simulst.serve import client, connections
from simulst.serve import server as module
from simulst.serve.channel import link_of
from simulst.serve.client import pairs_of
from simulst.serve.log import Log
from simulst.serve.server import Limits, find_recordings
from simulst.serve.settings import COMMITS, chosen, offered
from simulst.stream import Stream
from simulst.streams import open_stream
from simulst.subtitles import Layout, as_srt, cues_of, with_source, written_words

SECRET = "0123456789abcdef" * 2


# ---- simulstream's protocol ----


def test_simulstreams_client(tmp_path: Path) -> None:
    """It works as it is, and the log is simulstream's."""
    pytest.importorskip("simulstream")
    from argparse import Namespace

    from simulstream.client import wav_reader_client

    names = []
    for i, seconds in enumerate((5.3, 2.1)):
        names.append(tmp_path / f"talk{i}.wav")
        soundfile.write(names[-1], np.frombuffer(noise(seconds), "<i2"), 16000, subtype="PCM_16")
    (tmp_path / "wavs.txt").write_text("".join(f"{name}\n" for name in names))
    log = tmp_path / "metrics.jsonl"
    with contextlib.closing(Log(log)) as file, serving(log=file) as server:
        options = {"chunk_duration_ms": 100, "tgt_lang": "en", "src_lang": "fr"}
        asyncio.run(
            wav_reader_client.main(Namespace(uri=server.uri, wav_list_file=str(tmp_path / "wavs.txt"), **options))
        )
    instances = read_log(log)
    assert [instance.name for instance in instances] == ["talk0", "talk1"]
    for instance, seconds in zip(instances, (5.3, 2.1), strict=True):
        audio = noise(seconds)
        twice = translated(audio + audio[-3200:])  # so its client sends it
        assert instance.prediction == twice.committed_text.strip()
        assert instance.delays == pytest.approx([word.delay_ms for word in twice.emissions])


@pytest.mark.parametrize("seconds", [0.09, 1.0])
def test_what_belongs_to_a_stream_stays(seconds: float) -> None:
    """Also while its first audio is kept back. The same may be named again."""

    async def work() -> None:
        async with connect(server.uri) as connection:
            await connection.send(json.dumps({"sample_rate": 4000}))
            await connection.send(noise(seconds, 4000))
            if seconds == 1.0:
                assert "new" in json.loads(await connection.recv())
            await connection.send(json.dumps({"sample_rate": 4000, "source_lang": "es", "target_lang": "en"}))
            for message in (
                *({"sample_rate": 48_000}, {"source_lang": "fr"}, {"target_lang": "ar"}),
                {"decoding": {"chunk_ms": 500}},
            ):
                answer = await answer_to(connection, message)
                assert "can't change within a stream; end it first" in answer["error"]
            await connection.send(json.dumps({"end_of_stream": True}))
            assert not any("error" in answer for answer in await answers(connection))

    with serving() as server:
        run(work)


def test_a_log_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Words go on without it, and this is told once. A server that begins after a kill spoils no row."""
    with contextlib.closing(Log(Path("/dev/full"))) as full, serving(log=full) as server:
        for _ in range(2):
            assert run(lambda: speak(server.uri, noise(2.2)))[0] == translated(noise(2.2)).committed_text
    assert caplog.text.count("/dev/full: cannot be written (No space left on device)") == 1
    (log := tmp_path / "log.jsonl").write_text('{"id": 0, "metad')
    with contextlib.closing(Log(log)) as file, pytest.raises(SimulstError, match="another server writes this log"):
        Log(log)
    with contextlib.closing(Log(log)) as file:
        file.write({"id": 1})
    assert log.read_text() == '{"id": 0, "metad\n{"id": 1}\n'


NAMED = {"metrics_metadata": {"wav_name": "talk.wav"}}


@pytest.mark.parametrize("piece", [333, 3200, 96_000])
def test_audio_in_pieces_of_any_size(piece: int, tmp_path: Path) -> None:
    """Also of odd numbers of bytes. The log's delays are those of READ, however much is pushed at once."""
    log, alone = tmp_path / "log.jsonl", translated(noise(3.3))
    with contextlib.closing(Log(log)) as file, serving(log=file) as server:
        assert run(lambda: speak(server.uri, noise(3.3), NAMED, piece=piece))[0] == alone.committed_text
    [instance] = read_log(log)
    assert instance.prediction == alone.committed_text.strip() and instance.source_length == pytest.approx(3300)
    assert instance.delays == pytest.approx([word.delay_ms for word in alone.emissions])
    assert sum(instance.chunk_elapsed) >= sum(instance.delays) and instance.elapsed == sorted(instance.elapsed)


@pytest.mark.parametrize("rate", [8000, 44_100, 48_000])
def test_other_sample_rates(rate: int, tmp_path: Path) -> None:
    """The fake model's text depends on the length of the audio alone. The log has all computation, once."""
    log, alone = tmp_path / "log.jsonl", translated(noise(4.1))
    asked = {"sample_rate": rate, "details": True, **NAMED}
    with contextlib.closing(Log(log)) as file, serving(log=file) as server:
        text, found = run(lambda: speak(server.uri, noise(4.1, rate), asked))
    assert text == alone.committed_text
    assert found[-2]["simulst"]["heard_ms"] == pytest.approx(4100, abs=1)
    took = [json.loads(row).get("computation_time", 0.0) for row in log.read_text().splitlines()]
    assert min(took) > -1e-9 and sum(took) == pytest.approx(found[-2]["simulst"]["computed_ms"] / 1000)
    [instance] = read_log(log)
    assert instance.prediction == text.strip()
    assert instance.delays == pytest.approx([word.delay_ms for word in alone.emissions], abs=1)


# ---- ours ----


def test_details_and_viewers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer sees the running text; one who comes late, all of it. No word or time is sent twice."""
    monkeypatch.setattr("simulst.meter.time", SimpleNamespace(perf_counter=lambda: 0.0))  # computing takes no time
    monkeypatch.setattr(Stream, "spoken_ms", property(lambda self: [(e.delay_ms, e.delay_ms) for e in self.emissions]))
    waits: list[float] = []  # of which LATE is told
    monkeypatch.setattr(Stream, "wait", lambda self, seconds: waits.append(seconds))

    async def watch(uri: str) -> tuple[str, str]:
        words: list[Any] = []
        async with connect(uri) as connection:
            try:
                while True:
                    words += json.loads(await connection.recv())["simulst"]["words"]
            except ConnectionClosed as error:
                assert error.rcvd is not None
                return "".join(text for text, *_ in words), error.rcvd.reason

    async def work() -> None:
        async with connect(server.uri) as connection:
            link = (await answer_to(connection, {"share": SECRET, "details": True}))["link"]
            assert link == link_of(SECRET) and SECRET not in link
            early = asyncio.create_task(watch(f"{server.uri}view/{link}"))
            await connection.send(noise(4.3))
            heard = [json.loads(await connection.recv())["simulst"] for _ in range(5)]
            late = asyncio.create_task(watch(f"{server.uri}view/{link}"))
            while heard[-1]["viewers"] < 2:
                await connection.send(noise(0.1))
                heard.append(json.loads(await connection.recv())["simulst"])
            assert await watch(f"{server.uri}view/{link}") == ("", "all 2 viewers' places are taken; try again later")
            for _ in range(2):
                await connection.send(json.dumps({"end_of_stream": True}))
                heard += [answer["simulst"] for answer in await answers(connection) if "simulst" in answer]
        words = [word for update in heard for word in update["words"]]
        expected = translated(noise(heard[-1]["heard_ms"] / 1000))
        assert "".join(text for text, *_ in words) == expected.committed_text
        assert [delay for _, delay, _ in words] == pytest.approx([word.delay_ms for word in expected.emissions])
        assert [span for update in heard for span in update["spoken"]] == [[delay, delay] for _, delay, _ in words]
        assert any(update["unstable"] for update in heard) and not heard[-1]["unstable"]
        assert await early == await late == (expected.committed_text, "the speaker has gone")
        assert all(update["languages"] == ["es", "en"] and update["computed_ms"] == 0 for update in heard)
        assert 0 <= heard[0]["waited_ms"] < heard[-1]["waited_ms"] == pytest.approx(1000 * sum(waits))

    with serving(limits=Limits(viewers=2)) as server:
        run(work)
        assert not server.site.service.channels


def test_who_asks_for_details_hears_that_a_step_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer hears it, too; simulstream's clients do not."""
    monkeypatch.setattr(client, "ALIVE", 0.01)
    monkeypatch.setattr(module, "ALIVE", 0.01)
    (gate := tmp_path / "gate").touch()

    async def work() -> None:
        async with connect(server.uri) as asks, connect(server.uri) as other:
            link = (await answer_to(asks, {"details": True, "share": SECRET}))["link"]
            for connection in (asks, other):
                await connection.send(noise(2.2))
            async with connect(f"{server.uri}view/{link}") as viewer:
                for connection in (asks, viewer):
                    for _ in range(5):
                        assert not json.loads(await connection.recv())["simulst"]["words"]
            release()
            for connection in (asks, other):
                await connection.send(json.dumps({"end_of_stream": True}))
                found = await answers(connection)
                assert "".join(answer.get("new", "") for answer in found) == translated(noise(2.2)).committed_text
                assert connection is asks or all("new" in answer for answer in found[:-1])

    with serving(FakeModel(gate=str(gate))) as server, closed(gate) as release:
        run(work)


def test_nobody_takes_over_a_link() -> None:
    """Who shares again has the new link alone."""

    async def work() -> None:
        async with connect(server.uri) as one, connect(server.uri) as other:
            link = (await answer_to(one, {"share": SECRET}))["link"]
            for secret in (SECRET, link, "x" * 32, "00"):
                answer = await answer_to(other, {"share": secret})
                assert ("error" in answer) != (secret == link), answer  # of a link's name another link is made
                assert answer.get("link") != link
            assert server.site.service.channels.keys() == {link, link_of(link)}
            assert await answer_to(one, {"share": "f" * 32}) == {"link": link_of("f" * 32)}
            assert server.site.service.channels.keys() == {link_of("f" * 32), link_of(link)}

    with serving() as server:
        run(work)


@pytest.mark.parametrize("known", [True, False])
def test_subtitles(known: bool) -> None:
    """They are those of `simulst translate`: of the times at which words were spoken, or else written."""
    stream = translated(noise(6))
    words = [
        {"text": word.text, "delay_ms": word.delay_ms, "spoken": [200 * i, 200 * i + 150] if known else None}
        for i, word in enumerate(stream.emissions)
    ]

    async def work() -> Any:
        async with connect(server.uri) as connection:
            return await answer_to(connection, {"subtitles": "srt", "words": words})

    with serving() as server:
        found = run(work)
    assert found["times"] == ("spoken" if known else "written")
    if not known:
        layout = Layout()
        assert found["text"] == as_srt(cues_of(written_words(stream.emissions, layout.reading_speed), layout))
    assert found["text"].startswith("1\n00:00:00,000 -->" if known else "1\n00:00:03,000 -->")


def test_subtitles_are_divided_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second client hears that it waits."""
    monkeypatch.setattr(client, "ALIVE", 0.01)
    begun: list[int] = []
    first, go_on = threading.Event(), threading.Event()

    def divide(*given: Any) -> Any:
        begun.append(1)
        first.set()
        go_on.wait()
        return cues_of(*given)

    monkeypatch.setattr(client, "cues_of", divide)
    asked = json.dumps({"details": True, "subtitles": "srt", "words": [{"text": " a", "delay_ms": 0}]})

    async def work() -> None:
        try:
            async with connect(server.uri) as one, connect(server.uri) as other:
                await one.send(asked)
                await asyncio.to_thread(first.wait)
                await other.send(asked)
                for _ in range(5):
                    assert "simulst" in json.loads(await other.recv())
                assert len(begun) == 1
                go_on.set()
                for connection in (one, other):
                    while "subtitles" not in json.loads(await connection.recv()):
                        pass
        finally:
            go_on.set()

    with serving() as server:
        run(work)


def test_settings() -> None:
    """What is chosen is decoded; other settings and bounds are told."""
    values = {"chunk_ms": 500, "commit": "hold", "n": 3}
    as_chosen = {"read": {"type": "chunk", "ms": 500}, "commit": {"type": "hold", "n": 3}}
    with serving() as server:
        text, found = run(lambda: speak(server.uri, noise(4.3), {"decoding": values, "details": True}))
        words = [word for answer in found for word in answer.get("simulst", {}).get("words", [])]
    expected = translated(noise(4.3), **as_chosen)
    assert text == expected.committed_text
    assert [delay for _, delay, _ in words] == pytest.approx([word.delay_ms for word in expected.emissions])


@pytest.mark.parametrize(
    ("own", "values", "expected"),
    [
        ({"type": "local_agreement", "n": 3, "whole_words": True}, {"commit": "hold"}, {"type": "hold", "n": 3}),
        ({"type": "local_agreement", "n": 3, "most_behind": 5}, {"n": 4}, {"n": 4, "most_behind": 5}),
        ({"type": "all", "last_word": True}, {"commit": "all"}, {}),
        ({"type": "all", "last_word": True}, {"commit": "hold"}, {"type": "hold", "n": 2, "last_word": None}),
        ({"type": "hold", "n": 5}, {"commit": "all"}, {"type": "all", "n": None}),
    ],
)
def test_what_is_not_chosen_is_the_servers(
    own: dict[str, Any], values: dict[str, Any], expected: dict[str, Any]
) -> None:
    """So are options of a COMMIT that clients can't choose. expected: what differs from the server's own COMMIT."""
    decoding = parse_decoding({**LA2, "commit": own}, "test")
    commit = {name: value for name, value in {**own, **expected}.items() if value is not None}
    found = chosen(decoding, offered(decoding, attention=False), values)
    assert found == parse_decoding({**LA2, "commit": commit}, "test")


NAMES = st.sampled_from(["chunk_ms", "commit", "n", "frames", "model", "read"])
VALUES = st.sampled_from([*COMMITS, None, True, [], {}, "", "4", "os.system", {"type": "hold", "n": 2}])
VALUES |= st.integers(-1, 30) | st.integers() | st.floats()


@settings(max_examples=60)
@example({"commit": "all", "n": 2})
@example({"n": True})
@example({"n": 2.5})
@example({"chunk_ms": "500"})
@example(["chunk_ms"])
@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_settings_are_numbers_within_bounds(values: Any) -> None:
    """Whatever a client sends: the decoding stays one of few, or it is refused."""
    decoding = parse_decoding(LA2, "test")
    try:
        found = chosen(decoding, offered(decoding, attention=True), values)
    except SimulstError as error:
        assert "setting" in str(error)
        return
    assert all(value is None or type(value) in (int, float, str) for value in values.values())
    assert not {"model", "read"} & values.keys() and "500" not in values.values() and values != {"n": 2.5}
    assert values.get("commit") != "all" or values.get("n") is None
    assert type(found.commit) in {TYPES["commit"][name] for name in COMMITS}
    assert 100 <= found.read.ms <= 10_000 and getattr(found.commit, "n", 1) <= 20
    assert not found.files and not found.code
    assert dataclasses.replace(found, read=decoding.read, commit=decoding.commit, stop=decoding.stop) == decoding


def test_languages_that_a_model_tells() -> None:
    class Telling(FakeModel):
        language_pairs = HeardModel.language_pairs

    assert pairs_of(Telling(), (), ()) == (Telling.language_pairs, None)
    assert pairs_of(Telling(), ("fr",), ()) == ({"fr": ("en", "fr")}, ("fr", "en"))
    assert pairs_of(FakeModel(), ("es", "fr"), ("de",)) == ({"es": ("de",), "fr": ("de",)}, ("es", "de"))
    with pytest.raises(SimulstError, match="does not hear 'de'; it hears es, fr"):
        pairs_of(Telling(), ("de",), ())
    for sources in ((), ("es",)):
        with pytest.raises(SimulstError, match="does not tell its languages"):
            pairs_of(FakeModel(), sources, ())


# ---- what a client says of its speech, and is told of it ----


def test_a_language_that_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told and logged, as is the source text; both texts are put into subtitles."""
    monkeypatch.setattr("simulst.streams.auto.start_of_stream", Loudness)
    model = HeardModel()
    pairs, usual = pairs_of(model, (), ())
    assert pairs["auto"] == ("en",) and usual is None
    assert pairs_of(model, ("auto", "fr"), ("en",)) == ({"auto": ("en",), "fr": ("en",)}, ("auto", "en"))
    assert "auto" not in pairs_of(model, ("fr",), ())[0]

    async def work() -> list[Any]:
        async with connect(server.uri) as connection:
            await connection.send(json.dumps({"details": True, "source_lang": "auto", "target_lang": "en"}))
            for second in range(6):
                await connection.send(noise(6)[32000 * second : 32000 * (second + 1)])
            await connection.send(json.dumps({"end_of_stream": True}))
            heard = [answer["simulst"] for answer in await answers(connection) if "simulst" in answer]
            words, source = ([word for update in heard for word in update[key]] for key in ("words", "source"))
            asked = {
                "subtitles": "srt",
                "words": [{"text": text, "delay_ms": delay} for text, delay, _ in words],
                "source": [{"text": text, "delay_ms": delay} for text, delay in source],
            }
            return [heard, words, source, (await answer_to(connection, asked))["text"]]

    with (
        contextlib.closing(Log(tmp_path / "log")) as log,
        serving(model, pairs=pairs, usual=usual, log=log) as server,
    ):
        heard, words, source, srt = run(work)
    assert [update["languages"][0] for update in heard][:: len(heard) - 1] == ["auto", "fr"]
    stream = open_stream(HeardModel(), server.site.service.decoding, "auto", "en", among=("es", "fr"))
    stream.push(np.frombuffer(noise(6), "<i2").astype(np.float32) / 2**15, finished=True)
    assert [[text, delay] for text, delay, _ in words] == [[word.text, word.delay_ms] for word in stream.emissions]
    assert source == [[word.text, word.delay_ms] for word in stream.source or ()] and len(source) == 6
    assert srt == as_srt(with_source(cues_of(written_words(stream.emissions, 17.0)), stream.source or ()))
    assert "mot5" in srt
    rows = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [found for row in rows for found in row.get("languages", [])] == [[0.0, "fr"]]
    assert [word for row in rows for word in row.get("source_tokens", [])] == [text for text, _ in source]


def test_terms_while_it_runs() -> None:
    """They reach the session, before it and in its middle. Too many are refused in a sentence, and change nothing."""
    model = HeardModel()

    async def work() -> tuple[str, str]:
        text, sent = "", 0

        async def say(until: float) -> None:
            nonlocal text, sent
            await connection.send(noise(4.2)[sent : round(32000 * until)])
            sent = round(32000 * until)
            for _ in range(2):  # it is pushed in pieces of 1 s
                text += json.loads(await connection.recv())["new"]

        async with connect(server.uri) as connection:
            await connection.send(json.dumps({"terms": "perro=dog\nCafé", "text": "Un texto."}))
            await say(2)
            assert model.sessions[-1].opening.background == told("perro=dog;Café", "Un texto.")
            error = (await answer_to(connection, {"terms": "word " * 100_000}))["error"]
            await connection.send(json.dumps({"terms": "gato=cat"}))
            await say(4)
            assert model.sessions[-1].opening.background == told("gato=cat")
            await connection.send(json.dumps({"terms": ""}))
            await connection.send(noise(4.2)[sent:])
            await connection.send(json.dumps({"end_of_stream": True}))
            return text + "".join(answer.get("new", "") for answer in await answers(connection)), error

    known = Background("of all")
    with serving(model, background=known) as server:
        text, error = run(work)
    assert error == "terms: 500000 characters are too many; give at most 4000."
    assert text == translated(noise(4.2)).committed_text and model.sessions[-1].opening.background == known


# ---- many clients ----


async def served(uri: str) -> str:
    """The words of 2.2 s, once a place is free."""
    while True:
        try:
            return (await speak(uri, noise(2.2)))[0]
        except ConnectionClosed as error:
            assert "places are taken" in str(error)


def test_a_client_that_goes_within_a_word(tmp_path: Path) -> None:
    """The others go on, and its place is free again."""
    (gate := tmp_path / "gate").touch()
    log = tmp_path / "begun"
    with serving(FakeModel(gate=str(gate), log=str(log)), Limits(clients=1)) as server, closed(gate) as release:

        async def work() -> str:
            lost = await connect(server.uri)
            await lost.send(noise(1.1))
            await asyncio.to_thread(eventually, log.exists)  # it is decoded now, and hangs
            lost.transport.abort()
            release()
            return await served(server.uri)

        assert run(work) == translated(noise(2.2)).committed_text


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that say nothing: twice the places, and 64 more."""
    monkeypatch.setattr(module, "OPENING", HANGS)
    with serving(limits=Limits(clients=1, viewers=0)) as server, contextlib.ExitStack() as silent:
        address = ("127.0.0.1", server.port)
        many = [silent.enter_context(socket.create_connection(address)) for _ in range(2 + 64)]
        with socket.create_connection(address) as one_more, contextlib.suppress(ConnectionResetError):
            assert one_more.recv(1) == b""
        many[-1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert many[-1].recv(12) == b"HTTP/1.1 200"


def test_a_client_that_takes_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left after a while; the others do not wait for it."""
    monkeypatch.setattr(connections, "STALLS", 0.3)
    words = [{"text": " " + "x" * 199, "delay_ms": 100 * i} for i in range(100)]

    async def work() -> str:
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.connect(("127.0.0.1", server.port))
        stalled = await connect(server.uri, sock=small, max_queue=1)
        sending = asyncio.gather(*(stalled.send(json.dumps({"subtitles": "vtt", "words": words})) for _ in range(20)))
        for gone in (False, True):
            await asyncio.to_thread(eventually, lambda: gone is not bool(server.site.connections.taken["clients"]))  # noqa: B023
        monkeypatch.setattr(connections, "STALLS", HANGS)
        text = await served(server.uri)
        stalled.transport.abort()
        await asyncio.gather(sending, return_exceptions=True)
        return text

    with serving(limits=Limits(clients=1)) as server:
        server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # of connections that come
        assert run(work) == translated(noise(2.2)).committed_text


def test_silence_and_length_are_bounded() -> None:
    """Both end the stream properly: the last words are sent."""

    class Begins(FakeModel):
        def work(self, name: str) -> None:  # all has come by then
            server.idle(0.1)

    async def work(seconds: float, piece: int) -> tuple[str, str]:
        found: list[dict[str, Any]] = []
        async with connect(server.uri) as connection:
            try:
                for start in range(0, round(32_000 * seconds), piece):
                    await connection.send(noise(seconds)[start : start + piece])
                while True:
                    found.append(json.loads(await connection.recv()))
            except ConnectionClosed as error:
                assert error.rcvd is not None
                return "".join(answer.get("new", "") for answer in found), error.rcvd.reason

    with serving(Begins(), Limits(idle=HANGS)) as server:
        assert run(lambda: work(2.2, 1 << 20)) == (translated(noise(2.2)).committed_text, "nothing came for a while")
    with serving(longest=1.5) as server:
        text, reason = run(lambda: work(1.6, 3200))
    assert (text, reason) == (
        translated(noise(1.5)).committed_text,
        "a stream lasts at most 1.5 s here; begin another one.",
    )


# ---- half of the clients are slow or hostile ----


def hostile(server: Running) -> list[Callable[[], Awaitable[Any]]]:
    """What clients do that harm others, if they can."""
    floats = np.random.default_rng(0).normal(0, 0.1, 8000).astype("<f4").tobytes()
    head = b"Host: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 999999\r\n\r\n--x\r\n"

    async def says(*messages: str | bytes) -> None:
        async with connect(server.uri, max_size=None) as connection:
            for message in messages:
                await connection.send(message)
            await connection.wait_closed()

    async def goes() -> None:
        connection = await connect(server.uri)
        await connection.send(noise(3))
        connection.transport.abort()

    async def stays(begin: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            writer.write(begin)
            await reader.read()
        finally:
            writer.transport.abort()

    return [
        lambda: says("{", "[" * 10_000, json.dumps({"share": 1}), bytes(2 << 20)),
        lambda: says(floats),
        lambda: says(*[json.dumps({"terms": "word " * 10_000})] * 20, noise(0.05)),
        lambda: says(b"x"),  # and nothing more
        goes,
        lambda: stays(b"POST /v1/audio/transcriptions HTTP/1.1\r\n" + head),
        lambda: stays(b"\x16\x03\x01" * 100 + b"\r\n\r\n"),
        lambda: stays(b"GET / HTTP/1.1\r\n"),
    ]


def test_fifty_clients_of_which_half_are_hostile() -> None:
    """The others' words are as alone, while the hostile ones are there."""

    async def work() -> list[str]:
        kinds = hostile(server)
        bad = [asyncio.create_task(kinds[number % len(kinds)]()) for number in range(25)]  # type: ignore[arg-type]
        try:
            lasting = [2.2 + number / 10 for number in range(25)]
            return [text for text, _ in await asyncio.gather(*(speak(server.uri, noise(one)) for one in lasting))]
        finally:
            for task in bad:
                task.cancel()
            await asyncio.wait(bad)

    with serving(limits=Limits(clients=50)) as server:
        assert run(work) == [translated(noise(2.2 + number / 10)).committed_text for number in range(25)]


# ---- what is refused ----


def wrong_messages() -> list[str | bytes]:
    """200 kinds of what a client should not send, and nothing that ends a connection."""
    chance = random.Random(0)
    keys = (
        *("sample_rate", "source_lang", "target_lang", "decoding", "share", "subtitles", "words", "details", "clear"),
        *("metrics_metadata", "end_of_stream ", "model", "__class__", "new"),
    )
    values: tuple[Any, ...] = (
        *(None, True, -1, 0, 1, 3999, 10**30, 1e308, float("nan"), float("-inf"), "", "es", "../../etc/passwd"),
        *(
            "<script>alert(1)</script>",
            "\x00",
            "\ud800",
            "é" * 1000,
            [],
            [[]],
            {},
            {"type": "os.system"},
            [1, "2", None],
        ),
        *([{"text": "a", "delay_ms": -5}], [{"text": "a" * 300, "delay_ms": 0}], [{"text": 3}]),
    )
    found: list[str | bytes] = [
        *("", " ", "{", "[]", "null", "1", '"text"', "{}" * 2, "[" * 100_000, '{"a":' * 50_000, "\u2028", "NaN"),
        *(
            "A" * 1_000_000,
            json.dumps({"words": ["x"] * 30_000}),
            '{"sample_rate": 1e999}',
            '{"share": "' + "0" * 33 + '"}',
        ),
    ]
    pairs = [(key, value) for key in keys for value in values]
    for key, value in chance.sample(pairs, 184):
        found.append(json.dumps({key: value}))
    return found


def test_wrong_messages_change_nothing() -> None:
    """After each of them the stream goes on, and its words are right."""
    wrong = wrong_messages()
    assert len(wrong) == 200

    async def work() -> str:
        audio, texts = noise(20), []
        async with connect(server.uri) as connection:
            for i, message in enumerate(wrong):
                await connection.send(audio[3200 * i : 3200 * (i + 1)])
                while "new" not in (answer := json.loads(await connection.recv())):
                    assert answer.keys() <= {"error", "subtitles", "times", "text"}, answer
                texts.append(answer["new"])
                if json_of(message) != {"clear": True}:
                    await connection.send(message)
            await connection.send(json.dumps({"end_of_stream": True}))
            return "".join([*texts, *(answer.get("new", "") for answer in await answers(connection))])

    with serving() as server:
        assert run(work) == translated(noise(20)).committed_text


def json_of(message: str | bytes) -> Any:
    try:
        return {key: bool(value) for key, value in json.loads(message).items()}
    except (ValueError, AttributeError, RecursionError):
        return None


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (bytes(2 << 20), "1009"),
        ("x" * (2 << 20), "1009"),
        (np.random.default_rng(0).normal(0, 0.1, 8000).astype("<f4").tobytes(), "look like floats"),
        (bytes(1_000_001), "125 s of audio came at once"),
    ],
)
def test_wrong_audio_ends_a_connection(message: str | bytes, says: str) -> None:
    async def work() -> str:
        async with connect(server.uri, max_size=None) as connection:
            try:
                await connection.send(json.dumps({"sample_rate": 4000}))
                await connection.send(message)
                while True:
                    await connection.recv()
            except ConnectionClosed as error:
                return str(error)

    with serving() as server:
        assert says in run(work)
        assert run(lambda: speak(server.uri, noise(2.2)))[0] == translated(noise(2.2)).committed_text


def test_half_a_sample_at_the_end_is_told() -> None:
    with serving() as server:
        _, found = run(lambda: speak(server.uri, noise(2.2) + b"x"))
    assert found[-2] == {"error": "half a sample came; send integers of 16 bits."}


def test_languages_that_the_model_or_the_client_lacks() -> None:
    """Clients must name languages where there are several."""
    with serving(usual=None, pairs={**PAIRS, "de": ("en",)}) as server:
        for asked, says in (
            ([], "name source_lang and target_lang"),
            ([{"source_lang": "de", "target_lang": "en"}], "no language 'de'"),
            ([{"source_lang": "xx"}], "does not hear 'xx'; it hears es, fr, de"),
        ):
            assert says in run(lambda: speak(server.uri, noise(0.05), *asked))[1][0]["error"]  # noqa: B023
        pair = {"source_lang": "fr", "target_lang": "en"}
        assert run(lambda: speak(server.uri, noise(2.2), pair))[0] == translated(noise(2.2)).committed_text


# ---- HTTP ----


def get(port: int, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, {name: value for name, value in answer.getheaders() if name != "Date"}, answer.read()
    connection.close()
    return found


def test_pages_are_sent_with_a_strict_policy() -> None:
    with serving() as server:
        for path in (*module.PAGE, "/about.json"):
            status, headers, body = get(server.port, path)
            assert status == 200 and body and headers["X-Content-Type-Options"] == "nosniff"
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        page = get(server.port)[2].decode()
    assert "http:" not in page and "https:" not in page and "style=" not in page and "onclick" not in page


def test_names_of_others_are_refused() -> None:
    """DNS rebinding: a stranger's name that leads here."""
    others = ("evil.example", "localhost.evil.example", "x@localhost", "localhost;", "")
    with serving() as server:
        for host in ("localhost", "127.0.0.1:1234", "[::1]:80", "10.0.0.7"):
            assert get(server.port, Host=host)[0] == 200, host
        for host in others:
            assert get(server.port, Host=host)[0] == 421, host


async def status_of(uri: str, origin: str, **headers: str) -> int:
    """101: a page of this origin may connect."""
    try:
        async with connect(uri, origin=origin, additional_headers=headers):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def test_pages_of_others_may_not_connect(caplog: pytest.LogCaptureFixture) -> None:
    """Scheme, host and port have to be those of this server, as the browser or its proxy sees it. The log tells it."""
    own = "http://127.0.0.1:{}"
    others = (
        "http://evil.example",
        "null",
        "http://localhost:{}",
        "file://",
        "https://127.0.0.1",
        "https://127.0.0.1:{}",
    )
    behind = {"X-Forwarded-Proto": "https"}

    async def work() -> None:
        for origin in others:
            assert await status_of(server.uri, origin.format(server.port)) == 403
        assert await status_of(server.uri, own.format(server.port)) == 101
        assert await status_of(server.uri, f"https://127.0.0.1:{server.port}", **behind) == 101
        assert await status_of(server.uri, own.format(server.port), **behind) == 403
        assert await status_of(server.uri, "https://evil.example", **behind) == 403
        with pytest.raises(InvalidMessage):  # two of them: this is no HTTP
            await status_of(server.uri, own.format(server.port), Host="localhost")

    with serving() as server:
        run(work)
        assert caplog.text.count("refused a request") == len(others) + 2
        assert (
            "refused a request with Origin 'https://127.0.0.1': pages of other servers may not connect" in caplog.text
        )
        run(lambda: status_of(server.uri, "null"))
        assert get(server.port, Host="evil.example")[0] == 421
        odd = {"X-Forwarded-Proto": "\xff", "Upgrade": "websocket", "Origin": "http://evil"}  # no UTF-8
        assert get(server.port, **odd)[0] == 403
        assert caplog.text.encode().count(b"refused a request") == len(others) + 4


def test_other_methods_and_upgrades() -> None:
    """HEAD has GET's headers and no body. An offer that is not known is ignored (RFC 9110, 7.8)."""
    with serving() as server:
        for path in ("/", "/about.json", "/nothing"):
            asked = get(server.port, path)
            assert get(server.port, path, Connection="Upgrade, HTTP2-Settings", Upgrade="h2c") == asked
            assert get(server.port, path, "HEAD") == (*asked[:2], b"")
        assert get(server.port, "/", "POST")[0] == 405


def test_what_is_not_there(tmp_path: Path) -> None:
    paths = ("/page", "/../server.py", "/%2e%2e/server.py", "/recordings/0/0", "/recordings/-1/0", "/server.py", "//x")
    with serving() as server:
        assert {get(server.port, path)[0] for path in paths} == {404}
        assert {get(server.port, "/", method)[0] for method in ("PUT", "DELETE", "OPTIONS")} == {405}
        with socket.create_connection(("127.0.0.1", server.port)) as broken:
            broken.sendall(b"\x16\x03\x01\x00\xff" * 100 + b"\r\n\r\n")
            assert broken.recv(1000)[:12] in (b"", b"HTTP/1.0 400")
        assert run(lambda: speak(server.uri, noise(2.2)))[0]


def test_recordings(tmp_path: Path) -> None:
    """Their parts, joined, are what `simulst translate` reads."""
    for name, seconds, rate in (("b.wav", 60.5, 44100), ("a.flac", 30.0, 8000)):
        soundfile.write(tmp_path / name, np.frombuffer(noise(seconds, rate), "<i2"), rate, subtype="PCM_16")
    (tmp_path / "notes.txt").write_text("no recording")
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    found = find_recordings(tmp_path)
    assert [path.name for path, _ in found] == ["a.flac", "b.wav"]
    with serving(recordings=found) as server:
        about = json.loads(get(server.port, "/about.json")[2])
        assert [one["name"] for one in about["recordings"]] == ["a", "b"] and str(tmp_path) not in json.dumps(about)
        for number, (path, seconds) in enumerate(found):
            parts = [get(server.port, f"/recordings/{number}/{part}") for part in range(4)]
            count = -(-seconds // about["part"])
            assert [status for status, *_ in parts] == [200 if part < count else 404 for part in range(4)]
            samples = np.frombuffer(b"".join(body for status, _, body in parts if status == 200), "<i2")
            assert np.abs(samples.astype(np.float32) / 2**15 - load_audio(path)).max() <= 2**-15
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(SimulstError, match="has no recordings"):
        find_recordings(empty)


# ---- the command ----


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    import yaml

    (tmp_path / "la2.yaml").write_text(yaml.safe_dump(LA2))
    started = [sys.executable, "-m", "simulst", "serve", "--model", "fake:FakeModel", "--source-lang", "es"]
    return [*started, "--target-lang", "en", "--decoding", str(tmp_path / "la2.yaml")]


def started(command: list[str], folder: Path, *more: str, port: int = 0) -> tuple[subprocess.Popen[bytes], int]:
    """A server as a process, once it listens, and its port."""
    said = folder / "said"
    with said.open("wb") as out:
        process = subprocess.Popen([*command, "--port", str(port), *more], stdout=out, cwd=folder)
    until(lambda: said.read_bytes().endswith(b"\n"), folder, process)
    return process, int(said.read_text().split("/")[2].split(":")[1])


@pytest.mark.long
def test_term_and_kill(tmp_path: Path, command: list[str]) -> None:
    """TERM ends a stream properly: its last words come. After a kill the server starts again at the same port.

    Numbers of streams begin again, so a reader of the log must see that the second one's are others.
    """
    log = tmp_path / "log.jsonl"

    async def work(number: int, about: dict[str, Any]) -> tuple[str, int | None]:
        texts, code = [], None
        async with connect(f"ws://127.0.0.1:{port}/") as connection:
            await connection.send(json.dumps(about))
            await connection.send(noise(2.7))
            try:
                while True:
                    texts.append(json.loads(await connection.recv()).get("new", ""))
                    if len(texts) == 3:
                        process.send_signal(number)
            except ConnectionClosed as error:
                code = error.rcvd.code if error.rcvd else None
        return "".join(texts), code

    process, port = started(command, tmp_path, "--log", str(log))
    text, code = run(lambda: work(signal.SIGKILL, NAMED))
    assert code is None and process.wait() == -signal.SIGKILL
    process, same = started(command, tmp_path, "--log", str(log), port=port)
    text, code = run(lambda: work(signal.SIGTERM, {}))
    assert (text, code, same) == (translated(noise(2.7)).committed_text, 1001, port)
    assert process.wait() == 0
    [instance] = read_log(log)
    assert (instance.name, instance.source_length) == ("talk", 2700)


@pytest.mark.long
@pytest.mark.parametrize("signals", [[signal.SIGINT, signal.SIGINT], [signal.SIGTERM, signal.SIGINT]])
def test_a_second_signal_ends_a_server_whose_model_hangs(
    tmp_path: Path, command: list[str], signals: list[signal.Signals]
) -> None:
    (gate := tmp_path / "gate").touch()
    log = tmp_path / "begun"
    options = ("--model-option", f"gate={gate}", "--model-option", f"log={log}")
    with closed(gate):
        process, port = started(command, tmp_path, *options)

        async def work() -> None:
            async with connect(f"ws://127.0.0.1:{port}/") as connection:
                await connection.send(noise(3))
                await asyncio.to_thread(eventually, log.exists)
                process.send_signal(signals[0])
                with pytest.raises(OSError):  # it has understood, and listens no more
                    while True:
                        (await asyncio.open_connection("127.0.0.1", port))[1].close()
                process.send_signal(signals[1])
                assert await asyncio.to_thread(process.wait) == -signals[1]
                connection.transport.abort()

        run(work)


@pytest.mark.long
def test_term_ends_a_server_whose_model_hangs(tmp_path: Path, command: list[str]) -> None:
    """After a while; the words so far have been sent."""
    (gate := tmp_path / "gate").touch()
    log = tmp_path / "begun"
    options = ("--model-option", f"gate={gate}", "--model-option", f"log={log}")
    short = (
        "import simulst.serve.server as s; s.ENDING = s.HANGS = 0.1; from simulst.commands.main import entry; entry()"
    )
    with closed(gate):
        process, port = started([command[0], "-c", short, *command[3:]], tmp_path, *options)

        async def work() -> None:
            async with connect(f"ws://127.0.0.1:{port}/") as connection:
                await connection.send(noise(3))
                await asyncio.to_thread(eventually, log.exists)
                process.terminate()
                assert await asyncio.to_thread(process.wait) == 1

        run(work)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--key", "k.pem"], "--certificate"),
        (["--certificate", "no.pem"], "no certificate with its key"),
        (["--recordings", "nowhere"], "no such folder"),
        (["--log", "nowhere/log"], "cannot be written"),
        (["--port", "-1"], "port"),
        (["--source-lang", "xx"], "'xx' is not the code of a language"),
    ],
)
def test_wrong_arguments(arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        main, ["serve", "--model", "fake:FakeModel", "--source-lang", "es", "--target-lang", "en", *arguments]
    )
    assert result.exit_code != 0
    assert says in str(result.exception) + result.output


def test_a_port_in_use(command: list[str]) -> None:
    with serving() as server:
        port = server.port
        result = CliRunner().invoke(main, [*command[3:], "--port", str(port)])
        missing = CliRunner().invoke(main, ["serve", "--model", "nowhere", "--port", str(port)])
    for one in (result, missing):  # it is told before the model is loaded
        assert f"127.0.0.1:{port} can't be used (Address already in use)" in str(one.exception)
