"""What is recognised, and what ends in a sentence."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_huggingface
import transformers
from tiny_huggingface import LAYERS, change

from simulst.errors import SimulstError
from simulst.models.huggingface.model import HuggingFace
from simulst.models.registry import load_model


@pytest.fixture
def copy(folders: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders["mbart"], tmp_path / "copy"))


def cut_tokeniser(folder: Path) -> None:
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes()[:1000])


def text_only(folder: Path) -> None:
    tiny = transformers.BartConfig(
        vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16,
    )  # fmt: skip
    transformers.BartForConditionalGeneration(tiny).save_pretrained(folder)


def without_pieces(folder: Path) -> None:
    """The library then makes a tokeniser of languages and other special tokens."""
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MBart50Tokenizer"}))


def larger_tokeniser(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"]["zzz"] = 199
    (folder / "tokenizer.json").write_text(json.dumps(content))


BAD: list[tuple[Callable[[Path], None], str]] = [
    (lambda folder: (folder / "config.json").write_text("{") and None, "not a model that simulst knows"),
    (lambda folder: (folder / "tokenizer.json").unlink(), "tokeniser"),
    (cut_tokeniser, "the tokeniser cannot be read"),
    (without_pieces, r"has no tokeniser \(tokenizer.json, or its SentencePiece model\)"),
    (larger_tokeniser, "the tokeniser has the token 199, but the model has .* tokens; copy the model's own tokeniser"),
    (text_only, "a model of type 'bart' does not turn speech into text"),
]


@pytest.mark.parametrize(("spoil", "words"), BAD)
def test_what_is_no_speech_model(copy: Path, spoil: Callable[[Path], None], words: str) -> None:
    spoil(copy)
    with pytest.raises(SimulstError, match=words) as caught:
        load_model(copy, threads=1)
    assert str(copy) in str(caught.value) and "\n" not in str(caught.value)


def test_a_whisper_of_english_alone(folders: dict[str, Path], tmp_path: Path) -> None:
    """Its tokeniser may have all languages."""
    folder = Path(shutil.copytree(folders["whisper"], tmp_path / "whisper"))
    change(folder / "generation_config.json", is_multilingual=False)
    architecture = load_model(folder, threads=1).architecture  # type: ignore[attr-defined]
    names = architecture.tokenizer.convert_ids_to_tokens(architecture.prompt("en", "en"))
    assert names == ["<|startoftranscript|>", "<|notimestamps|>"]
    for pair in (("es", "en"), ("en", "es")):
        with pytest.raises(SimulstError, match="this Whisper hears and writes English alone, not "):
            architecture.prompt(*pair)


def test_weights_of_another_model(copy: Path) -> None:
    config = transformers.SpeechEncoderDecoderConfig.from_pretrained(copy)
    config.decoder.decoder_layers = config.decoder.num_hidden_layers = 3
    config.save_pretrained(copy)
    with pytest.raises(SimulstError, match=r"the weights lack 'decoder.*not whole"):
        load_model(copy, threads=1)


@pytest.mark.parametrize("key", ["decoder_layers", "encoder_layers"])
@pytest.mark.parametrize("kind", ["whisper", "speech_to_text"])
def test_a_configuration_with_fewer_layers(tmp_path: Path, kind: str, key: str) -> None:
    """As that of a distilled model beside the weights of the whole one."""
    folder = tiny_huggingface.write(tmp_path / "model", kind)
    load_model(folder, threads=1)
    change(folder / "config.json", **{key: LAYERS - 1})
    with pytest.raises(
        SimulstError, match=r"the weights hold '.*layers\.1\..*, which the model of config\.json does not have"
    ):
        load_model(folder, threads=1)


@pytest.mark.parametrize(
    ("kind", "changed", "words"),
    [
        ("whisper", {"sampling_rate": 8000}, "has sampling_rate 8000, but the model needs 16000"),
        ("whisper", {"hop_length": 320}, "has hop_length 320, but the model needs 160"),
        ("whisper", {"n_fft": 512}, "has n_fft 512, but the model needs 400"),
        ("whisper", {"feature_size": 128}, "has feature_size 128, but the model needs"),
        ("speech_to_text", {"sampling_rate": 8000}, "has sampling_rate 8000, but the model needs 16000"),
        ("speech_to_text", {"num_mel_bins": 128}, "has num_mel_bins 128, but the model needs"),
        ("mbart", {"sampling_rate": 48000}, "has sampling_rate 48000, but the model needs 16000"),
        ("canary", {"hop_length": 320}, "has hop_length 320, but the model needs 160"),
        ("canary", {"win_length": 320}, "has win_length 320, but the model needs 400"),
        ("seamless", {"stride": 4, "num_mel_bins": 40}, "has stride 4, but the model needs 2"),
        ("seamless", {"num_mel_bins": 128}, "has num_mel_bins 128, but the model needs"),
    ],
)
def test_features_of_another_model(tmp_path: Path, kind: str, changed: dict[str, int], words: str) -> None:
    folder = tiny_huggingface.write(tmp_path / "model", kind)
    change(folder / "preprocessor_config.json", **changed)
    with pytest.raises(SimulstError, match=words):
        load_model(folder, threads=1)


def test_a_hub_name(monkeypatch: pytest.MonkeyPatch, folders: dict[str, Path]) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **options: str(folders["speech_to_text"]))
    assert isinstance(load_model("owner/name", threads=1), HuggingFace)
