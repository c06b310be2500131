"""Paper B's model (Nguyen et al. 2021): VGG, BLSTM, an LSTM decoder whose state is carried on, pitch features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sounds
import tiny_espnet
import torch
import yaml
from fake import noted, opened, pushed
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.calls import run_alone
from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.meter import Memo, Meter
from simulst.models import load_model
from simulst.models.espnet.loading import check_supported
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.network.recurrent_decoder import Carried, RecurrentDecoder
from simulst.models.espnet.options import ESPnetOptions
from simulst.opening import Opening
from simulst.policy.stop import MaxTokens
from simulst.search import JointBeamSearch
from simulst.stream import Stream
from simulst.training.average import Dev, choose_search

torch.set_num_threads(1)  # on so little, threads only wait for each other
GREEDY = JointBeamSearch(beam=1, ctc_weight=0.0)
SEARCH = {"type": "joint_beam", "beam": 1, "ctc_weight": 0.0}
CHUNKS = {"type": "chunk", "ms": 300}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[ESPnet, Any]:
    folder = tmp_path_factory.mktemp("recurrent")
    theirs = tiny_espnet.write(folder, seed=3, **tiny_espnet.VGG_BLSTM)
    model = load_model(folder / "exp" / "st")
    assert isinstance(model, ESPnet) and isinstance(model.decoder, RecurrentDecoder)
    return model, theirs


@pytest.fixture(scope="module")
def model(both: tuple[ESPnet, Any]) -> ESPnet:
    return both[0]


def noise(samples: int, seed: int = 0) -> np.ndarray:
    """Noise that is louder from time to time."""
    random = np.random.default_rng(seed)
    loudness = np.repeat(random.uniform(0, 0.5, samples // 1000 + 1), 1000)[:samples]
    return (loudness * random.normal(0, 0.3, samples)).astype(np.float32)


def random_frames(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, tiny_espnet.WIDTH, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def encoded_by_espnet(theirs: Any, audio: np.ndarray) -> torch.Tensor:
    features, lengths = theirs.frontend(torch.from_numpy(audio)[None], torch.tensor([audio.size]))
    features, lengths = theirs.normalize(features, lengths)
    return theirs.encoder(features, lengths)[0][0]


@pytest.mark.parametrize("samples", [400, 3000, 20000, 41234])
def test_features_and_encoder_are_espnets(both: tuple[ESPnet, Any], samples: int) -> None:
    model, theirs = both
    audio = noise(samples)
    expected = encoded_by_espnet(theirs, audio)
    torch.testing.assert_close(tiny_espnet.encoded(model, audio), expected, atol=1e-4, rtol=1e-4)
    assert model.features.dims == tiny_espnet.MELS + 3


def test_a_batch_has_the_features_of_each(both: tuple[ESPnet, Any]) -> None:
    """In training, utterances are padded to the longest one."""
    model, theirs = both
    one, two = noise(9000, 1), noise(16000, 2)
    padded = torch.from_numpy(np.stack([np.pad(one, (0, 7000)), two]))
    features, lengths = theirs.frontend(padded, torch.tensor([9000, 16000]))
    for audio, found, length in zip((one, two), features, lengths.tolist(), strict=True):
        pitch = model.features.frames(audio, 0, 0, length)[:, -3:]
        torch.testing.assert_close(found[:length, -3:], pitch, atol=1e-6, rtol=0)
    assert not features[0, lengths[0] :, -3:].any()


@settings(max_examples=15)
@given(
    seed=st.integers(0, 999),
    residual=st.booleans(),
    layers=st.integers(1, 3),
    counts=st.lists(st.integers(1, 4), max_size=6),
)
def test_scores_are_espnets(seed: int, residual: bool, layers: int, counts: list[int]) -> None:
    """Hypotheses are re-ordered at each step. counts: how many there are."""
    from espnet2.asr.decoder.rnn_decoder import RNNDecoder

    torch.manual_seed(seed)
    theirs = RNNDecoder(
        11,
        tiny_espnet.WIDTH,
        num_layers=layers,
        hidden_size=9,
        context_residual=residual,
        att_conf={"atype": "add", "adim": 7},
    ).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter *= 4
    ours = RecurrentDecoder(theirs)
    frames, memory = random_frames(8, seed), ours.memory()
    memory.append(frames[:3])
    memory.append(frames[3:])
    state, states, tokens = ours.start(), [theirs.init_state(frames)], torch.tensor([10])
    for count in [1, *counts]:
        rows = torch.randint(len(state), (count,))
        state, states = state[rows], [states[row] for row in rows]
        tokens = torch.randint(11, (count,))
        log_p, state = ours.step(tokens, state, memory)
        with torch.no_grad():
            stepped = [
                theirs.score(torch.cat([torch.tensor([10]), token[None]]), _copy(old), frames)
                for token, old in zip(tokens, states, strict=True)
            ]
        states = [new for _, new in stepped]
        torch.testing.assert_close(log_p, torch.stack([scores for scores, _ in stepped]), atol=1e-5, rtol=0)
        assert state.attention is not None
        expected = torch.cat([new["a_prev"] for new in states])
        torch.testing.assert_close(state.attention[0, :, 0], expected, atol=1e-5, rtol=0)


def _copy(state: dict[str, Any]) -> dict[str, Any]:
    """ESPnet writes new values into the lists of a state."""
    place, z, c = state["workspace"]
    return {**state, "z_prev": state["z_prev"][:], "c_prev": state["c_prev"][:], "workspace": (place, z[:], c[:])}


def literally(theirs: Any, audio: np.ndarray, k: int, s: int, n: int, sos: int) -> tuple[list[int], torch.Tensor]:
    """Nguyen et al. 2021, section 2.2, with ESPnet's modules: equations 1 to 4, k, s and N in frames of 10 ms.

    Returns: the tokens, and all that was predicted, (predictions, V) log p.
    """
    written: list[int] = []
    predictions = []
    state = None
    heard = 0
    while heard < audio.size:
        heard = min(audio.size, 160 * k if not heard else heard + 160 * s)
        final = heard == audio.size
        frames = encoded_by_espnet(theirs, audio[:heard])
        state = state or theirs.decoder.init_state(frames)
        for _ in range(1000 if final else n):
            if len(written) >= len(frames):
                break
            theirs.decoder.att_list[0].reset()  # its projections of the frames before
            last = torch.tensor([written[-1] if written else sos])
            with torch.no_grad():
                log_p, new = theirs.decoder.score(last, _copy(state), frames)
            predictions.append(log_p)
            token = int(log_p.argmax())
            if token == sos:  # it is <eos>, too
                break
            written, state = [*written, token], new
    return written, torch.stack(predictions)


@pytest.mark.parametrize(("k", "s", "n"), [(100, 10, 1), (100, 20, 2), (50, 10, 3)])
def test_the_state_is_carried_on_as_in_the_paper(
    both: tuple[ESPnet, Any], k: int, s: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Token by token and score by score; no token is read again."""
    model, theirs = both
    predictions: list[torch.Tensor] = []
    step = model.decoder.step

    def predicted(*about: Any) -> Any:
        log_p, state = step(*about)
        predictions.append(log_p[0])
        return log_p, state

    monkeypatch.setattr(model.decoder, "step", predicted)
    written = set()
    for seed in range(2):
        audio = noise(25000, seed)
        predictions.clear()
        stream = Stream(model.session(Opening("en", "de")), decoding(k, s, n))
        stream.push(audio, finished=True)
        tokens, expected = literally(theirs, audio, k, s, n, model.vocabulary.sos)
        assert list(stream.committed) == tokens
        torch.testing.assert_close(torch.stack(predictions), expected, atol=1e-3, rtol=0)
        written |= set(tokens)
    assert len(written) > 1


def decoding(k: int, s: int, n: int) -> Any:
    read, stop = {"type": "wait_stride", "k": k, "s": s}, {"type": "max_tokens", "n": n}
    return parse_decoding({"read": read, "stop": stop, "commit": {"type": "all"}, "search": SEARCH}, "test")


@pytest.mark.parametrize("n", [1, 3])
def test_with_the_same_frames_a_carried_state_is_one_from_scratch(model: ESPnet, n: int) -> None:
    """The whole audio is there from the start, so that decoding in pieces must equal decoding at once."""
    sessions = [model.session(Opening("en", "de")) for _ in range(3)]
    for session in sessions:
        session.extend(noise(12000), final=True)
    whole, pieces, again = sessions
    expected = run_alone(whole.search((), GREEDY, None)).best
    assert len(expected) > 3
    committed: tuple[int, ...] = ()
    while committed != (committed := run_alone(pieces.search(committed, GREEDY, opened(MaxTokens(n)))).best):
        assert committed == expected[: len(committed)]
        if len(committed) in (3, len(expected) - 1):
            scores = [run_alone(one.search(committed, GREEDY, None)).beam[0].score for one in (again, pieces)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert committed == expected


def test_only_what_follows_the_carried_state_is_read(model: ESPnet, monkeypatch: pytest.MonkeyPatch) -> None:
    """And after new frames that gives other scores than reading everything again, as the paper means it."""
    assert isinstance(model.decoder, RecurrentDecoder)
    decoder = Carried(model.decoder)
    steps = noted(monkeypatch, model.decoder, "step", lambda tokens, *_: len(tokens))
    for prefix, read in (((9, 3, 4, 5), 4), ((9, 3, 4, 5), 1), ((9, 3, 4, 5, 6, 7), 2), ((9, 8), 2)):
        memory = decoder.memory()
        memory.append(random_frames(5, len(steps)))
        steps.clear()
        log_p, _ = decoder.prefill(torch.tensor(prefix), memory)
        assert len(steps) == read
        scratch, _ = Carried(model.decoder).prefill(torch.tensor(prefix), memory)
        assert torch.allclose(log_p, scratch, atol=1e-5) == (read == len(prefix))


POLICIES: list[dict[str, Any]] = [
    {"read": CHUNKS, "commit": {"type": "local_agreement", "n": 2}, "search": {**SEARCH, "beam": 3}},
    {"read": CHUNKS, "commit": {"type": "hold", "n": 2}},
    {"read": CHUNKS, "commit": {"type": "all"}, "stop": {"type": "align_att", "frames": 3}},
    {"read": CHUNKS, "commit": {"type": "hold", "n": 1}, "search": {"type": "ibwbs", "ctc_weight": 0.0, "beam": 2}},
    {
        "read": {"type": "test_time_wait_k", "k": 2},
        "stop": {"type": "max_words", "n": 1},
        "commit": {"type": "all", "whole_words": True},
    },
]


def test_policies_whatever_the_pieces_and_beside_others(model: ESPnet) -> None:
    """Streams that share a memo write what they write alone."""
    audio, memo = noise(24000, 5), Memo()
    for raw in POLICIES:
        decoding = parse_decoding(raw, "test")
        texts = set()
        for cuts, meter in (([], Meter()), ([1, 5000, 5001, 17000], Meter()), ([9000], Meter(memo))):
            stream = Stream(model.session(Opening("en", "de", meter)), decoding)
            texts.add(tuple(pushed(stream, audio, cuts)))
        assert len(texts) == 1 and texts != {()}


def test_ctc_is_missed_only_by_what_needs_it(model: ESPnet, tmp_path: Path) -> None:
    with pytest.raises(SimulstError, match=r"search: joint_beam needs .*; write 'ctc_weight: 0.0' under search"):
        Stream(
            model.session(Opening("en", "de")),
            parse_decoding(
                {"read": CHUNKS, "commit": {"type": "all"}, "search": {"type": "joint_beam", "ctc_weight": 0.3}}, "test"
            ),
        )
    sounds.write(tmp_path, {"a": noise(9000)}, {"tc.de": {"a": "Haus"}})
    search, found = choose_search(model, [Dev(tmp_path, "tc.de", "de")], "en", 1)
    assert 0 <= found <= 100 and search.ctc_weight == 0


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"encoder": "contextual_block_conformer"}, {}, "decoder: rnn is implemented with full-context encoders only"),
        ({}, {"precision": "int8"}, "precision: 'int8' is not implemented for decoder rnn; give float32"),
    ],
)
def test_what_is_not_implemented(model: ESPnet, changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    config = yaml.safe_load((model.path / "config.yaml").read_text())
    with pytest.raises(SimulstError, match=message):
        check_supported(config | changes, ESPnetOptions(**options))


def test_decoders_that_are_not_implemented() -> None:
    from espnet2.asr.decoder.rnn_decoder import RNNDecoder

    for options, message in (
        ({"att_conf": {"atype": "location"}}, "decoder_conf: att_conf: atype 'loc' is not implemented"),
        ({"rnn_type": "gru", "att_conf": {"atype": "add"}}, "decoder_conf: rnn_type 'gru' is not implemented"),
    ):
        with pytest.raises(SimulstError, match=message):
            RecurrentDecoder(RNNDecoder(11, tiny_espnet.WIDTH, **options))
