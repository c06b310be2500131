"""The same Whisper weights in both forms give the same logits."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_huggingface import noise, to_ctranslate2

from simulst.calls import run_alone
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.models.base import language_pairs, tells
from simulst.models.huggingface.model import HuggingFace
from simulst.opening import Opening
from simulst.search import BeamSearch, JointBeamSearch
from whisper_to_huggingface import convert_whisper


@pytest.fixture(scope="module")
def ctranslate2_folder(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Hugging Face model as CTranslate2's own converter writes it."""
    return to_ctranslate2(folders["whisper"], tmp_path_factory.mktemp("ct2") / "model")


@pytest.fixture(scope="module")
def back(ctranslate2_folder: Path) -> Path:
    out = ctranslate2_folder.with_name("back")
    convert_whisper(ctranslate2_folder, out)
    return out


def test_there_and_back(back: Path, folders: dict[str, Path]) -> None:
    before, after = (load_model(folder, threads=1).architecture.model for folder in (folders["whisper"], back))  # type: ignore[attr-defined]
    expected, found = before.state_dict(), after.state_dict()
    assert expected.keys() == found.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=0)
    for name in ("suppress_tokens", "begin_suppress_tokens", "lang_to_id", "alignment_heads", "eos_token_id"):
        assert getattr(after.generation_config, name) == getattr(before.generation_config, name), name


def test_another_model_is_not_taken_for_this_one(
    ctranslate2_folder: Path, back: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Path(shutil.copytree(back, tmp_path / "out"))
    convert_whisper(ctranslate2_folder, out)
    assert "complete; --force does it again" in capsys.readouterr().out
    other = Path(shutil.copytree(ctranslate2_folder, tmp_path / "other"))
    data = bytearray((other / "model.bin").read_bytes())
    data[len(data) // 2] ^= 1  # in a weight
    (other / "model.bin").write_bytes(data)
    with pytest.raises(SimulstError, match=r"out: was begun with model\.bin .* name another folder, or use --force"):
        convert_whisper(other, out)
    convert_whisper(other, out, force=True)
    assert (out / "model.safetensors").is_file()


def test_log_p(ctranslate2_folder: Path, back: Path) -> None:
    """CTranslate2's `align` gives the probabilities among text tokens: all before <|endoftext|>."""
    model = load_model(back, threads=1, padding_seconds=30.0).architecture  # type: ignore[attr-defined]
    other = load_model(ctranslate2_folder, threads=1, compute_type="float32", padding_seconds=30.0)
    audio = noise(1.3)
    features = model.extractor(audio, sampling_rate=16000, return_tensors="pt").input_features
    texts = model.model.generation_config.eos_token_id
    tokens = tuple(int(token) for token in np.random.default_rng(7).integers(33, texts, 9))
    for target in ("es", "en"):
        prompt, log_p = model.prompt("es", target), 0.0
        with torch.inference_mode():
            for step, token in enumerate(tokens):
                ids = torch.tensor([[*prompt, *tokens[:step]]])
                logits = model.model(features, decoder_input_ids=ids).logits[0, -1, :texts]
                log_p += logits.log_softmax(-1)[token].item()
        aligned = other.align(other.encode(audio), prompt, tokens, audio.size // 160)  # type: ignore[attr-defined]
        assert aligned.log_p == pytest.approx(log_p, abs=1e-2)


def test_languages(back: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As probable as in the library, among languages alone. A model of English alone does not tell."""
    model = load_model(back, threads=1, padding_seconds=30.0)
    architecture = model.architecture  # type: ignore[attr-defined]
    found = tells(model)(noise(1.3))
    features = architecture.extractor(noise(1.3), sampling_rate=16000, return_tensors="pt").input_features
    start, *languages = (architecture._special(f"<|{name}|>") for name in ("startoftranscript", *found))
    with torch.inference_mode():
        logits = architecture.model(features, decoder_input_ids=torch.tensor([[start]])).logits[0, -1]
    assert list(found.values()) == pytest.approx(logits[languages].softmax(0).tolist(), abs=1e-4)
    assert found.keys() == language_pairs(model).keys() and len(found) > 1
    size = architecture.model.config.vocab_size
    monkeypatch.setattr("simulst.models.huggingface.architectures.ENGLISH_VOCABULARY", size)
    english = HuggingFace(architecture)
    with pytest.raises(SimulstError, match="HuggingFace: the model can't tell which language is spoken"):
        tells(english)
    assert language_pairs(english) == {"en": ("en",)}


def test_texts(ctranslate2_folder: Path, back: Path) -> None:
    """Both families write the same, also with their shorter windows."""
    texts = []
    for folder, search in (
        (back, JointBeamSearch(beam=1, ctc_weight=0.0)),
        (ctranslate2_folder, BeamSearch(beam=1, max_tokens_per_second=50)),
    ):
        options = {} if folder is back else {"compute_type": "float32"}
        session = load_model(folder, threads=1, **options).session(Opening("es", "en"))
        session.extend(noise(0.6))
        texts.append(run_alone(session.search((), search, None)).best[:15])
    assert texts[0] == texts[1] and len(texts[0]) > 5


def test_bad_folders(ctranslate2_folder: Path, tmp_path: Path) -> None:
    def spoilt(name: str, content: bytes | None) -> Path:
        folder = Path(shutil.copytree(ctranslate2_folder, tmp_path / f"{len(list(tmp_path.iterdir()))}"))
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)
        return folder

    data = (ctranslate2_folder / "model.bin").read_bytes()
    for folder, words in (
        (spoilt("config.json", None), "config.json is missing"),
        (spoilt("model.bin", data[:5000]), "broken, or not CTranslate2's"),
        (spoilt("model.bin", b"\x05" + data[1:]), "version 5 of CTranslate2's form; give one of version 6"),
        (spoilt("config.json", b"{"), "config.json"),
    ):
        with pytest.raises(SimulstError, match=words):
            convert_whisper(folder, tmp_path / "out")
