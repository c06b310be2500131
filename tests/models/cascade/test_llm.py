"""Tiny random language models that chat, behind a recogniser."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import speaker
import tiny_huggingface
import torch
import transformers
from fake import noted

from simulst.background import Background
from simulst.config import parse_decoding
from simulst.errors import SimulstError, warn_once
from simulst.models import load_model
from simulst.models.cascade.llm import LLM
from simulst.models.huggingface.attention import STEPPED
from simulst.models.huggingface.causal import _is_batched
from simulst.opening import Opening
from simulst.search import JointBeamSearch
from simulst.streams import open_stream

SAY = "The cat sat on the mat. The dog sat by the cat."
GREEDY = JointBeamSearch(beam=1, ctc_weight=0.0, max_length_ratio=3.0)


def translation(folder: Path, **options: Any) -> Any:
    return LLM(model=str(folder), **options).load(folder / "cascade.yaml", 1)(Opening("en", "de"))


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("kind", speaker.CHATS)
def test_greedy_search_is_the_librarys(kind: str, chats: dict[str, Path]) -> None:
    """All tokens that end a line are one end; the others are those of `generate`."""
    ours = translation(chats[kind])
    loaded = ours._loaded
    prompt = loaded.prompt(ours._options.messages("en", "de", "the cat sat", ()))
    said = loaded.tokenizer.decode(list(prompt))
    assert "the cat sat" in said and said.endswith("<|assistant|>")
    [theirs] = loaded.model.generate(
        input_ids=torch.tensor([prompt]), num_beams=1, do_sample=False, max_new_tokens=12,
        eos_token_id=list(loaded.ends), bad_words_ids=[[token] for token in loaded.never],
    ).tolist()  # fmt: skip
    theirs = [token for token in theirs[len(prompt) :] if token not in loaded.ends]
    [best] = speaker.searched(ours, "the cat sat", (), GREEDY, None)
    assert list(best.tokens[: len(theirs)]) == theirs and len(theirs) > 3


def test_what_is_known_is_not_read_again(chats: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    ours = translation(chats["llama"])
    read = noted(monkeypatch, ours._loaded.model, "forward", lambda **given: given["input_ids"].shape[1])
    speaker.searched(ours, "the cat sat", (), GREEDY, None)
    first, read[:] = read[0], []
    speaker.searched(ours, "the cat sat on", (), GREEDY, None)
    assert first > 20 and read[0] < 8


@pytest.mark.parametrize(
    ("kind", "options", "batched"),
    [
        *((kind, {}, True) for kind in ("llama", "qwen2", "qwen3")),
        ("mistral", {"sliding_window": None}, True),
        ("mistral", {}, False),  # 4096 tokens
        ("qwen3", {"use_sliding_window": True, "sliding_window": 8}, False),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, False),
        ("gemma3_text", {}, False),
    ],
)
def test_which_models_share_batches(kind: str, options: dict[str, Any], batched: bool) -> None:
    config = transformers.AutoConfig.for_model(kind, **options)
    assert not _is_batched(config)
    config._attn_implementation = STEPPED
    assert _is_batched(config) == batched


def test_sentences_are_spaced(chats: dict[str, Path]) -> None:
    for kind in speaker.CHATS:
        ours = translation(chats[kind])
        one = ours._loaded.spelled("cat")
        assert ours.text(one + ours.between + one) == "cat cat"


def test_what_it_is_told(chats: dict[str, Path]) -> None:
    examples = ({"source": "a cat", "target": "eine Katze"},)
    options = LLM(model="x", instruction="From {source} to {target}.", examples=examples, history=2)
    past = (("One.", "Eins."), ("Two.", "Zwei."))
    told = options.messages("en", "de", "Three.", past)
    assert [message["role"] for message in told] == ["system", *["user", "assistant"] * 3, "user"]
    assert told[0]["content"] == "From en to de." and told[1]["content"] == "a cat"
    assert [m["content"] for m in told[3:]] == ["One.", "Eins.", "Two.", "Zwei.", "Three."]
    known = Background("A talk.", "Ein Vortrag.", (("cat", "Katze"), ("CTC", "CTC"), ("", "Hund")))
    told = options.messages("en", "de", "Three.", (), known)
    assert told[0]["content"] == "From en to de.\nContext: A talk. Ein Vortrag.\nTerms: cat = Katze; CTC; Hund"


def test_a_template_without_the_systems_role(tmp_path: Path) -> None:
    refuses = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    folder = tiny_huggingface.write_language_model(tmp_path / "m", template=refuses + tiny_huggingface.TEMPLATE)
    loaded = translation(folder)._loaded
    text = loaded.tokenizer.decode(
        list(loaded.prompt([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]))
    )
    assert "<|user|>" in text and "<|system|>" not in text


def test_a_translation_that_fills_the_context(chats: dict[str, Path], caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    ours = translation(chats["llama"])
    room = 256 - len(ours._loaded.prompt(ours._options.messages("en", "de", SAY, ())))
    prefix = (5, 6) * room
    for size in (room - 1, room, room + 1):
        found = speaker.searched(ours, SAY, prefix[:size], replace(GREEDY, max_length_ratio=99), None)
        assert found[0].tokens[:size] == prefix[:size]
        assert len([record for record in caplog.records if "positions" in record.getMessage()]) == (size >= room)
    assert [h.tokens for h in found] == [prefix[:size]]
    assert "fills the 256 positions of the decoder, so a step added nothing; give it fewer examples" in caplog.text


def test_bad_models(chats: dict[str, Path], tmp_path: Path) -> None:
    broken = tiny_huggingface.write_language_model(tmp_path / "broken", template="{{ messages.nothing.at_all }}")
    silent = tiny_huggingface.write_language_model(tmp_path / "silent", template="")
    (silent / "chat_template.jinja").unlink(missing_ok=True)
    marian = tiny_huggingface.write_text_model(tmp_path / "marian", "marian")
    chat = {"type": "llm", "model": str(chats["llama"])}
    for translator, words in (
        ({"type": "llm", "model": str(marian)}, "type 'marian' is not a decoder-only language model"),
        ({"type": "llm", "model": str(silent)}, "has no chat template"),
        ({"type": "llm", "model": str(broken)}, "the chat template cannot be used"),
        ({"type": "llm", "model": str(tmp_path / "gone")}, "no such folder; check the path"),
        ({**chat, "instruction": "be brief " * 90}, r"the chat has \d+ tokens, but the model reads 256; give it fewer"),
        ({**chat, "examples": [{"source": "a"}]}, "must have the keys 'source' and 'target'; found {'source': 'a'}"),
        ({**chat, "examples": ["a"]}, "option 'examples'"),
        ({**chat, "history": -1}, "option 'history'"),
    ):
        path = speaker.write(tmp_path, translator, SAY)
        decoding = parse_decoding({"read": {"type": "chunk", "ms": 400}, "commit": {"type": "all"}}, "test")
        with pytest.raises(SimulstError, match=words) as caught:
            open_stream(load_model(path), decoding, "en", "de").push(speaker.audio(SAY), finished=True)
        assert "\n" not in str(caught.value)
