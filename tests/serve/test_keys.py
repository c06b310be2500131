"""Keys: their file, and who is served with and without one."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("websockets")
from sites import answer_to, answers, connect, noise, run, serving, speak
from websockets.exceptions import ConnectionClosed, InvalidStatus

from simulst.commands.main import main
from simulst.errors import SimulstError
from simulst.serve import server as module
from simulst.serve.keys import Keys, add_key

ASKS = "this server asks for a key; send a right one as 'Authorization: Bearer KEY'."


def made(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["serve", *arguments])


def test_a_key_is_printed_once(tmp_path: Path) -> None:
    """The file has its hash, and nobody else may read it. No model is needed for it."""
    path = tmp_path / "keys"
    found = [made("--new-key", "one", "--keys", str(path)), made("--keys", str(path), "--new-key", "two")]
    keys = [result.output.strip() for result in found]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and all(len(key) == 43 for key in keys)
    assert [line.split()[0] for line in path.read_text().splitlines()] == ["one", "two"]
    assert not any(key in path.read_text() for key in keys)
    allowed = Keys(path)
    assert [allowed.allow(key) for key in (*keys, "", keys[0][:-1], keys[0] + "x", path.read_text().split()[1])] == [
        *(True, True),
        *(False, False, False, False),
    ]
    for arguments, says in (
        (["--new-key", "one", "--keys", str(path)], "has a key of the name 'one'"),
        (["--new-key", "a b", "--keys", str(path)], "no name for a key"),
        (["--new-key", "three"], "give the file, too, by --keys"),
        (["--new-key", "x", "--keys", str(tmp_path / "no" / "keys")], "cannot be written"),
    ):
        result = made(*arguments)
        assert result.exit_code and says in str(result.exception) + result.output


def test_a_file_whose_last_line_has_no_end(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    one = add_key(path, "one")
    path.write_text(path.read_text().rstrip())
    two = add_key(path, "two")
    assert Keys(path).allow(one) and Keys(path).allow(two)


HASH = "0" * 64


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (None, 0, "no file of keys; make one by"),
        ("", 0o600, "has no key; add one by"),
        (f"one {HASH}\n", 0o640, r"others may read it \(mode 640\); run: chmod 600"),
        (f"one {HASH}\n", 0o604, "others may read it"),
        (f"one {HASH}\none {HASH[:-1]}1\n", 0o600, "line 2: the name or the key stands there twice"),
        (f"one {HASH}\ntwo {HASH}\n", 0o600, "line 2: the name or the key stands there twice"),
        (f"one {HASH}\nsecret\n", 0o600, "line 2: no name with the hash of a key"),
        ("\x00\n", 0o600, "line 1: no name with the hash"),
    ],
)
def test_wrong_files(text: str | None, mode: int, says: str, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(SimulstError, match=says):
        Keys(path)


def test_without_a_right_key_nothing_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By no interface. A missing key and a wrong one are told alike, no log has one; viewers need none."""
    openai = pytest.importorskip("openai")
    monkeypatch.setattr(module, "STRANGER", 0.01)
    path = tmp_path / "keys"
    key = add_key(path, "one")

    async def refused(place: str, **options: Any) -> None:
        with pytest.raises(InvalidStatus) as raised:
            await connect(server.uri + place, **options)
        assert raised.value.response.status_code == 401 and ASKS in raised.value.response.body.decode()

    async def work() -> None:
        for place in ("", "v1/realtime"):
            for wrong in (None, "wrong", key[:-1], ""):
                options = {} if wrong is None else {"additional_headers": {"Authorization": f"Bearer {wrong}"}}
                await refused(place, **options)
            await refused(place, subprotocols=["simulst", "openai-insecure-api-key.wrong"])
        await refused("", subprotocols=["openai-insecure-api-key.wrong-alone"])
        bearer = {"Authorization": f"Bearer {key}"}
        async with connect(server.uri, additional_headers=bearer) as connection:
            link = (await answer_to(connection, {"share": "0123456789abcdef" * 2}))["link"]
            async with connect(f"{server.uri}view/{link}") as viewer:
                assert "simulst" in json.loads(await viewer.recv())
        with pytest.raises(ConnectionClosed):
            async with connect(f"{server.uri}view/{link}") as viewer:
                await viewer.recv()
        for offered in (["simulst", f"openai-insecure-api-key.{key}"], [f"openai-insecure-api-key.{key}"]):
            async with connect(server.uri, subprotocols=offered) as connection:
                assert connection.subprotocol == ("simulst" if len(offered) > 1 else None)
                await connection.send(noise(2.2))
                await connection.send(json.dumps({"end_of_stream": True}))
                assert "".join(one.get("new", "") for one in await answers(connection)).strip() == text

    with serving() as free:
        text = run(lambda: speak(free.uri, noise(2.2)))[0].strip()
    with serving(keys=Keys(path)) as server:
        run(work)
        for wrong in ("wrong", key[:-1], "again"):
            client = openai.OpenAI(base_url=f"{server.page}v1", api_key=wrong, max_retries=0)
            with pytest.raises(openai.AuthenticationError, match="asks for a key"):
                client.models.list()
        assert len(list(openai.OpenAI(base_url=f"{server.page}v1", api_key=key).models.list())) == 4
    assert key not in caplog.text and "wrong-alone" not in caplog.text
    assert caplog.text.count("wrong keys were refused") == 2


def test_other_machines_without_keys(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning. A wrong file is told before a model is loaded."""
    monkeypatch.setattr(module, "check_port", lambda *given: (_ for _ in ()).throw(SimulstError("far enough")))
    options = ["--model", "fake:FakeModel", "--source-lang", "es", "--target-lang", "en", "--port", "0"]
    for host, warns in (("127.0.0.1", False), ("localhost", False), ("::1", False), ("0.0.0.0", True), ("::", True)):
        caplog.clear()
        assert "far enough" in str(made(*options, "--host", host).exception)
        assert ("whoever reaches" in caplog.text) == warns
    assert "no file of keys" in str(made(*options, "--keys", "nowhere").exception)
