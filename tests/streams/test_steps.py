"""Streams in steps: taken in any order, with a clock that stands still, and what they say of their text."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake import CHARS, RATE, FakeModel, FakeSession, Loudness, cut_at_pauses, opening
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.audio.vad import CHUNK
from simulst.calls import Alone, Batched, Steps, ask, run_alone
from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.hypotheses import Found, Tokens
from simulst.meter import Memo, Meter
from simulst.needs import Need
from simulst.policy.commit import All, Commit, Hold, LocalAgreement
from simulst.policy.read import Chunk
from simulst.policy.segment import Pause
from simulst.policy.stop import EndOfSentence, MaxTokens, Stopping
from simulst.search import BeamSearch
from simulst.session import Session, find, share_search
from simulst.stream import Emission, Stream
from simulst.streams import OpenStream

ENCODE, SEARCH, EXTEND = 5.0, 3.0, 1.0  # seconds of the calls below


@dataclass(frozen=True)
class Work:
    """A call that takes `seconds` on the clock of the test. The answer is `value`."""

    seconds: float
    value: Any
    clock: Any

    def answer(self) -> Any:
        self.clock.now += self.seconds
        return self.value


class SteppedSession(FakeSession):
    """Asks for each new piece of audio, for its encoding, and for each token of its hypotheses."""

    clock = SimpleNamespace(now=0.0)

    def extend(self, samples: np.ndarray, final: bool = False) -> Steps[None]:  # type: ignore[override]
        super().extend((yield Work(EXTEND, samples, self.clock)), final)

    def search(  # type: ignore[override]
        self, committed: Tokens, options: Any, stop: Stopping | None
    ) -> Steps[Found]:
        seen = self.samples, self.offset
        yield from self.meter.shared_steps(("encode", seen), lambda: ask(Work(ENCODE, None, self.clock)))
        return (yield from share_search(self.meter, seen, self._stepped, committed, options, stop))

    @property
    def key(self) -> Hashable:
        return None  # `search` shares its parts

    def _stepped(self, committed: Tokens, options: Any, stop: Stopping | None) -> Steps[Found]:
        self.clock.now += SEARCH
        found = self._search(committed, options.beam, stop)
        beam = []
        for hypothesis in found.beam:
            tokens = list(committed)
            for token in hypothesis.tokens[len(committed) :]:
                tokens.append((yield Work(0.0, token, self.clock)))
            beam.append(replace(hypothesis, tokens=tuple(tokens)))
        return Found(beam)


def talk(seed: int, seconds: float = 6.0) -> np.ndarray:
    """Loud speech with pauses."""
    chance = random.Random(seed)
    pieces: list[np.ndarray] = []
    while sum(map(len, pieces)) < seconds * RATE:
        pieces.append(np.full(chance.randint(8, 60) * CHUNK, 0.5 * (len(pieces) % 2), np.float32))
    return np.concatenate(pieces)


def opened(seed: int, cut: bool, memo: Memo | None, how: Decoding, model: FakeModel) -> OpenStream:
    def session(part: Meter, history: str = "") -> Session:
        return SteppedSession(model, opening(part)) if seed % 3 else FakeSession(model, opening(part))

    if cut:
        return cut_at_pauses(session, replace(how, segment=Pause(0.3)), "word", Meter(memo))
    return Stream(session(Meter(memo)), how, "word")


def pieces(audio: np.ndarray, seed: int) -> list[tuple[np.ndarray, bool]]:
    chance = random.Random(seed)
    edges = sorted({0, audio.size, *(chance.randrange(audio.size) for _ in range(6))})
    return [(audio[a:b], b == audio.size) for a, b in pairwise(edges)]


def result(stream: OpenStream) -> tuple[list[tuple[str, float]], list[float], list[tuple[float, float]]]:
    return [(e.text, e.delay_ms) for e in stream.emissions], list(stream.reads), list(stream.segments)


@settings(max_examples=20)
@given(
    seeds=st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
    share=st.booleans(),
    ms=st.sampled_from([300, 1000]),
    commit=st.sampled_from([All(), Hold(2), LocalAgreement(2)]),
)
def test_in_any_order_as_alone(
    seeds: list[tuple[int, bool]], order: random.Random, share: bool, ms: float, commit: Commit
) -> None:
    """Streams that are taken a step at a time, in any order, write what each of them writes alone."""
    memo, models = Memo(), {seed: FakeModel(seed=seed) for seed, _ in seeds}
    how = Decoding(Chunk(ms), commit, MaxTokens(4), BeamSearch(2))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("simulst.streams.pauses.start_of_stream", Loudness)
        expected, streams, waiting = [], [], []
        for seed, cut in seeds:
            alone = opened(seed, cut, None, how, models[seed])
            for samples, final in pieces(talk(seed), seed):
                alone.push(samples, final)
            expected.append(result(alone))
            # Streams share a memo only if they are of the same utterance.
            stream = opened(seed, cut, memo if share and len(models) == 1 else None, how, models[seed])
            streams.append(stream)
            waiting.append(iter(pieces(talk(seed), seed + 5)))
        going: dict[int, tuple[Any, Any]] = {}
        new: list[list[Emission]] = [[] for _ in streams]
        left = set(range(len(streams)))
        while left:
            number = order.choice(sorted(left))
            if number not in going:
                piece = next(waiting[number], None)
                if piece is None:
                    left.discard(number)
                    continue
                going[number] = streams[number].push_steps(*piece), None
            steps, answer = going.pop(number)
            try:
                call = steps.send(answer)
            except StopIteration as end:
                new[number] += end.value
            else:
                going[number] = steps, call.answer()
    assert [result(stream) for stream in streams] == expected
    assert new == [stream.emissions for stream in streams]


def drive(stream: OpenStream, samples: np.ndarray, clock: Any, wait: float, charge: float) -> None:
    """A driver that lets the stream wait at each call, and charges it for the answer."""
    steps, answer = stream.push_steps(samples, True), None
    while True:
        try:
            call: Any = steps.send(answer)
        except StopIteration:
            return
        clock.now += wait
        if isinstance(call, Alone | Batched):
            answer = call.answer()
        else:
            answer = call.value
            stream.meter.charge(charge * (call.seconds > 0))


@pytest.mark.parametrize("cut", [False, True])
def test_the_clock_stands_still_at_a_call(cut: bool, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a stream waits: it pays for its own steps, and for what it is charged."""
    monkeypatch.setattr(SteppedSession, "clock", clock)
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    how, model, audio = Decoding(Chunk(1000), All(), EndOfSentence(), BeamSearch(2)), FakeModel(), talk(1)
    alone, waits, free = (opened(1, cut, None, how, model) for _ in range(3))
    alone.push(audio, True)
    drive(waits, audio, clock, 1000.0, 2.0)
    drive(free, audio, clock, 1000.0, 0.0)
    steps = len(alone.reads)
    assert free.meter.seconds == pytest.approx(steps * SEARCH)
    extended = (alone.meter.seconds - steps * (SEARCH + ENCODE)) / EXTEND
    assert extended == round(extended) >= steps
    assert waits.meter.seconds == pytest.approx(steps * SEARCH + 2.0 * (steps + extended))
    for stream in (alone, waits, free):
        computed = [e.elapsed_ms - e.delay_ms for e in stream.emissions]
        assert computed == sorted(computed) and computed[-1] <= stream.meter.seconds * 1000 + 1e-6
    assert result(alone) == result(waits) == result(free)


@settings(max_examples=60)
@given(
    model=st.builds(FakeModel, seed=st.integers(0, 30), unstable=st.integers(0, 4), window=st.sampled_from([0, 8])),
    hows=st.lists(
        st.builds(
            Decoding,
            st.builds(Chunk, st.sampled_from([200, 400, 600])),
            st.sampled_from([All(), Hold(3), LocalAgreement(2)]),
            st.sampled_from([EndOfSentence(), MaxTokens(2)]),
            st.builds(BeamSearch, st.integers(1, 3)),
        ),
        min_size=2,
        max_size=5,
    ),
    ms=st.integers(100, 4000),
)
def test_a_sweep_finds_what_each_finds_alone(model: FakeModel, hows: list[Decoding], ms: int) -> None:
    """The session's key names what is in the window, and nothing else."""
    memo, audio = Memo(), np.zeros(ms * 16, np.float32)
    for how in hows:
        shared, alone = (
            Stream(FakeSession(model, opening(Meter(memo))), how),
            Stream(FakeSession(model, opening()), how),
        )
        shared.push(audio, finished=True)
        alone.push(audio, finished=True)
        assert result(shared) == result(alone) and shared.committed == alone.committed


def searches(*about: Any, key: Hashable = 1, stop: Stopping | None = None) -> int:
    """How many searches two equal sessions make of one memo."""
    made: list[int] = []

    class Counting(FakeSession):
        @property
        def key(self) -> Hashable:
            return key

        def search(self, *arguments: Any) -> Found:
            made.append(1)
            return Found([])

    memo = Memo()
    for committed, options in about:
        run_alone(find(Counting(FakeModel(), opening(Meter(memo))), committed, options, stop))
    return len(made)


def test_what_is_shared() -> None:
    one = ((), BeamSearch(1))
    assert searches(one, one) == 1
    assert searches(one, ((3,), BeamSearch(1))) == searches(one, ((), BeamSearch(2))) == 2
    assert searches(one, one, key=None) == 2

    class Kept(BeamSearch):
        needs = frozenset({Need.KEPT_BEAM})

    assert searches(((), Kept()), ((), Kept())) == 2, "it goes on from what this session has kept"


# What is written, and what may still change


@settings(max_examples=100)
@given(
    model=st.builds(
        FakeModel,
        seed=st.integers(0, 99),
        unstable=st.integers(0, 5),
        window=st.sampled_from([0, 8]),
        vocabulary=st.sampled_from(["words", "chars"]),
    ),
    commit=st.sampled_from([All(), All(last_word=True), Hold(2), Hold(6), LocalAgreement(2), LocalAgreement(3)]),
    ms=st.integers(0, 4000),
)
def test_the_best_hypothesis_is_what_was_written_and_what_may_change(model: FakeModel, commit: Commit, ms: int) -> None:
    unit = "char" if model.tokens is CHARS else "word"
    stream = Stream(FakeSession(model, opening()), Decoding(Chunk(200), commit, search=BeamSearch(2)), unit)
    before = ""
    for start in range(0, ms + 1, 130):
        stream.push(np.zeros(max(0, min(130, ms - start)) * 16, np.float32), finished=start + 130 > ms)
        assert stream.committed_text.startswith(before)
        before = stream.committed_text
        assert stream.committed_text + stream.unstable_text == model.text(stream.best).lstrip()
    assert stream.unstable_text.strip() == ""
    assert stream.committed_text == model.text(stream.committed).strip()


def test_unstable_text_of_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """A space stands between utterances; between them, and where a tokeniser rewrites its text, nothing is unstable."""
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    model = FakeModel(unstable=0)
    how = Decoding(Chunk(200), Hold(3), search=BeamSearch(1), segment=Pause(0.3))
    stream = cut_at_pauses(model_session(model), how)
    speech, pause = np.full(RATE, 0.5, np.float32), np.zeros(RATE, np.float32)
    stream.push(speech)
    one = model.text(stream._part.best) if stream._part else ""
    assert stream.unstable_text and stream.committed_text + stream.unstable_text == one.strip()
    stream.push(pause)
    first = stream.committed_text
    assert first and stream.unstable_text == ""
    stream.push(speech[: RATE // 2])
    assert stream.unstable_text.startswith(" ") and stream.committed_text == first
    assert stream._part is not None
    monkeypatch.setattr(stream._part._words, "text", lambda tokens: "another text")
    stream._part.emissions.append(Emission("the", 0, 0))
    assert stream.unstable_text == ""


def model_session(model: FakeModel) -> Any:
    return lambda part, history: FakeSession(model, opening(part))


def test_both_kinds_of_streams_are_open_streams() -> None:
    model, how = FakeModel(), Decoding(Chunk(500), All())
    streams: Sequence[OpenStream] = [
        Stream(FakeSession(model, opening()), how),
        cut_at_pauses(model_session(model), replace(how, segment=Pause(0.3))),
    ]
    for stream in streams:
        assert stream.push(np.zeros(100, np.float32)) == [] == list(stream.segments)
        assert (stream.committed_text, stream.unstable_text, stream.skipped) == ("", "", 0)
        stream.wait(0.5)
        stream.push_steps(np.zeros(0, np.float32), True)  # nothing happens before the first step is taken
        assert stream.push(np.zeros(0, np.float32), True) == []
        with pytest.raises(SimulstError, match="ended"):
            run_alone(stream.push_steps(np.zeros(0, np.float32)))
