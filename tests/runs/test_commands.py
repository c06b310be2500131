"""Commands beside evaluate and sweep, on runs and on audio."""

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import wave
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
from fake import RATE, Loudness
from run_commands import COUNT, MODEL, command, simulst

from simulst.commands import translate
from simulst.errors import warn_once
from simulst.log import read_log


def test_score(data: Path) -> None:
    assert simulst(*command(data))[0] == 0
    out = data.parent / "out"
    status, text, _ = simulst("score", out, "--bootstrap", 0, "--json")
    assert status == 0
    scores = json.loads((out / "scores.json").read_text())
    again = {key: value for key, value in json.loads(text).items() if "signature" not in key}
    assert again == {key: scores[key] for key in again} and "LAAL_CA" in again


def test_export(data: Path) -> None:
    """The references of recipes are called text.tc.LANG; every command finds them, and others by --text."""
    (data / "text.en").rename(data / "text.tc.en")
    shutil.copy(data / "text.tc.en", data / "text.lc.en")
    (data / "text.lc.en").write_text((data / "text.lc.en").read_text().replace(" the", " THE"))
    args = ["--data", data, "--target-lang", "en", "--out"]
    status, out, error = simulst("export", *args, data.parent / "files")
    assert (status, error) == (0, "") and "--source" in out
    cased = (data.parent / "files" / "target.txt").read_text()
    assert "the" in cased and "THE" not in cased
    for path in (data.parent / "files" / "source.txt").read_text().split():
        with wave.open(path) as file:
            assert (file.getframerate(), file.getsampwidth()) == (16000, 2)
    assert simulst("export", *args, data.parent / "lower", "--text", "lc.en")[0] == 0
    assert (data.parent / "lower" / "target.txt").read_text() == cased.replace(" the", " THE")
    assert simulst(*command(data))[0] == 0
    assert [i.reference for i in read_log(data.parent / "out")] == cased.splitlines()


def test_translate(data: Path, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"u{COUNT - 1}"
    args = ["--model", MODEL, "--source-lang", "es", "--target-lang", "en", "--decoding", data.parent / "la2.yaml"]
    status, out, error = simulst("translate", data / f"{name}.wav", *args)
    assert (status, error) == (0, "")
    lines = [line.split(" s  ") for line in out.rstrip("\n").split("\n")]
    assert simulst(*command(data))[0] == 0
    instance = read_log(data.parent / "out")[-1]
    assert " ".join(words for _, words in lines) == instance.prediction
    assert [float(seconds) * 1000 for seconds, _ in lines] == sorted(set(instance.delays))
    monkeypatch.setattr(translate, "time", clock)
    started = clock.now
    status, realtime, _ = simulst("translate", data / "u0.wav", "--realtime", *args)
    assert status == 0 and realtime and clock.now - started == pytest.approx(1.0)


def test_the_languages_found(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of six are too quiet."""
    monkeypatch.setattr("simulst.streams.auto.start_of_stream", Loudness)
    auto = ["auto" if word == "es" else word for word in command(data, model="fake:HeardModel")]
    assert simulst(*auto)[1].endswith("\nlanguages found: fr 4\n")


def test_translate_sound_that_comes(data: Path) -> None:
    """Words are printed while it comes, and are those of the file. The first Ctrl-C waits for the end of the sound."""
    soundfile.write(data / "talk.wav", np.random.default_rng(0).uniform(-0.3, 0.3, 70_001), RATE)
    content = (soundfile.read(data / "talk.wav", dtype="int16")[0]).tobytes()
    args = ["--model", MODEL, "--source-lang", "es", "--target-lang", "en", "--decoding", data.parent / "la2.yaml"]
    status, whole, _ = simulst("translate", data / "talk.wav", *args)
    started = [sys.executable, "-m", "simulst", "translate", "-", *map(str, args)]
    process = subprocess.Popen(started, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(content[:100_001])
    process.stdin.flush()
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(content[100_001:])
    assert (status, (first + out).decode()) == (process.returncode, whole) == (0, whole)
    assert b"the sound ends; the last words come" in error


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no sound came by standard input"),
        (b"RIFF\0\0\0\0WAVEfmt " + bytes(1000), "look like a file (WAV)"),
        (np.random.default_rng(0).normal(0, 0.1, 9000).astype("<f4").tobytes(), "look like floats of 32 bits"),
        (bytes(5001), "half a sample came; send integers of 16 bits"),
        (None, "sound comes by a pipe, and alone"),
    ],
)
def test_what_comes_is_no_sound(content: bytes | None, says: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(content or b""), isatty=lambda: content is None)
    monkeypatch.setattr(sys, "stdin", stdin)
    status, out, error = simulst("translate", "-", "--model", MODEL, "--source-lang", "es", "--target-lang", "en")
    assert status and not out and says in error


def test_translate_a_stream_of_any_length(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without --decoding it is cut at pauses; a configuration that takes minutes as one sentence is told of."""
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    warn_once.cache_clear()
    speech, quiet = np.full(3 * RATE, 0.5, np.float32), np.zeros(61 * RATE, np.float32)
    soundfile.write(data / "talk.wav", np.concatenate([speech, quiet] * 2), RATE)
    args = [data / "talk.wav", "--model", MODEL, "--source-lang", "es", "--target-lang", "en"]
    status, out, error = simulst("translate", *args)
    assert (status, error) == (0, "") and "minutes" not in caplog.text
    assert out.split(" s  ")[-1].strip()
    times = [float(line.split()[0]) for line in out.splitlines()]
    assert all(0 < time < 4 or 64 < time < 68 for time in times), "no text in silence"
    soundfile.write(data / "quiet.wav", quiet, RATE)
    status, out, error = simulst("translate", data / "quiet.wav", *args[1:])
    assert (status, out, error) == (0, "", f"{data / 'quiet.wav'}: no words were written.")
    status, _, _ = simulst("translate", *args, "--decoding", data.parent / "la2.yaml")
    assert status == 0
    assert "more than 2 minutes of audio are decoded as one sentence; add 'segment: {type: pause," in caplog.text


def test_translate_in_real_time_tells_that_it_is_too_slow(
    data: Path, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translate, "time", clock)
    options = ["--model", MODEL, "--model-option", "sleep=0.7", "--source-lang", "es", "--target-lang", "en"]
    slow = data.parent / "slow.yaml"
    slow.write_text("read: {type: chunk, ms: 100}\ncommit: {type: all}\nlate: {type: skip}\n")
    status, out, error = simulst("translate", data / "u0.wav", *options, "--realtime", "--decoding", slow)
    assert status == 0 and out
    assert re.search(r"the machine is too slow: \d+ of \d+ decoding steps were left out; give longer chunks", error)
