"""The Whisper family with tiny random models: how it handles audio, prompts and its window, not quality."""

import itertools
import json
import math
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ctranslate2
import numpy as np
import pytest
import tiny_whisper
from fake import Asks, noted, opened
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny_whisper import load
from tokenizers import Tokenizer

from simulst.audio.mel import MelBands, mel_filters
from simulst.calls import Batched, run_alone
from simulst.config import Decoding
from simulst.errors import SimulstError, warn_once
from simulst.hypotheses import Beam, Hypothesis, Tokens
from simulst.meter import Memo, Meter
from simulst.models.base import tells
from simulst.models.registry import check_languages
from simulst.models.whisper import network
from simulst.models.whisper.features import log_mel
from simulst.models.whisper.model import Whisper, WhisperSession
from simulst.models.whisper.network import Aligned, Generate, WhisperOptions
from simulst.models.whisper.prompts import PREVIOUS_TOKENS
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.commit import All, Commit, Hold, LocalAgreement, SharedPrefix
from simulst.policy.context import Context, View
from simulst.policy.read import Chunk, Offline, Read
from simulst.policy.stop import AlignAtt, AnyOf, MaxTokens, MaxWords
from simulst.search import BeamSearch
from simulst.stream import Stream
from simulst.streams import open_stream
from simulst.streams.driver import Driver
from simulst.words import Words

RATE = 16000
POSITIONS = tiny_whisper.POSITIONS
GREEDY = BeamSearch(1)
START = tiny_whisper.start()


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(round(seconds * RATE)) * 0.1).astype(np.float32)


def sounds(seconds: float) -> np.ndarray:
    """Noise and tones by turns, 0.8 s each, with pauses of digital silence."""
    times = np.arange(round(seconds * RATE)) / RATE
    turn = (times / 0.8).astype(int)
    tone = 0.2 * np.sin(2 * np.pi * (200 + 137 * (turn % 7)) * times)
    return np.where(turn % 3 == 0, noise(seconds), np.where(turn % 3 == 1, tone, 0)).astype(np.float32)


def hearing(model: Whisper, audio: np.ndarray, target: str = "en") -> WhisperSession:
    """A session that has heard so much Spanish."""
    session = model.session(Opening("es", target))
    session.extend(audio)
    return session


def prefix_of(length: int) -> Tokens:
    return tuple(int(token) for token in np.random.default_rng(length).integers(33, 290, length))


@pytest.fixture(scope="module")
def eos(folder: Path) -> int:
    return Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id("<|endoftext|>")


# Features


def plain_mel(samples: np.ndarray, frames: int, filters: np.ndarray) -> np.ndarray:
    """log_mel by the definitions, in float64."""
    signal = np.zeros(max(frames * 160, samples.size))
    signal[: samples.size] = samples
    position, k = np.arange(400), np.arange(201)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * position / 400)
    waves = np.exp(-2j * np.pi * np.outer(position, k) / 400)
    where = np.abs(np.arange(frames)[:, None] * 160 - 200 + position)  # mirrored at the start, and at the end
    where = np.where(where < signal.size, where, 2 * (signal.size - 1) - where)
    power = np.abs((signal[where] * window) @ waves) ** 2
    log = np.log10(np.maximum(filters @ power.T, 1e-10))
    return (np.maximum(log, log.max() - 8) + 4) / 4


@pytest.mark.parametrize(("samples", "frames"), [(1, 2), (199, 2), (320, 2), (399, 4), (8000, 50), (16123, 120)])
def test_log_mel(samples: int, frames: int) -> None:
    audio, filters = noise(2)[:samples], mel_filters(80, 400, 16000)
    features = log_mel(audio, frames, MelBands(filters))
    assert features.shape == (80, frames) and features.dtype == np.float32
    np.testing.assert_allclose(features, plain_mel(audio, frames, filters), atol=2e-3)


# The encoder


def test_encoder_sees_whispers_features(folder: Path, whisper: Whisper) -> None:
    features = plain_mel(sounds(1.3), 330, mel_filters(80, 400, 16000)).astype(np.float32)
    model = ctranslate2.models.Whisper(str(folder), compute_type="float32", intra_threads=1)
    states = np.array(model.encode(ctranslate2.StorageView.from_array(features[None])))
    np.testing.assert_allclose(np.array(whisper.encode(sounds(1.3)))[:, :165], states, atol=0.02)


@pytest.mark.parametrize(
    ("padding", "silence"), [(2.0, 30.0), (2.0, 0.0), (0.5, 1.0), (30.0, 30.0), (1.6, 0.0), (0.0, 0.0)]
)
def test_no_more_frames_than_needed(folder: Path, padding: float, silence: float) -> None:
    """And never as many as there are mels: CTranslate2 takes (1, mels, n) for features, and would encode them again."""
    model = load(folder, padding_seconds=padding, silence_seconds=silence)
    for samples in (0, 321, 99999, 480000):
        encoded = model.encode(noise(30)[:samples])
        _, states, width = encoded.shape
        needed = min(math.ceil((samples + padding * RATE) / 320) + round(silence * 50), 1500)
        assert width == tiny_whisper.WIDTH and states != tiny_whisper.MELS
        assert Generate(model, encoded, START, (), (), GREEDY, 3).call.answer()
        assert needed <= states <= min(max(needed + 1, tiny_whisper.MELS + 1), 1500)


def test_no_window_pays_for_what_all_need(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The states of silence and the filters are computed when the model is loaded."""
    loaded = Whisper(folder, WhisperOptions())
    seen = noted(monkeypatch, loaded, "encoded", lambda features: features.shape)
    loaded.encode(noise(1))
    assert seen == [(1, 80, 300)], "one second, and two of padding"


def test_the_rest_is_silence(whisper: Whisper) -> None:
    one, other = (np.array(whisper.encode(noise(2, seed))) for seed in (1, 2))
    assert one.shape[1] == 1500
    assert not np.allclose(one[:, :200], other[:, :200], atol=0.1)
    assert (one[:, 200:] == other[:, 200:]).all()
    assert (one[:, 400:] == np.array(whisper.encode(noise(6)))[:, 400:]).all()


# The decoder


@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("length", [0, 8])
def test_beams(whisper: Whisper, stamping: Whisper, eos: int, beam: int, length: int) -> None:
    for model in (whisper, stamping):
        hypotheses = Generate(
            model, model.encode(sounds(3)), START, (), prefix_of(length), BeamSearch(beam), 30
        ).call.answer()
        assert 1 <= len(hypotheses) <= beam
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in hypotheses:
            assert hypothesis.tokens[:length] == prefix_of(length)
            assert max(hypothesis.tokens, default=0) < eos
            assert len(hypothesis.tokens) <= length + 30


@pytest.mark.parametrize("length", [0, 1, 6, 300])
@pytest.mark.parametrize("previous", [0, PREVIOUS_TOKENS])
def test_exactly_as_many_tokens_as_asked(endless: Whisper, previous: int, length: int) -> None:
    encoded = endless.encode(sounds(3))
    for beam in (1, 3):
        for new in (1, 2, 40):
            beams = Generate(
                endless, encoded, START, prefix_of(previous), prefix_of(length), BeamSearch(beam), new
            ).call.answer()
            assert {len(h.tokens) for h in beams} == {length + new}
            assert all(h.tokens[:length] == prefix_of(length) for h in beams)


@pytest.mark.parametrize("previous", [0, PREVIOUS_TOKENS])
@pytest.mark.parametrize("left", [-99, 0, 1, 2, 9])
def test_prompts_as_long_as_the_decoder(
    endless: Whisper, previous: int, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    """As many tokens as positions are left, and not one more; all of them can be aligned. Earlier text makes room."""
    warn_once.cache_clear()
    length = POSITIONS - 4 - left
    encoded = endless.encode(sounds(3))
    asked = Generate(endless, encoded, START, prefix_of(previous), prefix_of(length), BeamSearch(2), 100)
    tokens = asked.call.answer()[0].tokens
    assert tokens[:length] == prefix_of(length)
    assert max(left - 1, 0) <= len(tokens) - length <= max(left, 0)
    if left > 0:
        assert len(endless.align(encoded, START, tokens, 300).begins) == len(tokens) + 1
    told = [record for record in caplog.records if "fills the 448 positions" in record.getMessage()]
    assert len(told) == (len(tokens) == length)


searches = st.tuples(st.integers(0, 9), st.just(0) | st.integers(1, 12), st.integers(20, 40))


@settings(max_examples=10)
@given(
    st.lists(searches, min_size=2, max_size=4), st.integers(0, 3), st.sampled_from([1, 5]), st.sampled_from([0.0, 1.0])
)
@example([(11, 0, 20), (0, 4, 20)], 3, 3, 1.0)  # the text of one may be empty, and the other has a prefix
def test_searches_in_a_batch(
    whisper: Whisper, endless: Whisper, asked: list[tuple[int, int, int]], previous: int, beam: int, penalty: float
) -> None:
    """Each finds what it finds alone, though texts differ in length, and one may reach its bound before the others."""
    options = BeamSearch(beam, penalty)
    for model in (whisper, endless):
        calls = [
            Generate(model, model.encode(noise(2, seed)), START, prefix_of(previous), prefix_of(n), options, new).call
            for seed, n, new in asked
        ]
        for key in {call.together for call in calls}:
            group = [call for call in calls if call.together == key]
            for call, found in zip(group, Batched.answer_together(group), strict=True):
                alone = call.answer()
                assert [h.tokens for h in found] == [h.tokens for h in alone]
                np.testing.assert_allclose([h.score for h in found], [h.score for h in alone], atol=1e-4)
        assert Generate(model, calls[0].argument.encoded, START, (), (), BeamSearch(beam), 5).call.together is None


def test_windows_in_a_batch(whisper: Whisper) -> None:
    encodes = [whisper.encoding(noise(2, seed)) for seed in range(3)]
    assert len({call.together for call in encodes}) == 1
    assert whisper.encoding(noise(3)).together != encodes[0].together
    for call, found in zip(encodes, Batched.answer_together(encodes), strict=True):
        np.testing.assert_allclose(np.array(found), np.array(call.answer()), atol=1e-5)


def test_streams_whose_calls_are_computed_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at most, as there are two processors and a call has one thread: each finds what it finds alone."""
    model = Whisper(folder, WhisperOptions(compute_type="float32", threads=1), cores=2)
    how, both, together = Decoding(Chunk(1000), All(), AlignAtt(30), BeamSearch(2)), threading.Barrier(2), list[int]()
    alone = [run(model.session(Opening("es", "en")), how, noise(3, seed)) for seed in range(4)]
    encode, numbers, inside = Whisper.encode_together, itertools.count(), list[int]()

    def encoded(model: Whisper, windows: list[np.ndarray]) -> Any:
        inside.append(1)
        together.append(sum(inside))
        if next(numbers) < 2:
            both.wait(100)  # an error if calls took turns
        found = encode(model, windows)
        inside.append(-1)
        return found

    monkeypatch.setattr(Whisper, "encode_together", encoded)
    driver, streams = Driver(), [Stream(model.session(Opening("es", "en")), how) for _ in alone]
    for seed, stream in enumerate(streams):
        driver.push(stream, noise(3, seed), finished=True)
    driver.finish()
    for stream, expected in zip(streams, alone, strict=True):
        assert stream.writes == expected.writes and stream.committed == expected.committed
        assert stream.meter.seconds > 0
    assert max(together) == 2


IN_TURN = """
def computes():
    while True:
        with model.turn:
            call.answer()
for _ in range(4):
    threading.Thread(target=computes, daemon=True).start()
"""
IN_A_DRIVER = """
def steps(*_):
    while True:
        yield call
stream = SimpleNamespace(push_steps=steps, meter=Meter(), wait=print)
threading.Thread(target=DriverThread().push, args=(stream, None), daemon=True).start()
"""


@pytest.mark.long
@pytest.mark.parametrize("computes", [IN_TURN, IN_A_DRIVER])
def test_python_exits_while_a_thread_computes(computes: str, folder: Path) -> None:
    """It would abort if the thread came back from CTranslate2 while it does so, which takes long after some imports."""
    program = (
        "import threading, ctranslate2, numpy, torch, simulst.commands.main\n"
        "from pathlib import Path\n"
        "from types import SimpleNamespace\n"
        "from transformers import LlamaForCausalLM\n"
        "from simulst.meter import Meter\n"
        "from simulst.models.whisper.model import Whisper\n"
        "from simulst.models.whisper.network import WhisperOptions\n"
        "from simulst.streams.driver import DriverThread\n"
        f"model = Whisper(Path({str(folder)!r}), WhisperOptions(compute_type='float32', threads=1), cores=2)\n"
        "begun = threading.Event()\n"
        "audio = ctranslate2.StorageView.from_array(numpy.zeros((1, model.library.n_mels, 3000), numpy.float32))\n"
        "class Call:\n"
        "    def answer(self):\n"
        "        begun.set()\n"
        "        model.library.encode(audio, to_cpu=True)\n"
        "call = Call()\n"
        f"{computes}"
        "begun.wait()\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize(("threads", "cores", "at_once"), [(0, 4, 1), (4, 4, 1), (3, 4, 1), (2, 4, 2), (1, 4, 4)])
def test_how_many_calls_are_computed_at_once(folder: Path, threads: int, cores: int, at_once: int) -> None:
    model = Whisper(folder, WhisperOptions(compute_type="float32", threads=threads), cores)
    assert model.library.num_workers == at_once and (model.turn is None) == (at_once == 1)


def test_text(folder: Path, whisper: Whisper) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tuple(tokenizer.encode(" el café 世界 😀").ids)
    assert whisper.text(ids) == " el café 世界 😀"
    cut = tuple(tokenizer.token_to_id(byte) for byte in "eä¸")  # of 世, less its last byte
    assert whisper.text(cut) == "e\N{REPLACEMENT CHARACTER}"
    assert whisper.text((*cut, tokenizer.token_to_id("ĸ"))) == "e世"
    assert whisper.text((tokenizer.token_to_id("<|endoftext|>"), *ids)) == " el café 世界 😀"
    assert whisper.text(()) == ""
    words = [i for i, token in enumerate(ids) if whisper.text((token,)).startswith(" ")]
    assert [whisper.text(ids[a:b]) for a, b in pairwise([*words, len(ids)])] == [" el", " café", " 世界", " 😀"]


# A session


def test_english_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prompt names neither language nor task."""
    count = len(json.loads((folder / "vocabulary.json").read_text()))
    monkeypatch.setattr("simulst.models.whisper.files.ENGLISH_VOCABULARY", count)
    model = load(folder)
    names = [model._tokenizer.id_to_token(token) for token in model._start_tokens("en", "en")]
    assert names == ["<|startoftranscript|>", "<|notimestamps|>"]
    for pair in (("es", "en"), ("en", "es")):
        with pytest.raises(SimulstError, match="this Whisper hears and writes English alone, not "):
            model.session(Opening(*pair))


def test_session_bounds(endless: Whisper) -> None:
    session = hearing(endless, noise(2))
    assert session.length == 32000
    assert len(run_alone(session.search((), GREEDY, opened(MaxTokens(3)))).best) == 3
    assert len(run_alone(session.search(prefix_of(30), GREEDY, opened(MaxTokens(3)))).best) == 33
    assert len(run_alone(session.search(prefix_of(30), BeamSearch(1, max_tokens_per_second=20), None)).best) == 45
    assert len(run_alone(session.search(prefix_of(99), GREEDY, None)).best) == 100


@pytest.mark.parametrize("audio", [noise(0), noise(1)[:1], noise(0.009), np.zeros(30000, np.float32), noise(0.3) * 0])
@pytest.mark.parametrize("commit", [All(), LocalAgreement(2)])
def test_hardly_any_audio(whisper: Whisper, audio: np.ndarray, commit: Commit) -> None:
    stream = Stream(whisper.session(Opening("es", "en")), Decoding(Chunk(700), commit))
    stream.push(audio, finished=True)
    assert stream.reads[-1] == audio.size / 16
    assert "".join(e.text for e in stream.emissions) == whisper.text(stream.committed).strip()


def test_loops_are_searched_again(whisper: Whisper, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def generate(call: Generate) -> Beam:
        asked.append(call.options.no_repeat_ngram)
        return [Hypothesis((1, 2, 3) if call.options.no_repeat_ngram == 3 else (7, 8, 7, 8, 7, 8))]

    monkeypatch.setattr(network, "generate", lambda calls: [*map(generate, calls)])
    session = hearing(whisper, noise(1), "es")
    assert run_alone(session.search((), GREEDY, None)).best == (1, 2, 3)
    assert run_alone(session.search((), BeamSearch(1, no_repeat_ngram=2), None)).best == (7, 8, 7, 8, 7, 8)
    assert asked == [0, 3, 2]


@pytest.mark.parametrize("named", ["es", "fr", "spa", "en"])  # English is 90 times less probable
@pytest.mark.parametrize("share", [False, True])
def test_speech_in_another_language_is_told(
    whisper: Whisper, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, named: str, share: bool
) -> None:
    """Once in a stream, after 3 s; the streams of a sweep share it. It costs the stream nothing."""
    asked: list[float] = []

    def languages(model: Whisper, encoded: Any, seconds: float) -> dict[str, float]:
        asked.append(seconds)
        return {"es": 0.9, "en": 0.01, "fr": 0.004}

    monkeypatch.setattr(Whisper, "tell", languages)
    monkeypatch.setattr("simulst.models.whisper.model.warn_once", warn_once.__wrapped__)
    monkeypatch.setattr(whisper, "_start_tokens", lambda source, target: START)
    memo = Memo()
    for _ in range(2):
        stream = open_stream(whisper, Decoding(Chunk(1000), All()), named, "en", meter=Meter(memo if share else None))
        for _ in range(4):
            stream.push(noise(1))
        assert share or stream.meter.sounds_like == ("es" if named == "fr" else "")
    assert asked == [3.0] * (1 if share else 2)
    told = [message for message in caplog.messages if "sounds like" in message]
    assert len(told) == (len(asked) if named == "fr" else 0)
    assert all("sounds like 'es', not 'fr'; check the source language" in message for message in told)


def test_a_model_that_can_not_tell_languages_is_not_asked(whisper: Whisper) -> None:
    """To CTranslate2, a vocabulary of this size is that of English alone."""
    assert whisper.tell(whisper.encode(noise(3)), 3.0) == {}


@pytest.mark.parametrize("seconds", [0.5, 33.0])
def test_words_have_times_within_the_audio(endless: Whisper, seconds: float) -> None:
    stream = open_stream(endless, Decoding(Chunk(11000), Hold(4)), "es", "es", timed=True)
    stream.push(sounds(seconds), finished=True)
    times = [time for span in stream.spoken_ms or () for time in span]
    assert len(times) == 2 * len(stream.emissions) > 0
    assert times == sorted(times) and times[0] == 0 and times[-1] <= 1000 * seconds


def test_the_language_of_audio(whisper: Whisper, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 s at most. A model of English alone can't tell it, which its files say, too."""
    monkeypatch.setattr(Whisper, "tell", lambda model, encoded, seconds: {"es": seconds})
    assert tells(whisper)(noise(40)) == {"es": 30.0}
    check_languages(folder, {}, "auto", "en")
    count = len(json.loads((folder / "vocabulary.json").read_text()))
    monkeypatch.setattr("simulst.models.whisper.files.ENGLISH_VOCABULARY", count)
    for asks in (lambda: tells(load(folder)), lambda: check_languages(folder, {}, "auto", "en")):
        with pytest.raises(SimulstError, match="the model can't tell which language is spoken"):
            asks()


A, B, C = (1, 2, 3, 4, 5), (1, 2, 3, 4, 6, 7), (8, 9, 10, 11)
TRANSCRIPTION = tiny_whisper.start("es", "es")
ENGLISH = (START[0], tiny_whisper.start("en", "en")[1], *START[2:])


def aligned(monkeypatch: pytest.MonkeyPatch, log_p: Callable[[Tokens, Tokens], float]) -> None:
    """Give texts other probabilities, by their beginnings and tokens."""
    monkeypatch.setattr(Whisper, "align", lambda _, __, start, tokens, ___: Aligned([], log_p(start, tokens)))


@pytest.mark.parametrize(
    ("found", "in_english", "translations", "expected"),
    [
        ([A, B], None, [A], [A, B]),  # the best is one: all of the beam stays
        ([A, B, C], None, [B, C], [B, C]),
        ([A, C], None, [C], [C]),
        ([A, B], [C, B], [C], [C]),
        ([A, B], [C], [], [A, B]),  # there is no translation
        ([A, B], [], [], [A, B]),
        ([A, (1, 2, 3)], None, [], [(1, 2, 3)]),  # too short to tell
        ([(1, 2, 3), B], None, [], [(1, 2, 3), B]),
        ([(), A], None, [], [(), A]),
        ([], None, [], []),
    ],
)
def test_texts_in_the_language_spoken(
    whisper: Whisper,
    monkeypatch: pytest.MonkeyPatch,
    found: list[Tokens],
    in_english: list[Tokens] | None,
    translations: list[Tokens],
    expected: list[Tokens],
) -> None:
    """Another hypothesis is taken; if none is a translation, those for English speech are asked for."""
    asked = []

    def generate(call: Generate) -> Beam:
        asked.append(call.start)
        return [Hypothesis(tokens) for tokens in (found if call.start == START else in_english or [])]

    def log_p(start: Tokens, tokens: Tokens) -> float:
        assert start in (START, TRANSCRIPTION)
        size, copy = len(tokens), tokens not in translations
        return -3.0 * size - (0 if start == START else 0.19 if copy else 0.21) * size

    monkeypatch.setattr(network, "generate", lambda calls: [*map(generate, calls)])
    aligned(monkeypatch, log_p)
    session = hearing(whisper, noise(1))
    assert [h.tokens for h in run_alone(session.search((), BeamSearch(3), None)).beam] == expected
    assert asked == ([START] if in_english is None else [START, ENGLISH])


def test_texts_that_say_nothing_new_are_no_translations(whisper: Whisper, monkeypatch: pytest.MonkeyPatch) -> None:
    beams = {START: [A, A[:4]], ENGLISH: [A[:4]]}
    monkeypatch.setattr(network, "generate", lambda calls: [[Hypothesis(one) for one in beams[calls[0].start]]])
    aligned(monkeypatch, lambda start, tokens: float(start == START and tokens != A))
    session = hearing(whisper, noise(1))
    assert [h.tokens for h in run_alone(session.search(A[:4], BeamSearch(2), None)).beam] == beams[START]


def test_texts_after_one_in_the_language_spoken(whisper: Whisper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is asked for: each step would take twice the time, and in vain."""
    monkeypatch.setattr(
        network,
        "generate",
        lambda calls: [[Hypothesis(A), Hypothesis(B)]] if calls[0].start == START else pytest.fail("asked"),
    )
    aligned(monkeypatch, lambda start, tokens: 9.0 * (start == START and tokens == B))
    session = hearing(whisper, noise(1))
    assert [h.tokens for h in run_alone(session.search(A[:4], BeamSearch(2), None)).beam] == [A, B]
    assert [h.tokens for h in run_alone(session.search(A[:3], BeamSearch(2), None)).beam] == [B]  # too short to tell


@pytest.mark.parametrize(
    ("pair", "options"),
    [
        (("es", "es"), {}),
        (("en", "en"), {}),
        (("en", "es"), {"other_targets": True}),
        (("es", "en"), {"check_language": False}),
    ],
)
def test_other_texts_are_not_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str], options: dict[str, bool]
) -> None:
    model = load(folder, **options)
    monkeypatch.setattr(network, "generate", lambda calls: [[Hypothesis(A)]])
    monkeypatch.setattr(Whisper, "align", lambda *_: pytest.fail("it was checked"))
    session = model.session(Opening(*pair))
    session.extend(noise(1))
    assert run_alone(session.search((), GREEDY, None)).best == A


def run(session: WhisperSession, how: Decoding, audio: np.ndarray) -> Stream:
    stream = Stream(session, how)
    stream.push(audio, finished=True)
    return stream


def test_sharing_changes_nothing_but_time(
    whisper: Whisper, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(clock, monkeypatch)
    decodings = [
        Decoding(Chunk(ms), commit, search=BeamSearch(2))
        for ms in (500, 1000)
        for commit in (LocalAgreement(2), Hold(2), SharedPrefix(2), LocalAgreement(2))
    ]
    memo, audio = Memo(), sounds(3.3)
    for how in decodings:
        started = clock.now
        shared = run(whisper.session(Opening("es", "en", Meter(memo))), how, audio)
        spent = clock.now - started
        alone = run(whisper.session(Opening("es", "en")), how, audio)
        assert shared.committed == alone.committed
        assert shared.reads == alone.reads
        assert [(e.text, e.delay_ms) for e in shared.emissions] == [(e.text, e.delay_ms) for e in alone.emissions]
        assert shared.meter.seconds == pytest.approx(alone.meter.seconds) and shared.meter.seconds > 0
    assert spent == 0  # the last one did nothing itself


def slow_down(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding a window takes 0.2 s, and a search 0.05 s."""
    for owner, answer, seconds in ((Whisper, Whisper.encode_together, 0.2), (network, network.generate, 0.05)):

        def slow(*about: Any, answer: Callable[..., Any] = answer, seconds: float = seconds) -> Any:
            clock.sleep(seconds)
            return answer(*about)

        monkeypatch.setattr(owner, answer.__name__, slow)


# Audio that is longer than the window


def test_a_long_stream_alone_is_charged_what_it_took(
    endless: Whisper, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(clock, monkeypatch)
    stream = Stream(
        endless.session(Opening("es", "en")), Decoding(Offline(), All(), search=BeamSearch(1, max_tokens_per_second=1))
    )
    started = clock.now
    stream.push(sounds(61), finished=True)
    assert stream.meter.seconds == pytest.approx(clock.now - started) and clock.now > started


@pytest.mark.long
@pytest.mark.parametrize(
    ("read", "commit"),
    [
        (Chunk(6500), LocalAgreement(2)),
        (Chunk(6500), Hold(3)),
        (Chunk(6500), Hold(1000)),
        (Chunk(9000), All()),
        (Offline(), All()),
    ],
)
@pytest.mark.parametrize("model", ["whisper", "endless"])
def test_the_window_slides(read: Read, commit: Commit, model: str, request: pytest.FixtureRequest) -> None:
    whisper = request.getfixturevalue(model)
    session = whisper.session(Opening("es", "en"))
    stream = Stream(session, Decoding(read, commit, search=BeamSearch(1, max_tokens_per_second=3)))
    audio, limits, committed = sounds(65), [session.limit()], ()
    assert session.limit() == 30 * RATE
    for begin in range(0, audio.size, 80000):
        stream.push(audio[begin : begin + 80000], finished=begin + 80000 >= audio.size)
        assert stream.committed[: len(committed)] == committed
        assert session.length <= session.limit()
        assert session.limit() >= limits[-1]
        committed = stream.committed
        limits.append(session.limit())
    assert 35 * RATE <= session.limit() - 30 * RATE <= 65 * RATE  # what has left
    assert stream.reads[-1] == 65000 and len(stream.reads) < 65
    assert "".join(e.text for e in stream.emissions) == whisper.text(stream.committed).strip()
    assert committed and stream.emissions


def test_slide(endless: Whisper) -> None:
    session, audio = endless.session(Opening("es", "en")), sounds(30)
    session.extend(audio[:-1])
    assert not session.is_full()
    session.extend(audio[-1:])
    assert session.is_full()
    best = run_alone(session.search((), BeamSearch(2), opened(MaxTokens(60)))).best
    spoken = session.spoken(best)
    ends = [begin * 0.02 for begin in endless.align(endless.encode(audio), START, best, 3000).begins[1:]]
    assert spoken == best[: sum(end <= 29 for end in ends)] and 0 < len(spoken) < 60
    session.slide(spoken)
    assert not session.is_full() and session.length == 30 * RATE
    cut = session.limit() / RATE - 30
    assert 1 <= cut <= 29
    behind = 1 + max(i for i, end in enumerate(ends) if end == pytest.approx(cut))
    assert behind >= len(spoken) or any(endless.text((token,)).startswith(" ") for token in best[: behind + 1])
    for hypothesis in run_alone(session.search(spoken, BeamSearch(2), opened(MaxTokens(5)))).beam:
        assert hypothesis.tokens[: len(spoken)] == spoken
        assert len(hypothesis.tokens) == len(spoken) + 5
    assert session.text(spoken) == endless.text(spoken)


@pytest.mark.parametrize(("end", "cut"), [(1.5, 1.5), (0.0, 0.0), (5.0, 2.0)])  # the text was there after 2 s
def test_all_text_leaves_with_its_audio(
    whisper: Whisper, monkeypatch: pytest.MonkeyPatch, end: float, cut: float
) -> None:
    session = hearing(whisper, noise(8))
    monkeypatch.setattr(Whisper, "align", lambda *_: Aligned([0, 0, 0, end / 0.02], 0.0))
    shown = []
    monkeypatch.setattr(network, "generate", lambda calls: shown.append(calls[0].previous) or [[Hypothesis(())]])
    session.restart(prefix_of(3), 2 * RATE)
    assert session.evicted == 3 and session.limit() == (30 + cut) * RATE
    assert run_alone(session.search(prefix_of(3), BeamSearch(2), None)).best[:3] == prefix_of(3)
    assert shown == [()]  # or the text would come again
    assert not session.is_stuck(2 * RATE) or cut < 2
    session.restart(prefix_of(3), 8 * RATE)
    assert session.evicted == 3 and session.limit() == (30 + cut) * RATE  # no text, no audio


def test_previous_text_is_what_has_left(endless: Whisper, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = noted(monkeypatch, network, "generate", lambda calls: (calls[0].previous, calls[0].prefix))
    options = BeamSearch(1, max_tokens_per_second=5)
    stream = run(endless.session(Opening("es", "en")), Decoding(Chunk(10000), Hold(3), search=options), sounds(65))
    lengths = [len(previous) for previous, _ in seen]
    assert lengths[0] == 0 and max(lengths) == PREVIOUS_TOKENS
    for previous, prefix in seen:
        together = (*previous, *prefix)
        assert any(stream.committed[i : i + len(together)] == together for i in range(len(stream.committed) + 1))


# AlignAtt


@pytest.mark.parametrize("given", [0, 3])
def test_align_att_ends_before_the_first_token_that_begins_in_the_last_frames(endless: Whisper, given: int) -> None:
    audio = sounds(3)
    session = hearing(endless, audio)
    options = BeamSearch(2)
    whole = run_alone(session.search(prefix_of(given), options, None)).beam
    best = whole[0].tokens
    begins = begins_of(endless, audio, best)
    for frames in (1, 10, 25, 60, 200):
        expected = next((i for i in range(given, len(best)) if begins[i] >= 150 - frames), None)
        assert (expected is not None) == (frames > 1)
        found = run_alone(session.search(prefix_of(given), options, opened(AlignAtt(frames)))).beam
        assert [h.tokens for h in found] == [h.tokens[:expected] for h in whole]


def begins_of(model: Whisper, audio: np.ndarray, tokens: Tokens) -> list[int]:
    """The frame of each token by the definition: the first that CTranslate2 pairs with it."""
    encoded = model.encode(audio)
    pairs = model.library.align(encoded, list(START[:-1]), [list(tokens)], audio.size // 160)[0].alignments
    return [min(frame for token, frame in pairs if token == number) for number in range(len(tokens))]


def spied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tokens, Tokens]]:
    """The beginnings and texts that are aligned from now on."""
    return noted(monkeypatch, Whisper, "align", lambda model, encoded, start, tokens, frames: (start, tokens))


def test_align_att_aligns_once_a_step_and_only_what_is_new(whisper: Whisper, monkeypatch: pytest.MonkeyPatch) -> None:
    aligned = spied(monkeypatch)
    session = hearing(whisper, sounds(3), "es")
    best = run_alone(session.search((), BeamSearch(2), opened(MaxTokens(9)))).best
    run_alone(session.search((), BeamSearch(2), MaxWords(2).open(context_in(session))))
    assert aligned == []
    stop = AnyOf((MaxTokens(50), AlignAtt(10))).open(context_in(session))
    run_alone(session.search((), BeamSearch(2), stop))
    [(_, found)] = aligned
    assert found[: len(best)] == best[: len(found)]
    whole = run_alone(session.search((), BeamSearch(2), None)).best
    run_alone(session.search(whole, BeamSearch(2, max_tokens_per_second=1e-9), opened(AlignAtt(10))))
    run_alone(
        session.search((*whole, *prefix_of(POSITIONS)), BeamSearch(2), opened(AlignAtt(10)))
    )  # no position is left
    assert all(len(tokens) > len(whole) for _, tokens in aligned[1:])


def test_no_text_of_a_window_is_aligned_twice(endless: Whisper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the check of its language and by AlignAtt, nor by both of two equal searches."""
    aligned = spied(monkeypatch)
    session = endless.session(Opening("es", "en"))
    stop = AnyOf((MaxTokens(9), AlignAtt(10))).open(context_in(session))
    session.extend(sounds(3))
    for _ in range(2):
        run_alone(session.search((), BeamSearch(2), stop))
    assert {start for start, _ in aligned} == {START, TRANSCRIPTION}
    assert len(aligned) == len(set(aligned))
    session.extend(sounds(1))
    before = len(aligned)
    run_alone(session.search((), BeamSearch(2), stop))
    assert len(aligned) > before  # other audio


def context_in(session: WhisperSession) -> Context:
    return Context(Words(session.text), session.meter, RATE, session.block_end)


def test_a_stop_that_asks_when_tokens_end(endless: Whisper) -> None:
    """Those after the committed ones, in seconds of source: each ends where the next one begins."""
    session = hearing(endless, sounds(4))
    session._offset = 5 * RATE
    given = prefix_of(2)
    asked: list[tuple[Tokens, list[float]]] = []

    def ask(view: View) -> bool:
        asked.append((view.tokens, list(view.end_times())))
        return len(view.tokens) == 5

    found = run_alone(session.search(given, BeamSearch(1), opened(Asks(ask, frozenset({Need.END_TIMES}))))).best
    whole = run_alone(session.search(given, BeamSearch(1), None)).best
    ends = session.end_times(whole)
    assert found == whole[:7] and len(asked) == 6
    for size, (tokens, times) in enumerate(asked):
        assert tokens == whole[2 : 2 + size] and times == pytest.approx(ends[2 : 2 + size])
