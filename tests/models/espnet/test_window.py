"""The window of a blockwise session, with an oracle that finds one token per 160 ms of audio in the window."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from simulst.calls import Steps, run_alone
from simulst.config import Decoding
from simulst.errors import warn_once
from simulst.hypotheses import Found, Hypothesis, Tokens
from simulst.meter import Memo, Meter
from simulst.models.espnet import session as module
from simulst.models.espnet.encoding import BlockwiseEncoding, Encoded
from simulst.models.espnet.session import ESPnetSession
from simulst.models.espnet.window import WindowedESPnetSession
from simulst.opening import Opening
from simulst.policy.commit import All, Commit, Hold, LocalAgreement
from simulst.policy.read import Block, Chunk, Offline, Read
from simulst.policy.stop import Stopping
from simulst.search import BWBS, JointBeamSearch
from simulst.stream import Stream

RATE, EVERY, FIRST, HOP, FRAME = 16000, 4, 24, 16, 640  # FRAME: samples of an encoder frame


class Oracle(BlockwiseEncoding):
    """Writes the numbers of its frames: 24 at first, then 16 at a time."""

    def __init__(self, model: Any, meter: Meter) -> None:
        self._model, self._meter, self._encoder = model, meter, model.blockwise
        self._samples = 0
        self.final = False
        self.parts = []

    @property
    def length(self) -> int:
        return self._samples

    @property
    def available(self) -> int:
        frames = self._samples // FRAME
        return 1 + (frames - FIRST) // HOP if frames >= FIRST else 0

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        self._samples += samples.size
        self.final = final

    def block_end(self, count: int) -> float:
        return self.length_of((self.end or FIRST - HOP) + HOP * count)

    def length_of(self, frames: int) -> int:
        return (FIRST + HOP * max(0, math.ceil((frames - FIRST) / HOP))) * FRAME

    def encode(self) -> Steps[None]:
        heard, have = self._samples // FRAME, self.end
        whole = FIRST + (heard - FIRST) // HOP * HOP if heard >= FIRST else 0
        want = heard if self.final else whole
        if want > have:
            rows = torch.arange(have, want).float()[:, None]
            self.parts.append(Encoded(("blocks", have, want), rows, have))
        return
        yield


class Frames:
    """A replacement for `JointSearch` that records the numbers of its frames, and how many came at a time."""

    pieces: ClassVar[list[int]] = []

    def __init__(self, *_: Any, **__: Any) -> None:
        self.rows: list[int] = []
        self.with_ctc = False

    def append(self, frames: torch.Tensor, log_probs: torch.Tensor | None = None) -> None:
        self.rows += frames[:, 0].int().tolist()
        Frames.pieces.append(len(frames))


def heard(search: Frames, prefix: Tokens, stop: Stopping | None = None, draft: Tokens = ()) -> Steps[list[Hypothesis]]:
    """Token n is in frames 4 n to 4 n + 3. Tokens whose frames have left the window can't be found any more."""
    if search.rows:
        first, last = search.rows[0], search.rows[-1]
        following = prefix[-1] + 1 if prefix else 0
        following = max(following, -(-first // EVERY))
        prefix += tuple(range(following, (last + 1) // EVERY))
    return [Hypothesis(prefix)]
    yield


class HeardBlockwise:
    ends: ClassVar[list[int]] = []  # the last frame at each step

    def __init__(self, search: Frames, options: Any) -> None:
        self.search = search

    def step(self, committed: Tokens, stop: Any, final: bool) -> Steps[Found]:
        HeardBlockwise.ends.append(self.search.rows[-1])
        return Found((yield from heard(self.search, committed)))


@pytest.fixture(autouse=True)
def oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "open_encoding", Oracle)
    monkeypatch.setattr(module, "JointSearch", Frames)
    monkeypatch.setattr(module, "joint_beam_search", heard)
    monkeypatch.setattr("simulst.search.blockwise.BlockwiseBeamSearch", HeardBlockwise)
    Frames.pieces, HeardBlockwise.ends = [], []


def session(window: float, memo: Memo | None = None) -> ESPnetSession:
    model: Any = SimpleNamespace(
        path=Path("exp/st"),
        window_frames=round(window * 25),
        blockwise=SimpleNamespace(first_size=FIRST, hop_size=HOP),
        has_ctc=True,
        sample_rate=RATE,
        vocabulary=SimpleNamespace(sos=0, eos=0, spell=None, tokens=(), wait=None, spoken=tuple),
        decoder=SimpleNamespace(empty=np.zeros((1, 2, 1)), attentions=(1, 1), lagging=None),
        alignment_heads=(),
        head=None,
        search=JointBeamSearch(),
        text=lambda tokens: "".join(f" {token}" for token in tokens),
    )
    return (WindowedESPnetSession if window else ESPnetSession)(model, Opening("en", "de", Meter(memo)), ())


def decode(
    window: float, read: Read, commit: Commit, seconds: float = 40, search: Any = None, memo: Memo | None = None
) -> Stream:
    stream = Stream(session(window, memo), Decoding(read, commit, search=search or JointBeamSearch()))
    stream.push(np.zeros(round(seconds * RATE), np.float32), finished=True)
    return stream


@pytest.mark.parametrize("window", [5.0, 30.0])
@pytest.mark.parametrize(
    "commit",
    [All(), Hold(6), Hold(12), Hold(20), Hold(60), LocalAgreement(2), LocalAgreement(9), Hold(12, whole_words=True)],
)
@pytest.mark.parametrize("read", [Block(3), Chunk(250), Chunk(2000, 4000), Offline()])
def test_nothing_is_lost(window: float, commit: Commit, read: Read) -> None:
    """40 s of speech are 250 words, however much COMMIT holds back and however seldom READ asks."""
    stream = decode(window, read, commit)
    assert stream.committed == tuple(range(250))
    assert [int(e.text) for e in stream.emissions] == list(range(250))
    assert stream.session.evicted > 250 - 6.25 * (window + 2)


def test_words_leave_before_their_audio() -> None:
    """Each word is written at most one window after it was spoken."""
    for commit in (Hold(12), Hold(1000), LocalAgreement(9)):
        stream = decode(5.0, Block(), commit)
        lags = [e.delay_ms - (int(e.text) + 1) * EVERY * 40 for e in stream.emissions]
        assert max(lags) <= 5000 + 640


@pytest.mark.parametrize("read", [Block(), Block(2), Chunk(2000)])
def test_bwbs_searches_each_block_once(read: Read) -> None:
    """Blocks that stay when the window slides are not searched again: by then, committed words lie in later ones."""
    stream = decode(5.0, read, All(), search=BWBS())
    assert stream.session.evicted > 0
    ends = HeardBlockwise.ends[:-1]  # without the last part, which may have nothing new
    assert ends == list(range(FIRST - 1, ends[-1] + 1, HOP))


@pytest.mark.parametrize("seconds", [11.0, 17.0, 23.0])
@pytest.mark.parametrize("commit", [Hold(20), Hold(40), Hold(1000), LocalAgreement(3)])
def test_a_sweep_does_not_mix_windows(commit: Commit, seconds: float) -> None:
    """Configurations do not share hypotheses if their windows start at different positions."""
    memo = Memo()
    decode(6.0, Chunk(640), commit, seconds, memo=memo)
    for ms in (1280, 1920, 2560, 3200):
        shared = decode(6.0, Chunk(ms), commit, seconds, memo=memo)
        alone = decode(6.0, Chunk(ms), commit, seconds)
        assert shared.committed == alone.committed
        assert [e.delay_ms for e in shared.emissions] == [e.delay_ms for e in alone.emissions]


def test_the_key_of_a_shared_search_names_the_window() -> None:
    """Two sessions have the same length and prefix, but the window of one has slid."""
    memo = Memo()
    for slid in (False, True):
        one = session(5.0, memo)
        for _ in range(4):
            one.extend(np.zeros(RATE, np.float32))
            run_alone(one.search((), JointBeamSearch(), None))
        if slid:
            one.slide(())
        first = run_alone(one.search((), JointBeamSearch(), None)).best[0]
        assert (first > 0) == slid


@pytest.mark.parametrize("committed", [(), (0, 1, 2)])
def test_no_more_tokens_leave_than_were_committed(committed: Tokens) -> None:
    """Earlier steps may have found more tokens than COMMIT took."""
    counts = []
    one: Any = session(5.0)
    for _ in range(4):
        one.extend(np.zeros(RATE, np.float32))
        run_alone(one.search((), JointBeamSearch(), None))
    one._kept = SimpleNamespace(slide=lambda window, first, count: counts.append(count))
    one.slide(committed)
    assert counts == [one.evicted] == [len(committed)]


@pytest.mark.parametrize(("window", "seconds", "warnings"), [(0.0, 59, 0), (0.0, 62, 1), (8.0, 62, 0)])
def test_a_long_stream_without_a_window(
    window: float, seconds: float, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()
    decode(window, Chunk(1000), All(), seconds)
    assert caplog.text.count("cut the stream at its pauses ('segment'), or give the model a window") == warnings
