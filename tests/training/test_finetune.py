"""Fine-tuning of tiny random models: it learns, goes on after an interruption, and trains only what it shall."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import sounds
import tiny_huggingface
import torch
import tracked
import transformers
import yaml
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader

from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.files.folder import begun, locked
from simulst.models import load_model
from simulst.models.huggingface.loading import read
from simulst.models.huggingface.options import HuggingFaceOptions
from simulst.opening import Opening
from simulst.prefix.pairs import write_pairs
from simulst.streams import open_stream
from simulst.training import finetune as finetuning
from simulst.training.ctc import EncoderCTC
from simulst.training.finetune import BEGIN, finetune, read_options
from simulst.training.freezing import change_settings, freeze, read_short_windows
from simulst.training.new_model import NewModel, make_model
from simulst.training.speech_text import IGNORED, Batches, Collator, Part, examples_of, read_parts
from simulst.training.trainer import Follow, Trainer, _arguments

TEXTS = ["the cat sat", "the dog", "on the mat", "der Hund", "die Katze"]
SMALL = {"epochs": 4, "learning_rate": 0.01, "batch_seconds": 2, "accumulate": 2, "save_minutes": 60}

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
LARGE: dict[str, Any] = {**tiny_huggingface.WAV2VEC2, "feat_extract_norm": "layer", "do_stable_layer_norm": True}
NEW: dict[str, Any] = {
    "encoder": {
        "model_type": "wav2vec2-bert",
        **SIZES,
        "output_hidden_size": 16,
        "apply_spec_augment": False,
        "position_embeddings_type": "rotary",  # the model keeps a table, made in training or while dev is scored
    },
    "decoder": {
        "model_type": "mbart",
        "d_model": 16,
        "decoder_layers": 1,
        "decoder_attention_heads": 2,
        "decoder_ffn_dim": 16,
        "max_position_embeddings": 40,
    },
    "pieces": 40,
    "extractor": {"feature_extractor_type": "SeamlessM4TFeatureExtractor"},
}


def data(folder: Path, languages: tuple[str, ...] = ("de", "ja")) -> Path:
    audio = {f"u{number}": tiny_huggingface.noise(0.4 + 0.1 * number, number) for number in range(len(TEXTS))}
    texts = dict(zip(audio, TEXTS, strict=True))
    return sounds.write(folder, audio, {language: texts for language in languages})


def table(path: Path, values: list[str]) -> None:
    path.write_text("".join(f"u{number} {value}\n" for number, value in enumerate(values)))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return data(tmp_path / "data")


@pytest.fixture(scope="session")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    place = tmp_path_factory.mktemp("begin")

    def write(kind: str) -> Path:
        return place / kind if (place / kind).is_dir() else tiny_huggingface.write(place / kind, kind)

    return write


def run(corpus: Path, model: Path | None, out: str, pair: str = "en-de", processes: int = 1, **options: Any) -> Path:
    config = corpus.with_name("config.yaml")
    config.write_text(yaml.safe_dump({**SMALL, **options}))
    parts = [Part(pair, corpus)]
    finetune(config, model, parts, parts, corpus.with_name(out), processes=processes)
    return corpus.with_name(out)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_it_learns_and_what_is_frozen_stays(corpus: Path, begin: Callable[[str], Path]) -> None:
    out = run(corpus, begin("mbart"), "out", encoder_layers=1, epochs=8, settings={"decoder": {"dropout": 0.0}})
    losses = json.loads((out / "epochs.json").read_text())
    assert len(losses) == 8 and losses["8"] < losses["1"] - 1
    before, after = weights(begin("mbart")), weights(out / "model")
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert not any(n.startswith("encoder.") and "layers.1." not in n for n in changed)
    assert any("encoder.encoder.layers.1." in name for name in changed)
    assert any("decoder.layers.0.encoder_attn" in name for name in changed)
    assert not list(out.glob("checkpoint-*")) and not (out / ".lock").exists()
    decoding = parse_decoding(
        {"read": {"type": "chunk", "ms": 200}, "commit": {"type": "local_agreement", "n": 2}}, "x"
    )
    stream = open_stream(load_model(out / "model", threads=1), decoding, "en", "de")
    stream.push(tiny_huggingface.noise(0.6, 2), finished=True)
    assert stream.emissions


@pytest.mark.parametrize("kind", ["whisper", "new"])
def test_a_training_that_was_interrupted_ends_as_if_it_was_not(
    corpus: Path,
    begin: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    """Twice: within the second epoch, and after the last one, before the result was written."""
    options: dict[str, Any] = {"pair": "en-es", "save_minutes": 0, "seed": 3}
    table(corpus / "text.es", TEXTS)
    table(corpus / "text.en", TEXTS)
    if kind == "new":
        model = None
        options |= {"new_model": NEW, "ctc_weight": 0.3, "listen_epochs": 2, "settings": {"decoder": {"dropout": 0.2}}}
    else:
        model = begin(kind)
        options |= {"settings": {"dropout": 0.2, "decoder_layerdrop": 0.1}}
    usual = Follow.on_step_end

    def interrupted(self: Follow, args: Any, state: Any, control: Any, **others: Any) -> None:
        usual(self, args, state, control, **others)
        if state.global_step == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Follow, "on_step_end", interrupted)
        run(corpus, model, "out", **options)
    out, whole = corpus.with_name("out"), corpus.with_name("whole")
    for path in out.glob("*"):  # learning pieces of words is not reproducible, so both begin with the same ones
        if path.name in ("simulst.json", "transcripts.json"):
            whole.mkdir(exist_ok=True)
            shutil.copy(path, whole)
        elif path.name == "begin":
            shutil.copytree(path, whole / "begin")
    run(corpus, model, "whole", **options)
    assert (out / "checkpoint-3/whole").is_file()
    (out / "checkpoint-4").mkdir()  # as if it had been killed while it wrote
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(finetuning, "_save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        run(corpus, model, "out", **options)
    assert not (out / "model").exists()
    run(corpus, model, "out", **options)
    assert (out / "epochs.json").read_text() == (whole / "epochs.json").read_text()
    expected, found = weights(whole / "model"), weights(out / "model")
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    written = (out / "model/model.safetensors").stat().st_mtime_ns
    capsys.readouterr()
    record = json.loads((out / "simulst.json").read_text())  # of a version with fewer options
    known = {name: value for name, value in record.items() if value or name not in ("ctc_weight", "first_ms")}
    (out / "simulst.json").write_text(json.dumps(known))
    run(corpus, model, "out", **options)
    assert "complete; --force" in capsys.readouterr().out
    assert (out / "model/model.safetensors").stat().st_mtime_ns == written
    with pytest.raises(SimulstError, match="was begun with seed 3, not 4; name another folder, or use --force"):
        run(corpus, model, "out", **{**options, "seed": 4})
    with locked(out), pytest.raises(SimulstError, match="another run is at work"):
        run(corpus, model, "out", **options)


def test_a_training_that_is_not_ours_is_not_deleted(corpus: Path, begin: Callable[[str], Path], tmp_path: Path) -> None:
    checkpoint = tmp_path / "out/checkpoint-500/model.safetensors"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    message = r"out: holds checkpoint-500, but no simulst\.json; name another folder"
    with pytest.raises(SimulstError, match=message):
        run(corpus, begin("whisper"), "out", "es-de")
    parts = [Part("es-de", corpus)]
    with pytest.raises(SimulstError, match=message):
        finetune(tmp_path / "config.yaml", begin("whisper"), parts, parts, tmp_path / "out", force=True)
    assert checkpoint.exists()


def test_force_that_was_interrupted_leaves_nothing_to_go_on_with(
    corpus: Path, begin: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    for name in ("simulst.json", "1epoch.pth", "checkpoint-5/whole", "decode/tst/instances.log"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("{}")
    about: Any = (out / "simulst.json", {}, finetuning.TRAINED)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            begun(*about, force=True)
    assert (out / "checkpoint-5/whole").exists()
    with pytest.raises(SimulstError, match=r"was begun with .* or use --force"):
        run(corpus, begin("whisper"), "out", "es-de")
    assert begun(*about, force=True) is None  # recipes decode into the training's folder
    assert [path.name for path in out.rglob("*") if path.is_file()] == ["instances.log"]


def interrupted(path: Path) -> None:
    raise KeyboardInterrupt


def test_accumulated_batches_are_one_batch(
    corpus: Path, begin: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their gradients are those of one batch, although they have different numbers of tokens."""
    found: list[dict[str, torch.Tensor]] = []

    def note(self: Follow, *_: Any, **__: Any) -> None:
        found.append({n: p.grad.clone() for n, p in self._model.named_parameters() if p.grad is not None})

    monkeypatch.setattr(Follow, "on_pre_optimizer_step", note)
    for number in range(len(TEXTS)):  # of one length: the library's convolutions see a batch's padding
        soundfile.write(corpus / f"u{number}.wav", tiny_huggingface.noise(0.5, number), 16000)
    still = {"dropout": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
    for name, seconds, count in (("one", 60, 1), ("several", 1, 9)):
        options = {"batch_seconds": seconds, "accumulate": count, "epochs": 1, "settings": still, "clip": 1e6}
        run(corpus, begin("speech_to_text"), name, **options)
    one, several = found
    assert one.keys() == several.keys() and len(one) > 20
    for name, gradient in one.items():
        torch.testing.assert_close(several[name], gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("warm_programs")
def test_two_processes_train_as_one_with_twice_their_batches(corpus: Path, begin: Callable[[str], Path]) -> None:
    """As on two GPUs."""
    for number in range(len(TEXTS)):
        soundfile.write(corpus / f"u{number}.wav", tiny_huggingface.noise(0.5, number), 16000)
    still = {"dropout": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
    options = {"batch_seconds": 1.5, "epochs": 2, "settings": still}  # two batches
    one = run(corpus, begin("speech_to_text"), "one", accumulate=2, **options)
    two = run(corpus, begin("speech_to_text"), "two", accumulate=1, processes=2, **options)
    first, second = weights(one / "model"), weights(two / "model")
    for name, value in first.items():
        if not name.endswith("k_proj.bias"):  # softmax takes it away, so Adam follows nothing but rounding there
            torch.testing.assert_close(second[name], value, rtol=1e-3, atol=1e-4)
    read, other = (json.loads((folder / "epochs.json").read_text()) for folder in (one, two))
    assert read == pytest.approx(other, rel=1e-3) and not list(two.glob("checkpoint-*"))
    with pytest.raises(SimulstError, match="with ctc_weight is for one GPU"):
        run(corpus, None, "four", processes=2, new_model=NEW, ctc_weight=0.3)


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=30), processes=st.integers(1, 4))
def test_processes_share_the_batches(lengths: list[int], processes: int) -> None:
    """All are in one of the shares, which have the same length: without it, a process would wait for another."""
    whole = Batches(lengths, 9.0, seed=1)
    shares = [Batches(lengths, 9.0, 1, (number, processes)) for number in range(processes)]
    lists = [list(share) for share in shares]
    assert sorted(index for batch in whole for index in batch) == list(range(len(lengths)))
    assert {len(one) for one in lists} == {len(share) for share in shares} == {-(-len(whole) // processes)}
    assert {tuple(batch) for one in lists for batch in one} == {tuple(batch) for batch in whole}


def test_each_example_has_its_language(corpus: Path, begin: Callable[[str], Path]) -> None:
    architecture = read(begin("mbart"), HuggingFaceOptions())
    parts = [Part("en-de", corpus), Part("en-ja", corpus)]
    examples = examples_of(architecture, parts, read_parts(parts), 30)
    german, japanese = (architecture.tokenizer.convert_tokens_to_ids(name) for name in ("de_DE", "ja_XX"))
    batch = Collator(architecture)([examples[3], examples[6]])
    assert batch["decoder_input_ids"][:, :2].tolist() == [[2, german], [2, japanese]]
    for row, text in enumerate((TEXTS[3], TEXTS[1])):
        read_, labels = batch["decoder_input_ids"][row], batch["labels"][row]
        said = labels[labels != IGNORED].tolist()
        assert labels[0] == IGNORED and said[-1] == architecture.eos
        assert architecture.text(said[:-1]).strip() == text
        assert read_[2 : 1 + len(said)].tolist() == said[:-1]


def test_whispers_prompt(corpus: Path, begin: Callable[[str], Path]) -> None:
    """Transcription, translation into English, and another target by its token."""
    architecture = read(begin("whisper"), HuggingFaceOptions(other_targets=True))
    names = architecture.tokenizer.convert_ids_to_tokens
    for pair, language, task in (
        ("es-es", "es", "transcribe"),
        ("es-en", "es", "translate"),
        ("en-es", "es", "transcribe"),
    ):
        start = ["<|startoftranscript|>", f"<|{language}|>", f"<|{task}|>", "<|notimestamps|>"]
        assert names(architecture.prompt(*pair.split("-"))) == start
    assert architecture.text(architecture.tokens("the cat", "es")) == " the cat"
    assert architecture.text(architecture.tokens("世界", "ja")) == "世界"
    with pytest.raises(SimulstError, match=r"not 'ja'; .* give --model-option other_targets=true"):
        load_model(begin("whisper"), threads=1).session(Opening("es", "ja"))


def test_short_windows(begin: Callable[[str], Path]) -> None:
    architecture = read(begin("whisper"), HuggingFaceOptions(padding_seconds=0.5))
    windows = [tiny_huggingface.noise(seconds) for seconds in (1.0, 0.5)]
    features = architecture.inputs(windows)["input_features"]
    assert features.shape == (2, 8, 150)
    encoder = architecture.model.get_encoder()
    with pytest.raises(ValueError, match="3000"):
        encoder(features)
    read_short_windows(architecture.model)
    with torch.inference_mode():
        frames = encoder(features).last_hidden_state
    torch.testing.assert_close(frames[:1], architecture._encode(features[:1]), rtol=1e-4, atol=1e-4)
    assert encoder.config.max_source_positions == encoder.embed_positions.num_embeddings == 1500


def test_freezing(begin: Callable[[str], Path]) -> None:
    for kind, convolutions in (("whisper", "conv1"), ("speech_to_text", "conv"), ("mbart", "feature_extractor")):
        model = read(begin(kind), HuggingFaceOptions()).model
        freeze(model.get_encoder(), features=True, layers=None)
        names = {name: p.requires_grad for name, p in model.get_encoder().named_parameters()}
        assert any(names.values()) and not any(on for name, on in names.items() if name.startswith(convolutions))
        freeze(model.get_encoder(), features=True, layers=0)
        assert not any(p.requires_grad for p in model.get_encoder().parameters())
        with pytest.raises(SimulstError, match="encoder_layers 3: the encoder has 2"):
            freeze(model.get_encoder(), features=True, layers=3)
    with pytest.raises(SimulstError, match="a model of type 'mbart' has no setting 'layerdrop'"):
        change_settings(model.config, {"decoder": {"layerdrop": 0.1}}, "x")


def test_a_model_from_scratch(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two languages in one model, with prefix pairs as further data."""
    decoder = NEW["decoder"]
    config = corpus.with_name("config.yaml")
    options = {**SMALL, "epochs": 2, "train_features": True, "new_model": NEW, "ctc_weight": 0.3, "listen_epochs": 1}
    config.write_text(yaml.safe_dump(options))
    parts = [Part("en-de", corpus), Part("en-ja", corpus)]
    with pytest.raises(SimulstError, match="data: no transcripts in the language that is spoken"):
        finetune(config, None, parts, parts, corpus.with_name("out"))
    table(corpus / "text.en", TEXTS)
    pairs = [{"frames": 20, "text": "the"}]
    found = {"utterance": "u0", "tau": 20, "frames": 40, "offline": "the cat sat", "pairs": pairs}
    corpus.with_name("prefixes.jsonl").write_text(json.dumps(found) + "\n")
    write_pairs(corpus, corpus.with_name("prefixes.jsonl"), corpus.with_name("pairs"), "de")
    parts.append(Part("en-de", corpus.with_name("pairs")))  # which has no transcripts
    finetune(config, None, parts, parts[:2], corpus.with_name("out"))
    assert "pairs: 1 examples en→de" in capsys.readouterr().out
    model = load_model(corpus.with_name("out") / "model", threads=1)
    assert not any(name.startswith("ctc.") for name in weights(corpus.with_name("out") / "model"))
    first, heard = (torch.load(corpus.with_name("out") / f"{n}epoch.pth", weights_only=True) for n in (1, 2))
    begun = {n: x for n, x in weights(corpus.with_name("out") / BEGIN).items() if n in first}
    learnt = {name for name, x in begun.items() if not torch.equal(first[name], x)}
    assert learnt and all(name.startswith("encoder.") for name in learnt)  # in the first epoch, it only listens
    assert any(not torch.equal(heard[name], begun[name]) for name in begun if name.startswith("decoder."))
    assert read_options(config)[0].ranked({1: 0.1, 2: 5.0}) == [2, 1]  # however good a random decoder may look
    config.write_text(yaml.safe_dump({**options, "updates": 2}))
    with pytest.raises(SimulstError, match=r"config.yaml: the 2 updates end within the listening epochs, which have 2"):
        finetune(config, None, parts, parts[:2], corpus.with_name("short"))
    assert not corpus.with_name("short").joinpath("simulst.json").exists()  # so another configuration may follow
    prompts = [model.architecture.prompt("en", target) for target in ("de", "ja")]  # type: ignore[attr-defined]
    names = model.architecture.tokenizer.convert_ids_to_tokens  # type: ignore[attr-defined]
    assert [names(prompt) for prompt in prompts] == [["</s>", "<2de>"], ["</s>", "<2ja>"]]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"decoder": {"d_model": 16}}, "'decoder' of 'new_model' needs a name .* or a model_type"),
        ({"decoder": {**decoder, "layers": 3}}, "a model of type 'mbart' has no setting 'layers'"),
        ({"encoder": {"model_type": "mbort"}}, "config.yaml: 'encoder': model_type cannot be read"),
        ({"extractor": {"feature_extractor_type": "None"}}, "no feature extractor for an encoder of type"),
        ({"pieces": 3}, "'pieces': Input should be greater than or equal to 10"),
        ({"pieces": 10}, "pieces: 10 are too few for the texts"),
    ]
    for change, message in wrong:
        config.write_text(yaml.safe_dump({**SMALL, "new_model": {**NEW, **change}}))
        with pytest.raises(SimulstError, match=message):
            finetune(config, None, parts, parts, corpus.with_name("wrong"))


@pytest.mark.parametrize("change", ["", "no embedding", "no attention", "relative positions"])
def test_parts_keep_their_weights(corpus: Path, tmp_path: Path, change: str) -> None:
    """A file of an encoder-decoder holds the embedding once, for encoder, decoder and output."""
    encoder = transformers.Wav2Vec2ForPreTraining(transformers.Wav2Vec2Config(**LARGE))
    encoder.save_pretrained(tmp_path / "w2v")
    transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True).save_pretrained(tmp_path / "w2v")
    tiny_huggingface.write_text_model(tmp_path / "mbart", "mbart")
    read = weights(tmp_path / "mbart")
    left_out, found = {
        "no embedding": ("model.shared.weight", "lm_head.weight"),
        "no attention": ("encoder_attn", "encoder_attn"),
    }.get(change, ("nothing", ""))
    save_file(
        {name: value for name, value in read.items() if left_out not in name},
        tmp_path / "mbart" / "model.safetensors",
        {"format": "pt"},
    )
    described: dict[str, Any] = {"name": str(tmp_path / "w2v"), "add_adapter": True}
    if change == "relative positions":
        described |= {"model_type": "wav2vec2_relative", "add_adapter": False}
    new = NewModel(described, {"name": str(tmp_path / "mbart")})
    if change.startswith("no"):
        with pytest.raises(SimulstError, match=f"x: 'decoder': the weights lack '.*{found}"):
            make_model(new, ["de"], TEXTS, 0, tmp_path / "out", "x")
        return
    make_model(new, ["de"], TEXTS, 0, tmp_path / "out", "x")
    written = weights(tmp_path / "out")
    embedding = written["decoder.model.decoder.embed_tokens.weight"]
    assert torch.equal(embedding, read["model.shared.weight"])
    same = {n: v for n, v in read.items() if n.startswith("model.decoder.")}
    assert len(same) > 20 and all(torch.equal(written[f"decoder.{name}"], value) for name, value in same.items())
    name = "layers.0.attention.q_proj.weight"
    assert torch.equal(written[f"encoder.encoder.{name}"], weights(tmp_path / "w2v")[f"wav2vec2.encoder.{name}"])
    finetuned = run(corpus, tmp_path / "out", "finetuned", epochs=1)
    output = load_model(finetuned / "model", threads=1).architecture.model.get_output_embeddings()  # type: ignore[attr-defined]
    assert torch.allclose(output.weight, embedding, atol=0.1)


def test_the_recipes_encoders_have_no_adapter() -> None:
    """Paper A's has frames of 20 ms (section 4.2.1); an adapter would make them 160 ms long."""
    files = (tracked.ROOT / "conf/train").glob("*.yaml")
    described = [yaml.safe_load(path.read_text()).get("new_model") for path in files]
    encoders = [new["encoder"] for new in described if new]
    assert len(encoders) >= 4 and not any(encoder.get("add_adapter") for encoder in encoders)


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    llama = tiny_huggingface.write_language_model(tmp_path / "llama")
    text = {"model_type": "bert", **SIZES}
    whisper = tiny_huggingface.write(tmp_path / "whisper", "whisper")
    m2m = tiny_huggingface.write_text_model(tmp_path / "m2m", "m2m")
    code = tmp_path / "code"
    code.mkdir()
    (code / "mine.py").write_text("raise RuntimeError('was run')")
    (code / "config.json").write_text(json.dumps({"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}))
    for change, message in (
        ({"decoder": {"name": str(llama)}}, "'decoder' of 'new_model' cannot attend to an encoder"),
        ({"encoder": text}, "'encoder' of 'new_model' is no encoder of speech alone"),
        ({"encoder": {"name": str(whisper)}}, "'encoder' of 'new_model' is no encoder of speech alone"),
        (
            {"decoder": {"name": str(m2m)}},
            "'decoder': a model of type 'm2m_100' has no decoder of its own; name another",
        ),
        ({"encoder": {"name": str(code)}}, "'encoder': the model wants to run Python code of its own"),
        ({"encoder": {**NEW["encoder"], "hidden_act": 3}}, "x: "),
    ):
        new = NewModel(**{**{name: NEW[name] for name in ("encoder", "decoder", "pieces", "extractor")}, **change})
        with pytest.raises(SimulstError, match=message) as caught:
            make_model(new, ["de"], TEXTS, 0, tmp_path / "out", "x")
        assert "\n" not in str(caught.value)


def test_utterances_shorter_than_a_mask(corpus: Path, begin: Callable[[str], Path]) -> None:
    for number in range(len(TEXTS)):
        soundfile.write(corpus / f"u{number}.wav", tiny_huggingface.noise(0.12, number), 16000)
    masks = {"encoder": {"apply_spec_augment": True, "mask_time_prob": 0.5, "mask_time_length": 10}}
    run(corpus, begin("mbart"), "out", epochs=1, settings=masks)


def test_utterances_that_are_too_long_for_whisper(
    corpus: Path, begin: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its encoder takes 30 s, whatever the configuration allows."""
    soundfile.write(corpus / "u1.wav", tiny_huggingface.noise(31.0), 16000)
    table(corpus / "text.es", TEXTS)
    parts = [Part("en-es", corpus)]
    architecture = read(begin("whisper"), HuggingFaceOptions(other_targets=True))
    assert len(examples_of(architecture, parts, read_parts(parts), 60.0)) == len(TEXTS) - 1
    assert "1 left out" in capsys.readouterr().out


def test_the_share_of_ctc_holds_without_transcripts(corpus: Path, begin: Callable[[str], Path]) -> None:
    """Else the translation would count more in batches without them."""
    parts = [Part("en-de", corpus)]
    architecture = read(begin("mbart"), HuggingFaceOptions())
    batch = Collator(architecture)(examples_of(architecture, parts, read_parts(parts), 30.0)[:2])
    config = corpus.with_name("config.yaml")
    config.write_text(yaml.safe_dump(SMALL))
    options, _ = read_options(config)
    arguments = _arguments(options, corpus.with_name("out"), 1)
    loader: Any = DataLoader([0])
    losses = []
    for changes in ({}, {"ctc_weight": 0.3}, {"ctc_weight": 0.3, "listen_epochs": 1}):
        trainer = Trainer(architecture.model, arguments, loader, replace(options, **changes), lambda *_: None, [])
        losses.append(float(trainer.compute_loss(architecture.model, dict(batch)).detach()))
    assert losses == pytest.approx([losses[0], 0.7 * losses[0], 0.0])


def test_ctc_is_that_of_each_row_alone() -> None:
    """Padding and rows without a transcript change nothing."""
    torch.manual_seed(0)
    ctc = EncoderCTC(4, 5)
    encoded = torch.randn(3, 6, 4)
    heard = torch.tensor([[1, 2, 2], [3, IGNORED, IGNORED], [IGNORED, IGNORED, IGNORED]])
    mask = torch.tensor([[1.0] * 12, [1.0] * 7 + [0.0] * 5, [1.0] * 12])  # two times of the input make a frame
    alone = [
        torch.nn.functional.ctc_loss(
            ctc.layer(encoded[row, :frames]).log_softmax(-1)[:, None], heard[row : row + 1, :size], [frames], [size],
            reduction="sum",
        )
        for row, frames, size in ((0, 6, 3), (1, 4, 1))
    ]  # fmt: skip
    assert torch.allclose(ctc(encoded, mask, heard), sum(alone, torch.zeros(())))
    assert float(ctc(encoded, None, heard[2:].expand(3, 3))) == 0.0


def test_bad_input(corpus: Path, begin: Callable[[str], Path], tmp_path: Path) -> None:
    model = begin("mbart")
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: run(corpus, model, "out", speed=2), "config.yaml: the training has no option 'speed'; it has epochs"),
        (lambda: run(corpus, model, "out", epochs=0), "option 'epochs': Input should be greater than or equal to 1"),
        (lambda: run(corpus, model, "out", average=[]), "'average' is empty"),
        (lambda: run(corpus, model, "out", listen_epochs=1), "listen_epochs needs a ctc_weight, and more epochs"),
        (lambda: run(corpus, model, "out", settings={"layerdropp": 1}), "has no setting 'layerdropp'"),
        (lambda: run(corpus, model, "out", settings={"decoder": {"dropout": "x"}}), "setting 'dropout' cannot be 'x'"),
        (lambda: run(corpus, model, "out", encoder_layers=9), "config.yaml: encoder_layers 9: the encoder has 2"),
        (lambda: run(corpus, None, "out"), "give either --model or 'new_model'"),
        (lambda: run(corpus, corpus, "out"), "data: has no weights"),
        (lambda: run(corpus, tmp_path / "none", "out"), "none: no such folder"),
        (lambda: run(corpus, model, "out", pair="en"), "--pair en: give the languages spoken and written"),
        (lambda: run(corpus, model, "out", pair="en-fr"), "data: no text in language 'fr'; it has de, ja"),
        (lambda: run(data(tmp_path / "fr", ("fr",)), model, "out", pair="en-fr"), "has no language 'fr'; it has de"),
        (lambda: run(corpus, model, "out", most_seconds=0.1), "data: no utterance of at most 0.1 s"),
        (lambda: run(corpus, model, "out2", learning_rate=1e15), "the loss.* is no number any more"),
    ]
    for call, message in cases:
        with pytest.raises(SimulstError, match=message):
            call()
    soundfile.write(corpus / "u1.wav", np.full(16000, np.nan, np.float32), 16000, subtype="FLOAT")
    with pytest.raises(SimulstError, match=r"u1\.wav: has samples that are NaN"):
        run(corpus, model, "nan")
