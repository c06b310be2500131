"""Tiny, randomly initialised Hugging Face models of each kind, written to folders as the released ones are."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_whisper
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from simulst.models import load_model

TEXT = "the cat sat on the mat and the dog sat by the cat; der Hund und die Katze, ein Café. "
TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
LANGUAGES = {
    "mbart": ("en_XX", "de_DE", "ja_XX", "zh_CN"),
    "speech_to_text": ("<lang:de>", "<lang:fr>"),
    "seamless": ("__eng__", "__deu__", "__cmn__"),
    "canary": ("<|startoftranscript|>", "<|pnc|>", "<|nopnc|>", "<|en|>", "<|es|>", "<|de|>", "<|zh|>"),
}
WIDTH, LAYERS, HEADS, FEED = 16, 2, 2, 32
BODY = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": FEED,
}
IDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
WAV2VEC2 = {
    **BODY,
    "conv_dim": (8,) * 7,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}
SPREAD = 0.7  # of the weights: with the usual 0.02, a random model says the same to everything


def fixtures(kinds: Sequence[str], write: Callable[[Path, str], Path]) -> tuple[Any, Any, Any]:
    """Three fixtures: the folder of each kind, the model from each, and one of these after the other."""

    @pytest.fixture(scope="session")
    def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
        place = tmp_path_factory.mktemp("tiny")
        return {kind: write(place / kind, kind) for kind in kinds}

    @pytest.fixture(scope="session")
    def models(folders: dict[str, Path]) -> dict[str, Any]:
        return {kind: load_model(folder, threads=1) for kind, folder in folders.items()}

    @pytest.fixture(params=kinds)
    def model(request: pytest.FixtureRequest, models: dict[str, Any]) -> Any:
        return models[request.param]

    return folders, models, model


def write(folder: Path, kind: str, seed: int | None = None, positions: int = 64) -> Path:
    """kind: one of KINDS; mbart stands behind wav2vec 2.0. positions: of Whisper's decoder."""
    # The Canary of seed 0 ends nearly all texts at once.
    torch.manual_seed({"canary": 6}.get(kind, 0) if seed is None else seed)
    tokenizer = whisper_tokenizer() if kind == "whisper" else sentence_pieces(LANGUAGES[kind])
    model, extractor = _whisper(tokenizer, positions) if kind == "whisper" else _MAKERS[kind](tokenizer)
    model.save_pretrained(folder)
    extractor.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def sentence_pieces(languages: tuple[str, ...], pad_last: bool = False) -> PreTrainedTokenizerFast:
    """A tokeniser whose words begin with ▁, and which has these languages."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = [name for name in TOKENS if not (pad_last and name == "<pad>")]
    trainer = trainers.BpeTrainer(vocab_size=90, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in languages])
    if pad_last:
        tokenizer.add_special_tokens(["<pad>"])
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), TOKENS, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def whisper_tokenizer() -> PreTrainedTokenizerFast:
    """That of tiny_whisper.py, with its languages and tasks, but without times."""
    names = {f"{name}_token": "<|endoftext|>" for name in ("bos", "eos", "unk", "pad")}
    return PreTrainedTokenizerFast(tokenizer_object=tiny_whisper._tokenizer(), **names)


def _whisper(tokenizer: Any, positions: int) -> tuple[Any, Any]:
    end, start = (tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in ("endoftext", "startoftranscript"))
    special = {"decoder_start_token_id": start, **dict.fromkeys(IDS, end)}
    config = transformers.WhisperConfig(
        **_sizes(tokenizer),
        num_mel_bins=8,
        max_source_positions=1500,
        max_target_positions=positions,
        init_std=SPREAD,
        **special,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    ids = tokenizer.get_vocab()
    model.generation_config = transformers.GenerationConfig(
        **special,
        suppress_tokens=[start],
        begin_suppress_tokens=[end],
        no_timestamps_token_id=ids["<|notimestamps|>"],
        lang_to_id={f"<|{name}|>": ids[f"<|{name}|>"] for name in tiny_whisper.LANGUAGES},
        task_to_id={name: ids[f"<|{name}|>"] for name in ("transcribe", "translate")},
        is_multilingual=True,
        alignment_heads=[[1, 0], [0, 1]],
    )
    return model, transformers.WhisperFeatureExtractor(feature_size=8)


def _mbart(tokenizer: Any) -> tuple[Any, Any]:
    encoder = transformers.Wav2Vec2Config(**WAV2VEC2, initializer_range=SPREAD)
    decoder = transformers.MBartConfig(
        **_sizes(tokenizer),
        max_position_embeddings=64,
        is_decoder=True,
        add_cross_attention=True,
        scale_embedding=True,
        init_std=SPREAD,
    )
    config = transformers.SpeechEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id = config.eos_token_id = 2
    config.pad_token_id = 1
    model = transformers.SpeechEncoderDecoderModel(config=config)
    model.generation_config = transformers.GenerationConfig(decoder_start_token_id=2, eos_token_id=2, pad_token_id=1)
    return model, transformers.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True)


def _speech_to_text(tokenizer: Any) -> tuple[Any, Any]:
    config = transformers.Speech2TextConfig(
        **_sizes(tokenizer),
        max_source_positions=1000,
        max_target_positions=64,
        input_feat_per_channel=8,
        conv_channels=16,
        decoder_start_token_id=2,
        init_std=SPREAD,
    )
    model = transformers.Speech2TextForConditionalGeneration(config)
    return model, transformers.Speech2TextFeatureExtractor(feature_size=8, num_mel_bins=8)


def _seamless(tokenizer: Any) -> tuple[Any, Any]:
    config = transformers.SeamlessM4Tv2Config(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        feature_projection_input_dim=16,
        speech_encoder_layers=LAYERS,
        speech_encoder_attention_heads=HEADS,
        speech_encoder_intermediate_size=FEED,
        encoder_layers=1,
        encoder_ffn_dim=FEED,
        encoder_attention_heads=HEADS,
        decoder_layers=LAYERS,
        decoder_ffn_dim=FEED,
        decoder_attention_heads=HEADS,
        max_position_embeddings=64,
        decoder_start_token_id=2,
        initializer_range=SPREAD,
        **IDS,
    )
    model = transformers.SeamlessM4Tv2ForSpeechToText(config)
    codes = {name.strip("_"): tokenizer.convert_tokens_to_ids(name) for name in LANGUAGES["seamless"]}
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=2, eos_token_id=2, pad_token_id=1, text_decoder_lang_to_code_id=codes
    )
    return model, transformers.SeamlessM4TFeatureExtractor(feature_size=8, num_mel_bins=8)


CANARY_TEMPLATE = (
    "{% for one in messages[0].content if one.type == 'text' %}"
    "<|startoftranscript|><|{{ one.source_language }}|><|{{ one.target_language }}|>"
    "<|{{ 'pnc' if one.punctuation else 'nopnc' }}|>{% endfor %}"
)


def _canary(tokenizer: Any) -> tuple[Any, Any]:
    encoder = transformers.ParakeetEncoderConfig(
        **BODY,
        num_key_value_heads=HEADS,
        subsampling_conv_channels=8,
        num_mel_bins=16,
        scale_input=False,
        initializer_range=SPREAD,
    )
    start = tokenizer.convert_tokens_to_ids("<|startoftranscript|>")
    decoder = transformers.CanaryDecoderConfig(
        vocab_size=len(tokenizer),
        **BODY,
        num_key_value_heads=HEADS,
        head_dim=WIDTH // HEADS,
        max_position_embeddings=64,
        initializer_range=SPREAD,
        **IDS,
    )
    config = transformers.CanaryConfig(
        encoder_config=encoder,
        decoder_config=decoder,
        vocab_size=len(tokenizer),
        decoder_start_token_id=start,
        initializer_range=SPREAD,
        **IDS,
    )
    tokenizer.chat_template = CANARY_TEMPLATE
    model = transformers.CanaryForConditionalGeneration(config)
    model.generation_config = transformers.GenerationConfig(decoder_start_token_id=start, **IDS)
    return model, transformers.ParakeetFeatureExtractor(feature_size=16)


def _sizes(tokenizer: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "d_model": WIDTH,
        **{f"{side}_layers": LAYERS for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": HEADS for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": FEED for side in ("encoder", "decoder")},
    }


_MAKERS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "mbart": _mbart,
    "speech_to_text": _speech_to_text,
    "seamless": _seamless,
    "canary": _canary,
}
KINDS = ("whisper", *_MAKERS)


TEMPLATE = """{% for m in messages %}<|{{ m.role }}|>{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""


def text_sizes(tokenizer: Any, positions: int) -> dict[str, Any]:
    """Of the configuration of a decoder-only model."""
    return {
        "vocab_size": len(tokenizer),
        **BODY,
        "num_key_value_heads": 1,
        "max_position_embeddings": positions,
        "initializer_range": SPREAD,
        **dict.fromkeys(("bos_token_id", "eos_token_id"), 2),
        "pad_token_id": 1,
    }


def write_language_model(folder: Path, kind: str = "llama", template: str = TEMPLATE, seed: int = 0) -> Path:
    """A decoder-only model that chats. kind: llama (words begin with ▁) or qwen3 (its tokens are bytes)."""
    torch.manual_seed(seed)
    roles = tuple(f"<|{role}|>" for role in ("system", "user", "assistant"))
    tokenizer = byte_pieces(roles) if kind == "qwen3" else sentence_pieces(roles)
    tokenizer.chat_template = template
    sizes = text_sizes(tokenizer, 256) | {"pad_token_id": 2}
    if kind == "qwen3":
        model: Any = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**sizes, head_dim=8))
    else:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    model.generation_config = transformers.GenerationConfig(eos_token_id=[2, tokenizer.convert_tokens_to_ids(roles[1])])
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def byte_pieces(special: tuple[str, ...]) -> PreTrainedTokenizerFast:
    """A tokeniser of bytes, as large language models have it: a word's space belongs to its first token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=list(TOKENS), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", pad_token="<pad>")


TEXT_LANGUAGES = {
    "marian": (),
    "marian_many": (">>deu<<", ">>fra<<"),
    "m2m": ("eng_Latn", "deu_Latn", "zho_Hans"),
    "mbart": ("en_XX", "de_DE", "zh_CN"),
    "t5": ("<2de>", "<2fr>"),
}


def write_text_model(folder: Path, kind: str, seed: int = 0, pad_last: bool = False) -> Path:
    """kind: marian (one pair); marian_many, t5 (the source text names the target); m2m, mbart (tokens on both sides).

    pad_last: <pad> is the last token, as in the released Marians; CTranslate2's converter relies on it.
    """
    torch.manual_seed(seed)
    tokenizer = sentence_pieces(TEXT_LANGUAGES[kind], pad_last)
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    start = end if kind in ("m2m", "mbart") else pad
    ids = {"pad_token_id": pad, "eos_token_id": end, "decoder_start_token_id": start}
    if kind == "t5":
        config: Any = transformers.T5Config(
            vocab_size=len(tokenizer),
            d_model=WIDTH,
            d_kv=WIDTH // HEADS,
            d_ff=FEED,
            num_layers=LAYERS,
            num_heads=HEADS,
            tie_word_embeddings=False,
            initializer_factor=SPREAD,
            **ids,
        )
        model: Any = transformers.T5ForConditionalGeneration(config)
    else:
        name = {"m2m": "M2M100", "mbart": "MBart"}.get(kind, "Marian")
        config = getattr(transformers, f"{name}Config")(
            **_sizes(tokenizer), max_position_embeddings=80, bos_token_id=0, init_std=SPREAD, **ids
        )
        whole = "MarianMTModel" if name == "Marian" else f"{name}ForConditionalGeneration"
        model = getattr(transformers, whole)(config)
    model.generation_config = transformers.GenerationConfig(**ids, bad_words_ids=[[pad]])
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


PAIRS = {
    "whisper": ("es", "en"),
    "mbart": ("en", "de"),
    "speech_to_text": ("en", "fr"),
    "seamless": ("en", "de"),
    "canary": ("en", "de"),
}


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    """(n,) float32, loud and quiet by turns."""
    samples = np.random.default_rng(seed).standard_normal(round(seconds * 16000)) * 0.1
    return (samples * (1.5 + np.sin(np.arange(samples.size) / 3000))).astype(np.float32)


def change(file: Path, **values: object) -> None:
    """Change what a file of JSON says."""
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def to_ctranslate2(model: Path, out: Path, files: Sequence[str] = ("tokenizer.json",)) -> Path:
    """A model as CTranslate2's own converter writes it, with copies of some of its files."""
    from ctranslate2.converters import TransformersConverter

    return Path(TransformersConverter(str(model), copy_files=list(files)).convert(str(out)))
