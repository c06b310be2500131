"""Full-context encoders equal ESPnet's, and prefixes that share work equal prefixes that are encoded separately."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import tiny_espnet
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.calls import run_alone
from simulst.meter import Meter
from simulst.models import load_model
from simulst.models.espnet.encoding import open_encoding
from simulst.models.espnet.model import ESPnet

FULL = tiny_espnet.FULL
CONFORMER = {**FULL, "cnn_module_kernel": 7}
LATEST = {"rel_pos_type": "latest"}
ABSOLUTE = {"pos_enc_layer_type": "abs_pos", "selfattention_layer_type": "selfattn"}
CONFORMERS: dict[str, dict[str, Any]] = {
    "conformer": {},
    "conformer, conv2d8": {"input_layer": "conv2d8"},
    "conformer, conv2d1": {"input_layer": "conv2d1"},
    "conformer, latest": LATEST,
    "conformer, macaron": {**LATEST, "macaron_style": True},
    "conformer, relu": {"activation_type": "relu"},
    "conformer, no convolution": {**LATEST, "use_cnn_module": False},
    "conformer, absolute": ABSOLUTE,
    "conformer, scaled": {**ABSOLUTE, "pos_enc_layer_type": "scaled_abs_pos"},
    "conformer, convolved": {**ABSOLUTE, "pos_enc_layer_type": "conv"},
    "conformer, zero_triu": {**LATEST, "zero_triu": True},
    "conformer, hardtanh": {"activation_type": "hardtanh"},
    "conformer, linear": {"input_layer": "linear"},
}
ODD = {f"conformer, {name}" for name in ("scaled", "convolved", "zero_triu", "hardtanh", "linear")}  # ESPnet's layers
CASES: dict[str, tuple[str, dict[str, Any]]] = {  # what is computed here, and what ESPnet's own module does
    "transformer": ("transformer", {}),
    "conv2d6": ("transformer", {"encoder_conf": {**FULL, "input_layer": "conv2d6"}}),
    "conv2d2": ("transformer", {"encoder_conf": {**FULL, "input_layer": "conv2d2"}}),
    "norm after": ("transformer", {"encoder_conf": {**FULL, "normalize_before": False}}),
    "linear": ("transformer", {"encoder_conf": {**FULL, "input_layer": "linear"}}),
    "conv1d": ("transformer", {"encoder_conf": {**FULL, "positionwise_layer_type": "conv1d"}}),
    "concat_after": ("transformer", {"encoder_conf": {**FULL, "concat_after": True}}),
    "qk_norm": ("transformer", {"encoder_conf": {**FULL, "qk_norm": True}}),
    "utterance_mvn": ("transformer", {"normalize": "utterance_mvn", "normalize_conf": {}}),
    **{name: ("conformer", {"encoder_conf": {**CONFORMER, **changes}}) for name, changes in CONFORMERS.items()},
}
PLAIN = {"transformer", "conv2d6", "conv2d2", *CONFORMERS} - ODD
WHOLE = ("linear", "utterance_mvn", "conformer, linear")  # without a first step
SHORT, LONG = 300, 20_000


@pytest.fixture(scope="module", params=CASES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[ESPnet, Any]:
    encoder, changes = CASES[request.param]
    folder: Path = tmp_path_factory.mktemp("whole")
    theirs = tiny_espnet.write(folder, encoder, seed=1, **changes)
    model = load_model(folder / "exp" / "st")
    assert (model.full_context._subsampling is None) == (request.param in WHOLE)
    assert (model.full_context._layers is not None) == (request.param in PLAIN)
    return model, theirs


@settings(max_examples=15)
@given(samples=st.integers(SHORT, LONG), seed=st.integers(0, 99))
def test_as_espnet(both: tuple[ESPnet, Any], samples: int, seed: int) -> None:
    model, theirs = both
    audio = np.random.default_rng(seed).normal(0, 0.1, samples).astype(np.float32)
    ours = tiny_espnet.encoded(model, audio)
    with torch.inference_mode():
        features, lengths = theirs.frontend(torch.from_numpy(audio)[None], torch.tensor([samples]))
        features, lengths = theirs.normalize(features, lengths)
        try:
            expected = theirs.encoder(features, lengths)[0][0]
        except Exception as error:
            assert type(error).__name__ == "TooShortUttError"
            expected = torch.zeros(0, tiny_espnet.WIDTH)
    torch.testing.assert_close(ours, expected, atol=2e-5, rtol=1e-5)


@settings(max_examples=15)
@given(
    ends=st.lists(st.integers(0, LONG), min_size=1, max_size=5), samples=st.integers(0, LONG), seed=st.integers(0, 9)
)
def test_prefixes_as_by_themselves(both: tuple[ESPnet, Any], ends: list[int], samples: int, seed: int) -> None:
    """In any order, of two utterances at once."""
    model, _ = both
    audio = np.random.default_rng(seed).normal(0, 0.1, (2, samples)).astype(np.float32)
    known = [model.reduction.lasting(one) for one in audio]
    for end in (min(end, samples) for end in ends):
        reduced = [model.reduction.all(one[:end], rows) for one, rows in zip(audio, known, strict=True)]
        frames = model.full_context(torch.stack(reduced))
        for one, found in zip(audio, frames, strict=True):
            torch.testing.assert_close(found, tiny_espnet.encoded(model, one[:end]), atol=2e-5, rtol=1e-5)


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(0, LONG), max_size=5), samples=st.integers(0, LONG), final=st.booleans())
def test_audio_that_grows(both: tuple[ESPnet, Any], cuts: list[int], samples: int, final: bool) -> None:
    """Each step of a stream has the frames of all audio so far, and computes no lasting row of the first step twice."""
    model, _ = both
    audio = np.random.default_rng(samples).normal(0, 0.1, samples).astype(np.float32)
    encoding = open_encoding(model, Meter())
    bounds = [0, *sorted(min(cut, samples) for cut in cuts), samples]
    for start, end in pairwise(bounds):
        encoding.extend(audio[start:end], final and end == samples)
        with patch.object(model.features, "frames", wraps=model.features.frames) as asked:
            run_alone(encoding.encode())
        [part] = encoding.parts
        if model.full_context.factor > 1:  # READ makes no step without a new frame
            assert encoding.available == len(part.frames)
        torch.testing.assert_close(part.frames, tiny_espnet.encoded(model, audio[:end]), atol=2e-5, rtol=1e-5)
        reach = model.full_context.least + model.features.n_fft // model.features.hop  # at each of the two ends
        computed = sum(max(0, call.args[3] - call.args[2]) for call in asked.call_args_list)
        assert computed <= (end - start) // model.features.hop + 3 * reach


def test_a_text_may_have_25_tokens_a_second_however_long_frames_are(both: tuple[ESPnet, Any]) -> None:
    """And no fewer than a token a frame, as Nguyen et al. 2021 have it."""
    model, _ = both
    seconds, least = 4.0, model.search.length_ratio
    frames = len(tiny_espnet.encoded(model, np.zeros(round(seconds * 16000), np.float32)))
    assert least >= 1 and least * (frames + 3) >= 25 * seconds
    assert least == 1 or least * frames <= 25 * seconds
