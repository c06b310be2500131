"""Blockwise search through the loop: blocks as READ, any chunking, windows over long streams, refusals."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_espnet
import torch
from fake import Loudness, pushed
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_espnet import NO_CTC, noise

from simulst.calls import run_alone, steps_of
from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.meter import Memo, Meter
from simulst.models import load_model
from simulst.models.espnet.model import ESPnet
from simulst.opening import Opening
from simulst.policy.commit import All, Commit, Hold, LocalAgreement, SharedPrefix
from simulst.policy.context import Context
from simulst.policy.read import Block, Chunk, Reading, Schedule
from simulst.policy.segment import Pause
from simulst.policy.stop import CTC, AlignAtt, EndOfSentence, MaxTokens, Stop
from simulst.search import BWBS, IBWBS, JointBeamSearch, JointOptions
from simulst.stream import Stream
from simulst.streams import open_stream
from simulst.streams.pauses import SegmentedStream

torch.set_num_threads(1)
RATIO = 0.3  # random models do not end by themselves
COMMITS = [All(), Hold(3), LocalAgreement(2), SharedPrefix(1), Hold(2, whole_words=True)]
STOPS = [EndOfSentence(), MaxTokens(2), CTC(-1.0), CTC(1.0, exact=True), AlignAtt(4), AlignAtt(8, (-1,), (0,))]
SEARCHES: list[JointOptions] = [
    BWBS(3, max_length_ratio=RATIO),
    BWBS(2, 0.0, max_length_ratio=RATIO, repetition=False),
    IBWBS(3, max_length_ratio=RATIO, repetition=False),
    IBWBS(1, max_length_ratio=RATIO, final="per_token"),
    JointBeamSearch(2, max_length_ratio=RATIO),
]


CONFORMER = {**tiny_espnet.CONTEXTUAL, "cnn_module_kernel": 7}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "blockwise": ("contextual_block_conformer", {}),
    "full": ("conformer", {}),
    "small blocks": (  # of 16 frames, one every 4, of which the last 6 are context
        "contextual_block_conformer",
        {"encoder_conf": {**CONFORMER, "block_size": 16, "hop_size": 4, "look_ahead": 6}},
    ),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ESPnet]:
    found = {}
    for kind, (encoder, changes) in KINDS.items():
        folder = tmp_path_factory.mktemp("model")
        tiny_espnet.write(folder, encoder, 5, **changes)
        found[kind] = load_model(folder / "exp" / "st")
    return found


@pytest.fixture
def blockwise(models: dict[str, ESPnet]) -> ESPnet:
    return models["blockwise"]


def decode(model: ESPnet, how: Decoding, audio: np.ndarray, cuts: list[int], memo: Memo | None = None) -> Any:
    stream = Stream(model.session(Opening("en", "de", Meter(memo))), how)
    bounds = [0, *sorted(cut for cut in cuts if cut < audio.size), audio.size]
    for start, end in pairwise(bounds):
        before = stream.committed
        stream.push(audio[start:end], finished=end == audio.size)
        assert stream.committed[: len(before)] == before
    return stream.committed, stream.reads, [(e.text, e.delay_ms) for e in stream.emissions]


@settings(max_examples=12)
@given(
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(COMMITS),
    st.sampled_from(STOPS),
    st.sampled_from(SEARCHES),
    st.sampled_from([Block(), Block(2), Chunk(500)]),
    st.integers(5000, 50000),
    st.lists(st.integers(1, 50000), max_size=6),
)
def test_any_chunking_gives_the_same_commitments(
    models: dict[str, ESPnet],
    name: str,
    commit: Commit,
    stop: Stop,
    search: JointOptions,
    read: Any,
    samples: int,
    cuts: list[int],
) -> None:
    """Also where all that was heard is encoded again at each chunk, as the large models of CUNI-KIT 2023 are."""
    model = models[name]
    how = Decoding(Chunk(640) if name == "full" else read, commit, stop, search)
    audio = noise(samples)
    memo = Memo()
    first = decode(model, how, audio, [], memo)
    assert first == decode(model, how, audio, cuts) == decode(model, how, audio, cuts, memo)
    assert len(first[1]) >= samples // 40_000


def test_a_block_is_searched_as_soon_as_it_is_there(blockwise: ESPnet) -> None:
    """The first after 167 feature frames, then one every 64, of 10 ms; two blocks a step for n: 2."""
    audio = noise(80000)
    ends = [(166 * 160 + 200 + 64 * 160 * k) / 16 for k in range(6)]
    how = Decoding(Block(), All(), search=IBWBS(2, max_length_ratio=RATIO))
    assert decode(blockwise, how, audio, [])[1] == [*(end for end in ends if end < 5000), 5000.0]
    how = Decoding(Block(2), All(), search=IBWBS(2, max_length_ratio=RATIO))
    assert decode(blockwise, how, audio, [])[1] == [*(end for end in ends[1::2] if end < 5000), 5000.0]


@pytest.mark.parametrize("search", SEARCHES[::2])
def test_a_window_keeps_a_long_stream_bounded(blockwise: ESPnet, search: JointOptions) -> None:
    """18 s with a window of 6 s: the session holds no more than that, and goes on writing."""
    model = load_model(blockwise.path, window=6.0)
    assert model.window_frames == 150
    stream = Stream(model.session(Opening("en", "de")), Decoding(Block(), Hold(1), search=search))
    written = []
    for second in range(18):
        stream.push(noise(16000, second))
        session: Any = stream.session
        encoding = session._encoding
        assert sum(len(part.frames) for part in encoding.parts) <= 150
        assert len(session._steps) < 40 and encoding._audio.size < 2 * 16000
        written.append(len(stream.committed))
        if isinstance(search, IBWBS) and written[-1]:  # the scores of the tokens that stay are known in each window
            assert session._kept._kept._attention(stream.committed[session.evicted :]) is not None
    stream.push(noise(16000), finished=True)
    assert written[-1] > written[12] > written[8] > 0
    assert session.evicted > 0
    short = noise(5 * 16000)
    how = Decoding(Block(), Hold(1), search=search)
    assert decode(model, how, short, []) == decode(blockwise, how, short, [])


def test_audio_leaves_before_that_to_which_all_heads_attend_most(blockwise: ESPnet) -> None:
    """`segment: attention`, for the first token that stays. The first head of each layer would choose otherwise."""
    model, edges = load_model(blockwise.path, window=30.0), []
    for seed, count in itertools.product(range(2), (1, 3)):
        session: Any = model.session(Opening("en", "de"))
        for piece in np.split(noise(10 * 16000, seed), 20):
            run_alone(steps_of(session.extend(piece)))
            tokens = run_alone(session.search((), JointBeamSearch(1, max_length_ratio=RATIO), None)).best
        parts = list(session._encoding.parts)
        memory = model.decoder.memory()
        memory.append(torch.cat([part.frames for part in parts]))
        read = torch.tensor([model.vocabulary.sos, *session._language, *tokens[:count]])
        weights = model.decoder.prefill(read, memory, attention=True)[1].attention[:, 0, 0]
        firsts = [part.first for part in parts]
        of_all, of_some = (
            max(first for first in firsts if first <= int(rows.mean(0).argmax())) for rows in (weights, weights[::2])
        )
        session.drop(tokens, count)
        left = session._encoding.parts[0].first
        assert (left, session.evicted) == (of_all, count if of_all else 0)
        edges.append((of_all, of_some))
    assert len(set(edges)) > 1 and any(of_all != of_some for of_all, of_some in edges)


@dataclass(frozen=True)
class Never(Chunk):
    """As READ `boundary` while it finds no boundary."""

    def open(self, context: Context) -> Reading:
        return NeverReady(self, context, self.ms, self.ms)


class NeverReady(Schedule):
    def ready(self) -> bool:
        return False


def test_a_full_window_forces_a_step(blockwise: ESPnet) -> None:
    model = load_model(blockwise.path, window=6.0)
    search = JointBeamSearch(2, max_length_ratio=RATIO)
    stream: Any = Stream(model.session(Opening("en", "de")), Decoding(Never(1000), Hold(1), search=search))
    for second in range(20):
        for samples in np.split(noise(16000, second), 10):
            stream.push(samples)
            assert sum(len(part.frames) for part in stream.session._encoding.parts) <= 150
    assert 2 < len(stream.reads) < 10 and stream.committed


@pytest.mark.parametrize("search", SEARCHES[::2])
def test_after_a_pause_the_model_starts_anew(
    blockwise: ESPnet, monkeypatch: pytest.MonkeyPatch, search: JointOptions
) -> None:
    """Every part of a stream is decoded as it would be on its own, wherever the audio is cut."""
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    model = blockwise
    quiet = np.zeros(20000, np.float32)
    audio = np.concatenate([quiet, noise(50000), quiet, noise(40000, 1), quiet[:3000], noise(9000, 2)])
    how = Decoding(Block(), Hold(2), search=search, segment=Pause(0.5))
    memo = Memo()
    runs = []
    for cuts, shared in (([], None), ([1, 30000, 70001, 99999, 120000], memo), ([55555], memo)):
        stream = open_stream(model, how, "en", "de", meter=Meter(shared))
        assert isinstance(stream, SegmentedStream)
        runs.append(pushed(stream, audio, cuts))
    assert runs[0] == runs[1] == runs[2]
    texts = []
    for begin, end in stream.segments:
        alone = Stream(model.session(Opening("en", "de")), how)
        texts += [text.strip() for text, _ in pushed(alone, audio[round(begin * 16) : round(end * 16)])]
    assert len(stream.segments) == 2
    assert [text.strip() for text, _ in runs[0]] == texts


def test_a_model_without_a_ctc_layer(tmp_path: Path) -> None:
    audio = noise(40000)
    tiny_espnet.write(tmp_path, model_conf=NO_CTC)
    without = load_model(tmp_path / "exp" / "st")
    assert decode(without, Decoding(Block(), All()), audio, [])[1]
    for ctc_weight in (0.0, 0.3):  # not "write 'ctc_weight: 0.0'", which would not be enough
        with pytest.raises(SimulstError, match=r"stop: ctc needs a CTC layer.*; take another STOP"):
            decode(without, Decoding(Block(), All(), CTC(0.0), IBWBS(2, ctc_weight)), audio, [])
    with pytest.raises(SimulstError, match=r"search: joint_beam needs a CTC layer.*'ctc_weight: 0\.0'"):
        decode(without, Decoding(Block(), All(), search=JointBeamSearch(ctc_weight=0.3)), audio, [])


def test_more_beams_than_vocabulary_and_hardly_any_audio(blockwise: ESPnet) -> None:
    for search in (BWBS(200, max_length_ratio=RATIO), IBWBS(200, max_length_ratio=RATIO)):
        how = Decoding(Block(), Hold(2), search=search)
        assert decode(blockwise, how, noise(40000), [])[0]
        for samples in (0, 1, 300, 5000):
            decode(blockwise, how, noise(samples), [])
