"""Tiny, randomly initialised speech LLMs of each kind, written to folders as the released ones are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiny_huggingface
import torch
import transformers
from tiny_huggingface import FEED, HEADS, LAYERS, SPREAD, WIDTH, text_sizes

POSITIONS = 1024
SECONDS = 6  # that some encoders read at once; released ones read 30
TEMPLATE = """{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content }}{% else %}
{% for c in m.content %}{% if c.type == 'audio' %}<|audio|>{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}
{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
SPECIAL = ("<|system|>", "<|user|>", "<|assistant|>", "<|audio|>")
AUDIO = 303  # the token <|audio|> of the tokenisers

Made = tuple[Any, Any, Any]


def write(folder: Path, kind: str, seed: int = 0, template: str | None = TEMPLATE, positions: int = POSITIONS) -> Path:
    """kind: one of KINDS. template: None: no chat template."""
    torch.manual_seed(seed)
    tokenizer = tiny_huggingface.byte_pieces(SPECIAL)
    assert tokenizer.convert_tokens_to_ids("<|audio|>") == AUDIO
    tokenizer.chat_template = template
    model, extractor = _MAKERS[kind](tokenizer, positions)
    for part in (model, extractor, tokenizer):
        part.save_pretrained(folder)
    return folder


def _qwen2_audio(tokenizer: Any, positions: int) -> tuple[Any, Any]:
    config = transformers.Qwen2AudioConfig(
        audio_config=_encoder(),
        text_config={"model_type": "qwen2", **text_sizes(tokenizer, positions)},
        audio_token_index=AUDIO,
    )
    return transformers.Qwen2AudioForConditionalGeneration(config), _extractor(SECONDS)


def _voxtral(tokenizer: Any, positions: int) -> tuple[Any, Any]:
    more = ["[INST]", "[/INST]", "[BEGIN_AUDIO]"]
    tokenizer.add_special_tokens({"additional_special_tokens": more, "bos_token": "<s>"})
    config = transformers.VoxtralConfig(
        audio_config=_encoder() | {"encoder_ffn_dim": 4 * WIDTH},  # four frames are one
        text_config={"model_type": "llama", **text_sizes(tokenizer, positions), "head_dim": WIDTH // HEADS},
        audio_token_id=AUDIO,
    )
    return transformers.VoxtralForConditionalGeneration(config), _extractor(SECONDS)


def _omni(tokenizer: Any, positions: int) -> tuple[Any, Any]:
    """The whole model, whose thinker is read, without what speaks."""
    vision = {"depth": 1, "hidden_size": WIDTH, "intermediate_size": WIDTH, "num_heads": 2, "out_hidden_size": WIDTH}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
    thinker = transformers.Qwen2_5OmniThinkerConfig(
        audio_config=_encoder() | {"output_dim": WIDTH},
        vision_config=vision | {"fullatt_block_indexes": [0]},
        text_config=text_sizes(tokenizer, positions) | {"rope_parameters": rope},
        audio_token_index=AUDIO,
        audio_start_token_id=AUDIO - 2,  # <|user|> stands there
        vision_start_token_id=0,
        initializer_range=SPREAD,
    )
    config = transformers.Qwen2_5OmniConfig(thinker_config=thinker.to_dict(), enable_audio_output=False)
    model = transformers.Qwen2_5OmniForConditionalGeneration(config)
    model.generation_config = transformers.GenerationConfig(eos_token_id=2, pad_token_id=1)
    return model, _extractor(300)


def _qwen3_asr(tokenizer: Any, positions: int) -> tuple[Any, Any]:
    config = transformers.Qwen3ASRConfig(
        audio_config=_encoder(positions=False) | {"output_dim": WIDTH, "downsample_hidden_size": 4},
        text_config={"model_type": "qwen3", **text_sizes(tokenizer, positions), "head_dim": WIDTH // HEADS},
        audio_token_id=AUDIO,
        pad_token_id=1,
        eos_token_id=2,
    )
    return transformers.Qwen3ASRForConditionalGeneration(config), transformers.Qwen3ASRFeatureExtractor(feature_size=8)


def _granite(tokenizer: Any, positions: int) -> tuple[Any, Any]:
    encoder = {"input_dim": 160, "num_layers": LAYERS, "hidden_dim": WIDTH, "num_heads": HEADS, "output_dim": 8}
    projector = {"hidden_size": WIDTH, "encoder_hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.GraniteSpeechConfig(
        text_config={"model_type": "granite", **text_sizes(tokenizer, positions)},
        encoder_config=encoder | {"context_size": 20, "max_pos_emb": 32},
        projector_config={"model_type": "blip_2_qformer", **projector, "intermediate_size": FEED},
        audio_token_index=AUDIO,
        has_lora_adapter=False,
        initializer_range=SPREAD,
    )
    extractor = transformers.GraniteSpeechFeatureExtractor()
    return transformers.GraniteSpeechForConditionalGeneration(config), extractor


def _phi4(tokenizer: Any, positions: int) -> tuple[Any, Any]:
    sizes = ("hidden_size", "intermediate_size", "ext_pw_out_channel", "depthwise_separable_out_channel")
    audio = {"num_blocks": LAYERS, "num_attention_heads": HEADS, "nemo_conv_channels": WIDTH, "audio_token_id": AUDIO}
    config = transformers.Phi4MultimodalConfig(
        **text_sizes(tokenizer, positions),
        audio_config=dict.fromkeys(sizes, WIDTH) | audio | {"initializer_range": SPREAD},
        vision_config={"hidden_size": WIDTH, "intermediate_size": WIDTH, "num_hidden_layers": 1, "image_token_id": 0},
    )
    return transformers.Phi4MultimodalForCausalLM(config), transformers.Phi4MultimodalFeatureExtractor()


def _extractor(seconds: int) -> Any:
    return transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=seconds)


def _encoder(positions: bool = True) -> dict[str, Any]:
    return {
        "d_model": WIDTH,
        "encoder_layers": LAYERS,
        "encoder_attention_heads": HEADS,
        "encoder_ffn_dim": FEED,
        "num_mel_bins": 8,
        "initializer_range": SPREAD,
        **({"max_source_positions": SECONDS * 50} if positions else {}),
    }


_MAKERS: dict[str, Callable[[Any, int], tuple[Any, Any]]] = {
    "qwen2_audio": _qwen2_audio,
    "voxtral": _voxtral,
    "qwen2_5_omni": _omni,
    "qwen3_asr": _qwen3_asr,
    "granite_speech": _granite,
    "phi4_multimodal": _phi4,
}
KINDS = tuple(_MAKERS)
