import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fake import CHARS, RATE, WORDS, FakeModel, FakeSession, ScriptedSession
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.policy.commit import All, Commit, Hold, LocalAgreement, SharedPrefix
from simulst.policy.read import Block, Chunk, Offline, Read
from simulst.policy.stop import EndOfSentence, MaxTokens, Stop
from simulst.search import Beam, BeamSearch, Tokens
from simulst.stream import Stream

COMMITS = st.one_of(
    st.builds(All, st.booleans()),
    st.builds(Hold, st.integers(1, 6), st.booleans()),
    st.builds(LocalAgreement, st.integers(1, 4), st.booleans()),
    st.builds(SharedPrefix, st.integers(1, 3), st.booleans()),
)
STOPS = st.one_of(st.just(EndOfSentence()), st.builds(MaxTokens, st.integers(1, 4)))
READS = st.one_of(
    st.just(Offline()),
    st.builds(Block, st.integers(1, 3)),
    st.builds(Chunk, st.sampled_from([90, 200, 333.3, 500, 1000]), st.sampled_from([0, 450, 2000])),
)
SEARCHES = st.builds(BeamSearch, st.integers(1, 4))
DECODINGS = st.builds(Decoding, READS, COMMITS, STOPS, SEARCHES)
MODELS = st.builds(
    lambda **options: FakeModel("es", "en", **options),
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
    return [emission.text for emission in stream.emissions]


def check_words(stream: Stream, text: str) -> None:
    """All of the text has left, in words; with whole_words, what is glued to a written word leaves on its own."""
    if stream.unit == "char":
        assert words(stream) == list(text.replace(" ", ""))
    elif stream.decoding.commit.whole_words:
        assert "".join(words(stream)) == "".join(text.split())
    else:
        assert words(stream) == text.split()


def unit_of(model: FakeModel) -> str:
    return "char" if model.tokens is CHARS else "word"


TOKENS = st.lists(st.integers(0, 11), max_size=6)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(TOKENS, max_size=3), min_size=1, max_size=6), COMMITS, st.booleans())
def test_nothing_committed_or_written_is_taken_back(beams: list[list[list[int]]], commit: Commit, chars: bool) -> None:
    stream = scripted(beams, commit, CHARS if chars else WORDS, "char" if chars else "word")
    for step in range(len(beams) + 1):
        tokens, written = stream.committed, words(stream)
        new = stream.push(audio(1000), finished=step == len(beams))
        assert stream.committed[: len(tokens)] == tokens
        assert words(stream) == written + [emission.text for emission in new]
    check_words(stream, stream.session.text(stream.committed))


@settings(max_examples=150, deadline=None)
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
    """After a step at the very end, another one follows there; reads does not count it twice."""
    model = FakeModel("es", "en", unstable=0)
    whole, late = (Stream(model.session(), decoding(LocalAgreement())) for _ in range(2))
    whole.push(audio(2000), finished=True)
    late.push(audio(2000))
    late.push(audio(0), finished=True)
    assert late.reads == whole.reads == [1000, 2000]
    assert [(e.text, e.delay_ms) for e in late.emissions] == [(e.text, e.delay_ms) for e in whole.emissions]


def test_the_session_is_told_the_end() -> None:
    stream = Stream(FakeModel("es", "en").session(), decoding(All()))
    stream.push(audio(2500))
    assert not stream.session.final
    stream.push(audio(700), finished=True)
    assert stream.session.final


@settings(max_examples=100, deadline=None)
@given(MODELS, DECODINGS, st.integers(1, 4000))
def test_written_is_what_was_committed(model: FakeModel, how: Decoding, ms: int) -> None:
    stream = Stream(model.session(), how, unit_of(model))
    stream.push(audio(ms), finished=True)
    check_words(stream, model.text(stream.committed))
    assert len(stream.committed) == ms // 200 or how.stop.max_new_tokens  # the last step goes on to the end
    delays = [emission.delay_ms for emission in stream.emissions]
    assert delays == sorted(delays) and set(delays) <= set(stream.reads)


def test_only_whole_words_leave() -> None:
    #          un believ | un believ able | un believ able , the | ... end
    stream = scripted([[[6, 7]], [[6, 7, 8]], [[6, 7, 8, 9, 0]], [[6, 7, 8, 9, 0]]], All())
    said = [[e.text for e in stream.push(audio(1000), finished=step == 3)] for step in range(4)]
    assert said == [[], [], ["unbelievable,"], ["the"]]
    assert [e.delay_ms for e in stream.emissions] == [3000, 4000]


def test_whole_words_are_committed_with_the_beginning_of_the_next() -> None:
    #          un believ | unbeliev able | unbelievable , | unbelievable , the | ... cat
    beams = [[[6, 7]], [[6, 7, 8]], [[6, 7, 8, 9]], [[6, 7, 8, 9, 0]], [[6, 7, 8, 9, 0, 1, 2]]]
    stream = scripted(beams, All(whole_words=True))
    said, committed = [], []
    for step in range(5):
        said.append([e.text for e in stream.push(audio(1000), finished=step == 4)])
        committed.append(stream.committed)
    assert said == [[], [], [], ["unbelievable,"], ["the", "cat"]]
    assert committed == [(), (), (), (6, 7, 8, 9), (6, 7, 8, 9, 0, 1, 2)]


@settings(max_examples=100, deadline=None)
@given(MODELS, COMMITS, st.integers(1, 4000))
def test_with_whole_words_committed_is_written(model: FakeModel, commit: Commit, ms: int) -> None:
    stream = Stream(model.session(), Decoding(Chunk(200), replace(commit, whole_words=True)), "word")
    for _ in range(ms // 100):
        stream.push(audio(100))
        # A piece that is glued to a written word later leaves as a word of its own.
        assert "".join(words(stream)) == model.text(stream.committed).replace(" ", "") or unit_of(model) == "char"


def test_a_space_ends_a_word() -> None:
    stream = scripted([[[0]], [[0, 1]]], All(), [b"the ", b"cat"])
    assert [e.text for e in stream.push(audio(1000))] == ["the"]
    assert [e.text for e in stream.push(audio(1000), finished=True)] == ["cat"]


def test_only_whole_characters_leave() -> None:
    beams = [[[0, 1]], [[0, 1, 2]], [[0, 1, 2, 3]], [[0, 1, 2, 3]]]
    stream = scripted(beams, All(), ["你".encode(), b"\xf0\x9f", b"\x98", b"\x80a"], "char")
    said = [[e.text for e in stream.push(audio(1000), finished=step == 3)] for step in range(4)]
    assert said == [["你"], [], ["😀", "a"], []]


def test_words_are_not_characters_when_cut_in_two() -> None:
    stream = scripted([[[0]], [[0, 1]], [[0, 1, 2]], [[0, 1, 2]]], All(), [b" caf\xc3", b"\xa9", b" ole"])
    said = [[e.text for e in stream.push(audio(1000), finished=step == 3)] for step in range(4)]
    assert said == [[], [], ["café"], ["ole"]]


def test_early_end_of_sentence_does_not_finish() -> None:
    stream = scripted([[[]], [], [[0, 1, 2]], [[0, 1, 2, 3]], [[0, 1, 2, 3, 5]]], LocalAgreement(2))
    stream.push(audio(4500), finished=True)
    assert words(stream) == ["the", "cat", "sat", "on"]
    assert stream.reads == [1000, 2000, 3000, 4000, 4500]
    assert [e.delay_ms for e in stream.emissions] == [4000, 4500, 4500, 4500]


def test_no_hypothesis_at_the_end_keeps_what_was_committed() -> None:
    stream = scripted([[[0, 1, 2]], []], All())
    stream.push(audio(2000), finished=True)
    assert words(stream) == ["the", "cat"]


def test_stop_is_passed_on_and_lifted_at_the_end() -> None:
    session = FakeModel("es", "en", unstable=0).session()
    stream = Stream(session, decoding(All(), stop=MaxTokens(2)))
    stream.push(audio(3400), finished=True)
    assert [(ms, len(committed), bound) for ms, committed, bound in session.searches] == [
        (1000, 0, 2),
        (2000, 2, 2),
        (3000, 4, 2),
        (3400, 6, None),
    ]
    assert len(stream.committed) == 17


def test_initial_wait() -> None:
    stream = Stream(FakeModel("es", "en").session(), decoding(All(), Chunk(500, 2000)))
    assert stream.push(audio(1999)) == []
    assert stream.reads == []
    stream.push(audio(1501), finished=True)
    assert stream.reads == [2000, 2500, 3000, 3500]


def test_no_step_comes_before_its_position() -> None:
    stream = Stream(FakeModel("es", "en").session(), decoding(All(), Chunk(333.3)))
    stream.push(audio(1000), finished=True)
    assert stream.reads == [333.3125, 666.625, 999.9375, 1000]


def test_offline_decodes_once() -> None:
    stream = Stream(FakeModel("es", "en").session(), decoding(All(), Offline()))
    for _ in range(30):
        assert stream.push(audio(100)) == []
    stream.push(audio(0), finished=True)
    assert stream.reads == [3000]


def test_audio_shorter_than_a_chunk() -> None:
    model = FakeModel("es", "en", unstable=0)
    stream = Stream(model.session(), decoding(LocalAgreement(2)))
    stream.push(audio(700), finished=True)
    assert stream.reads == [700]
    assert words(stream) == model.truth(11200).split()


@pytest.mark.parametrize("commit", [All(), Hold(3), LocalAgreement(2), SharedPrefix(1)])
def test_no_audio_at_all(commit: Commit) -> None:
    stream = Stream(FakeModel("es", "en").session(), decoding(commit))
    assert stream.push(audio(0), finished=True) == []
    assert (stream.reads, stream.emissions) == ([0], [])


@dataclass(frozen=True)
class Fickle:
    """Takes something back at the second step."""

    label: str = "fickle"
    window: int = 2

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        return (0, 1) if len(beams) == 1 else (0, 2)


def test_a_commit_that_takes_back_is_an_error() -> None:
    stream = scripted([[[0, 1]]], Fickle())
    stream.push(audio(1000))
    with pytest.raises(SimulstError, match=r"commit: Fickle.*took back"):
        stream.push(audio(1000))


def test_a_model_that_ignores_the_prefix_is_an_error() -> None:
    stream = Stream(ScriptedSession([[[0, 1]], [[0, 2]]], force=False), decoding(All()))
    stream.push(audio(1000))
    with pytest.raises(SimulstError, match="took back"):
        stream.push(audio(1000))


@dataclass(frozen=True)
class Stuck:
    """Asks for what it has."""

    next: float
    label: str = "stuck"

    def next_ms(self, decoded_ms: float) -> float:
        return self.next


@pytest.mark.parametrize("target", [0.0, -5.0, float("nan")])
def test_read_must_grow(target: float) -> None:
    stream = Stream(FakeModel("es", "en").session(), decoding(All(), Stuck(target)))
    with pytest.raises(SimulstError, match="it must grow"):
        stream.push(audio(100))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_samples_that_are_not_finite(bad: float) -> None:
    stream = Stream(FakeModel("es", "en").session(), decoding(All()))
    with pytest.raises(SimulstError, match="NaN or infinite"):
        stream.push(np.array([0.0, bad], dtype=np.float32))


@pytest.mark.parametrize(
    ("samples", "words"),
    [(np.zeros((2, 5), np.float32), "mono"), (np.zeros(5, np.int16), "int16"), (np.float32(1), "shape")],
)
def test_samples_of_the_wrong_kind(samples: np.ndarray, words: str) -> None:
    with pytest.raises(SimulstError, match=words):
        Stream(FakeModel("es", "en").session(), decoding(All())).push(samples)


@pytest.mark.parametrize("finished", [False, True])
def test_no_audio_after_the_end(finished: bool) -> None:
    stream = Stream(FakeModel("es", "en").session(), decoding(All()))
    stream.push(audio(10), finished=True)
    with pytest.raises(SimulstError, match="ended"):
        stream.push(audio(0), finished)


def test_the_caller_may_use_its_buffer_again() -> None:
    class Keeping(FakeSession):
        heard = np.zeros(0)

        def extend(self, samples: np.ndarray, final: bool = False) -> None:
            self.heard = np.concatenate([self.heard, samples])
            super().extend(samples, final)

    session = Keeping(FakeModel("es", "en"), FakeModel("es", "en").session().memo)
    stream = Stream(session, decoding(All()))
    buffer = np.zeros(100, dtype=np.float32)
    for i in range(4):
        buffer[:] = i
        stream.push(buffer, finished=i == 3)
    assert session.heard.tolist() == np.repeat(range(4), 100).tolist()


@pytest.mark.parametrize("commit", [All(), Hold(3), Hold(99), LocalAgreement(2), LocalAgreement(4), SharedPrefix(2)])
@pytest.mark.parametrize("read", [Chunk(1000), Chunk(700), Offline()])
def test_a_full_window_slides_and_loses_nothing(commit: Commit, read: Read) -> None:
    """15 s of speech through a window of 2 s, whose words must be committed before they leave it."""
    model = FakeModel("es", "en", unstable=0, window=10)
    session = model.session()
    stream = Stream(session, decoding(commit, read))
    stream.push(audio(15000), finished=True)
    assert session.offset > 60
    assert words(stream) == model.truth(15 * RATE).split()


def test_losing_is_possible_in_that_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeSession, "spoken", lambda self, tokens: ())
    model = FakeModel("es", "en", unstable=0, window=10)
    stream = Stream(model.session(), decoding(Hold(99)))
    stream.push(audio(15000), finished=True)
    assert words(stream) != model.truth(15 * RATE).split()


def test_a_window_full_at_the_very_end_does_not_slide() -> None:
    session = FakeModel("es", "en", window=10).session()
    Stream(session, decoding(All(), Offline())).push(audio(2000), finished=True)
    assert session.offset == 0


def test_elapsed_is_delay_and_computation_so_far() -> None:
    model = FakeModel("es", "en", unstable=0, sleep=0.02)
    stream = Stream(model.session(), decoding(LocalAgreement(2)))
    started = time.perf_counter()
    stream.push(audio(4300), finished=True)
    spent = time.perf_counter() - started
    computation = [round(e.elapsed_ms - e.delay_ms, 6) for e in stream.emissions]
    assert computation == sorted(computation)
    assert len(set(computation)) == len({e.delay_ms for e in stream.emissions}) > 1
    for emission in stream.emissions:
        steps = stream.reads.index(emission.delay_ms) + 1
        assert emission.elapsed_ms - emission.delay_ms >= 20 * steps
    assert computation[-1] == pytest.approx(stream.compute_seconds * 1000)
    assert 0.1 <= stream.compute_seconds <= spent


def test_shared_work_is_charged_to_all() -> None:
    model = FakeModel("es", "en", sleep=0.02)
    how = decoding(LocalAgreement(2))
    memo = model.session().memo
    first, second = Stream(model.session(memo), how), Stream(model.session(memo), how)
    first.push(audio(3500), finished=True)
    started = time.perf_counter()
    second.push(audio(3500), finished=True)
    assert time.perf_counter() - started < 0.06
    assert words(first) == words(second)
    assert second.compute_seconds == pytest.approx(first.compute_seconds, rel=0.5)
    assert second.compute_seconds >= 0.08
