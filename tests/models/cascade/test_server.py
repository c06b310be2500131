"""A server with OpenAI's interface: a small one on loopback, which behaves well or badly."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import speaker
from fake import noted

from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.models.cascade import ask as module
from simulst.models.cascade.server import Server, after
from simulst.opening import Opening
from simulst.search import BeamSearch
from simulst.streams import open_stream
from simulst.streams.driver import Driver

SAY = "The cat sat down. It was on the mat."


class Handler(BaseHTTPRequestHandler):
    """Answers in capitals, or as `server.answer` says."""

    server: Any

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers), body))
        status, answer = self.server.answer(body)
        try:
            if status:
                self.send_response(status)
                self.end_headers()
            for piece in [answer] if status else answer:
                self.wfile.write(piece)
        except OSError:  # the client has gone
            pass

    def log_message(self, *_: Any) -> None: ...


def loud(body: dict[str, Any]) -> tuple[int, bytes]:
    messages = {message["role"]: message["content"] for message in body["messages"]}
    text = messages["user"].upper()
    begin = messages.get("assistant", "")
    if not text.startswith(begin):
        return 400, b"it goes on with something else"
    return 200, json.dumps({"choices": [{"message": {"role": "assistant", "content": text[len(begin) :]}}]}).encode()


@pytest.fixture
def server() -> Iterator[Any]:
    started: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    started.daemon_threads = True
    started.asked, started.answer = [], loud
    threading.Thread(target=started.serve_forever, daemon=True).start()
    yield started
    started.shutdown()
    started.server_close()


def url_of(server: Any) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/v1"


def opened(server: Any, folder: Path, **options: Any) -> Any:
    return several(server, folder, 1, **options)[0]


def several(server: Any, folder: Path, count: int, **options: Any) -> list[Any]:
    """Streams of one model."""
    translator = {"type": "server", "url": url_of(server), "model": "tiny", **options}
    model = load_model(speaker.write(folder, translator, SAY, unsure=0))
    decoding = parse_decoding({"read": {"type": "chunk", "ms": 400}, "commit": {"type": "hold", "n": 1}}, "test")
    return [open_stream(model, decoding, "en", "de") for _ in range(count)]


def test_the_committed_text_is_gone_on_with(server: Any, tmp_path: Path) -> None:
    stream = opened(server, tmp_path)
    stream.push(speaker.audio(SAY), finished=True)
    assert "".join(e.text for e in stream.emissions) == SAY.upper()
    assert len({e.delay_ms for e in stream.emissions}) > 2
    path, _, first = server.asked[0]
    assert path == "/v1/chat/completions" and first["model"] == "tiny" and first["temperature"] == 0
    assert "from en to de" in first["messages"][0]["content"] and "continue_final_message" not in first
    begun = [body for _, _, body in server.asked if len(body["messages"]) == 3]
    assert begun and all(body["continue_final_message"] and not body["add_generation_prompt"] for body in begun)


def test_many_streams_ask_at_once(server: Any, tmp_path: Path) -> None:
    """The server answers only once all have asked: if streams took turns, no answer would come."""
    together = threading.Barrier(3)

    def answer(body: dict[str, Any]) -> tuple[int, bytes]:
        together.wait()
        return loud(body)

    server.answer = answer
    driver = Driver()
    found = [driver.push(one, speaker.audio(SAY), finished=True) for one in several(server, tmp_path, 3)]
    driver.finish()
    assert ["".join(word.text for word in one.result()) for one in found] == [SAY.upper()] * 3


def test_a_server_with_a_bound(server: Any, tmp_path: Path) -> None:
    """The first answer comes once all want to ask, and no other request has come by then."""
    streams, driver, asked = several(server, tmp_path, 3, at_once=1), Driver(), list[int]()

    def answer(body: dict[str, Any]) -> tuple[int, bytes]:
        while len(driver._threaded) < 3 and not asked:
            time.sleep(0.01)
        asked.append(len(server.asked))
        return loud(body)

    server.answer = answer
    found = [driver.push(stream, speaker.audio(SAY), finished=True) for stream in streams]
    driver.finish()
    assert ["".join(word.text for word in one.result()) for one in found] == [SAY.upper()] * 3
    assert asked == [*range(1, len(asked) + 1)]


def saying(content: Any, finish_reason: str = "stop", **message: Any) -> tuple[int, bytes]:
    choice = {"message": {"content": content, **message}, "finish_reason": finish_reason}
    return 200, json.dumps({"choices": [choice]}).encode()


@pytest.mark.parametrize(
    ("begin", "answer", "expected"),
    [
        ("The cat", " sat.", (" sat.", True)),
        ("The cat", ".", (".", True)),
        ("The cat", "s sat.", ("s sat.", True)),
        ("The cat", "The cat sat.", (" sat.", True)),  # a server that begins again
        ("The cat", "The cat.", (".", True)),
        ("The cat", "The cattle.", ("The cattle.", False)),
        ("यह हिन्द", "यह हिन्दी है", ("यह हिन्दी है", False)),  # the vowel sign belongs to the word
        ("The cat", "", ("", True)),
        ("The cat.", "\n\n(A cat.)", ("", True)),
        ("The cat", " sat.\n(It sat.)", (" sat.", True)),
        ("In", " Indien leben", (" Indien leben", True)),
        ("No", " No one", (" No one", True)),
        ("It is a", " It is a cat.", (" cat.", True)),
        ("This is a", "That is a big house.", ("That is a big house.", False)),  # a server that begins otherwise
        ("This is", "That is a house.", ("That is a house.", False)),
        ("The house, which", "The big house which stands there", ("The big house which stands there", False)),
        ("Mc", "Donald", ("Donald", False)),  # as no word goes on with a capital
        ("U", "SA", ("SA", True)),
        ("It is", " It is late, it is", (" It is late, it is", True)),
        ("no", "body is in", ("body is in", True)),
        ("", "The cat", ("The cat", True)),
        ("", "\n\nThe cat\nA cat", ("The cat", True)),
    ],
)
def test_what_an_answer_adds(begin: str, answer: str, expected: tuple[str, bool]) -> None:
    assert after(begin, answer) == expected


@pytest.mark.parametrize(
    ("begin", "answer", "expected"),
    [
        ("The cat", "sat.", " sat."),
        ("The cat", ", who", ", who"),
        ("In", "Indien leben", " Indien leben"),
        ("Hola", "¿Qué", " ¿Qué"),
        ("It is a", "It is a cat.", " cat."),
    ],
)
def test_a_server_that_takes_spaces_away(begin: str, answer: str, expected: str) -> None:
    assert after(begin, answer, strips_spaces=True) == (expected, True)


def test_a_server_that_begins_otherwise(server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The committed words stay, and are not written twice. Its owner is told."""
    server.answer = lambda body: saying("That is a very big house.")
    translation = Server(url=url_of(server), model="tiny").load(tmp_path, 1)(Opening("de", "en"))
    whole = {"This": " is a very big house.", "This is": " a very big house.", "This is a rather": " big house."}
    for begun, following in whole.items():
        prefix = translation._tokens(begun, joined=False)
        [best] = speaker.searched(translation, "Das ist ein sehr großes Haus.", prefix, BeamSearch(), None)
        assert translation.text(best.tokens).strip() == begun + following
    assert caplog.text.count("does not go on with an answer that is begun") == 1


def test_a_server_that_refuses_to_go_on(server: Any, tmp_path: Path) -> None:
    """Such as OpenAI's, which knows no `continue_final_message`: it is asked without."""

    def answer(body: dict[str, Any]) -> tuple[int, bytes]:
        if "continue_final_message" in body:
            return 400, b'{"error": {"message": "Unrecognized request argument supplied: continue_final_message"}}'
        return loud({"messages": body["messages"][:2]})

    server.answer = answer
    stream = opened(server, tmp_path)
    stream.push(speaker.audio(SAY), finished=True)
    assert "".join(e.text for e in stream.emissions) == SAY.upper()


@pytest.mark.parametrize(
    ("busy", "after_seconds"),
    [
        *((f"HTTP/1.0 {status} Busy\r\nRetry-After: 0\r\n\r\n", None) for status in (429, 502, 503, 529)),
        ("HTTP/1.0 503 Busy\r\n\r\n", module.FIRST_PAUSE),
        ("HTTP/1.0 503 Busy\r\nRetry-After: Fri, 27 Nov 2020 00:00:00 GMT\r\n\r\n", 0.0),
        ("HTTP/1.0 503 Busy\r\nRetry-After: 2.5\r\n\r\n", 2.5),
        ('HTTP/1.0 200 OK\r\n\r\n{"error": {"message": "busy", "code": 429}}', module.FIRST_PAUSE),
    ],
)
def test_a_busy_server_is_asked_again(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: str, after_seconds: float | None
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    server.answer = lambda body: (0, [busy.encode()]) if len(server.asked) < 2 else saying("A house.")
    translation = Server(url=url_of(server), model="tiny").load(tmp_path, 1)(Opening("de", "en"))
    assert translation.translate("Ein Haus.", "") == ("A house.", True)
    assert slept == [after_seconds or 0.0]


def test_a_server_that_stays_busy(server: Any, tmp_path: Path) -> None:
    """It is told at once if the time does not suffice."""
    server.answer = lambda body: (
        0,
        [b'HTTP/1.0 429 Busy\r\nRetry-After: 99\r\n\r\n{"error": {"message": "too many"}}'],
    )
    translation = Server(url=url_of(server), model="tiny").load(tmp_path, 1)(Opening("de", "en"))
    with pytest.raises(SimulstError, match=r"answered with status 429 \(too many\); see its log"):
        translation.translate("Ein Haus.", "")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "extra", [{"max_tokens": None, "max_completion_tokens": 9}, {"max_tokens": None}, {"temperature": None}]
)
def test_fields_of_null_are_left_out(server: Any, tmp_path: Path, extra: dict[str, Any]) -> None:
    server.answer = lambda body: saying("A house.")
    translation = Server(url=url_of(server), model="tiny", extra=extra).load(tmp_path, 1)(Opening("de", "en"))
    assert translation.translate("Ein Haus.", "Some") == ("A house.", False)
    [(_, _, body)] = server.asked
    assert not {name for name, value in extra.items() if value is None} & body.keys() and None not in body.values()


def test_parts_of_an_answer(server: Any, tmp_path: Path) -> None:
    """As Mistral's reasoning models write them."""
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "A house."}]
    server.answer = lambda body: saying(parts)
    translation = Server(url=url_of(server), model="tiny").load(tmp_path, 1)(Opening("de", "en"))
    assert translation.translate("Ein Haus.", "") == ("A house.", True)


def test_no_proxy_for_this_machine(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other servers are asked through it."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    server.answer = lambda body: saying("A house.")
    for host in ("127.0.0.1", "localhost"):
        url = url_of(server).replace("127.0.0.1", host)
        translation = Server(url=url, model="tiny").load(tmp_path, 1)(Opening("de", "en"))
        assert translation.translate("Ein Haus.", "") == ("A house.", True)
    monkeypatch.setenv("http_proxy", url_of(server))
    translation = Server(url="http://far.example/v1", model="tiny").load(tmp_path, 1)(Opening("de", "en"))
    assert translation.translate("Ein Haus.", "") == ("A house.", True)
    assert server.asked[-1][0] == "http://far.example/v1/chat/completions"


@pytest.mark.parametrize("begun", ["", " It was"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("{}.", "{}."),
        ("<think>\nIt\nis.\n</think>\n\n{}.", "{}."),
        ("It\nis.\n</think>\n\n{}.", "{}."),
        ("{}.\n\n(It is a cat.)", "{}."),
        ("\n\n{}.", "{}."),  # if nothing was committed; else a new line says that the translation has ended
        ("{} \ud83d\ude00 \ud83d.", "{} \U0001f600 \ufffd."),
        ("", ""),
    ],
)
def test_the_answer_is_its_first_line(server: Any, tmp_path: Path, answer: str, expected: str, begun: str) -> None:
    """After thoughts, and without explanations. Its characters can be written to a file."""
    translation = Server(url=url_of(server), model="tiny").load(tmp_path, 1)(Opening("en", "de"))
    prefix: tuple[int, ...] = ()
    for content in (begun, answer.format(" so")) if begun else (answer.format(" so"),):
        server.answer = lambda body, content=content: saying(content)
        prefix = speaker.searched(translation, "x", prefix, BeamSearch(), None)[0].tokens
    text = translation.text(prefix)
    assert text == begun + (expected.format(" so") if not (begun and answer.startswith("\n")) else "")
    text.encode()


def test_answers_that_are_cut(server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server.answer = lambda body: saying(" so", finish_reason="length")
    stream = opened(server, tmp_path)
    stream.push(speaker.audio(SAY), finished=True)
    assert caplog.text.count("an answer was cut after 256 tokens; give it a larger 'max_tokens'") == 1
    for content in (None, "<think>It is"):
        server.answer = lambda body, content=content: saying(content, finish_reason="length")
        with pytest.raises(SimulstError, match="the model thought for 256 tokens and wrote nothing; tell it"):
            opened(server, tmp_path).push(speaker.audio(SAY), finished=True)


def test_a_key_and_extra_fields(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand in each request."""
    monkeypatch.setenv("MY_KEY", "abc")
    extra = {"chat_template_kwargs": {"enable_thinking": False}}
    opened(server, tmp_path, key="MY_KEY", extra=extra).push(speaker.audio(SAY), finished=True)
    for _, headers, body in server.asked:
        assert headers["Authorization"] == "Bearer abc" and body["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_key_is_not_sent_elsewhere(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """A redirect, be it to the same server, is not followed."""
    monkeypatch.setenv("MY_KEY", "abc")
    place = url_of(server).replace("127.0.0.1", "localhost") + "/elsewhere"
    head = f"HTTP/1.0 {status} Moved\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()
    server.answer = lambda body: (0, [head])
    with pytest.raises(SimulstError, match=f"redirects to '{place}', which is not followed; give the address"):
        opened(server, tmp_path, key="MY_KEY").push(speaker.audio(SAY), finished=True)
    assert {path for path, _, _ in server.asked} == {"/v1/chat/completions"}


LATE = "no answer within 0.5 s; give it a longer 'timeout'"


def never(body: dict[str, Any]) -> tuple[int, Iterator[bytes]]:
    """No answer, for longer than anybody waits."""

    def pieces() -> Iterator[bytes]:
        threading.Event().wait()
        yield b""

    return 0, pieces()


def drops(begin: bytes) -> Iterator[bytes]:
    """A beginning, and then a byte now and then, until the client goes: each read is in time, the answer never is."""
    yield begin
    while True:
        time.sleep(0.1)
        yield b"x"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (never, LATE),
        (lambda body: (0, drops(b"HTTP/1.0 200 OK\r\n\r\n")), LATE),
        (lambda body: (0, drops(b"HTTP/1.0 200 OK\r\nX-Drops: ")), LATE),
        (lambda body: (0, [b"220 mail.example ESMTP\r\n"]), "the answer is not HTTP \\(220 mail"),
        (lambda body: (0, [b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{"]), "the answer is cut short; see"),
        (lambda body: (0, []), "the server cannot be reached .*without response.*; check that it runs"),
        (lambda body: (500, b"oops"), r"answered with status 500 \(Internal Server Error\); see its log"),
        (lambda body: (404, b'{"error": {"message": "no\\nmodel x"}}'), r"status 404 \(no model x\); see its log"),
        (lambda body: (400, b'{"message": "too long"}'), r"status 400 \(too long\); see its log"),
        (lambda body: (200, b"x" * (2 << 20)), "the answer is longer than 1 MiB"),
        (lambda body: (200, b"<html>"), "the answer is not JSON"),
        (lambda body: (200, b'{"choices": []}'), "the answer holds no text"),
        (lambda body: (200, b'{"choices": [{"message": {"content": null}}]}'), "the answer holds no text"),
        (lambda body: (200, b'{"error": {"message": "no memory", "code": 500}}'), r"with status 500 \(no memory\)"),
        (lambda body: saying("", reasoning_content="A house."), "the whole answer is in 'reasoning_content'; tell"),
        (lambda body: saying(None, refusal="I can't."), r"the model refuses to translate \(I can't.\)"),
        (lambda body: (200, b"[" * 200_000), "the answer is not JSON"),
        (
            lambda body: (200, b'{"choices": [{"message": {"content": "' + b"word " * 120_000 + b'"}}]}'),
            "an answer of 600000 characters is far longer than 'max_tokens' allows",
        ),
        (lambda body: (302, b""), "the server redirects to '', which is not followed"),
    ],
)
def test_bad_answers(server: Any, tmp_path: Path, answer: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, and the stream's words so far are kept."""
    loaded = noted(monkeypatch, Server, "load", lambda self, *_: self)
    stream = opened(server, tmp_path, timeout=300.0)
    samples = speaker.audio(SAY)
    server.answer = loud
    stream.push(samples[: len(samples) // 2])
    written = len(stream.emissions)
    server.answer = answer
    if words == LATE:  # only now: what comes in time on a quiet machine may not on a busy one
        object.__setattr__(loaded[0], "timeout", 0.5)
    with pytest.raises(SimulstError, match=words) as caught:
        stream.push(samples[len(samples) // 2 :], finished=True)
    assert written and len(stream.emissions) >= written and "\n" not in str(caught.value)


def test_a_key_that_no_header_can_hold(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence does not tell it."""
    monkeypatch.setenv("MY_KEY", "abc\ndef")
    stream = opened(server, tmp_path, key="MY_KEY")
    with pytest.raises(SimulstError, match="the request cannot be sent; check 'url'") as caught:
        stream.push(speaker.audio(SAY), finished=True)
    assert "abc" not in str(caught.value)


ADDRESS = "'url' must begin with http:// or https:// and name a server"
ADDRESSES = "localhost:1", "http://", "http://[::1/v1", "http://a:99999", "http://a b/v1"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(({"url": url}, ADDRESS) for url in ADDRESSES),
        ({"key": "MY_KEY"}, "the environment has no MY_KEY"),
        ({"extra": {"until": date(2026, 1, 1)}}, "'extra': .*JSON.*date"),
        ({"extra": {"max_tokens": "many"}}, "'max_tokens' in 'extra' is 'many'; give a number of tokens, or null"),
        ({"extra": {"max_completion_tokens": 0}}, "'max_completion_tokens' in 'extra' is 0"),
        ({"extra": {"stream": True}}, "'extra' has 'stream', which is not read; leave it out"),
        ({"extra": {"messages": [{}]}}, "'extra' has 'messages'"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    translator = {"type": "server", "url": "http://localhost", "model": "x", **options}
    with pytest.raises(SimulstError, match=words) as caught:
        load_model(speaker.write(tmp_path, translator, SAY))
    assert "\n" not in str(caught.value)
