"""wait-k that a model is trained for: what it sees in training is what it has heard in decoding.

`theirs` is ESPnet's model as our task makes it for training. It reads a whole translation at once, under the mask.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_espnet
import torch
from tiny_espnet import frames_of, noise

from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.network.lagging import lagging_of
from simulst.opening import Opening
from simulst.policy.commit import All
from simulst.policy.read import Offline, WaitK
from simulst.policy.stop import MaxTokens
from simulst.search import JointBeamSearch
from simulst.stream import Stream

K, SAMPLES, UNIT = 3, 45_000, 4480  # 10.04 units of 280 ms
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "unidirectional": ("transformer", {"wait_unidirectional": True}),
    "unidirectional, ESPnet's module, two tokens a unit": (
        "transformer",
        {
            "wait_unidirectional": True,
            "wait_writes": 2,
            "encoder_conf": {**tiny_espnet.FULL, "normalize_before": False},
        },
    ),
    "bidirectional": ("transformer", {}),
    "conformer": ("conformer", {}),
}


@pytest.fixture(scope="module", params=CASES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[ESPnet, Any]:
    """A random model that never ends a sentence."""
    encoder, changes = CASES[request.param]
    folder: Path = tmp_path_factory.mktemp("lagging")
    theirs = tiny_espnet.write(folder, encoder, seed=5, wait_k=K, **changes)
    with torch.no_grad():
        theirs.decoder.output_layer.bias[-1] = -100
        for name, weight in theirs.named_parameters():  # the audio matters more
            if "src_attn.linear_v" in name or "src_attn.linear_out" in name:
                weight *= 4
    torch.save(theirs.state_dict(), folder / "exp/st/endless.pth")
    return load_model(folder / "exp/st", checkpoint="endless.pth"), theirs


def taught(theirs: Any, audio: np.ndarray, tokens: list[int]) -> torch.Tensor:
    """(len(tokens) + 1, V) log p of token 0, 1, ... after the tokens before it, as training computes them."""
    with torch.inference_mode():
        frames, lengths = theirs.encode(torch.from_numpy(audio)[None], torch.tensor([audio.size]))
        read = torch.tensor([[theirs.sos, *tokens]])
        logits, _ = theirs.decoder(frames, lengths, read, torch.tensor([read.shape[1]]))
    return torch.log_softmax(logits[0], -1)


@pytest.mark.parametrize("layer", ["conv2d", "conv2d6"])
def test_the_mask_is_what_so_many_units_give(tmp_path: Path, layer: str) -> None:
    """Each row of the mask against the encoder itself, for all small k and units."""
    tiny_espnet.write(tmp_path, "transformer", encoder_conf={**tiny_espnet.FULL, "input_layer": layer})
    model, audio = load_model(tmp_path / "exp/st"), noise(SAMPLES, 0)
    frame = {"conv2d": 40, "conv2d6": 60}[layer]
    total = len(tiny_espnet.encoded(model, audio))
    for k in (1, 2, 5):
        for frames in (2, 3, 7):
            config = {**vars_of(layer), "wait_k": k, "wait_unit_ms": frames * frame}
            lagging = lagging_of(config)
            assert lagging is not None
            for i, row in enumerate(lagging.visible(torch.zeros(9), total)):
                heard = (k + i) * frames * frame * 16
                alone = len(tiny_espnet.encoded(model, audio[:heard])) if heard < SAMPLES else total
                assert row.tolist() == [number < alone for number in range(total)]


def vars_of(layer: str) -> dict[str, Any]:
    return {
        **{"encoder": "transformer", "decoder": "transformer", "encoder_conf": {"input_layer": layer}},
        **{"frontend_conf": {"hop_length": 160}},
    }


def test_stepped_decoding_equals_training(both: tuple[ESPnet, Any]) -> None:
    """Teacher-forced log p, row by row: for token j, k + ⌊j / n⌋ units of audio have been heard."""
    model, theirs = both
    audio = noise(SAMPLES, 1)
    tokens = torch.randint(2, 20, (10,), generator=torch.manual_seed(1)).tolist()
    expected = taught(theirs, audio, tokens)
    session, frames = model.session(Opening("en", "de")), tiny_espnet.encoded(model, audio)
    assert model.decoder.lagging is not None
    writes, unidirectional = model.decoder.lagging.writes, model.decoder.lagging.unidirectional
    for j, row in enumerate(expected):
        heard = min((K + j // writes) * UNIT, SAMPLES)
        session.extend(audio[session.length : heard], final=heard == SAMPLES)
        seen = frames_of(session)
        # A bidirectional encoder changes its frames when it hears more. ESPnet has encoded the whole utterance.
        if unidirectional:
            torch.testing.assert_close(seen, frames[: len(seen)], atol=2e-5, rtol=1e-5)
        else:
            seen = frames[: len(seen)]
        memory = model.decoder.memory()
        memory.append(seen)
        log_p, _ = model.decoder.prefill(torch.tensor([theirs.sos, *tokens[:j]]), memory)
        torch.testing.assert_close(log_p[0], row, atol=1e-4, rtol=1e-4)
    late = taught(theirs, np.concatenate([audio[: 4 * UNIT], noise(SAMPLES, 2)[4 * UNIT :]]), tokens)
    changed = [not torch.allclose(a, b, atol=1e-3) for a, b in zip(expected, late, strict=True)]
    assert changed == [not unidirectional or j >= 2 * writes for j in range(11)]


def test_a_stream_writes_what_training_predicts(both: tuple[ESPnet, Any]) -> None:
    """The whole loop: each token is the best one in training after those before it, also at the end."""
    model, theirs = both
    options = JointBeamSearch(1, 0.0, max_length_ratio=0.3)
    assert model.decoder.lagging is not None
    n = model.decoder.lagging.writes
    stream = Stream(model.session(Opening("en", "de")), Decoding(WaitK(K, writes=n), All(), MaxTokens(n), options))
    stream.push(noise(SAMPLES, 3), finished=True)
    assert stream.reads == [*((K + j) * 280 for j in range(8)), SAMPLES / 16]
    if model.decoder.lagging.unidirectional:
        best = taught(theirs, noise(SAMPLES, 3), list(stream.committed)).argmax(-1).tolist()[:-1]
        assert list(stream.committed) == best and len(best) > 12


def test_only_its_own_wait_k(both: tuple[ESPnet, Any]) -> None:
    model, _ = both
    session = model.session(Opening("en", "de"))
    assert model.decoder.lagging is not None
    n = model.decoder.lagging.writes
    assert session.traits.trained_wait == (K, 280.0, n)
    for read in (WaitK(K + 1), WaitK(K, 320), WaitK(K, writes=3)):
        with pytest.raises(SimulstError, match=f"but the model was trained with 3, 280 and {n}; write those"):
            Stream(session, Decoding(read, All(), MaxTokens(read.writes)))
    Stream(session, Decoding(Offline(), All(), search=JointBeamSearch(1, 0.0))).push(noise(20000, 4), finished=True)


def test_espnets_own_classes_load_it(both: tuple[ESPnet, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a model like any other: it sees everything at once."""
    model, theirs = both
    monkeypatch.chdir(model.path.parents[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from espnet2.tasks.st import STTask

        plain, _ = STTask.build_model_from_file(model.path / "config.yaml", model.path / "endless.pth", "cpu")
    assert plain.state_dict().keys() == theirs.state_dict().keys()
    audio, tokens = noise(SAMPLES, 6), [3, 4, 5]
    masked, unmasked = taught(theirs, audio, tokens), taught(plain.eval(), audio, tokens)
    assert not torch.allclose(masked, unmasked, atol=1e-3)
    if not (model.decoder.lagging and model.decoder.lagging.unidirectional):
        short = audio[: K * UNIT]  # all of it is heard before the first token
        torch.testing.assert_close(taught(theirs, short, tokens), taught(plain, short, tokens))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wait_k": 0}, "wait_k: 0; wait for at least one unit"),
        ({"wait_writes": 0}, "wait_writes: 0; at least one token"),
        ({"wait_unit_ms": 100}, "wait_unit_ms: 100 ms; give a multiple of 40 ms, the encoder's frame, and at least 80"),
        ({"wait_unit_ms": 40}, "at least 80 ms"),
        ({"wait_unit_ms": -280}, "wait_unit_ms: -280 ms"),
        ({"wait_unit_ms": float("nan")}, "wait_unit_ms: nan ms"),
        ({"wait_unit_ms": float("inf")}, "wait_unit_ms: inf ms"),
        ({"encoder": "contextual_block_conformer"}, "'contextual_block_conformer'.*transformer or conformer"),
        (
            {"encoder": "conformer", "wait_unidirectional": True},
            "wait_unidirectional: .*'conformer'.*encoder transformer",
        ),
        ({"decoder": "rnn"}, "decoder 'rnn'"),
        ({"encoder_conf": {"input_layer": "conv2d2"}}, "input_layer 'conv2d2'; use one of conv2d, conv2d6"),
        ({"token_list": ["<blank>", "<2de>", "<2ja>"]}, "several languages"),
    ],
)
def test_bad_options(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SimulstError, match=message):
        lagging_of({**vars_of("conv2d"), "wait_k": 3, **changes})


def test_no_wait_k_is_no_lagging() -> None:
    assert lagging_of(vars_of("conv2d")) is None and lagging_of({"wait_k": None, "encoder": "rnn"}) is None
