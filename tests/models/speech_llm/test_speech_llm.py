"""Speech LLMs under our searches and policies, on tiny random models of each kind."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tiny_speech_llm
import torch
import transformers
from fake import noted, pushed
from tiny_huggingface import change, noise
from tiny_speech_llm import AUDIO, KINDS, SECONDS

from simulst.background import Background
from simulst.calls import run_alone
from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.meter import Meter
from simulst.models.heads import Spoken
from simulst.models.huggingface.causal import CausalDecoder
from simulst.models.huggingface.decoder import _shown_attention
from simulst.models.huggingface.model import HuggingFace
from simulst.models.registry import digest_of_weights, load_model
from simulst.opening import Opening
from simulst.policy.context import Context
from simulst.policy.stop import AlignAtt
from simulst.search import JointBeamSearch
from simulst.streams import open_stream
from simulst.streams.driver import Driver
from simulst.words import Words

LONGEST = "max_source_positions"
GREEDY = JointBeamSearch(beam=1, ctc_weight=0.0, max_length_ratio=0.5)
PAIRS = {kind: ("es", "es" if kind == "qwen3_asr" else "de") for kind in KINDS}


def session_of(model: HuggingFace, samples: np.ndarray) -> Any:
    session = model.session(Opening(*pair_of(model)))
    session.extend(samples)
    return session


def pair_of(model: HuggingFace) -> tuple[str, str]:
    return PAIRS[model.architecture.path.name]


def found(session: Any, committed: Tokens = (), search: JointBeamSearch = GREEDY) -> Tokens:
    return run_alone(session.search(committed, search, None)).best


def features(kind: str, architecture: Any, samples: np.ndarray) -> dict[str, Any]:
    """What the library's own processor makes of audio. Two of them can't be made without torchvision."""
    extractor, tokenizer = architecture.extractor, architecture.tokenizer
    heard = {"sampling_rate": 16000, "return_tensors": "pt"}
    if kind == "voxtral":
        processor: Any = transformers.VoxtralProcessor(extractor, tokenizer)
        options = processor.audio_kwargs | {"pad_to_multiple_of": SECONDS * 16000}
        return {"input_features": processor._retrieve_input_features([samples], **options | {LONGEST: SECONDS * 100})}
    if kind == "qwen2_5_omni":
        found = dict(extractor([samples], padding="max_length", return_attention_mask=True, **heard))
        return found | {"feature_attention_mask": found.pop("attention_mask")}
    if kind == "phi4_multimodal":
        return dict(extractor([samples], **heard))
    if kind == "qwen3_asr":
        for place in ("", "_bos", "_eos"):
            setattr(tokenizer, f"audio{place}_token", "<|audio|>")
        processor = transformers.Qwen3ASRProcessor(extractor, tokenizer)
    elif kind == "granite_speech":
        processor = transformers.GraniteSpeechProcessor(extractor, tokenizer)
    else:
        processor = transformers.Qwen2AudioProcessor(extractor, tokenizer, audio_token="<|audio|>")
    return dict(processor(text=["<|audio|>"], audio=[samples], **heard))


def generated(kind: str, architecture: Any, samples: np.ndarray, prompt: Tokens, new: int) -> Tokens:
    """What the library's own greedy search writes after a prompt."""
    inputs = features(kind, architecture, samples)
    ids = torch.tensor([[token if token >= 0 else AUDIO for token in prompt]])
    if "input_ids" in inputs:
        assert int((ids == AUDIO).sum()) == int((inputs["input_ids"] == AUDIO).sum())
    inputs |= {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    hook = architecture.model.get_output_embeddings()._forward_pre_hooks
    assert len(hook) == 1  # logits of the last position alone
    [text] = architecture.model.generate(
        **inputs, do_sample=False, max_new_tokens=new, suppress_tokens=list(architecture.never)
    )[:, ids.shape[1] :].tolist()
    return tuple(text[: text.index(architecture.eos)] if architecture.eos in text else text)


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("seconds", "committed"), [(1.7, ()), (2.3, (10, 77, 12))])
def test_greedy_search_is_the_librarys(
    kind: str, seconds: float, committed: Tokens, models: dict[str, HuggingFace]
) -> None:
    """From the same prompt, also where text is committed: it is the beginning of the answer."""
    architecture: Any = models[kind].architecture
    session = session_of(models[kind], noise(seconds))
    ours = found(session, committed)
    new = len(ours) - len(committed)
    assert new > 4
    assert ours == committed + generated(kind, architecture, noise(seconds), session._prompt() + committed, new)


POLICIES: list[dict[str, Any]] = [
    {"commit": {"type": "hold", "n": 3}},
    {"commit": {"type": "local_agreement", "n": 2}},
    {"commit": {"type": "all"}, "stop": {"type": "align_att", "frames": 4, "layers": [-1]}},
    {"commit": {"type": "hold", "n": 1}, "segment": {"type": "attention", "words": 1}},
]


def opened(model: HuggingFace, policy: dict[str, Any]) -> Any:
    search = {"type": "joint_beam", "beam": 2, "ctc_weight": 0.0, "max_length_ratio": 0.3}
    decoding = parse_decoding({"read": {"type": "chunk", "ms": 600}, "search": search, **policy}, "test")
    return open_stream(model, decoding, *pair_of(model))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: "-".join(one["type"] for one in policy.values()))
def test_any_cut_of_the_audio_and_any_company(
    model: HuggingFace, policy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words are those of a stream alone: for audio in any pieces, and in batches with others that join later."""
    talks = [noise(1.4), noise(2.2, 1), noise(1.4)]
    alone = [pushed(opened(model, policy), samples) for samples in talks]
    assert all(alone)
    assert pushed(opened(model, policy), talks[0], range(5000, talks[0].size, 5000)) == alone[0]
    counts = noted(monkeypatch, CausalDecoder, "read_together", lambda self, reads: len(reads))
    driver, streams = Driver(math.inf), [opened(model, policy) for _ in talks]
    for stream, samples in zip(streams, talks, strict=True):
        driver.push(stream, samples, True)
        driver.step()
    driver.finish()
    assert [[(word.text, word.delay_ms) for word in stream.emissions] for stream in streams] == alone
    assert max(counts) > 1, "steps of several streams share a batch"


def test_what_did_not_change_is_not_read_again(model: HuggingFace, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is found equals what a session without a past finds."""
    lengths = noted(monkeypatch, CausalDecoder, "_read", lambda self, tokens, *_: tokens.shape[1])
    samples, wide = noise(3), JointBeamSearch(beam=3, ctc_weight=0.0, max_length_ratio=0.3)
    session = session_of(model, samples[:24000])
    first = found(session)
    before, after = session._chat()
    short = len(session._encoded.frames)
    kept = [run_alone(session.search(first[:3], wide, None)).beam]
    session.extend(samples[24000:])
    kept += [run_alone(session.search(first[:count], wide, None)).beam for count in (3, 2)]
    long = len(session._encoded.frames)
    beginnings = [len(before) + short + len(after), 3, long + len(after) + 3, 1]
    assert [length for length in lengths if length > 1] == [length for length in beginnings if length > 1]
    for beam, seconds, count in zip(kept, (1.5, 3, 3), (3, 3, 2), strict=True):
        fresh = session_of(model, samples[: round(seconds * 16000)])
        scratch = run_alone(fresh.search(first[:count], wide, None)).beam
        assert [h.tokens for h in beam] == [h.tokens for h in scratch]
        assert [h.score for h in beam] == pytest.approx([h.score for h in scratch], abs=1e-4)


def attention_of_the_library(session: Any, text: Tokens) -> torch.Tensor:
    """To the audio, from where each token of a text is written, and from its end: (layers, heads, rows, T)."""
    prompt, encoded, model = session._prompt(), session._encoded, session._model.model
    memory = session._decoder(encoded, ()).memory()
    memory.append(encoded.frames)
    inputs = session._decoder(encoded, ())._inputs(torch.tensor([prompt + text]), 0, memory)
    with torch.inference_mode(), _shown_attention(model, True):
        output = model(**inputs, output_attentions=True)
    begin = len(session._chat()[0])
    return torch.stack(output.attentions)[:, 0, :, len(prompt) - 1 :, begin : begin + encoded.heard]


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("beside", [False, True])
def test_align_att(beside: bool, model: HuggingFace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search ends before the first token that attends most to the last frames, by STOP's heads or the model's."""
    stops, pairs = set(), ((1, 0), (0, 1))
    monkeypatch.setattr(model.architecture, "alignment_heads", pairs if beside else ())
    for seed in range(3):
        session = session_of(model, noise(1.7, seed))
        text = found(session)
        rows = attention_of_the_library(session, text)
        heads = torch.stack([rows[pair] for pair in pairs]) if beside else rows[1]
        left = (rows.shape[-1] - 1 - heads.mean(0).argmax(-1)).tolist()
        aligning = (heads if beside else rows.flatten(0, 1)).mean(0)[: len(text)]
        torch.testing.assert_close(session._attention(text, session._encoded), aligning, atol=1e-4, rtol=1e-3)
        for frames in (1, 4, 16):
            options = AlignAtt(frames, layers=() if beside else (-1,))
            stop = options.open(Context(Words(session.text, "word"), Meter(), 16000, float, layers=2, heads=2))
            expected = next((n for n in range(len(text)) if left[n] < frames), len(text))
            assert run_alone(session.search((), GREEDY, stop)).best == text[:expected]
            stops.add(expected)
    assert len(stops) > 1


def test_simulst_models_heads_sees_all_heads(models: dict[str, HuggingFace], tmp_path: Path) -> None:
    model: Any = models["qwen3_asr"]
    soundfile.write(tmp_path / "a.wav", noise(1.7), 16000, subtype="FLOAT")
    session = session_of(model, noise(1.7))
    found(session)
    full = attention_of_the_library(session, session.spell("der Hund"))[:, :, :-1]
    with pytest.MonkeyPatch.context() as patched:
        for beside in ((), ((1, 0),)):
            patched.setattr(model.architecture, "alignment_heads", beside)
            seen = Spoken(model, pair_of(model)).seen(str(tmp_path / "a.wav"), "der Hund")
            np.testing.assert_allclose(seen.weights, full.numpy(), atol=1e-4)
            assert seen.places[-1] == 1700


def test_audio_beyond_the_window_slides(folders: dict[str, Path]) -> None:
    """It leaves with its words. The chat shows the last of them, and the answer goes on with a space between."""
    model: Any = load_model(folders["qwen2_audio"], threads=1, window=5.0, history=6)
    stream = opened(model, {"commit": {"type": "local_agreement"}, "read": {"type": "chunk", "ms": 1000}})
    session, sizes, shown = stream.session, [], set()
    for second in range(13):
        stream.push(noise(1, second))
        sizes.append(session._audio.size)
        shown.add(session._previous())
        assert session._previous() == session._evicted[-6:]
    stream.push(np.zeros(0, np.float32), finished=True)
    assert max(sizes) <= 5 * 16000 and session._offset > 5 * 16000
    assert session.length == 13 * 16000 and session.evicted > 0 and len(shown) > 2
    session._leave(session._audio.size, session._audio.size, session._evicted)
    session.extend(noise(2))
    assert found(session, session._evicted)[session.evicted :][:1] == session._between == session.spell(" ")


CHATS = {
    "qwen2_audio": "<|user|><|audio|>{asked}<|assistant|>",
    "voxtral": "<s>[INST][BEGIN_AUDIO]<|audio|>{asked}[/INST]",
    "granite_speech": "<|system|>You are Granite, developed by IBM. You are a helpful AI assistant."
    "<|user|><|audio|>{asked}<|assistant|>",
}


def test_the_chat(models: dict[str, HuggingFace]) -> None:
    known = Background(text="Un cuento.", terms=(("gato", "Katze"),))

    def told(kind: str, *languages: str, **options: Any) -> str:
        before, after = models[kind].architecture.chat(*languages, **options)  # type: ignore[attr-defined]
        return models[kind].architecture.tokenizer.decode((*before, AUDIO, *after))

    asked = "Translate the speech from Spanish to Chinese. Write the translation and nothing else."
    for kind, chat in CHATS.items():
        previous = models[kind].architecture.tokens("el gato", "es")
        assert told(kind, "es", "zh-TW") == chat.format(asked=asked)
        said = f"{asked}\nContext: Un cuento.\nTerms: gato = Katze\nText before this: el gato"
        assert told(kind, "es", "zh", previous=previous, background=known) == chat.format(asked=said)
        assert "Transcribe the speech in Spanish." in told(kind, "es", "es-MX")
    context, answer = "Context: Un cuento.\nTerms: gato", "<|assistant|>language Spanish<asr_text>"
    assert told("qwen3_asr", "es", "es") == f"<|user|><|audio|>{answer}"
    assert told("qwen3_asr", "es", "es", background=known.spoken).replace("\n", "") == (
        f"<|system|>{context}<|user|><|audio|>{answer}".replace("\n", "")
    )


def test_a_type_of_ones_own(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One record is enough: the class of transformers, and how features become embeddings."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    own: Any = load_model(folders["granite_speech"], threads=1, architecture="mine:Mine")
    session = own.session(Opening("es", "de"))
    session.extend(noise(1.7))
    assert found(session) and "<|system|>" not in own.architecture.tokenizer.decode(session._chat()[0])


MINE = """
from simulst.models.speech_llm.architectures import SpeechLLM, of_each

class Mine(SpeechLLM):
    library = "GraniteSpeechForConditionalGeneration"

    def inputs(self, windows):
        return {"input_features": self.extractor(list(windows)).input_features}

    def encoded(self, inputs):
        frames = self.model.get_audio_features(**inputs).pooler_output
        return of_each(frames.flatten(0, 1), len(frames))
"""


def test_code_of_the_model_is_not_run_without_consent(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["phi4_multimodal"], tmp_path / "copy"))
    classes = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    change(folder / "config.json", model_type="phi4mm", auto_map=classes)
    (folder / "own.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(SimulstError, match="copy: the model wants to run Python code of its own; read that code, and"):
        load_model(folder)


def test_an_adapter_is_a_part_of_the_model(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["phi4_multimodal"], tmp_path / "copy"))
    usual = digest_of_weights(folder, {})
    (folder / "speech-lora").mkdir()
    (folder / "speech-lora" / "adapter_model.safetensors").write_bytes(b"other weights")
    assert digest_of_weights(folder, {}) != usual
    with pytest.raises(SimulstError, match=r"copy: speech-lora (needs a package that is missing|cannot be read) \("):
        load_model(folder)
    granite = Path(shutil.copytree(folders["granite_speech"], tmp_path / "granite"))
    change(granite / "config.json", has_lora_adapter=True)
    with pytest.raises(SimulstError, match="granite: the model hears by an adapter, which needs the package peft"):
        load_model(granite)


def test_where_the_template_is(models: dict[str, HuggingFace], tmp_path: Path) -> None:
    """A template without audio is that of the language model: older folders have the other beside it, or not at all."""
    folder = tiny_speech_llm.write(tmp_path / "model", "qwen2_audio", template="{{ messages[0].role }}")
    architecture: Any = load_model(folder, threads=1).architecture  # type: ignore[attr-defined]
    assert "<|audio_bos|><|AUDIO|><|audio_eos|>" in architecture.template
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": tiny_speech_llm.TEMPLATE, "version": 1}))
    architecture = load_model(folder, threads=1).architecture  # type: ignore[attr-defined]
    usual: Any = models["qwen2_audio"].architecture
    assert architecture.chat("es", "de") == usual.chat("es", "de")
    for text, told in (('{"chat_template": [{"name": "default"}]}', ".* string"), ("{}", "Field required")):
        (folder / "chat_template.json").write_text(text)
        with pytest.raises(SimulstError, match=rf"chat_template\.json: chat_template: {told}; copy the model's own"):
            _ = load_model(folder, threads=1).architecture.template  # type: ignore[attr-defined]


def test_errors(folders: dict[str, Path], models: dict[str, HuggingFace], tmp_path: Path) -> None:
    nobody = opened(models["qwen3_asr"], {"commit": {"type": "all"}, "stop": {"type": "align_att", "frames": 4}})
    with pytest.raises(SimulstError, match="nobody has said which of its heads align a text; find them by 'simulst"):
        nobody.push(noise(1), True)

    def refused(message: str, kind: str = "qwen2_audio", source: str = "es", **options: Any) -> None:
        with pytest.raises(SimulstError, match=message):
            model: Any = load_model(tmp_path / "model" if (tmp_path / "model").exists() else folders[kind], **options)
            session = model.session(Opening(source, "de"))
            session.extend(noise(2))
            found(session)

    refused("no English name of the language 'gsw' is known; write an instruction that names it", source="gsw")
    refused("the model can't write 'es' as 'de'; it writes what is said, in ar, cs, ", "qwen3_asr")
    for template, message in (
        (None, r"model: has no chat template \(chat_template.jinja\); copy it there"),
        ("{{ messages[0].role }}", r"model: the chat template has no place for audio \(<\|audio\|>\); copy"),
        ("{{ nothing() }}", r"model: the chat template cannot be used \(.*nothing"),
    ):
        tiny_speech_llm.write(tmp_path / "model", "granite_speech", template=template)
        refused(message)
    tiny_speech_llm.write(tmp_path / "model", "qwen2_audio", positions=120)
    refused("the audio and what the model is told are 12. tokens, but it reads 120; give it a shorter window or less")
