"""A tiny speech LLM that knows nothing: audio gets through its weights, and it learns by tokens and CTC."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sounds
import tiny_huggingface
import torch
import transformers
import yaml
from click.testing import CliRunner
from safetensors.torch import load_file

import make_speech_llm
from simulst.config import parse_decoding
from simulst.models import load_model
from simulst.streams import open_stream
from simulst.training.finetune import finetune
from simulst.training.speech_text import Part

TEXTS = ["der Hund sitzt auf der Matte", "die Katze", "der Hund und die Katze", "ein Haus"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    audio = {f"u{number}": tiny_huggingface.noise(1 + 0.3 * number, number) for number in range(len(TEXTS))}
    texts = dict(zip(audio, TEXTS, strict=True))
    return sounds.write(tmp_path_factory.mktemp("data"), audio, {"de": texts, "en": texts})


@pytest.fixture(scope="module")
def begun(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("llm") / "m"
    options = ["--data", str(data), "--target-lang", "de", "--out", str(out), "--pieces", "40"]
    for said in ("", "complete; --force"):
        ran = CliRunner().invoke(make_speech_llm.main, options, catch_exceptions=False)
        assert ran.exit_code == 0 and said in ran.output
    return out


def embedded(model: Any, samples: Any) -> torch.Tensor:
    return model.architecture.encode(samples).frames


def test_audio_gets_through(begun: Path, tmp_path: Path) -> None:
    """What differs between frames is as large as the embeddings; with the library's weights it is nearly nothing."""
    model: Any = load_model(str(begun), threads=1)
    samples = tiny_huggingface.noise(3)
    frames = embedded(model, samples)
    assert len(frames) == pytest.approx(75, abs=1)  # 25 a second
    differs = float(frames.std(0).mean())
    assert 0.2 < differs < 5
    other = samples.copy()
    other[24000:] *= 0.1
    changed = (embedded(model, other) - frames).abs().mean(1) / differs
    assert changed[32:36].min() > 0.05  # these frames hear what comes after them
    config = model.architecture.model.config
    torch.manual_seed(0)
    model.architecture.model = transformers.Phi4MultimodalForCausalLM(config).eval()
    assert float(embedded(model, samples).std(0).mean()) < differs / 20


def test_it_learns_by_tokens_and_ctc(begun: Path, data: Path, tmp_path: Path) -> None:
    options = {"epochs": 6, "learning_rate": 0.003, "batch_seconds": 3, "train_features": True, "ctc_weight": 0.3}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(options))
    parts = [Part("en-de", data)]
    finetune(tmp_path / "c.yaml", begun, parts, parts, tmp_path / "out")
    losses = json.loads((tmp_path / "out/epochs.json").read_text())
    assert losses["6"] < losses["1"] - 0.5
    assert not any(name.startswith("ctc.") for name in load_file(tmp_path / "out/model/model.safetensors"))
    decoding = parse_decoding({"read": {"type": "chunk", "ms": 500}, "commit": {"type": "hold", "n": 1}}, "test")
    stream = open_stream(load_model(str(tmp_path / "out/model")), decoding, "en", "de")
    stream.push(tiny_huggingface.noise(1.6, 2), finished=True)
    assert stream.emissions
