"""READ `boundary`, with scripted predictors and with a real one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from fake import RATE, FakeModel
from hypothesis import given, settings
from hypothesis import strategies as st
from tones import shares

from simulst.calls import Steps
from simulst.config import Decoding
from simulst.meter import Memo, Meter
from simulst.opening import Opening
from simulst.policy import boundary
from simulst.policy.boundary import Boundary
from simulst.policy.boundary_predictor import BoundaryPredictor, Sizes, load_predictor
from simulst.policy.commit import All
from simulst.search import BeamSearch
from simulst.stream import Stream
from simulst.streams.driver import Driver

SHARES = (0.0, 0.2, 0.5, 1.0, 0.4)


class Scripted:
    """A predictor whose shares are given; it wants whole pieces, in order, once each."""

    tau = 100

    def __init__(self) -> None:
        self.heard: list[np.ndarray] = []
        self.predictor = self

    def share(self, samples: np.ndarray) -> Steps[tuple[float, Scripted]]:
        self.heard.append(samples)
        return SHARES[len(self.heard) - 1], self
        yield


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    predictor = Scripted()
    monkeypatch.setattr(boundary, "_load", lambda path: predictor)
    return predictor


def stream(threshold: float, predictor: str = "p.pth", frames: int = 100, memo: Memo | None = None) -> Stream:
    model = FakeModel(unstable=0)
    how = Decoding(Boundary(threshold, predictor, frames), All(), search=BeamSearch(1))
    return Stream(model.session(Opening("es", "en", Meter(memo))), how)


def test_the_predictor_runs_once_for_all_thresholds(scripted: Scripted) -> None:
    memo, audio = Memo(), np.zeros(5 * RATE + 1, dtype=np.float32)
    for threshold in (0.5, 0.0, 1.0):
        one = stream(threshold, memo=memo)
        one.push(audio, finished=True)
        assert len(scripted.heard) == 5
    other = stream(0.5, frames=48, memo=memo)  # other pieces are another pass
    scripted.heard.clear()
    other.push(audio[: 48 * 160])
    assert len(scripted.heard) == 1


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("predictor") / "predictor.pth"
    torch.manual_seed(0)
    made = BoundaryPredictor(100, Sizes(mels=16, channels=2, embedding=8, hidden=8))
    with torch.no_grad():
        made.label.bias[1] += 0.07  # so that the labels differ
    made.save(path)
    yield path
    boundary._load.cache_clear()


@settings(max_examples=40)
@given(
    seconds=st.floats(0, 6),
    cuts=st.lists(st.integers(0, 6 * RATE), max_size=9),
    frames=st.sampled_from([48, 100]),
    threshold=st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]),
    shared=st.booleans(),
)
def test_a_real_one(
    predictor: Path, seconds: float, cuts: list[int], frames: int, threshold: float, shared: bool
) -> None:
    """Decoded where the predictor, asked directly, says so; however the audio is cut."""
    audio = np.random.default_rng(0).normal(0, 0.1, round(seconds * RATE)).astype(np.float32)
    audio *= np.sin(np.arange(audio.size) / RATE) ** 4
    piece = frames * 160
    pieces = [audio[start : start + piece] for start in range(0, audio.size - piece + 1, piece)]
    expected = [
        10.0 * frames * (i + 1)
        for i, share in enumerate(shares(load_predictor(predictor), pieces))
        if share >= threshold
    ]
    expected = [ms for ms in expected if ms < audio.size / 16] + [audio.size / 16]
    one = stream(threshold, str(predictor), frames, Memo() if shared else None)
    for start, end in pairwise([0, *sorted(cut for cut in cuts if cut < audio.size)]):
        one.push(audio[start:end])
    one.push(audio[one.session.length + one._pending.size :], finished=True)
    assert one.reads == expected


def test_streams_of_one_memo_in_one_driver(predictor: Path) -> None:
    """Several may ask for the same piece before its answer is there."""
    audio = np.random.default_rng(0).normal(0, 0.1, 6 * RATE).astype(np.float32)
    audio *= np.sin(np.arange(audio.size) / RATE) ** 4
    thresholds, memo, driver = (0.2, 0.5, 0.8), Memo(), Driver()
    alone = [stream(threshold, str(predictor)) for threshold in thresholds]
    joined = [stream(threshold, str(predictor), memo=memo) for threshold in thresholds]
    for one, other in zip(alone, joined, strict=True):
        one.push(audio, finished=True)
        driver.push(other, audio, finished=True)
    driver.finish()
    assert [one.reads for one in joined] == [one.reads for one in alone]
    assert len({len(one.reads) for one in alone}) > 1
