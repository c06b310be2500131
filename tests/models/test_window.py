"""A session with a window: its key names what a search sees; a text that ends too early begins anew."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulst.audio.units import SAMPLE_RATE
from simulst.calls import run_alone
from simulst.config import Decoding
from simulst.hypotheses import Found, Hypothesis, Tokens
from simulst.meter import Memo, Meter
from simulst.models.window import WindowedSession
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.commit import All, Commit, Hold, LocalAgreement
from simulst.policy.read import Chunk
from simulst.policy.segment import Attention
from simulst.search import BeamSearch
from simulst.session import Traits, find
from simulst.stream import Stream
from simulst.words import CUT

HALF = SAMPLE_RATE // 2


class Plain(WindowedSession):
    """Each token was spoken in half a second, or ends as `ends` says. What it finds tells all that its window holds."""

    ends: Sequence[float] = ()

    def _end_times(self, tokens: Tokens) -> Sequence[float]:
        return self.ends[: len(tokens)] or [0.5 * (place + 1) for place in range(len(tokens))]

    def _begins_word(self, tokens: Tokens, place: int) -> bool:
        return True

    def text(self, tokens: Tokens) -> str:
        return "".join(f" {token}" for token in tokens)

    @property
    def holds(self) -> Any:
        """The audio (in which each half second has its number), and the text before it."""
        return tuple(self._audio[::HALF].tolist()), self._before, self._evicted, self._shown

    @property
    def key(self) -> Hashable:
        return self.window_key

    def search(self, committed: Tokens, *_: Any) -> Found:
        return Found([Hypothesis(committed, hash(self.holds))])


def session(memo: Memo | None, before: Tokens, steps: list[tuple[str, int]]) -> tuple[Plain, Tokens]:
    """A session after some steps, and its committed tokens."""
    one, halves = Plain(Opening("en", "de", Meter(memo)), 5.0, before), 0
    committed: Tokens = ()
    for what, number in steps:
        if what == "extend":
            one.extend(np.repeat(np.arange(halves, halves + number, dtype=np.float32), HALF))
            halves += number
        elif what == "commit":
            committed += tuple(range(number))
        elif what == "cut":
            one.cut(committed)
        else:
            one.restart(committed, one.length)
    return one, committed


STEPS = st.lists(
    st.tuples(st.sampled_from(["extend", "extend", "commit", "cut", "restart"]), st.integers(1, 3)), max_size=6
)
BEFORE = st.sampled_from([(), (1,), (1, 2)])


@given(BEFORE, STEPS, BEFORE, STEPS)
def test_sessions_share_only_what_both_hold(
    before: Tokens, steps: list[tuple[str, int]], other_before: Tokens, other_steps: list[tuple[str, int]]
) -> None:
    memo = Memo()
    (one, committed), (other, others) = session(memo, before, steps), session(memo, other_before, other_steps)
    same = one.holds == other.holds and one.length == other.length
    assert (one.window_key == other.window_key) == same
    if committed == others:
        found = [run_alone(find(each, committed, BeamSearch(), None)) for each in (one, other)]
        assert (found[0] is found[1]) == same
        assert found[1].beam[0].score == hash(other.holds)


@pytest.mark.parametrize(
    ("target", "ends", "cut"),
    [
        # After the last word that ends within 20 s, so that a third of the window is left.
        ("en", [2.0, 8.0, 15.0, 19.9, 20.1, 25.0], 19.9),
        ("en", [2.0, 8.0, 20.0, 20.02, 28.0, 28.5], 20.0),
        # After the first word, if all end later; a cut of less than a second would be none.
        ("en", [0.5, 21.0, 22.0, 23.0, 24.0, 25.0], 21.0),
        ("zh", [5, 10, 15, 19, 25, 29], 15),  # the fourth token ends within a character
        ("en", [], 15),  # no word
    ],
)
def test_where_the_window_is_cut(target: str, ends: list[float], cut: float, caplog: pytest.LogCaptureFixture) -> None:
    texts = ["", "你", "你好", "你好世", "你好世" + CUT, "你好世界", "你好世界我"]
    session = Plain(Opening(target, target), 30.0)
    session.ends, session.text = ends, lambda tokens: texts[len(tokens)]  # type: ignore[method-assign]
    session.extend(np.zeros(30 * SAMPLE_RATE, np.float32))
    session.slide(tuple(range(len(ends))))
    assert session.limit() / SAMPLE_RATE - 30 == pytest.approx(cut) and session.length == 30 * SAMPLE_RATE
    assert session.evicted == (ends.index(cut) + 1 if ends else 0)
    assert ("without a word" in caplog.text) == (not ends)


@pytest.mark.parametrize(
    ("seconds", "tail", "stuck"),
    [
        (6.0, 1.0, True),
        (5.9, 1.0, False),  # text may still come
        (6.0, 0.4, True),  # 8 dB less
        (6.0, 0.1, False),  # 20 dB less: silence
    ],
)
def test_a_text_that_ends_too_early(seconds: float, tail: float, stuck: bool) -> None:
    session, audio = Plain(Opening("es", "en"), 30.0), np.ones(round(seconds * SAMPLE_RATE), np.float32)
    audio[2 * SAMPLE_RATE :] *= tail
    session.extend(audio)
    assert session.is_stuck(2 * SAMPLE_RATE) == stuck
    assert not session.is_stuck(0)  # nothing was heard before


TOKEN = SAMPLE_RATE // 5


class Ending(Plain):
    """Hears a token each 200 ms. It ends its text after three tokens for as long as they are in the window."""

    def _end_times(self, tokens: Tokens) -> Sequence[float]:
        return [((token + 1) * TOKEN - self._offset) / SAMPLE_RATE for token in tokens]

    def search(self, committed: Tokens, *_: Any) -> Found:
        heard = self.length // TOKEN
        return Found([Hypothesis(tuple(range(heard if self._evicted else min(heard, max(3, len(committed))))))])


def ending(commit: Commit, restarts: bool) -> Stream:
    return Stream(Ending(Opening("en", "de", restarts=restarts), 30.0), Decoding(Chunk(1000), commit))


@pytest.mark.parametrize("commit", [All(), Hold(2), LocalAgreement(2)])
def test_speech_after_a_text_that_ended_is_not_lost(commit: Commit) -> None:
    stream = ending(commit, restarts=True)
    stream.push(np.ones(12 * SAMPLE_RATE, np.float32), finished=True)
    assert stream.committed == tuple(range(60))


@pytest.mark.parametrize(("commit", "kept"), [(All(), 3), (Hold(2), 1), (LocalAgreement(2), 3), (Hold(6), 0)])
def test_of_a_sentence_only_what_commit_says_is_written_before_its_end(commit: Commit, kept: int) -> None:
    """However long its text stays the same; and the model is shown all of its audio. That is the default."""
    stream = ending(commit, restarts=False)
    for _ in range(11):
        stream.push(np.ones(SAMPLE_RATE, np.float32))
    assert len(stream.committed) == kept
    stream.push(np.ones(SAMPLE_RATE, np.float32), finished=True)
    assert len(stream.committed) == 3


class Hearing(Plain):
    """Hears a token each half second, once it has ended; of the last `unsure` tokens it is not sure.

    Of the audio in its window it writes only tokens that it is not shown, so audio that leaves late comes twice.
    """

    traits = Traits(frozenset({Need.LIBRARY_SEARCH, Need.END_TIMES, Need.LEAVING}))
    unsure = 1
    largest = 0  # samples in the window

    def text(self, tokens: Tokens) -> str:
        return "".join(f" {token}." if token % 7 == 0 else f" {token}" for token in tokens)

    def search(self, committed: Tokens, *_: Any) -> Found:
        self.largest = max(self.largest, self._audio.size)
        heard = np.rint(100 * self._audio[: self._audio.size // HALF * HALF : HALF]).astype(int).tolist()
        prefix = self._in_window(committed)
        new = heard[len(prefix) :]
        sure = max(0, len(new) - self.unsure)
        return Found([Hypothesis((*committed, *new[:sure], *(token + 1000 for token in new[sure:])))])


COMMITS = st.sampled_from([All(), Hold(1), Hold(2, whole_words=True), LocalAgreement(2), LocalAgreement(2, 3)])


@given(COMMITS, st.integers(1, 9), st.booleans(), st.lists(st.integers(20, 9000), min_size=1, max_size=3))
def test_audio_leaves_with_its_words(commit: Commit, words: int, sentence: bool, cuts: list[int]) -> None:
    """Any cut of the audio gives the same words, none comes twice or is lost, and the window stays small."""
    samples = np.repeat(np.arange(1, 121, dtype=np.float32) / 100, HALF)  # a minute

    def decoded(cuts: list[int]) -> Stream:
        session = Hearing(Opening("en", "de"), 30.0)
        session.unsure = 0 if isinstance(commit, All) else 1
        stream = Stream(session, Decoding(Chunk(700), commit, segment=Attention(words, sentence)))
        place = 0
        for cut in itertools.cycle(cuts):
            before = stream.committed
            stream.push(samples[place : place + 100 * cut])
            assert stream.committed[: len(before)] == before
            place += 100 * cut
            if place >= samples.size:
                break
        stream.push(samples[:0], finished=True)
        return stream

    one, other = decoded(cuts), decoded([samples.size // 100])
    assert [(e.text, e.delay_ms) for e in one.emissions] == [(e.text, e.delay_ms) for e in other.emissions]
    assert [token % 1000 for token in one.committed] == list(range(1, 121))
    session: Any = one.session
    assert session.largest <= (words + 9) * HALF
    assert session.evicted >= 120 - words - 9
