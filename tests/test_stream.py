import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake import CHARS, RATE, WORDS, FakeModel, FakeSession, ScriptedSession, TimedSession, context_of, opening, until
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Found, Hypothesis, Tokens
from simulst.meter import Memo, Meter
from simulst.needs import Need
from simulst.policy.commit import All, Commit, Hold, LocalAgreement, SharedPrefix
from simulst.policy.context import Context, View
from simulst.policy.read import Block, Chunk, Offline, Read, Reading, Schedule, WaitKAtTestTime, WaitStride
from simulst.policy.stop import AnyOf, EndOfSentence, MaxTokens, MaxWords, Stop, Stopping
from simulst.search import BeamSearch
from simulst.stream import Step, Stream
from simulst.words import CUT

PLAIN_COMMITS = st.one_of(
    st.just(All()),
    st.builds(Hold, st.integers(1, 6)),
    st.builds(LocalAgreement, st.integers(1, 4), st.integers(0, 3)),
    st.builds(SharedPrefix, st.integers(1, 3)),
)
WORD_COMMITS = st.one_of(
    st.just(All(last_word=True)), PLAIN_COMMITS.map(lambda commit: replace(commit, whole_words=True))
)
COMMITS = st.one_of(PLAIN_COMMITS, WORD_COMMITS)
TOKEN_STOPS = st.one_of(st.just(EndOfSentence()), st.builds(MaxTokens, st.integers(1, 4)))
WORD_STOPS = st.one_of(
    st.builds(MaxWords, st.integers(1, 3)),
    st.builds(lambda *stops: AnyOf(stops), st.builds(MaxWords, st.integers(1, 3)), TOKEN_STOPS),
)


@dataclass(frozen=True)
class Hears(Read):
    """A READ that hears the audio in pieces of `piece_ms` and decodes after every `every`-th piece."""

    piece_ms: float
    every: int

    label = "hears"
    needs = frozenset({Need.AUDIO})

    def open(self, context: Context) -> "Hearing":
        return Hearing(self, context)


class Hearing(Reading):
    options: Hears
    heard = 0

    def next_ms(self, decoded_ms: float) -> float:
        return (decoded_ms // self.options.piece_ms + 1.0) * self.options.piece_ms

    def hear(self, samples: np.ndarray) -> None:
        self.heard += samples.size

    def ready(self) -> bool:
        pieces, rest = divmod(self.heard, round(self.options.piece_ms * RATE / 1000))
        return not rest and pieces % self.options.every == 0


READS = st.one_of(
    st.just(Offline()),
    st.builds(Block, st.integers(1, 3)),
    st.builds(WaitKAtTestTime, st.integers(1, 9)),
    st.builds(WaitStride, st.integers(1, 150), st.integers(5, 40)),
    st.builds(Hears, st.sampled_from([200, 480, 1000]), st.integers(1, 4)),
    st.builds(Chunk, st.sampled_from([90, 200, 333.3, 500, 1000]), st.sampled_from([0, 450, 2000])),
)
SEARCHES = st.builds(BeamSearch, st.integers(1, 4))
DECODINGS = st.one_of(
    st.builds(Decoding, READS, COMMITS, TOKEN_STOPS, SEARCHES),
    st.builds(Decoding, READS, WORD_COMMITS, WORD_STOPS, SEARCHES),
)
MODELS = st.builds(
    FakeModel,
    seed=st.integers(0, 99),
    unstable=st.integers(0, 5),
    window=st.sampled_from([0, 0, 3, 8]),
    vocabulary=st.sampled_from(["words", "chars"]),
)


def audio(ms: float) -> np.ndarray:
    return np.zeros(round(ms * RATE / 1000), dtype=np.float32)


def decoding(commit: Commit, read: Read | None = None, stop: Stop | None = None, beam: int = 2) -> Decoding:
    return Decoding(read or Chunk(1000), commit, stop or EndOfSentence(), BeamSearch(beam))


def scripted(beams: Sequence[Any], commit: Commit, vocabulary: Sequence[bytes] = WORDS, unit: str = "word") -> Stream:
    return Stream(ScriptedSession(beams, vocabulary), decoding(commit), unit)


def words(stream: Stream) -> list[str]:
    return [emission.text.strip() for emission in stream.emissions]


def text_of(stream: Stream) -> str:
    return "".join(emission.text for emission in stream.emissions)


def check_words(stream: Stream, text: str) -> None:
    """All of the text was emitted, with its spaces. Each emission is a word, unless a word was written early."""
    assert text_of(stream) == text.strip()
    if stream.unit == "char":
        assert words(stream) == list(text.replace(" ", ""))
    elif not stream.decoding.commit.ends_word:
        assert words(stream) == text.split()


def unit_of(model: FakeModel) -> str:
    return "char" if model.tokens is CHARS else "word"


TOKENS = st.lists(st.integers(0, 11), max_size=6)


@given(st.lists(st.lists(TOKENS, max_size=3), min_size=1, max_size=6), COMMITS, st.booleans())
def test_nothing_committed_or_written_is_taken_back(beams: list[list[list[int]]], commit: Commit, chars: bool) -> None:
    stream = scripted(beams, commit, CHARS if chars else WORDS, "char" if chars else "word")
    for step in range(len(beams) + 1):
        tokens, written = stream.committed, words(stream)
        new = stream.push(audio(1000), finished=step == len(beams))
        assert stream.committed[: len(tokens)] == tokens
        assert words(stream) == written + [emission.text.strip() for emission in new]
    check_words(stream, stream.session.text(stream.committed))


@given(st.integers(0, 99), st.integers(0, 5), st.integers(1, 4), st.integers(0, 4), st.sampled_from([0, 0.35, 1.05]))
def test_the_text_is_not_further_behind(seed: int, unstable: int, n: int, words: int, seconds: float) -> None:
    """After each step at most so many words of the newest hypothesis wait, and none that was spoken so long ago."""
    commit = LocalAgreement(n, words, seconds, whole_words=True)
    stream = Stream(TimedSession(FakeModel(seed=seed, unstable=unstable), opening()), decoding(commit, Chunk(500)))
    for step in range(1, 10):
        before = stream.committed
        stream.push(audio(500))
        assert stream.committed[: len(before)] == before
        waiting = stream.best[len(stream.committed) :]
        assert not words or stream._words.count_all(waiting) <= words
        spoken = [
            end for end in stream._words.ends(waiting) if 0.2 * (len(stream.committed) + end) <= 0.5 * step - seconds
        ]
        assert not seconds or not spoken


def test_without_agreement_a_bound_is_all_there_is() -> None:
    """Then LA-n is the newest hypothesis without its last words, and no word before there are so many."""
    beams: list[Any] = [[[0, 1, 2]], [[0, 3, 0, 3, 0]], [[0, 3, 0, 3, 0, 3]]]  # " the", " cat", " sat"
    stream = scripted(beams, LocalAgreement(9, 2))
    committed = []
    for _ in beams:
        stream.push(audio(1000))
        committed.append(stream.committed)
    assert committed == [(), (0, 3, 0), (0, 3, 0, 3)]


@given(MODELS, DECODINGS, st.integers(0, 4000), st.lists(st.integers(0, 64000), max_size=12))
def test_cutting_into_pushes_does_not_matter(model: FakeModel, how: Decoding, ms: int, cuts: list[int]) -> None:
    samples = audio(ms)
    whole = Stream(model.session(), how, unit_of(model))
    whole.push(samples, finished=True)
    cut = Stream(model.session(), how, unit_of(model))
    edges = [0, *sorted(c for c in cuts if c < samples.size)]
    for start, end in pairwise(edges):
        cut.push(samples[start:end])
    cut.push(samples[edges[-1] :], finished=True)
    assert cut.reads == whole.reads
    assert [(e.text, e.delay_ms) for e in cut.emissions] == [(e.text, e.delay_ms) for e in whole.emissions]
    assert cut.committed == whole.committed
    assert whole.reads == sorted(set(whole.reads))
    assert whole.reads[-1] == ms


def test_the_end_may_be_told_late() -> None:
    """If a step took place at the end already, the final step follows at the same position; reads has it once."""
    model = FakeModel(unstable=0)
    whole, late = (Stream(model.session(), decoding(LocalAgreement())) for _ in range(2))
    whole.push(audio(2000), finished=True)
    late.push(audio(2000))
    late.push(audio(0), finished=True)
    assert late.reads == whole.reads == [1000, 2000]
    assert [(e.text, e.delay_ms) for e in late.emissions] == [(e.text, e.delay_ms) for e in whole.emissions]


@given(MODELS, DECODINGS, st.integers(1, 4000))
def test_written_is_what_was_committed(model: FakeModel, how: Decoding, ms: int) -> None:
    stream = Stream(model.session(), how, unit_of(model))
    stream.push(audio(ms), finished=True)
    check_words(stream, model.text(stream.committed))
    # The final step is not bounded by STOP. (A STOP that limits the tokens per step may be too slow for a window.)
    assert len(stream.committed) == ms // 200 or how.stop.enough_tokens
    delays = [emission.delay_ms for emission in stream.emissions]
    assert delays == sorted(delays) and set(delays) <= set(stream.reads)


def test_only_whole_words_leave() -> None:
    #          un believ | un believ able | un believ able , the | ... end
    stream = scripted([[[6, 7]], [[6, 7, 8]], [[6, 7, 8, 9, 0]], [[6, 7, 8, 9, 0]]], All())
    said = [[e.text.strip() for e in stream.push(audio(1000), finished=step == 3)] for step in range(4)]
    assert said == [[], [], ["unbelievable,"], ["the"]]
    assert [e.delay_ms for e in stream.emissions] == [3000, 4000]


def test_the_last_word_may_leave_at_once() -> None:
    #          the | the un believ . | the unbeliev able , | the unbelievable, cat | end
    beams = [[[0]], [[0, 6, 7, 11]], [[0, 6, 7, 8, 9]], [[0, 6, 7, 8, 9, 1, 2]], [[0, 6, 7, 8, 9, 1, 2, 11]]]
    stream = scripted(beams, All(last_word=True))
    said, committed = [], []
    for step in range(5):
        said.append([e.text.strip() for e in stream.push(audio(1000), finished=step == 4)])
        committed.append(stream.committed)
    assert said == [["the"], ["unbeliev"], ["able"], [",", "cat"], ["."]]
    assert committed == [(0,), (0, 6, 7), (0, 6, 7, 8), (0, 6, 7, 8, 9, 1, 2), (0, 6, 7, 8, 9, 1, 2, 11)]
    beams = [[[0, 11]], [[0, 11, 1]], [[0, 11, 1, 11]]]
    for punctuation, expected in (
        (False, [(0,), (0, 11, 1)]),
        (True, [(0, 11), (0, 11, 1)]),
    ):  # True: as NAIST 2022 does
        stream = scripted(beams, All(last_word=True, punctuation=punctuation))
        committed = []
        for _ in range(2):
            stream.push(audio(1000))
            committed.append(stream.committed)
        assert committed == expected
    with pytest.raises(SimulstError, match="punctuation goes with last_word"):
        All(punctuation=True)
    stream = scripted([[[0]], [[0, 1]], [[0, 1, 2]]], All(last_word=True), [b" caf\xc3", b"\xa9", b" ole"])
    said, committed = [], []
    for step in range(3):
        said.append([e.text.strip() for e in stream.push(audio(1000), finished=step == 2)])
        committed.append(stream.committed)
    assert said == [[], ["café"], ["ole"]] and committed == [(), (0, 1), (0, 1, 2)], "but no part of a character"
    stream = scripted([[[0, 1]], [[0, 1, 2]]], All(last_word=True), [*map(str.encode, (" हिन्द", "ी", " है"))])
    said = [[e.text.strip() for e in stream.push(audio(1000), finished=step == 1)] for step in range(2)]
    assert said == [["हिन्दी"], ["है"]], "a vowel sign belongs to its word"
    with pytest.raises(SimulstError, match="remove one of them"):
        All(last_word=True, whole_words=True)


@given(MODELS, PLAIN_COMMITS, st.integers(1, 4000))
def test_with_whole_words_committed_is_written(model: FakeModel, commit: Commit, ms: int) -> None:
    stream = Stream(model.session(), Decoding(Chunk(200), replace(commit, whole_words=True)), "word")
    for _ in range(ms // 100):
        stream.push(audio(100))
        assert text_of(stream) == model.text(stream.committed).strip() or unit_of(model) == "char"


def test_early_end_of_sentence_does_not_finish() -> None:
    stream = scripted([[[]], [], [[0, 1, 2]], [[0, 1, 2, 3]], [[0, 1, 2, 3, 5]]], LocalAgreement(2))
    stream.push(audio(4500), finished=True)
    assert words(stream) == ["the", "cat", "sat", "on"]
    assert stream.reads == [1000, 2000, 3000, 4000, 4500]
    assert [e.delay_ms for e in stream.emissions] == [4000, 4500, 4500, 4500]


def test_stop_is_passed_on_and_lifted_at_the_end() -> None:
    session = FakeModel(unstable=0).session()
    stream = Stream(session, decoding(All(), stop=MaxTokens(2)))
    stream.push(audio(3400), finished=True)
    assert [(ms, len(committed), stop) for ms, committed, stop in session.searches] == [
        (1000, 0, MaxTokens(2)),
        (2000, 2, MaxTokens(2)),
        (3000, 4, MaxTokens(2)),
        (3400, 6, None),
    ]
    assert len(stream.committed) == 17


@pytest.mark.parametrize(("samples", "searches"), [(0, 0), (1, 0), (1599, 0), (1600, 1)])
@pytest.mark.parametrize("begins", [(), (0,)])
def test_a_moment_of_audio_has_no_text(
    samples: int, searches: int, begins: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that heard nothing would invent something: Whisper writes "Thank you." after 10 ms of noise.

    begins: STOP's, such as the token of a lag.
    """
    monkeypatch.setattr("simulst.policy.stop._EndOfSentence.begins", begins)
    found: list[int] = []
    session = FakeModel().session()
    search = session.search
    monkeypatch.setattr(session, "search", lambda *about: found.append(1) or search(*about))
    stream = Stream(session, decoding(All()))
    stream.push(np.full(samples, 0.1, dtype=np.float32), finished=True)
    assert len(found) == searches


def test_a_model_that_ignores_the_prefix_is_an_error() -> None:
    stream = Stream(ScriptedSession([[[0, 1]], [[0, 2]]], force=False), decoding(All()))
    stream.push(audio(1000))
    with pytest.raises(SimulstError, match="changed tokens"):
        stream.push(audio(1000))


@dataclass(frozen=True)
class Stuck(Read):
    """Always names its current position."""

    next: float

    label = "stuck"

    def open(self, context: Context) -> Reading:
        return Schedule(self, context, self.next, self.next)


@pytest.mark.parametrize("target", [0.0, -5.0, float("nan")])
def test_read_must_grow(target: float) -> None:
    stream = Stream(FakeModel().session(), decoding(All(), Stuck(target)))
    with pytest.raises(SimulstError, match="must return a later position"):
        stream.push(audio(100))


def test_positions_within_one_sample() -> None:
    """Then READ is asked at each sample, and the stream ends."""
    stream, sample = (Stream(FakeModel().session(), decoding(All(), Chunk(ms))) for ms in (1e-8, 1000 / RATE))
    for one in (stream, sample):
        one.push(audio(102), finished=True)
    assert text_of(stream) == text_of(sample) and stream.reads == sample.reads


class Busy(FakeSession):
    """Fails once, at its search after `ms`."""

    ms, error = 2000.0, ValueError("busy")

    def search(self, committed: Tokens, options: Any, stop: Stopping | None) -> Found:
        if self.ms and self.samples * 1000 / RATE >= self.ms:
            self.ms = 0.0
            raise self.error
        return super().search(committed, options, stop)


@settings(max_examples=30)
@given(st.lists(st.integers(100, 3000), min_size=1, max_size=6), st.sampled_from([500.0, 1700.0, 2000.0, 4100.0]))
def test_an_error_ends_the_stream_and_keeps_its_words(cuts: list[int], ms: float) -> None:
    """However the audio is cut, the words are those of the steps before the error, and nothing follows them."""
    whole = Stream(FakeModel().session(), decoding(All(), Chunk(500)))
    whole.push(audio(5000), finished=True)
    session = Busy(FakeModel(), opening())
    session.ms = ms
    stream, given_out = Stream(session, decoding(All(), Chunk(500))), list[str]()
    with pytest.raises(SimulstError, match=r"^ValueError: busy, .*test_stream\.py, line \d+\.$"):
        for cut in cuts:
            given_out += [word.text for word in stream.push(audio(cut))]
        stream.push(audio(5000), finished=True)
    due = [word.text for word in whole.emissions if word.delay_ms < ms]
    assert stream.failed and [word.text for word in stream.emissions] == due
    assert given_out == due[: len(given_out)]
    for finished in (False, True):
        with pytest.raises(SimulstError, match=r"has ended with an error \(ValueError: busy, .*; open a new one"):
            stream.push(audio(500), finished)
    assert [word.text for word in stream.emissions] == due


@pytest.mark.parametrize("error", [RuntimeError(), KeyError("x"), MemoryError(), RecursionError("deep")])
def test_errors_of_any_class_are_told_in_a_sentence(error: Exception) -> None:
    session = Busy(FakeModel(), opening())
    session.error = error  # type: ignore[assignment]
    with pytest.raises(SimulstError, match=f"^{type(error).__name__}.*, line") as raised:
        Stream(session, decoding(All())).push(audio(3000), finished=True)
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_ends_the_program_is_no_error(error: BaseException) -> None:
    session = Busy(FakeModel(), opening())
    session.error = error  # type: ignore[assignment]
    stream = Stream(session, decoding(All()))
    with pytest.raises(type(error)):
        stream.push(audio(3000), finished=True)
    with pytest.raises(SimulstError, match="was interrupted"):
        stream.push(audio(100))


@pytest.mark.parametrize("stable", [None, [1], (1.0,), ("a",), 5])
def test_commit_gives_tokens(stable: Any) -> None:
    @dataclass(frozen=True)
    class Strange(Commit):
        label = "strange"

        def stable(self, beams: Sequence[Beam]) -> Any:
            return stable

    with pytest.raises(SimulstError, match="must return a tuple of tokens"):
        Stream(FakeModel().session(), decoding(Strange())).push(audio(3000))


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (np.zeros((2, 5), np.float32), "mono"),
        (np.zeros(5, np.int16), "int16"),
        (np.float32(1), "shape"),
        (np.array([0, -32768.0]), r"a sample of 32768 was pushed; .* divide those of 16 bits by 32768\.$"),
    ],
)
def test_samples_of_the_wrong_kind(samples: np.ndarray, words: str) -> None:
    with pytest.raises(SimulstError, match=words):
        Stream(FakeModel().session(), decoding(All())).push(samples)


@pytest.mark.parametrize("finished", [False, True])
def test_no_audio_after_the_end(finished: bool) -> None:
    stream = Stream(FakeModel().session(), decoding(All()))
    stream.push(audio(10), finished=True)
    with pytest.raises(SimulstError, match="ended"):
        stream.push(audio(0), finished)


def test_the_caller_may_use_its_buffer_again() -> None:
    class Keeping(FakeSession):
        heard = np.zeros(0)

        def extend(self, samples: np.ndarray, final: bool = False) -> None:
            self.heard = np.concatenate([self.heard, samples])
            super().extend(samples, final)

    session = Keeping(FakeModel(), opening())
    stream = Stream(session, decoding(All()))
    buffer = np.zeros(100, dtype=np.float32)
    for i in range(4):
        buffer[:] = i
        stream.push(buffer, finished=i == 3)
    assert session.heard.tolist() == np.repeat(range(4), 100).tolist()


@pytest.mark.parametrize("commit", [All(), Hold(3), Hold(99), LocalAgreement(2), LocalAgreement(4), SharedPrefix(2)])
@pytest.mark.parametrize("read", [Chunk(1000), Chunk(700), Offline()])
def test_a_full_window_slides_and_loses_nothing(commit: Commit, read: Read) -> None:
    """15 s of speech in a window of 2 s. Words must be committed before their audio leaves the window."""
    model = FakeModel(unstable=0, window=10)
    session = model.session()
    stream = Stream(session, decoding(commit, read))
    stream.push(audio(15000), finished=True)
    assert session.offset > 60
    assert words(stream) == model.truth(15 * RATE).split()


def test_a_window_full_at_the_very_end_does_not_slide() -> None:
    session = FakeModel(window=10).session()
    Stream(session, decoding(All(), Offline())).push(audio(2000), finished=True)
    assert session.offset == 0


def test_elapsed_is_delay_and_computation_so_far(clock: SimpleNamespace) -> None:
    model = FakeModel(unstable=0, sleep=0.02)
    stream = Stream(model.session(), decoding(LocalAgreement(2)))
    started = clock.now
    stream.push(audio(4300), finished=True)
    computation = [round(e.elapsed_ms - e.delay_ms, 6) for e in stream.emissions]
    assert computation == sorted(computation)
    assert len(set(computation)) == len({e.delay_ms for e in stream.emissions}) > 1
    for emission in stream.emissions:
        steps = stream.reads.index(emission.delay_ms) + 1
        assert emission.elapsed_ms - emission.delay_ms == pytest.approx(20 * steps)
    assert computation[-1] == pytest.approx(stream.meter.seconds * 1000)
    assert stream.meter.seconds == pytest.approx(clock.now - started) and clock.now > started


def open_shared(model: FakeModel, how: Decoding, memo: Memo) -> Stream:
    return Stream(model.session(opening(Meter(memo))), how)


def test_streams_in_turn_do_not_charge_each_other(clock: SimpleNamespace) -> None:
    """A slow stream, a fast one, and one that shares the slow one's work. They take turns, a push at a time."""
    slow, fast, memo = FakeModel(sleep=0.03), FakeModel(), Memo()
    streams = [open_shared(slow, decoding(All()), memo), Stream(fast.session(), decoding(All()))]
    streams.append(open_shared(slow, decoding(All()), memo))
    for step in range(5):
        for stream in streams:
            stream.push(audio(1000), finished=step == 4)
    long, short, shared = (stream.meter.seconds for stream in streams)
    assert long == pytest.approx(shared) == pytest.approx(0.15) and short == 0
    assert [stream.emissions[-1].elapsed_ms for stream in streams] == pytest.approx([5150, 5000, 5150])


# wait-k, and wait k, stride s, write N


def test_wait_k_with_characters() -> None:
    """One character a step; a token of two characters; a character of two tokens."""
    vocabulary = ["你".encode(), "好吗".encode(), b"\xe4\xb8", b"\x96", b"a"]
    for n, units in ((1, (1, 2, 2, 3, 4, 5, 6)), (2, (1, 2, 2, 3, 3, 4, 4))):
        how = Decoding(WaitKAtTestTime(1), All(whole_words=True), MaxWords(n), BeamSearch(1))
        stream = Stream(ScriptedSession([[(0, 1, 2, 3, 0, 4, 4)]], vocabulary), how, "char")
        stream.push(audio(280 * units[-1]), finished=True)
        told = [(emission.delay_ms / 280, emission.text.strip()) for emission in stream.emissions]
        assert told == [*zip(units, "你好吗世你aa", strict=True)]


@pytest.mark.parametrize("unit", ["word", "char"])
@pytest.mark.parametrize("n", [1, 2])
@settings(max_examples=40)
@given(k=st.integers(1, 6), seed=st.integers(0, 99), unstable=st.integers(0, 3), ms=st.integers(0, 4000))
def test_no_more_than_n_words_a_step(unit: str, n: int, k: int, seed: int, unstable: int, ms: int) -> None:
    model = FakeModel(seed=seed, unstable=unstable)
    if unit == "char":
        model.tokens = (*CHARS[:4], "世界".encode())
    stream = Stream(
        model.session(), Decoding(WaitKAtTestTime(k), All(whole_words=True), MaxWords(n), BeamSearch(1)), unit
    )
    stream.push(audio(ms), finished=True)
    delays = [emission.delay_ms for emission in stream.emissions]
    glued = 2 if unit == "char" else 1  # the token with two characters
    assert all(delays.count(delay) <= max(n, glued) for delay in set(delays) - {ms})
    check_words(stream, model.text(stream.committed))


# READs that are finer than the encoder's blocks


class Blocks(FakeSession):
    """Writes a block at 1732.5 ms and one every 640 ms after it; the last three of its 4 b + 3 tokens are unstable."""

    def __init__(self) -> None:
        super().__init__(FakeModel(), opening())
        self.model.tokens = tuple(f" {i}".encode() for i in range(20_000))

    @property
    def key(self) -> Hashable:
        return self.samples

    @property
    def available(self) -> int:
        return max(0, math.floor((self.samples / 16 - 1732.5) / 640) + 1)

    def block_end(self, count: int) -> float:
        return math.ceil((1732.5 + (self.available + count - 1) * 640) * 16)

    def search(self, committed: Tokens, options: Any, stop: Stopping | None) -> Found:
        sure = 4 * self.available
        new = [i if i < sure else 1000 * self.available + i for i in range(len(committed), sure + 3 * (not self.final))]
        return Found([Hypothesis(committed + until(stop, tuple(new)))])


@pytest.mark.parametrize(
    "how",
    [
        *(Decoding(Chunk(ms), LocalAgreement(2)) for ms in (640, 320, 250, 40)),
        *(Decoding(Chunk(250), commit) for commit in (All(), Hold(3), LocalAgreement(3), SharedPrefix(2))),
        Decoding(WaitKAtTestTime(3), All(whole_words=True), MaxWords(1)),
        Decoding(WaitStride(100, 10), All(), MaxTokens(2)),
        Decoding(Chunk(100), LocalAgreement(2, whole_words=True), AnyOf((MaxWords(3), MaxTokens(2)))),
        Decoding(Hears(200, 1), All(last_word=True)),
    ],
    ids=lambda how: how.label,
)
def test_a_step_without_new_frames_is_no_step(how: Decoding) -> None:
    """What is committed, and with which block, is as with READ `block`; the words leave where READ is asked next."""
    fine, coarse = (Stream(Blocks(), Decoding(read, how.commit, how.stop)) for read in (how.read, Block()))
    for stream in (fine, coarse):
        stream.push(audio(8000))
    asked, position, reading = [], 0.0, how.read.open(context_of())
    while (position := reading.next_ms(position)) <= 8000:
        asked.append(position)
    at = {end: next((ms for ms in asked if ms >= end), math.inf) for end in coarse.reads}
    assert len(coarse.reads) == 10
    assert fine.reads == pytest.approx([ms for ms in at.values() if ms <= 8000], abs=0.1)
    told = [(e.text, at[e.delay_ms]) for e in coarse.emissions if at[e.delay_ms] <= 8000]
    assert [e.text for e in fine.emissions] == [text for text, _ in told]
    assert [e.delay_ms for e in fine.emissions] == pytest.approx([ms for _, ms in told], abs=0.1)
    assert len(fine.emissions) > 3
    if isinstance(how.commit, LocalAgreement | Hold | SharedPrefix):
        assert all(token < 1000 for token in fine.committed)


def test_nothing_new_at_the_end_is_still_a_step() -> None:
    stream = Stream(Blocks(), Decoding(Chunk(250), LocalAgreement(2)))
    stream.push(audio(2100), finished=True)
    assert stream.reads == [1750, 2100] and len(stream.committed) == 4


# A READ that hears the audio


def test_decoding_happens_where_the_listener_says() -> None:
    model = FakeModel(unstable=0)
    session = model.session()
    stream = Stream(session, Decoding(Hears(200, 3), All(), search=BeamSearch(1)))
    for _ in range(15):
        stream.push(audio(100))
    assert stream.reads == [600, 1200]
    assert session.length == 1400 * RATE // 1000  # heard by the model, but not decoded
    stream.push(audio(10), finished=True)
    assert stream.reads == [600, 1200, 1510]


def test_a_full_window_is_decoded_though_no_boundary_comes() -> None:
    """The window is 1.6 s, the pieces are 1 s: each piece arrives complete and at its position."""
    model = FakeModel(unstable=0, window=8)
    stream = Stream(model.session(), Decoding(Hears(1000, 99), All(), search=BeamSearch(1)))
    stream.push(audio(4000), finished=True)
    assert stream.reads == [1600, 2400, 3200, 4000]
    assert words(stream) == model.truth(4 * RATE).split()


@dataclass(frozen=True)
class StopsInSilence(Stop):
    """A STOP that hears the audio and writes nothing in silence."""

    needs = frozenset({Need.AUDIO})

    def open(self, context: Context) -> Stopping:
        return Silence(self, context)


class Silence(Stopping):
    loud, heard, finals = False, 0, 0

    def hear(self, samples: np.ndarray, final: bool) -> None:
        self.loud = bool(np.abs(samples).max(initial=0) > 0)
        self.heard += samples.size
        self.finals += final

    def ends(self, view: View) -> bool:
        return not self.loud


@pytest.mark.parametrize("alone", [True, False])
def test_a_stop_that_listens(alone: bool) -> None:
    """By itself or as part of AnyOf, it hears all of the audio, once, and ends searches."""
    stop = StopsInSilence() if alone else AnyOf((MaxTokens(99), StopsInSilence()))
    stream = Stream(FakeModel(unstable=0).session(), Decoding(Chunk(500), All(), stop))
    loud = np.ones(RATE // 2, np.float32)
    counts = []
    for samples in (loud, 0 * loud, 0 * loud, loud, 0 * loud):
        stream.push(samples)
        counts.append(len(stream.committed))
    assert counts == [2, 2, 2, 10, 10]
    stream.push(loud[:100], finished=True)
    listening = stream._stopping if alone else stream._stopping._parts[1]  # type: ignore[attr-defined]
    assert isinstance(listening, Silence)
    assert (listening.heard, listening.finals) == (5 * RATE // 2 + 100, 1)
    assert len(stream.committed) == 12


def test_two_stops_at_once() -> None:
    """At most two words and five tokens a step, whichever comes first."""
    #            the c at sat | on un believ able , café
    text = (0, 1, 2, 3, 5, 6, 7, 8, 9, 7, 8, 9, 10, 0)
    both = AnyOf((MaxWords(2), MaxTokens(5)))
    stream = Stream(ScriptedSession([[text]]), Decoding(Chunk(1000), All(whole_words=True), both, BeamSearch(1)))
    counts = []
    for _ in range(5):
        stream.push(audio(1000))
        counts.append(len(stream.committed))
    #   the cat | sat on | un... is not whole within five tokens
    assert counts == [3, 5, 5, 5, 5]
    with pytest.raises(SimulstError, match=r"stop: W2\+N5 counts whole words; write 'whole_words: true' under commit"):
        Decoding(Chunk(1000), All(), both)


def test_listening_takes_time(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hearing, "hear", lambda self, samples: clock.sleep(0.02))
    monkeypatch.setattr(Hearing, "ready", lambda self: False)
    stream = Stream(FakeModel(unstable=0).session(), Decoding(Hears(200, 1), All()))
    stream.push(audio(1100), finished=True)
    assert stream.reads == [1100]
    assert stream.meter.seconds == pytest.approx(0.1)
    assert stream.emissions[0].elapsed_ms == pytest.approx(1200)


@settings(max_examples=30)
@given(DECODINGS, MODELS, st.integers(0, 40))
def test_who_watches_sees_each_step_and_changes_nothing(decoding: Decoding, model: FakeModel, tenths: int) -> None:
    unit, steps = unit_of(model), list[Step]()
    streams = [Stream(model.session(), decoding, unit, watch=watch) for watch in (None, steps.append)]
    for stream in streams:
        stream.push(audio(100 * tenths), finished=True)
    unseen, seen = streams
    assert [(e.text, e.delay_ms) for e in seen.emissions] == [(e.text, e.delay_ms) for e in unseen.emissions]
    assert (seen.reads, seen.writes) == (unseen.reads, unseen.writes)
    assert [step.read_ms for step in steps[:-1]] == sorted(step.read_ms for step in steps[:-1])
    assert {step.read_ms for step in steps} == set(seen.reads)
    assert [step.before for step in steps] == ["", *(step.after for step in steps[:-1])]
    assert [step.final for step in steps] == [False] * (len(steps) - 1) + [True]
    for step in steps[:-1]:
        assert 1 <= len(step.beams) <= decoding.commit.window
        assert step.stopped is not None or not step.why
        stable, found = (text.rstrip(CUT) for text in (step.stable, step.beams[-1][0] if step.beams[-1] else ""))
        assert stable.startswith(found) or found.startswith(stable)


def test_why_a_step_ended_and_what_two_steps_agreed_on() -> None:
    steps = list[Step]()
    beams = [[[0, 1, 2, 3]], [[0, 1, 2, 6]], [[0, 1, 2, 6]]]
    stop, commit = MaxTokens(3), LocalAgreement(2)
    stream = Stream(ScriptedSession(beams), decoding(commit, stop=stop), watch=steps.append)
    stream.push(audio(2500), finished=True)
    first, second, last = steps
    assert (first.beams, first.stable, first.after) == ((("the cat",),), "", "")
    assert (first.stopped, first.why) == (True, "3 new tokens, most 3")
    assert (second.beams, second.stable, second.after) == ((("the cat",), ("the cat",)), "the cat", "the cat")
    assert (last.final, last.stopped, last.why, last.before) == (True, None, "", "the cat")
