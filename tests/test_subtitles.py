"""Subtitles: what every division of words into cues keeps, files as FFmpeg reads them, and the command."""

from __future__ import annotations

import bisect
import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from click.testing import CliRunner
from fake import RATE, FakeModel, Loudness, TimedModel, TimedSession
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.commands.main import main
from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.stream import Emission
from simulst.streams import open_stream
from simulst.subtitles import Cue, Layout, Word, as_srt, as_vtt, cues_of, width, with_source, written_words

SPACED = st.text("abß,.!?“”(é-", min_size=1, max_size=12).map(" {}".format)
LETTERS = st.sampled_from([*"你好世界あア。，！（a1", " a", "ก", "ิ"])
TEXTS = st.one_of(st.lists(SPACED, max_size=40), st.lists(LETTERS, max_size=80))
DIVISIBLE = re.compile(
    " |(?<=[你好世界あアกิ])[你好世界あアกa1（]|(?<=[a1。，！])[你好世界あアก]"
)  # where a line may end
LAYOUTS = st.builds(
    lambda line, speed, shortest, more: Layout(line, speed, shortest, shortest + more),
    st.integers(2, 50),
    st.floats(1, 50),
    st.floats(0.01, 3),
    st.floats(0, 8),
)


@st.composite
def timed(draw: st.DrawFn) -> list[Word]:
    """Words one after the other; some take no time, some follow a pause."""
    texts, now, words = draw(TEXTS), 0.0, []
    for text in texts:
        begin = now + draw(st.sampled_from([0, 0, 0, 10, 400, 3000]))
        now = begin + draw(st.sampled_from([0, 50, 300, 900, 9000]))
        words.append(Word(text, begin, now))
    return words


@settings(deadline=None)
@given(timed(), LAYOUTS)
def test_cues_are_the_words_in_order_within_the_limits(words: list[Word], layout: Layout) -> None:
    cues = cues_of(words, layout)
    text = " ".join("".join(word.text for word in words).split())
    assert "".join(line for cue in cues for line in cue.lines).replace(" ", "") == text.replace(" ", "")
    place = 0
    for cue in cues:
        for line in cue.lines:  # a line never ends within a word: it stands in the text as it is
            place = text.index(line, place) + len(line)
            assert line and line == line.strip()
            assert width(line) <= layout.line_length or (len(cue.lines) == 1 and not DIVISIBLE.search(line))
        assert 1 <= len(cue.lines) <= 2
        seconds = (cue.end_ms - cue.begin_ms) / 1000
        assert layout.shortest - 0.001 <= seconds <= layout.longest + 0.001
    assert all(cue.end_ms <= following.begin_ms for cue, following in pairwise(cues))


@settings(deadline=None)
@given(timed(), TEXTS, LAYOUTS, st.data())
def test_both_texts(words: list[Word], heard: list[str], layout: Layout, data: st.DataObject) -> None:
    """Each word of the source text stands once, in order, in the last cue that begins before the word was heard."""
    cues = cues_of(words, layout)
    delays = np.cumsum([data.draw(st.sampled_from([0, 0, 300, 2000])) for _ in heard])
    source = [Emission(text, float(delay), 0.0) for text, delay in zip(heard, delays, strict=True)]
    found = with_source(cues, source, layout)
    assert [(cue.begin_ms, cue.end_ms, cue.lines[: len(own.lines)]) for cue, own in zip(found, cues, strict=True)] == [
        (cue.begin_ms, cue.end_ms, cue.lines) for cue in cues
    ]
    begins = [cue.begin_ms for cue in cues]
    for number, (cue, own) in enumerate(zip(found, cues, strict=True)):
        belong = [max(0, bisect.bisect_right(begins, delay) - 1) == number for delay in delays]
        text = "".join(word for word, here in zip(heard, belong, strict=True) if here)
        lines = cue.lines[len(own.lines) :]
        assert "".join("".join(lines).split()) == "".join(text.split())
        assert all(width(line) <= layout.line_length or not DIVISIBLE.search(line) for line in lines)


@given(TEXTS, st.data())
def test_written_words(texts: list[str], data: st.DataObject) -> None:
    """No word begins before it was written, or goes on when the next ones are written."""
    delays = np.cumsum([data.draw(st.sampled_from([0, 0, 100, 1000])) for _ in texts])
    emissions = [Emission(text, float(delay), 0.0) for text, delay in zip(texts, delays, strict=True)]
    words = written_words(emissions, 17.0)
    assert [word.text for word in words] == texts
    assert all(word.begin_ms >= emission.delay_ms for word, emission in zip(words, emissions, strict=True))
    assert all(word.begin_ms <= word.end_ms for word in words)
    assert all(word.end_ms <= following.begin_ms for word, following in pairwise(words))


def spoken(text: str, pauses: dict[str, float] | None = None) -> list[Word]:
    """The words of a text, a character in 70 ms; after some of them there is a pause, in ms."""
    words, now = [], 0.0
    for word in text.split():
        words.append(Word(f" {word}", now, now + 70 * len(word)))
        now = words[-1].end_ms + (pauses or {}).get(word, 0)
    return words


def texts(cues: list[Cue]) -> list[list[str]]:
    return [list(cue.lines) for cue in cues]


def test_cues_end_at_sentences_and_pauses() -> None:
    first, second = "The house at the end of the street is old.", "Nobody has lived in it for many years."
    assert texts(cues_of(spoken(f"{first} {second}"))) == [[first], [second]]
    cues = cues_of(spoken("we begin here without an end and go on", {"here": 900}))
    assert texts(cues) == [["we begin here"], ["without an end and go on"]]
    assert (cues[0].begin_ms, cues[1].begin_ms) == (0, 700 + 900 + 70)


def test_a_long_sentence_is_divided_after_a_comma() -> None:
    long = "When the meeting was over and all of us had gone home, the lights in the old house were still on."
    cues = cues_of(spoken(long))
    assert [" ".join(cue.lines)[-5:] for cue in cues] == ["home,", "l on."]


def test_a_short_sentence_is_not_alone_for_a_moment() -> None:
    assert texts(cues_of(spoken("Yes. I know."))) == [["Yes. I know."]]


def test_no_line_of_japanese_begins_with_a_long_vowel() -> None:
    text = "スーパーコンピューター"
    cues = cues_of([Word(character, 0, 0) for character in text], Layout(line_length=4))
    lines = [line for cue in cues for line in cue.lines]
    assert "".join(lines) == text and not any(line[0] in "ーュ" for line in lines)


# ---- files ----


@pytest.mark.parametrize(("suffix", "write"), [("srt", as_srt), ("vtt", as_vtt)])
def test_files_are_read_by_ffmpeg(tmp_path: Path, suffix: str, write: object) -> None:
    cues = [Cue(0, 1250, ("Tom & Jerry,", "5 > 3")), Cue(1250, 3600000, ("你好",)), Cue(3723004, 3725000, ("--> é",))]
    path = tmp_path / f"talk.{suffix}"
    path.write_text(write(cues), encoding="utf-8")  # type: ignore[operator]
    assert read(path) == [(cue.begin_ms, cue.end_ms, "\n".join(cue.lines)) for cue in cues]
    path.write_text(write([]), encoding="utf-8")  # type: ignore[operator]


@pytest.mark.parametrize(("suffix", "write"), [("srt", as_srt), ("vtt", as_vtt)])
@pytest.mark.parametrize("text", ["Vec<String> is", "<unk>", "a < b > c", "<i>x</i>", "</b>", "a <<b> <", "<a\nb>"])
def test_players_show_angle_brackets(tmp_path: Path, suffix: str, write: object, text: str) -> None:
    path = tmp_path / f"talk.{suffix}"
    path.write_text(write([Cue(0, 1250, tuple(text.split("\n")))]), encoding="utf-8")  # type: ignore[operator]
    with av.open(str(path)) as container:
        found = [subtitle for packet in container.demux() for subtitle in packet.decode()]
    [line] = [subtitle.ass if isinstance(subtitle.ass, str) else subtitle.ass.decode() for subtitle in found]
    assert re.sub(r"\{\\[^}]*\}", "", line.split(",", 8)[-1]).replace("\\N", "\n") == text


def read(path: Path) -> list[tuple[int, int, str]]:
    """Begin, end (ms) and text of each cue of a file, as FFmpeg finds them."""
    import html

    with av.open(str(path)) as container:
        stream = container.streams.subtitles[0]
        packets = [packet for packet in container.demux(stream) if packet.size]
        found = []
        for packet in packets:
            text = bytes(packet).decode()
            begin, length = (round(1000 * float(part * stream.time_base)) for part in (packet.pts, packet.duration))
            found.append((begin, begin + length, html.unescape(text) if path.suffix == ".vtt" else text))
    return found


# ---- streams ----


def stream_of(model: FakeModel, segment: str, timed: bool = True):  # type: ignore[no-untyped-def]
    policy = {"type": "pause", "seconds": 0.3} if segment == "pause" else {"type": "none"}
    raw = {"read": {"type": "chunk", "ms": 500}, "commit": {"type": "local_agreement"}, "segment": policy}
    return open_stream(model, parse_decoding(raw, "test"), "es", "en", timed=timed)


@pytest.mark.parametrize("segment", ["none", "pause"])
@pytest.mark.parametrize("window", [0, 7])
def test_words_have_the_times_of_their_tokens(monkeypatch: pytest.MonkeyPatch, segment: str, window: int) -> None:
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    speech = np.random.default_rng(0).uniform(0.1, 1, 5 * RATE).astype(np.float32)
    audio = np.concatenate([speech, np.zeros(RATE, np.float32), speech])
    stream = stream_of(TimedModel(window=window), segment)
    stream.push(audio, finished=True)
    times = stream.spoken_ms
    assert len(times) == len(stream.emissions) > 10
    assert all(begin <= end for begin, end in times) and all(a[1] <= b[0] for a, b in pairwise(times))
    assert all(end <= word.delay_ms for (_, end), word in zip(times, stream.emissions, strict=True))
    assert all(round(end) % 200 == 0 for _, end in times) or segment == "pause"
    if segment == "pause":
        assert not any(begin < 5900 and end > 5300 for begin, end in times)
        assert any(5900 <= begin <= 6000 for begin, _ in times)


def test_times_are_not_asked_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedSession, "end_times", lambda *_: pytest.fail("asked"))
    for model, timed in ((TimedModel(), False), (FakeModel(), True)):
        stream = stream_of(model, "none", timed)
        stream.push(np.full(2 * RATE, 0.1, np.float32), finished=True)
        assert stream.spoken_ms is None and stream.emissions


# ---- the command ----


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "la2.yaml").write_text("read: {type: chunk, ms: 500}\ncommit: {type: local_agreement}\n")
    for number, name in enumerate(("a", "b")):
        samples = np.random.default_rng(number).normal(0, 0.1, 4 * RATE)
        samples[0] = 0.1 - 0.2 * number
        soundfile.write(tmp_path / f"{name}.flac", samples, RATE)
    return tmp_path


def translate(*options: str, model: str = "fake:TimedModel", source: str = "es"):  # type: ignore[no-untyped-def]
    command = ["translate", *options, "--decoding", "la2.yaml", "--model", model]
    return CliRunner().invoke(main, [*command, "--source-lang", source, "--target-lang", "en"])


def printed(output: str) -> str:
    return "".join(line[11:] for line in output.splitlines() if " s  " in line[:11]).replace(" ", "")


@pytest.mark.parametrize("model", ["fake:TimedModel", "fake:FakeModel"])
def test_subtitles_are_what_is_printed(place: Path, model: str) -> None:
    result = translate("a.flac", "--srt", "new/x.srt", "--vtt", "x.vtt", "--json", "x.json", model=model)
    written = model == "fake:FakeModel"
    assert ("can't tell when words were spoken" in result.stderr) == written
    cues = read(place / "new/x.srt")
    assert cues == read(place / "x.vtt") and cues
    found = json.loads((place / "x.json").read_text())
    assert (found["times"], found["source_lang"], found["target_lang"]) == (
        "written" if written else "spoken",
        "es",
        "en",
    )
    assert [(cue["begin_ms"], cue["end_ms"], "\n".join(cue["lines"])) for cue in found["cues"]] == cues
    for said in ("".join(text for _, _, text in cues), "".join(word["text"] for word in found["words"])):
        assert "".join(said.split()) == printed(result.stdout)


def test_both_texts_in_files(place: Path) -> None:
    """Of a model that writes its source text; for others, it is said that there is none."""
    result = translate("a.flac", "--both", "--srt", "x.srt", "--json", "x.json", model="fake:HeardModel")
    assert result.exception is None and "--both" not in result.stderr
    found = json.loads((place / "x.json").read_text())
    assert [(word["text"], word["delay_ms"]) for word in found["source"]] == [
        (f" mot{second}", 1000 * second + 1000) for second in range(4)
    ]
    assert all(f"mot{second}" in (place / "x.srt").read_text() for second in range(4))
    result = translate("a.flac", "--both", "--srt", "y.srt", model="fake:FakeModel")
    assert "--both: the model writes no source text" in result.stderr and read(place / "y.srt")
    assert translate("a.flac", "--both").exit_code == 2


@pytest.mark.long
@pytest.mark.parametrize("output", ["ascii", "a pipe that nobody reads", "closed"])
def test_output_that_cannot_have_the_words_ends_nothing(place: Path, output: str) -> None:
    (place / "writes.py").write_text(
        "from fake import FakeModel, FakeSession\n"
        "class Session(FakeSession):\n"
        "    def text(self, tokens): return super().text(tokens).replace('o', '七').replace('a', '七')\n"
        "class Model(FakeModel):\n"
        "    def session(self, opening): return Session(self, opening)\n"
    )
    command = ["translate", "a.flac", "--decoding", "la2.yaml", "--model", "writes:Model", "--srt", "a.srt"]
    program = [sys.executable, "-m", "simulst", *command, "--source-lang", "es", "--target-lang", "en"]
    environment = {**os.environ, "PYTHONPATH": f"{place}:{Path(__file__).parent}:{Path(__file__).parents[1]}"}
    if output == "ascii":
        done = subprocess.run(program, capture_output=True, env={**environment, "PYTHONIOENCODING": output})
        assert b" s  " in done.stdout and b"\\u4e03" in done.stdout
    elif output == "closed":
        done = subprocess.run(["bash", "-c", '"$@" >&-', "-", *program], stderr=subprocess.PIPE, env=environment)
    else:
        nobody, end = os.pipe()
        os.close(nobody)
        done = subprocess.run(program, stdout=end, stderr=subprocess.PIPE, env=environment)
        os.close(end)
        assert b"nobody reads the words any more" in done.stderr
    assert done.returncode == 0, done.stderr
    assert "七" in (place / "a.srt").read_text(encoding="utf-8") and b"Traceback" not in done.stderr


def test_several_recordings_and_their_languages(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulst.streams.auto.start_of_stream", Loudness)
    result = translate("a.flac", "none.wav", "b.flac", "--srt", "out", source="auto")
    assert sorted(path.name for path in (place / "out").iterdir()) == ["a.srt", "b.srt"]
    assert "b.flac: from 0.0 s on it sounds like 'fr'" in result.stderr
    assert "none.wav: no such audio file" in result.stderr
    assert "1 of 3 recordings failed: none.wav" in str(result.exception)


@pytest.mark.parametrize(
    ("options", "source", "said"),
    [
        (["a.flac", "sub/a.flac", "--srt", "out"], "es", "--srt: a.flac and sub/a.flac would have one file"),
        (["a.flac", "--srt", "a.flac"], "es", "--srt: a.flac is a recording"),
        (["a.flac", "--srt", "x", "--vtt", "x"], "es", "--srt, --vtt and --json name the same file"),
        (["a.flac"], "auto", "the model can't tell which language is spoken; name it"),
    ],
)
def test_refused(place: Path, options: list[str], source: str, said: str) -> None:
    error = translate(*options, source=source, model="fake:FakeModel").exception
    assert isinstance(error, SimulstError) and said in str(error)


def test_a_folder_of_recordings(place: Path) -> None:
    """Also one whose name is no UTF-8, which stands in files and messages with U+FFFD."""
    (place / "films").mkdir()
    for name in ("b.flac", os.fsdecode(b"caf\xe9.flac"), "notes.txt"):
        (place / "films" / name).write_bytes((place / "a.flac").read_bytes())
    result = translate("films", "--srt", "out", "--json", "out")
    assert result.exception is None, result.output
    assert sorted(path.name for path in (place / "out").iterdir()) == [
        *("b.json", "b.srt"),
        *("caf\ufffd.json", "caf\ufffd.srt"),
    ]
    assert json.loads((place / "out/caf\ufffd.json").read_text())["audio"] == "films/caf\ufffd.flac"
    assert [line for line in result.stdout.splitlines() if line.endswith(":")] == [
        "films/b.flac:",
        "films/caf\ufffd.flac:",
    ]
    (place / "none").mkdir()
    assert "none: has no recordings, such as .wav" in str(translate("none").exception)


def test_the_shortest_time_comes_first(place: Path) -> None:
    assert translate("a.flac", "--cue-seconds", "7", "1").exit_code == 2
