"""Streams whose language is found: by properties, and against streams whose language is named."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import RATE, FakeModel, FakeSession, Loudness, pushed
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.audio.vad import CHUNK
from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.meter import Meter
from simulst.models.registry import check_languages
from simulst.opening import Opening
from simulst.policy.commit import All, Hold, LocalAgreement
from simulst.policy.read import Chunk
from simulst.policy.segment import Pause, Whole
from simulst.streams import OpenStream, open_stream
from simulst.streams.auto import Asking
from simulst.streams.driver import Driver
from simulst.streams.listening import BEFORE

LANGUAGES = ("es", "fr")
ASKING = Asking()


@pytest.fixture(autouse=True)
def loudness(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pauses", "auto"):
        monkeypatch.setattr(f"simulst.streams.{module}.start_of_stream", Loudness)


class Hearer(FakeModel):
    """Spanish is positive, French negative. It notes what it was asked about, and the sessions that it opened.

    Where it heard no words, its texts are empty: `mute`.
    """

    def __init__(self, doubt: float = 0.0, mute: bool = False) -> None:
        super().__init__(token_ms=100)
        self.doubt, self.mute = doubt, mute
        self.asked: list[float] = []
        self.sessions: list[Kept] = []

    language_pairs = {"es": ("en",), "fr": ("en", "fr"), "it": ("it",)}  # noqa: RUF012

    def spoken_languages(self, samples: np.ndarray) -> dict[str, float]:
        voice = samples[samples != 0]
        self.asked.append(voice.size / RATE)
        spanish = min(max(float((voice > 0).mean()), self.doubt), 1 - self.doubt)
        return {"es": spanish, "fr": 1 - spanish, "it": 2.0}  # Italian is not among those that it writes English from

    def session(self, opening: Opening | None = None) -> Kept:
        session = Kept(self, super().session(opening).opening)
        self.sessions.append(session)
        return session


class Kept(FakeSession):
    audio = np.zeros(0, np.float32)

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        super().extend(samples, final)
        self.audio = np.concatenate([self.audio, samples])

    def _search(self, *arguments: Any) -> Any:
        found = super()._search(*arguments)
        if isinstance(self.model, Hearer) and self.model.mute and self.opening.source == "es":
            found.beam[:] = [type(one)(()) for one in found.beam]
        return found


def audio(*parts: float) -> np.ndarray:
    """Seconds of Spanish (positive) and of French (negative), with as much silence between as stands between them."""
    random = np.random.default_rng(len(parts))
    speech = [np.sign(s) * random.uniform(0.02, 1, round(abs(s) * RATE)) for s in parts[::2]]
    silence = [np.zeros(round(s * RATE)) for s in (*parts[1::2], 0.0)]
    return np.concatenate([piece for pair in zip(speech, silence) for piece in pair]).astype(np.float32)  # noqa: B905


def how(cut: bool, commit: Any = None, ms: float = 500) -> Decoding:
    return Decoding(Chunk(ms), commit or All(), segment=Pause(0.5) if cut else Whole())


def opened(model: Hearer, cut: bool = True, commit: Any = None, ms: float = 500) -> OpenStream:
    return open_stream(model, how(cut, commit, ms), "auto", "en")


def told(stream: OpenStream) -> tuple[Any, ...]:
    words = [(word.text, word.delay_ms) for word in stream.emissions]
    return words, stream.reads, stream.segments, stream.languages, stream.unstable_text


def decoded(stream: OpenStream, samples: np.ndarray, cuts: Iterable[int] = ()) -> OpenStream:
    pushed(stream, samples, sorted(cuts))
    return stream


SPEECH = st.one_of(st.floats(0.1, 4), st.floats(-4, -0.1))
SPEECHES = st.lists(st.tuples(SPEECH, st.floats(0, 2)), min_size=1, max_size=4)
COMMITS = st.sampled_from([All(), Hold(2), LocalAgreement(2)])


@settings(max_examples=12)
@given(SPEECHES, st.lists(st.integers(1, 300_000), max_size=8), st.booleans(), COMMITS, st.sampled_from([0.0, 0.01]))
def test_any_cut_and_any_company_give_the_same(
    speeches: list[tuple[float, float]], cuts: list[int], cut: bool, commit: Any, doubt: float
) -> None:
    """Words, delays, languages. Of the audio, nothing reaches two streams whose words count, and no voice is lost."""
    samples = audio(*(part for pair in speeches for part in pair))
    model = Hearer(doubt)
    whole = decoded(opened(model, cut, commit), samples)
    assert told(decoded(opened(Hearer(doubt), cut, commit), samples, cuts)) == told(whole)
    driver, several = Driver(), [opened(Hearer(doubt), cut, commit) for _ in range(3)]
    for number, stream in enumerate(several):
        driver.push(stream, samples[: 999 * number])
        driver.push(stream, samples[999 * number :], finished=True)
    driver.finish()
    assert all(told(stream) == told(whole) for stream in several)
    assert all(language in LANGUAGES for _, language in whole.languages)
    times = [begin for begin, _ in whole.languages]
    assert times == sorted(times) and all(one != other for (_, one), (_, other) in pairwise(whole.languages))
    if not cut:
        finished = [session for session in model.sessions if session.final]
        assert sum(np.count_nonzero(session.audio) for session in finished) <= np.count_nonzero(samples)


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("ms", [500, 4000])
def test_words_are_those_of_streams_in_these_languages(cut: bool, ms: float) -> None:
    """After a long pause, all that follows is heard in the new language, unless words were written meanwhile."""
    samples = audio(3.0, 1.5, -6.0)
    stream = decoded(opened(Hearer(), cut, ms=ms), samples)
    assert tuple(language for _, language in stream.languages) == LANGUAGES
    begin = round(stream.languages[1][0] * RATE / 1000)
    if cut and ms == 4000:
        assert 4.5 * RATE - CHUNK - BEFORE <= begin <= 4.5 * RATE
    else:
        assert 6.5 * RATE <= begin <= 6.5 * RATE + CHUNK + ASKING.finish * RATE
    named = []
    for language, part in zip(LANGUAGES, (samples[:begin], samples[begin:]), strict=True):
        named.append(open_stream(Hearer(), how(cut, ms=ms), language, "en"))
        named[-1].push(part, finished=True)
    first, second = (one.committed_text for one in named)
    assert stream.committed_text == f"{first} {second.strip()}"
    delays = [word.delay_ms for word in stream.emissions]
    assert delays == sorted(delays) and delays[0] >= 1000 * ASKING.voice[0]


@pytest.mark.parametrize(
    ("parts", "doubt", "asked"),
    [
        ((9.0,), 0.0, [2]),  # once
        ((2.5, 0.9, -3.0), 0.0, [2]),  # the pause is too short
        ((0.4, 5.0, 1.8), 0.0, [2]),  # not by the clock
        ((20.0,), 0.3, [*ASKING.voice]),  # until it is sure, or the last time
        ((0.5,), 0.0, [0.5]),  # at the end, of what there is
        ((3.0, 1.5, 3.0, 1.5, 0.5), 0.0, [2, 2]),  # too little to ask again
    ],
)
def test_when_it_is_asked(parts: tuple[float, ...], doubt: float, asked: list[float]) -> None:
    model = Hearer(doubt)
    stream = decoded(opened(model), audio(*parts))
    assert [language for _, language in stream.languages] == ["es"] and stream.emissions
    # A word that goes on may end first.
    assert all(abs(found - wanted) < ASKING.finish + 0.1 for found, wanted in zip(model.asked, asked, strict=True))
    assert abs(model.asked[0] - asked[0]) < 0.1


def test_an_answer_that_is_not_sure_is_corrected() -> None:
    """The third one is taken, so that words come. A sure one after it need not be plain."""
    model = Hearer()
    answers = iter([*([{"fr": 0.5, "es": 0.4}] * ASKING.taken), {"fr": 0.05, "es": 0.95}])
    model.spoken_languages = lambda samples: next(answers)  # type: ignore[method-assign]
    stream = decoded(opened(model), audio(12.0))
    (first, french), (second, spanish) = stream.languages
    taken, corrected = (1000 * seconds for seconds in ASKING.voice[ASKING.taken - 1 : ASKING.taken + 1])
    assert (french, spanish, first) == ("fr", "es", 0) and stream.emissions[0].delay_ms < taken + 100
    assert corrected <= second <= corrected + 1000 * ASKING.finish + 100


def test_what_is_not_plainly_wrong_is_held() -> None:
    for doubt, languages in ((0.001, LANGUAGES), (0.02, LANGUAGES[:1])):
        stream = decoded(opened(Hearer(doubt)), audio(3.0, 1.5, -9.0))
        assert tuple(language for _, language in stream.languages) == languages


def test_it_is_asked_again_if_no_words_come() -> None:
    """French without a pause before it, of which a session for Spanish writes nothing."""
    model = Hearer(mute=True)
    stream = decoded(opened(model), audio(2.5, 0.1, -18.0))
    assert [language for _, language in stream.languages] == [*LANGUAGES] and stream.emissions
    begin = stream.languages[1][0] / 1000
    assert 2.6 < begin < 2.6 + ASKING.empty + 2 * CHUNK / RATE


def test_silence_and_the_clock_of_the_stream() -> None:
    model, meter = Hearer(), Meter()
    stream = open_stream(model, Decoding(Chunk(500), All()), "auto", "en", meter=meter)
    stream.push(np.zeros(90 * RATE, np.float32))
    assert stream._audio.size <= BEFORE + CHUNK and not meter.first("language")  # type: ignore[attr-defined]
    stream.push(np.zeros(0, np.float32), finished=True)
    assert not (stream.emissions or stream.languages or model.asked)


def test_what_can_not_be_found_is_refused() -> None:
    with pytest.raises(SimulstError, match="FakeModel: the model can't tell which language is spoken; name it"):
        open_stream(FakeModel(), how(True), "auto", "en")
    with pytest.raises(SimulstError, match="the model writes 'it' from it alone; name the language"):
        open_stream(Hearer(), how(True), "auto", "it")
    with pytest.raises(SimulstError, match="from no language alone"):
        open_stream(Hearer(), how(True), "auto", "de")
    with pytest.raises(SimulstError, match="fake:FakeModel: the model can't tell"):
        check_languages("fake:FakeModel", {}, "auto", "en")
    check_languages("fake:TimedModel", {}, "auto", "en")
    with pytest.raises(SimulstError, match="'auto'"):
        check_languages("fake:TimedModel", {}, "es", "auto")


def test_models_that_can_not_tell_are_refused_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "canary"}')
    (tmp_path / "cascade.yaml").write_text(f"recogniser: {{model: {tmp_path}, decoding: {{}}}}\ntranslator: {{}}\n")
    for path in (tmp_path, tmp_path / "cascade.yaml"):
        with pytest.raises(SimulstError, match=f"{path}: the model can't tell which language is spoken"):
            check_languages(path, {}, "auto", "en")
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    check_languages(tmp_path, {}, "auto", "en")
    check_languages(tmp_path / "cascade.yaml", {}, "auto", "en")
