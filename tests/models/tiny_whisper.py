"""A tiny, randomly initialised multilingual Whisper as a CTranslate2 folder. It is written in no time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from simulst.models.whisper.model import Whisper
from simulst.models.whisper.network import WhisperOptions

LAYERS, HEADS, WIDTH, MELS, STATES, POSITIONS = 2, 2, 32, 80, 1500, 448
LANGUAGES = ("en", "es", "ja", "zh")
STEPS = 1501  # timestamps
TEXT = "the cat sat on the mat and the dog sat by the cat; el gato y el perro, un café 世界 😀 "
TASKS = ("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>")


def write(
    folder: Path, seed: int = 0, eos: float = 0.0, times: float = -100.0, languages: tuple[str, ...] = LANGUAGES
) -> Path:
    """Write model.bin, vocabulary.json, tokenizer.json and config.json.

    eos: added to the logit of <|endoftext|> (-100: the model never ends; 7: after few tokens, or many over noise).
    times: added to the logits of all after it in the vocabulary (languages, tasks, timestamps).
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(languages)
    tokenizer.save(str(folder / "tokenizer.json"))
    stamps = [f"<|{i * 0.02:.2f}|>" for i in range(STEPS)]
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())] + stamps
    first = tokenizer.token_to_id("<|endoftext|>")
    spec = _spec(np.random.default_rng(seed), len(tokens), first, eos, times)
    spec.register_vocabulary(tokens)
    config = spec.config
    # As in the released models: neither languages nor <|notimestamps|>.
    tasks = tokenizer.token_to_id(TASKS[0])
    config.suppress_ids = [first + 1, *range(tasks, tasks + len(TASKS) - 1)]
    config.suppress_ids_begin = [tokenizer.token_to_id("Ġ"), first]
    config.lang_ids = [tokenizer.token_to_id(f"<|{language}|>") for language in languages]
    config.alignment_heads = [(LAYERS - 1, head) for head in range(HEADS)]
    spec.validate()
    spec.save(str(folder))
    return folder


def load(folder: Path, **options: Any) -> Whisper:
    """A model on one thread, in float32."""
    return Whisper(folder, WhisperOptions(**{"compute_type": "float32", "threads": 1, **options}))


def start(source: str = "es", target: str = "en") -> tuple[int, ...]:
    """The tokens that every text begins with."""
    task = "<|transcribe|>" if target == source else "<|translate|>"
    tokenizer = _tokenizer()
    names = ("<|startoftranscript|>", f"<|{source}|>", task, "<|notimestamps|>")
    return tuple(tokenizer.token_to_id(name) for name in names)


def _tokenizer(languages: tuple[str, ...] = LANGUAGES) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=320, min_frequency=1, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    specials = ("<|endoftext|>", "<|startoftranscript|>", *(f"<|{language}|>" for language in languages), *TASKS)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
    return tokenizer


def _spec(random: np.random.Generator, vocabulary: int, eos: int, eos_bias: float, times_bias: float) -> Any:
    from ctranslate2.specs.whisper_spec import WhisperSpec  # here, as it imports torch, and conftest.py imports this

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (random.standard_normal(shape) * scale).astype(np.float32)

    def linear(layer, outputs: int, inputs: int, scale: float = 1.0) -> None:
        layer.weight = normal(outputs, inputs, scale=scale / np.sqrt(inputs))
        layer.bias = normal(outputs, scale=0.1)

    def norm(layer) -> None:
        layer.gamma, layer.beta = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)

    def attention(layer, itself: bool) -> None:
        norm(layer.layer_norm)
        if itself:
            linear(layer.linear[0], 3 * WIDTH, WIDTH, 2.0)
        else:
            linear(layer.linear[0], WIDTH, WIDTH, 2.0)
            linear(layer.linear[1], 2 * WIDTH, WIDTH, 2.0)
        linear(layer.linear[-1], WIDTH, WIDTH)

    def transformer(part) -> None:
        norm(part.layer_norm)
        for layer in part.layer:
            attention(layer.self_attention, True)
            if hasattr(layer, "attention"):
                attention(layer.attention, False)
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, 4 * WIDTH, WIDTH)
            linear(layer.ffn.linear_1, WIDTH, 4 * WIDTH)

    spec = WhisperSpec(LAYERS, HEADS, LAYERS, HEADS)
    encoder, decoder = spec.encoder, spec.decoder
    for conv, inputs in ((encoder.conv1, MELS), (encoder.conv2, WIDTH)):
        conv.weight = normal(WIDTH, inputs, 3, scale=3 / np.sqrt(3 * inputs))
        conv.bias = normal(WIDTH, scale=0.1)
    encoder.position_encodings.encodings = normal(STATES, WIDTH, scale=0.5)
    decoder.position_encodings.encodings = normal(POSITIONS, WIDTH, scale=0.5)
    decoder.embeddings.weight = normal(vocabulary, WIDTH)
    decoder.scale_embeddings = 1.0
    transformer(encoder)
    transformer(decoder)
    linear(decoder.projection, vocabulary, WIDTH, 3.0)
    decoder.projection.bias[eos] += eos_bias
    decoder.projection.bias[eos + 1 :] += times_bias
    return spec
