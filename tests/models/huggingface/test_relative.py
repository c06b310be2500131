"""wav2vec 2.0 with relative positions: it begins as the model whose weights it gets, and computes its formula."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_huggingface import WAV2VEC2

from simulst.models.huggingface.relative import RelativeConfig, RelativeModel

SIZES: dict[str, Any] = {**WAV2VEC2, "feat_extract_norm": "layer", "do_stable_layer_norm": True}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("relative") / "w2v"
    transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(**SIZES)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_it_begins_as_wav2vec_2(plain: Path, attention: str) -> None:
    """Also where a batch is padded. Only its own weights are new."""
    before = transformers.Wav2Vec2Model.from_pretrained(plain).eval()
    model, report = transformers.AutoModel.from_pretrained(
        plain, config=RelativeConfig(**SIZES), attn_implementation=attention, output_loading_info=True
    )
    assert isinstance(model.eval(), RelativeModel) and not report["unexpected_keys"]
    assert {name.rpartition(".")[2] for name in report["missing_keys"]} == {
        f"relative_{name}" for name in ("distance", "to_key", "to_distance")
    }
    audio, mask = torch.randn(2, 8000), torch.ones(2, 8000, dtype=torch.long)
    mask[1, 5000:] = 0
    one, other = (m(audio, attention_mask=mask).last_hidden_state for m in (before, model))
    assert torch.allclose(one[0], other[0], atol=1e-5) and torch.allclose(one[1, :15], other[1, :15], atol=1e-5)


def test_the_formula() -> None:
    """Section 3.3 of Dai et al. 2019, by loops."""
    torch.manual_seed(1)
    model = RelativeModel(RelativeConfig(**SIZES)).eval()
    attention = model.encoder.layers[1].attention
    with torch.no_grad():
        for weight in attention.parameters():
            weight.normal_(0, 0.3)
        x = torch.randn(5, 16)
        query, key, value = (
            part(x).unflatten(1, (2, 8)) for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        expected = torch.zeros(5, 2, 8)
        for i in range(5):
            scores = torch.zeros(2, 5)
            for j in range(5):
                p = [f((i - j) * 10000 ** (-n / 16)) for n in range(0, 16, 2) for f in (math.sin, math.cos)]
                distance = (attention.relative_distance @ torch.tensor(p)).unflatten(0, (2, 8))
                content = (query[i] + attention.relative_to_key[:, 0]) * key[j]
                scores[:, j] = (content + (query[i] + attention.relative_to_distance[:, 0]) * distance).sum(1)
            expected[i] = torch.einsum("hj,jhd->hd", torch.softmax(scores / math.sqrt(8), 1), value)
        found, _ = attention(x[None])
        assert torch.allclose(found[0], attention.out_proj(expected.flatten(1)), atol=1e-5)


def test_its_weights_are_saved_and_learn(tmp_path: Path) -> None:
    model = RelativeModel(RelativeConfig(**SIZES, mask_time_prob=0.0))
    model(torch.randn(1, 8000)).last_hidden_state.square().sum().backward()
    assert model.encoder.layers[0].attention.relative_distance.grad.abs().sum() > 0
    with torch.no_grad():
        model.encoder.layers[0].attention.relative_distance.normal_()
    model.save_pretrained(tmp_path)
    again = transformers.AutoModel.from_pretrained(tmp_path)
    assert isinstance(again, RelativeModel)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
