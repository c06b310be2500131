"""What a cascade does with the words of its recogniser."""

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import speaker
from fake import RATE, Loudness, noted, pushed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulst.background import Background, told
from simulst.config import Decoding, parse_decoding
from simulst.errors import SimulstError
from simulst.meter import Memo, Meter
from simulst.models.cascade.session import split_sentences
from simulst.models.cascade.translators import place_of
from simulst.models.registry import digest_of_weights, load_model
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.commit import All
from simulst.policy.context import Context, View
from simulst.policy.read import Chunk
from simulst.policy.segment import Pause, Whole
from simulst.policy.stop import Stop, Stopping
from simulst.streams import open_stream

SAY = "The cat sat down. It was on the mat. Then the dog came in, and all was well."
LOUD = "tee -a {log} | tr a-z A-Z"


def decoding(commit: dict[str, Any], ms: int = 400) -> Any:
    return parse_decoding({"read": {"type": "chunk", "ms": ms}, "commit": commit}, "test")


def cascade(folder: Path, code: str = LOUD, say: str = SAY, **options: Any) -> tuple[Any, Path]:
    log = folder / "asked"
    program = folder / "translate.sh"
    program.write_text(code.replace("{log}", str(log)))
    command = {"type": "program:Program", "command": f"sh {program}"}
    return load_model(speaker.write(folder, command, say, **options)), log


def run(
    model: Any, commit: dict[str, Any], say: str = SAY, cut: int = 3200, ms: int = 400, pair: str = "en-es"
) -> tuple[str, list[float]]:
    stream = open_stream(model, decoding(commit, ms), *pair.split("-"))
    samples = speaker.audio(say)
    words = pushed(stream, samples, range(cut, samples.size, cut))
    return "".join(text for text, _ in words), [delay for _, delay in words]


COMMITS = ({"type": "local_agreement", "n": 2}, {"type": "hold", "n": 2}, {"type": "all"})


@pytest.mark.parametrize("commit", COMMITS[:2], ids=("agreement", "hold"))
def test_all_of_it_is_translated(tmp_path: Path, commit: dict[str, Any]) -> None:
    model, _ = cascade(tmp_path)
    text, delays = run(model, commit)
    assert text == SAY.upper()
    assert model.session(Opening("en", "es"))._stream.session.opening.languages == ("en", "en")
    assert delays[0] < delays[-1] and len(set(delays)) > 4
    assert run(model, commit, cut=50000) == (text, delays)


def test_the_recogniser_is_told_what_it_can_hear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes the source language, so it sees none of the target language; the translator sees all."""
    model: Any = cascade(tmp_path)[0]
    told = noted(monkeypatch, model, "_translate", lambda opening: opening.background)
    known = Background("A talk.", "Una charla.", (("beam", "haz"), ("CTC", "CTC"), ("", "ruido")))
    stream: Any = open_stream(model, decoding(COMMITS[2]), "en", "es", background=known)
    heard = stream.session._stream.session.opening.background
    assert heard == Background("A talk.", "A talk.", (("beam", "beam"), ("CTC", "CTC")))
    assert heard.target_terms == ("beam", "CTC") and told == [known]


def test_it_is_told_more_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recogniser and translator, each in its language, at once; a sentence is then translated again."""
    model: Any = cascade(tmp_path)[0]
    opened = noted(monkeypatch, model, "_translate", lambda opening: opening.background)
    stream: Any = open_stream(model, decoding(COMMITS[0]), "en", "es")
    stream.push(speaker.audio(SAY)[:RATE])
    known = told("beam=haz; =ruido", text="A talk.", target_text="Una charla.")
    stream.tell(known)
    assert opened == [Background(), known] and stream.session.opening.background == known
    heard = stream.session._stream.session.opening.background
    assert heard == Background("A talk.", "A talk.", (("beam", "beam"),), prompted=True)
    stream.push(speaker.audio(SAY)[RATE:], finished=True)
    assert stream.committed_text == SAY.upper()


@pytest.mark.parametrize("say", [SAY, "猫坐下了。它在垫子上。然后狗进来了。"], ids=("words", "characters"))
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 60_000), max_size=6), segment=st.booleans())
def test_source_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: str, cuts: list[int], segment: bool) -> None:
    """All of it, once it is final, with times that do not depend on how audio is pushed; others have none."""
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    model = load_model(speaker.write(tmp_path, {"type": "program:Program", "command": "cat"}, say))
    how = replace(decoding(COMMITS[2], 1000), segment=Pause(0.3) if segment else Whole())
    samples = 0.1 + speaker.audio(say)
    if segment:
        samples = np.tile(np.concatenate([samples, np.zeros(RATE, np.float32)]), 2)
    found = []
    for bounds in ([0, samples.size], sorted({0, *(cut for cut in cuts if cut < samples.size), samples.size})):
        stream = open_stream(model, how, "zh" if say != SAY else "en", "es")
        seen: list[Any] = []
        for start, end in itertools.pairwise(bounds):
            stream.push(samples[start:end], finished=end == samples.size)
            assert stream.source is not None and list(stream.source[: len(seen)]) == seen
            seen = list(stream.source)
        found.append([(word.text, word.delay_ms) for word in seen])
    assert found[0] == found[1]
    text = say if say != SAY else f" {say}"
    assert "".join(word for word, _ in found[0]) == text * (2 if segment else 1)
    delays = [delay for _, delay in found[0]]
    assert delays == sorted(delays) and len(set(delays)) > 2
    assert all(word.elapsed_ms >= word.delay_ms for word in seen)


def test_sentences_leave(tmp_path: Path) -> None:
    """A sentence that has ended and been committed is never translated again; nothing beyond it is asked with it."""
    model, log = cascade(tmp_path)
    run(model, COMMITS[1])
    asked = log.read_text().splitlines()
    assert max(len(line) for line in asked) <= len("Then the dog came in, and all was well.")
    last_of_first = max(i for i, line in enumerate(asked) if line.startswith("The cat"))
    assert not any(line.startswith("The cat") for line in asked[last_of_first + 1 :])
    assert asked[-1] == "Then the dog came in, and all was well."


def test_unstable_words_are_translated_earlier(tmp_path: Path) -> None:
    delays = {}
    for unstable in (True, False):
        model, log = cascade(tmp_path, unstable=unstable, unsure=2)
        text, delays[unstable] = run(model, {"type": "local_agreement", "n": 2})
        assert text == SAY.upper()
        assert ("um" in log.read_text()) == unstable
        log.unlink()
    assert sum(delays[True]) < sum(delays[False])


def test_what_is_committed_stays(tmp_path: Path) -> None:
    """Also where the translator changes its mind with every word."""
    model, _ = cascade(
        tmp_path, """awk '{for (i = NF; i > 0; i--) printf $i " "}'""", say="one two three four five six"
    )
    stream = open_stream(model, decoding({"type": "hold", "n": 1}), "en", "es")
    before = ""
    for _ in range(6):
        stream.push(np.zeros(3200, np.float32))
        now = "".join(e.text for e in stream.emissions)
        assert now.startswith(before)
        before = now
    stream.push(np.zeros(0, np.float32), finished=True)
    assert "".join(e.text for e in stream.emissions).startswith(before) and before


def test_text_without_punctuation_is_cut(tmp_path: Path) -> None:
    say = " ".join(f"w{i}" for i in range(24))
    model, log = cascade(tmp_path, say=say, most_words=6)
    assert run(model, {"type": "hold", "n": 1}, say)[0] == say.upper()
    assert max(len(line.split()) for line in log.read_text().splitlines()) <= 7


def test_chinese_is_written_in_characters(tmp_path: Path) -> None:
    model, _ = cascade(tmp_path, "sed 's/[^ ]* */你/g'", say="a b c")
    stream = open_stream(model, decoding({"type": "hold", "n": 1}), "en", "zh")
    stream.push(speaker.audio("a b c"), finished=True)
    assert [e.text for e in stream.emissions] == ["你", "你", "你"]


@pytest.mark.parametrize("text", ["我用 Windows XP 和 Office 2010", "สวัสดีครับ ผมชื่อจอห์น ยินดีที่ได้รู้จัก"])
def test_spaces_of_a_language_that_has_few_stay(tmp_path: Path, text: str) -> None:
    model, _ = cascade(tmp_path, f"echo '{text}'", say="a b c")
    assert run(model, {"type": "hold", "n": 1}, "a b c", pair="en-zh")[0] == text


@pytest.mark.parametrize("ms", [1000, 500, 200])
def test_a_step_without_new_words_of_the_recogniser_is_none(tmp_path: Path, ms: int) -> None:
    """Else local agreement would find the translation of the same words again, and commit what may still change."""
    say = "one two three four five six seven eight nine ten"
    model, log = cascade(tmp_path, say=say, unsure=2, every=1000, unstable=True)
    assert run(model, {"type": "local_agreement", "n": 2}, say, ms=ms)[0] == say.upper()
    asked = ["one two three um um", "one two three four five six seven eight um um", say]
    assert log.read_text().splitlines() == asked


def test_chinese_without_punctuation_is_cut_after_so_many_characters(tmp_path: Path) -> None:
    say = "我们今天来讲一讲同声传译的基本方法它的难点在于"
    model, log = cascade(tmp_path, "tee -a {log}", say=say, most_words=10, unstable=False)
    text, _ = run(model, {"type": "hold", "n": 1}, say, pair="zh-ja")
    assert text == say and max(map(len, log.read_text().splitlines())) == 10


def test_a_wide_space_does_not_hide_unstable_words(tmp_path: Path) -> None:
    asked = []
    for space in " \u3000":
        say = f"你好{space}今天下雨"
        model, log = cascade(tmp_path, "tee -a {log}", say=say, unstable=True)
        run(model, {"type": "hold", "n": 1}, say, pair="zh-ja", ms=200)
        asked.append(log.read_text())
        log.unlink()
    assert asked[0] == asked[1] and "um" in asked[0].splitlines()[-2]


@dataclass(frozen=True)
class SlowSpeech(Stop):
    """A word for each 1500 ms of audio. It keeps what it heard, so it is opened for each stream."""

    needs = frozenset({Need.AUDIO})

    def open(self, context: Context) -> Stopping:
        return Listener(self, context)


class Listener(Stopping):
    _heard = 0

    def hear(self, samples: np.ndarray, final: bool) -> None:
        self._heard += samples.size

    def ends(self, view: View) -> bool:
        return len(self.context.committed()) + len(view.tokens) >= self._heard // 24000


def test_a_stop_that_listens_decides_again_about_the_same_text(tmp_path: Path) -> None:
    """Also in a sweep, and also about the text as a whole. The last word waits until then."""
    say = "one two three four five six"
    for ms, memo in itertools.product((200, 1000), (None, Memo())):
        model, _ = cascade(tmp_path, say=say)
        stream = open_stream(
            model, Decoding(read=Chunk(ms), stop=SlowSpeech(), commit=All()), "en", "es", meter=Meter(memo)
        )
        samples = np.concatenate([speaker.audio(say), np.zeros(16000 * 9, np.float32)])
        for start in range(0, len(samples), 3200):
            stream.push(samples[start : start + 3200], finished=start + 3200 >= len(samples))
        delays = [emission.delay_ms for emission in stream.emissions]
        # A word goes out when the next one begins, in the first step that has heard enough.
        assert delays[:-1] == [math.ceil(1500 * number / ms) * ms for number in range(2, 7)], (ms, memo)


# Sentences


def test_split_sentences() -> None:
    for text, ended, rest in (
        ("", [], ""),
        ("One. Two", ["One. "], "Two"),
        ("One.", [], "One."),
        ("One. ", [], "One. "),
        ("e.g. this one. That", ["e.g. this one. "], "That"),
        ("So? “Yes!” He went", ["So? ", "“Yes!” "], "He went"),
        ("3.5 metres", [], "3.5 metres"),
        ("你好。我很好。", ["你好。"], "我很好。"),
        ("मैं घर जा रहा हूँ। तुम", ["मैं घर जा रहा हूँ। "], "तुम"),
        ("كيف حالك؟ بخير", ["كيف حالك؟ "], "بخير"),
        ("آپ کیسے ہیں۔ میں", ["آپ کیسے ہیں۔ "], "میں"),
    ):
        assert split_sentences(text, 80, "word") == (ended, rest), text
    assert split_sentences("a b c d e f g", 3, "word") == (["a b c ", "d e f "], "g")
    assert split_sentences("你 好吗我很好", 3, "char") == (["你 好吗"], "我很好")


@given(st.text("aB. !?。 ", max_size=30), st.integers(1, 4), st.sampled_from(["word", "char"]))
@settings(max_examples=50)
def test_nothing_is_lost(text: str, most: int, unit: str) -> None:
    ended, rest = split_sentences(text, most, unit)
    assert "".join(ended) + rest == text and all(ended)


# Translators that can't be told how to begin


def edits(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    if not left or not right:
        return len(left) + len(right)
    least = min(edits(left[1:], right), edits(left, right[1:])) + 1
    return min(least, edits(left[1:], right[1:]) + (left[0] != right[0]))


short = st.lists(st.integers(0, 2), max_size=4).map(tuple)


@given(short, short)
@settings(max_examples=60)
def test_place_of(prefix: tuple[int, ...], tokens: tuple[int, ...]) -> None:
    place = place_of(prefix, tokens)
    costs = [edits(prefix, tokens[:end]) for end in range(len(tokens) + 1)]
    assert costs[place] == min(costs)
    if tokens[: len(prefix)] == prefix:
        assert place == len(prefix)


# The file


def test_bad_files(tmp_path: Path) -> None:
    command = {"type": "program:Program", "command": "cat"}
    good = speaker.write(tmp_path, command, SAY).read_text()
    assert digest_of_weights(tmp_path / "cascade.yaml", {})
    for old, new, words in (
        (
            "type: program:Program",
            "type: babelfish",
            "there is no translator 'babelfish'; choose from ctranslate2, huggingface",
        ),
        ("command: cat", "comand: cat", "has no option 'comand'; it has command"),
        ("model: speaker:Speaker", "modell: x", "'recogniser' of type 'model' has no option 'modell'"),
        ("translator:", "translater:", "a cascade has no option 'translater'"),
        ("type: chunk", "type: chunks", "there is no read 'chunks'"),
        ("speaker:Speaker", "gone", "no such model folder"),
    ):
        assert old in good
        (tmp_path / "cascade.yaml").write_text(good.replace(old, new))
        with pytest.raises(SimulstError, match=words):
            load_model(tmp_path / "cascade.yaml")
    (tmp_path / "cascade.yaml").write_text(good)
    with pytest.raises(SimulstError, match="has no option 'device'; it has no options"):
        load_model(tmp_path / "cascade.yaml", device="cuda")
