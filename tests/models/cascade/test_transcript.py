"""A recogniser that is a transcript: words at their times, unstable ones, errors, and what does not belong together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import yaml
from click.testing import CliRunner
from fake import pushed
from hypothesis import given, settings
from hypothesis import strategies as st

from prepare_iwslt import Layout, prepare_iwslt
from simulst.commands.main import main
from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.log.read import read_log
from simulst.models import load_model
from simulst.models.cascade.transcript import Word, with_errors
from simulst.streams import open_stream

RATE = 16000
SENTENCES = ("One two three.", "Four fi six seven eight.")
SPANS = ((0.5, 2.0), (2.5, 5.0))
CTM = ";; a comment\na 1 0.1 0.2 one\na 1 0.5 0.1 two\nb 1 0 1 drei\n"
EVERY = {"read": {"type": "chunk", "ms": 100}, "commit": {"type": "all", "last_word": True, "punctuation": True}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recording of 5.2 s without its audio, in IWSLT's layout, its data directory, and a CTM file."""
    (tmp_path / "given").mkdir()
    spans = (f"- {{wav: talk.wav, offset: {begin}, duration: {end - begin}}}\n" for begin, end in SPANS)
    (tmp_path / "given/audio-segments.yaml").write_text("".join(spans))
    for language in ("en", "de"):
        (tmp_path / f"given/{language}.txt").write_text("\n".join(SENTENCES) + "\n")
    (tmp_path / "words.ctm").write_text(CTM)
    prepare_iwslt(tmp_path / "given", tmp_path / "data", Layout(silent=True))
    return tmp_path


def run(*words: object) -> None:
    result = CliRunner().invoke(main, [str(word) for word in words])
    if result.exception:
        raise result.exception


def cascade(folder: Path, **options: Any) -> Path:
    """The translation is the transcript in capitals."""
    recogniser = {"type": "transcript", "transcript": "data", **options}
    path = folder / "cascade.yaml"
    translator = {"type": "program:Program", "command": "tr a-z A-Z"}
    path.write_text(yaml.safe_dump({"recogniser": recogniser, "translator": translator}))
    return path


def heard(
    path: Path, cut: int = RATE, name: str = "talk", seconds: float = 5.2, commit: Any = EVERY["commit"]
) -> tuple[str, list[tuple[str, float]]]:
    """All text, and the words with the ms at which they were written."""
    decoding = parse_decoding({**EVERY, "commit": commit}, "test")
    stream = open_stream(load_model(path), decoding, "en", "de", names=(name,))
    samples = np.zeros(round(seconds * RATE), np.float32)
    words = pushed(stream, samples, range(cut, samples.size, cut))
    return stream.committed_text, [(text.strip(), delay) for text, delay in words]


def test_words_are_heard_when_they_have_ended(folder: Path) -> None:
    """The words of a segment share its time by their lengths; a step comes at most `ms` later."""
    text, words = heard(cascade(folder, ms=100))
    assert text == " ".join(SENTENCES).upper()
    spread = {"ONE": 0.5 + 1.5 * 3 / 12, "TWO": 0.5 + 1.5 * 6 / 12, "THREE.": 2.0}
    spread |= {"FOUR": 2.5 + 2.5 * 4 / 20, "FI": 2.5 + 2.5 * 6 / 20, "SIX": 2.5 + 2.5 * 9 / 20}
    for word, seconds in spread.items():
        assert 0 <= dict(words)[word] - 1000 * seconds < 100


@settings(deadline=None, max_examples=6)
@given(cut=st.integers(1000, 90000))
def test_any_cut_of_the_audio_gives_the_same_words(tmp_path_factory: Any, cut: int) -> None:
    folder = tmp_path_factory.mktemp("cut")
    (folder / "words.ctm").write_text(CTM.replace("two", "two " * 9))
    path = cascade(folder, transcript="words.ctm", errors=0.3, unstable=1)
    assert heard(path, cut, "a", 1.0) == heard(path, 16000, "a", 1.0)


@pytest.mark.parametrize("unstable", [0, 2])
def test_unstable_words_are_read_but_not_committed(folder: Path, unstable: int) -> None:
    """The first sentence leaves once words of the next are committed, so later if some of these are unstable."""
    model: Any = load_model(cascade(folder, ms=100, unstable=unstable))
    stream: Any = open_stream(model, parse_decoding(EVERY, "test"), "en", "de", names=("talk",))
    stream.push(np.zeros(round(3.3 * RATE), np.float32))  # "fi" has ended at 3.25 s
    recogniser = stream.session._stream
    assert recogniser.committed_text == "One two three." + ("" if unstable else " Four fi")
    assert (recogniser.committed_text + recogniser.unstable_text).strip() == "One two three. Four fi"
    assert stream.session.evicted == (0 if unstable else 3)


def test_errors_have_their_rate_and_are_the_same_everywhere(folder: Path) -> None:
    words = [Word(number, f"w{number} ") for number in range(4000)]
    found = list(with_errors(words, 0.1, "talk"))
    assert found == list(with_errors(words, 0.1, "talk")) != list(with_errors(words, 0.1, "other"))
    assert list(with_errors(words, 0.0, "talk")) == words
    by_end: dict[float, list[str]] = {}
    for word in found:
        by_end.setdefault(word.end, []).append(word.text)
    left_out = len(words) - len(by_end)
    twice = sum(len(texts) == 2 for texts in by_end.values())
    other = sum(texts[0] != words[int(end)].text for end, texts in by_end.items())
    assert [left_out, twice, other] == pytest.approx([80, 80, 240], rel=0.25)


def test_utterances_of_a_data_directory(folder: Path) -> None:
    """With segments or without, each utterance has its own text; a whole run, of a language without spaces."""
    (folder / "data2").mkdir()
    soundfile.write(folder / "data2/x.wav", np.zeros(3 * RATE, np.int16), RATE)
    (folder / "data2/wav.scp").write_text("rec x.wav\n")
    (folder / "data2/segments").write_text("u1 rec 0.5 1.5\nu2 rec 2 -1\n")
    (folder / "data2/text.zh").write_text("u1 你好\nu2 再见 A\n")
    (folder / "data2/text.ja").write_text("u1 a\nu2 b\n")
    path = cascade(folder, transcript="data2", ms=50)
    (folder / "every.yaml").write_text(yaml.safe_dump(EVERY))
    arguments = ("--model", path, "--source-lang", "zh", "--target-lang", "ja", "--decoding", folder / "every.yaml")
    run("evaluate", "--data", folder / "data2", *arguments, "--out", folder / "run")
    first, second = read_log(folder / "run/instances.log")
    assert [first.prediction, second.prediction] == ["你好", "再见 A"]
    assert first.reads == [500, 1000] and first.delays == [500, 1000]


@pytest.mark.parametrize(
    ("options", "name", "seconds", "said"),
    [
        ({}, "walk", 5.2, "has no words of 'walk', but of 1 others, such as 'talk'"),
        ({}, "talk", 4.0, "the words of 'talk' go on to 5.00 s, but its audio ends at 4.00 s"),
        ({"transcript": "words.ctm"}, "c", 1.0, "has no words of 'c'"),
        ({"transcript": "nowhere"}, "talk", 5.2, "no such transcript"),
        ({"transcript": "given/en.txt"}, "talk", 5.2, "en.txt, line 1: no times; CTM has"),
        ({"transcript": "given"}, "talk", 5.2, "wav.scp: no such file"),
        ({"errors": 2}, "talk", 5.2, "errors"),
    ],
)
def test_what_does_not_belong_together(folder: Path, options: Any, name: str, seconds: float, said: str) -> None:
    with pytest.raises(SimulstError, match=re.escape(said)) as error:
        heard(cascade(folder, **options), name=name, seconds=seconds)
    assert "\n" not in str(error.value)


def test_a_stream_must_say_what_it_hears(folder: Path) -> None:
    """It is opened, as commands try whether they can; with the first audio it ends."""
    model = load_model(cascade(folder))
    stream = open_stream(model, parse_decoding(EVERY, "test"), "en", "de")
    with pytest.raises(SimulstError, match="must be told which recording is heard"):
        stream.push(np.zeros(RATE, np.float32))
