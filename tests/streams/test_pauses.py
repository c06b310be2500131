"""Streams that are cut at pauses: against cutting the whole audio first, and by properties."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
from fake import RATE, FakeModel, FakeSession, Loudness, cut_at_pauses, pushed
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.audio.vad import CHUNK
from simulst.config import Decoding, parse_decoding
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.meter import Memo, Meter
from simulst.opening import Opening
from simulst.policy.commit import All, Commit, Hold, LocalAgreement
from simulst.policy.read import Block, Chunk, Offline, Read
from simulst.policy.segment import History, Pause
from simulst.runs.decode import decode_utterance
from simulst.session import Traits
from simulst.stream import Stream
from simulst.streams import open_stream
from simulst.streams.listening import BEFORE
from simulst.streams.pauses import LEAST_SPEECH, SegmentedStream

PAUSE = 0.2  # 7 chunks


@pytest.fixture(autouse=True)
def loudness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)


def segmented(fake: FakeModel, how: Decoding, pause: float, memo: Memo | None = None) -> SegmentedStream:
    stream = open_stream(fake, replace(how, segment=Pause(pause)), "es", "en", meter=Meter(memo))
    assert isinstance(stream, SegmentedStream)
    return stream


def audio(*parts: int) -> np.ndarray:
    """Silence and speech of so many samples, in turn. Each sample of speech is another."""
    random = np.random.default_rng(len(parts))
    pieces = [random.uniform(0.02, 1, n) if i % 2 else np.zeros(n) for i, n in enumerate(parts)]
    return np.concatenate(pieces).astype(np.float32)


def parts_of(samples: np.ndarray, pause: float) -> list[tuple[int, int, int]]:
    """Utterances in the whole audio: first sample, end, and the end of the chunk with which the end is known."""
    ends = [*range(CHUNK, samples.size, CHUNK), samples.size]
    loud = [bool(np.abs(samples[(end - 1) // CHUNK * CHUNK : end]).max() > 0.01) for end in ends]
    found: list[tuple[int, int, int]] = []
    at = 0
    while at < len(ends):
        onset = next((i for i in range(at, len(ends)) if all(loud[i : i + 5]) and i + 5 <= len(ends)), None)
        if onset is None or ends[onset + 4] - onset * CHUNK < LEAST_SPEECH:
            break
        last = onset + 4
        for i in range(onset + 5, len(ends)):
            if loud[i]:
                last = i
            elif ends[i] - ends[last] >= pause * RATE:
                break
        known = next((i for i in range(last, len(ends)) if ends[i] - ends[last] >= pause * RATE), len(ends) - 1)
        begin = max(onset * CHUNK - BEFORE, found[-1][1] if found else 0)
        found.append((begin, ends[last], ends[known]))
        at = known + 1
    return found


def words_of(samples: np.ndarray, model: FakeModel, how: Decoding, pause: float) -> list[tuple[str, float]]:
    """Text and delay of each word, from utterances decoded alone."""
    words = []
    for begin, end, known in parts_of(samples, pause):
        stream = Stream(model.session(), how)
        for word in stream.push(samples[begin:end]):
            # What was held back in a pause within the utterance leaves with the next chunk of speech.
            at = begin + round(word.delay_ms * RATE / 1000)
            chunks = [stop for stop in range(-(-at // CHUNK) * CHUNK, end + CHUNK, CHUNK)]
            loud = [s for s in chunks if np.abs(samples[s - CHUNK : s]).max(initial=0) > 0.01]
            words.append((word.text.strip(), min(loud[0], samples.size) * 1000 / RATE))
        words += [(word.text.strip(), known * 1000 / RATE) for word in stream.push(samples[:0], finished=True)]
    return words


def decode(stream: SegmentedStream, samples: np.ndarray, cuts: list[int]) -> list[tuple[str, float]]:
    return [(text.strip(), ms) for text, ms in pushed(stream, samples, sorted(cuts))]


@settings(max_examples=80)
@given(
    st.lists(st.integers(1, 9000), min_size=1, max_size=12),
    st.lists(st.integers(1, 60000), max_size=8),
    st.sampled_from([Chunk(300), Chunk(50, 700), Block(2), Offline()]),
    st.sampled_from([All(), Hold(2), LocalAgreement(2), Hold(1, whole_words=True)]),
    st.sampled_from([0.05, PAUSE, 0.5]),
)
def test_utterances_are_those_of_the_whole_audio(
    parts: list[int], cuts: list[int], read: Read, commit: Commit, pause: float
) -> None:
    """However it is pushed, with and without a memo; delays are when the loop could write."""
    samples, how, fake = audio(*parts), Decoding(read, commit), FakeModel(token_ms=100)
    memo = Memo()
    streams = [segmented(fake, how, pause), *(segmented(fake, how, pause, memo) for _ in range(2))]
    expected = words_of(samples, fake, how, pause)
    for stream, pushes in zip(streams, ([], cuts, [1, *cuts]), strict=True):
        assert decode(stream, samples, pushes) == expected
        assert stream.segments == [(begin / 16, end / 16) for begin, end, _ in parts_of(samples, pause)]
        assert stream.reads == sorted(set(stream.reads))
        assert {e.delay_ms for e in stream.emissions} <= set(stream.reads)
        assert all(e.elapsed_ms > e.delay_ms for e in stream.emissions)
        elapsed = [e.elapsed_ms for e in stream.emissions]
        assert elapsed == sorted(elapsed)
    assert streams[0].reads == streams[1].reads == streams[2].reads


@pytest.mark.parametrize("seconds", [0, 0.001, 3, 40])
def test_silence_has_no_words(seconds: float) -> None:
    for samples in (np.zeros(round(seconds * RATE), np.float32), audio(8000, 4 * CHUNK - 400, 8000, 400, 9000)):
        stream = segmented(FakeModel(), Decoding(Chunk(100), All()), PAUSE)
        assert decode(stream, samples, [1000, 20000]) == []
        assert stream.reads == [] and stream.segments == []


def held(stream: SegmentedStream) -> int:
    """Samples that wait for a step, in the stream and in its utterance."""
    return stream._audio.size + (0 if stream._part is None else stream._part._pending.size)


def test_computation_is_counted_once_and_charged_to_all(clock: SimpleNamespace) -> None:
    samples = audio(3000, 20000, 9000, 20000, 9000)
    how, memo = Decoding(Chunk(300), All()), Memo()
    streams = [segmented(FakeModel(sleep=0.01), how, PAUSE, memo) for _ in range(2)]
    started = clock.now
    decode(streams[0], samples, [])
    spent = clock.now - started
    decode(streams[1], samples, [])
    assert clock.now == started + spent
    searches = len(streams[0].reads)
    assert [stream.meter.seconds for stream in streams] == pytest.approx([searches * 0.01] * 2)
    assert spent == pytest.approx(searches * 0.01)
    last = streams[0].emissions[-1]
    assert last.elapsed_ms - last.delay_ms == pytest.approx(1000 * spent)


def test_who_pauses(tmp_path: Path) -> None:
    """As the configuration says, in runs too; what was found is in the log."""
    how, fake = Decoding(Chunk(300), All()), FakeModel()
    assert isinstance(open_stream(fake, how, "es", "en"), Stream)
    pausing = replace(how, segment=Pause(PAUSE))
    assert isinstance(open_stream(fake, pausing, "es", "en"), SegmentedStream)
    assert (pausing.label, pausing.strategy) == ("all_pause0.2_300ms", "all_pause0.2")
    samples = audio(3000, 20000, 9000, 20000, 9000)
    soundfile.write(tmp_path / "talk.wav", samples, RATE, subtype="FLOAT")
    utterance = Utterance("talk", tmp_path / "talk.wav", "reference")
    made = decode_utterance(fake, ("es", "en"), utterance, 0, [pausing])
    assert list(zip(made[0].prediction.split(), made[0].delays, strict=True)) == words_of(samples, fake, how, PAUSE)
    assert made[0].segments == [[begin / 16, end / 16] for begin, end, _ in parts_of(samples, PAUSE)]
    assert len(made[0].segments) == 2


@pytest.mark.parametrize("longest", [62, 63])  # chunks; the first utterance has 63
def test_nobody_pauses(longest: int) -> None:
    """After `longest` seconds, one chunk without speech ends an utterance; before, it does not."""
    samples = audio(0, *[20 * CHUNK, CHUNK] * 9, 20 * CHUNK)
    how = replace(Decoding(Chunk(300), All()), segment=Pause(PAUSE, longest=longest * CHUNK / RATE))
    stream = open_stream(FakeModel(), how, "es", "en")
    stream.push(samples, finished=True)
    size = 63 * CHUNK / 16  # three times speech and a chunk of silence
    assert [end for _, end in stream.segments] == [size * n - CHUNK / 16 for n in (1, 2, 3)] + [samples.size / 16]
    whole = segmented(FakeModel(), Decoding(Chunk(300), All()), PAUSE)
    whole.push(samples, finished=True)
    assert len(whole.segments) == 1


def test_speech_without_a_break(monkeypatch: pytest.MonkeyPatch) -> None:
    """A detector that hears speech in everything: utterances end after 2 x `longest`; each sample is in one of them."""
    heard: list[np.ndarray] = []

    def listen(session: FakeSession, new: np.ndarray, final: bool = False) -> None:
        heard.append(new)
        extend(session, new, final)
        assert session.samples <= 2 * 40 * CHUNK

    extend = FakeSession.extend
    monkeypatch.setattr(FakeSession, "extend", listen)
    samples = np.random.default_rng(0).uniform(0.02, 1, 230 * CHUNK + 77).astype(np.float32)
    how = replace(Decoding(Chunk(300), All()), segment=Pause(PAUSE, longest=40 * CHUNK / RATE))
    stream = open_stream(FakeModel(unstable=0), how, "es", "en")
    assert isinstance(stream, SegmentedStream)
    for piece in np.array_split(samples, 50):
        stream.push(piece)
        assert held(stream) <= LEAST_SPEECH + CHUNK + 0.3 * RATE
    stream.push(samples[:0], finished=True)
    np.testing.assert_array_equal(np.concatenate(heard), samples)
    assert stream.segments == [(0, 2560), (2560, 5120), (5120, pytest.approx(samples.size / 16))]
    cuts = np.split(samples, [80 * CHUNK, 160 * CHUNK])
    texts = [FakeModel(unstable=0).truth(cut.size).strip() for cut in cuts]
    assert "".join(e.text for e in stream.emissions).strip() == " ".join(texts)


@settings(max_examples=20)
@given(st.integers(0, 9), st.sampled_from([0.3, 2.0, 60.0]), st.sampled_from([("word", " the cat"), ("char", "你好")]))
def test_history(words: int, seconds: float, written: tuple[str, str]) -> None:
    """What an utterance's model is shown: the last words, none of them too old."""
    unit, text = written
    shown: list[tuple[int, str]] = []

    class Session(FakeSession):
        def text(self, tokens: tuple[int, ...]) -> str:
            return text * len(tokens)

    segment = Pause(PAUSE, history=History(words, seconds))
    how = replace(Decoding(Chunk(300), All()), segment=segment)

    def session(meter: Meter, history: str) -> Session:
        if meter is not stream_meter:  # the first one is only opened to see whether it can be
            shown.append((len(stream.emissions), history))
        return Session(FakeModel(), Opening("es", "en", meter, history=history))

    stream_meter = Meter()
    stream = cut_at_pauses(session, how, unit, stream_meter)
    samples = audio(*[6000, 9000] * 6, 9000)
    stream.push(samples, finished=True)
    assert len(shown) == len(stream.segments) == 6
    for (count, said), (begin, _) in zip(shown, stream.segments, strict=True):
        now = begin + BEFORE / 16 + LEAST_SPEECH / 16
        fresh = [e.text for e in stream.emissions[:count] if e.delay_ms >= now - 1000 * seconds]
        pieces = "".join(fresh).split() if unit == "word" else list("".join(fresh))
        assert said == (" " if unit == "word" else "").join(pieces[max(0, len(pieces) - words) :])
    if words and seconds > 1:
        assert all(said for _, said in shown[1:])


def test_what_cannot_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    how = Decoding(Chunk(100), All())
    raw = {"read": {"type": "chunk", "ms": 100}, "commit": {"type": "all"}}
    for history, words in (({"words": -1}, "'words': Input should be"), ({"word": 1}, "has no option 'word'")):
        with pytest.raises(SimulstError, match=f"'segment', option 'history'.*{words}"):
            segment = {"type": "pause", "seconds": 0.5, "history": history}
            parse_decoding({**raw, "segment": segment}, "here")
    made = parse_decoding({**raw, "segment": {"type": "pause", "seconds": 0.5, "history": {"words": 9}}}, "here")
    assert made.segment == Pause(0.5, history=History(9)) and made.label == "all_pause0.5-history9-30s_100ms"
    slow = FakeModel()
    monkeypatch.setattr(FakeSession, "traits", Traits(FakeSession.traits.gives, sample_rate=8000))
    with pytest.raises(SimulstError, match="the model 8000 Hz"):
        segmented(slow, how, PAUSE)


@pytest.mark.parametrize("fails", range(1, 9))
@pytest.mark.parametrize("piece", [1600, 100_000])
def test_an_error_ends_the_stream_and_keeps_its_words(monkeypatch: pytest.MonkeyPatch, fails: int, piece: int) -> None:
    """At any search, also where one push has several steps and utterances: the words before it are kept."""
    samples, how = audio(4000, 40_000, 16_000, 40_000, 8000), Decoding(Chunk(500), All())
    searches: list[int] = []

    def work(self: FakeModel, name: str) -> None:
        searches.append(len(stream.emissions))
        if len(searches) == fails:
            raise RuntimeError("busy")

    stream = segmented(FakeModel(), how, PAUSE)
    whole = segmented(FakeModel(), how, PAUSE)
    for start in range(0, samples.size, 512):
        whole.push(samples[start : start + 512])
    monkeypatch.setattr(FakeModel, "work", work)
    with pytest.raises(SimulstError, match="RuntimeError: busy"):
        for start in range(0, samples.size, piece):
            stream.push(samples[start : start + piece])
    kept = [word.text for word in stream.emissions]
    assert stream.failed and kept == [word.text for word in whole.emissions][: len(kept)]
    assert len(kept) >= searches[-1] and (fails == 1) == (not kept)
    with pytest.raises(SimulstError, match="has ended with an error"):
        stream.push(samples[:0], finished=True)
