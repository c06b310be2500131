"""A Whisper in CTranslate2's form, turned into Hugging Face's: the same weights in both families."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor

from simulst.commands.common import PATH, force_option, run_command
from simulst.errors import SimulstError
from simulst.files.folder import digest_of_file, written_whole
from simulst.models.ctranslate2_library import Variables, read_variables


def convert_whisper(folder: Path, out: Path, force: bool = False) -> None:
    """Write `out`, a Hugging Face folder, from a CTranslate2 Whisper, unless it is complete.

    force: write it again.

    Raises SimulstError: a file that is missing, broken, quantised to integers, or no Whisper; `out` was made of another
        model.
    """
    for name in ("model.bin", "config.json", "tokenizer.json"):
        if not (folder / name).is_file():
            raise SimulstError(f"{folder}: the file {name} is missing; bring the model again.")
    with written_whole(out, {"model.bin": digest_of_file(folder / "model.bin")}, force) as part:
        if part:
            _write(folder, part)


def _write(folder: Path, part: Path) -> None:
    """Convert into an empty folder."""
    from transformers import GenerationConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration
    from transformers.utils import logging

    variables = read_variables(folder / "model.bin")
    if not {"encoder/conv1/weight", "decoder/embeddings/weight"} <= variables.keys():
        raise SimulstError(f"{folder}: model.bin holds no Whisper; give a Whisper model in CTranslate2 form.")
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise SimulstError(f"{folder}: config.json is broken ({error}); bring the model again.") from error
    config = _config(variables)
    vocabulary = _vocabulary(folder / "tokenizer.json")
    special = {name: vocabulary[f"<|{name}|>"] for name in ("startoftranscript", "endoftext")}
    config.decoder_start_token_id = special["startoftranscript"]
    config.bos_token_id = config.eos_token_id = config.pad_token_id = special["endoftext"]
    logging.set_verbosity_error()
    model = WhisperForConditionalGeneration(config)
    weights = dict(_weights(variables, config.encoder_layers, config.decoder_layers))
    report = model.load_state_dict(weights, strict=False)
    if strange := [*report.missing_keys, *report.unexpected_keys]:
        raise SimulstError(f"{folder}: model.bin is not a Whisper that transformers has (see {strange[0]}).")
    model.tie_weights()
    # A new one: the library does not keep what it does not know in one that was made of the model's configuration.
    model.generation_config = GenerationConfig(**_generation(settings, vocabulary, config))
    model.save_pretrained(part)
    WhisperFeatureExtractor(feature_size=config.num_mel_bins).save_pretrained(part)
    shutil.copy(folder / "tokenizer.json", part)
    tokens = {f"{name}_token": "<|endoftext|>" for name in ("bos", "eos", "unk", "pad")}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **tokens}
    (part / "tokenizer_config.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


def _config(variables: Variables) -> Any:
    from transformers import WhisperConfig

    vocabulary, width = variables["decoder/embeddings/weight"].shape
    layers = {side: _count(variables, side) for side in ("encoder", "decoder")}
    states = len(variables["encoder/position_encodings/encodings"])
    heads = int(variables["encoder/num_heads"])
    return WhisperConfig(
        vocab_size=vocabulary,
        num_mel_bins=variables["encoder/conv1/weight"].shape[1],
        d_model=width,
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        encoder_attention_heads=heads,
        decoder_attention_heads=int(variables.get("decoder/num_heads", heads)),
        encoder_ffn_dim=len(variables["encoder/layer_0/ffn/linear_0/weight"]),
        decoder_ffn_dim=len(variables["decoder/layer_0/ffn/linear_0/weight"]),
        max_source_positions=states,
        max_target_positions=len(variables["decoder/position_encodings/encodings"]),
        tie_word_embeddings=variables["decoder/projection/weight"] is variables["decoder/embeddings/weight"],
    )


def _generation(settings: dict[str, Any], vocabulary: dict[str, int], config: Any) -> dict[str, Any]:
    """What the library's own `generate` needs, and our search reads."""
    languages = set(settings.get("lang_ids") or ())
    return {
        **{name: getattr(config, name) for name in ("decoder_start_token_id", "bos_token_id")},
        **{name: getattr(config, name) for name in ("eos_token_id", "pad_token_id")},
        "max_length": config.max_target_positions,
        "suppress_tokens": settings.get("suppress_ids") or None,
        "begin_suppress_tokens": settings.get("suppress_ids_begin") or None,
        "alignment_heads": settings.get("alignment_heads"),
        "is_multilingual": bool(languages),
        "lang_to_id": {name: number for name, number in vocabulary.items() if number in languages},
        "task_to_id": {name: vocabulary[f"<|{name}|>"] for name in ("transcribe", "translate")},
        "no_timestamps_token_id": vocabulary["<|notimestamps|>"],
    }


def _count(variables: Variables, side: str) -> int:
    """The layers of the encoder or the decoder."""
    found = (re.match(rf"{side}/layer_(\d+)/", name) for name in variables)
    return 1 + max(int(layer[1]) for layer in found if layer)


def _weights(variables: Variables, encoder_layers: int, decoder_layers: int) -> Iterator[tuple[str, Tensor]]:
    """The weights by Hugging Face's names."""

    def tensor(name: str) -> Tensor:
        value = variables[name]
        if not np.issubdtype(value.dtype, np.floating):
            raise SimulstError(f"model.bin: {name} is quantised to integers; give a model in float16 or float32.")
        return torch.from_numpy(value.astype(np.float32))

    def linear(to: str, of: str) -> Iterator[tuple[str, Tensor]]:
        yield f"{to}.weight", tensor(f"{of}/weight")
        yield f"{to}.bias", tensor(f"{of}/bias")

    def norm(to: str, of: str) -> Iterator[tuple[str, Tensor]]:
        yield f"{to}.weight", tensor(f"{of}/gamma")
        yield f"{to}.bias", tensor(f"{of}/beta")

    def parts(to: str, of: str, names: str) -> Iterator[tuple[str, Tensor]]:
        """Queries, keys and values lie in one matrix; Whisper's keys have no bias."""
        weights, biases = (tensor(f"{of}/{kind}").chunk(len(names)) for kind in ("weight", "bias"))
        for name, weight, bias in zip(names, weights, biases, strict=True):
            yield f"{to}.{name}_proj.weight", weight
            if name != "k":
                yield f"{to}.{name}_proj.bias", bias

    for side, layers in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        yield f"model.{side}.embed_positions.weight", tensor(f"{side}/position_encodings/encodings")
        yield from norm(f"model.{side}.layer_norm", f"{side}/layer_norm")
        for number in range(layers):
            to, of = f"model.{side}.layers.{number}", f"{side}/layer_{number}"
            yield from parts(f"{to}.self_attn", f"{of}/self_attention/linear_0", "qkv")
            yield from linear(f"{to}.self_attn.out_proj", f"{of}/self_attention/linear_1")
            yield from norm(f"{to}.self_attn_layer_norm", f"{of}/self_attention/layer_norm")
            if side == "decoder":
                yield from parts(f"{to}.encoder_attn", f"{of}/attention/linear_0", "q")
                yield from parts(f"{to}.encoder_attn", f"{of}/attention/linear_1", "kv")
                yield from linear(f"{to}.encoder_attn.out_proj", f"{of}/attention/linear_2")
                yield from norm(f"{to}.encoder_attn_layer_norm", f"{of}/attention/layer_norm")
            yield from linear(f"{to}.fc1", f"{of}/ffn/linear_0")
            yield from linear(f"{to}.fc2", f"{of}/ffn/linear_1")
            yield from norm(f"{to}.final_layer_norm", f"{of}/ffn/layer_norm")
    for conv in ("conv1", "conv2"):
        yield from linear(f"model.encoder.{conv}", f"encoder/{conv}")
    yield "model.decoder.embed_tokens.weight", tensor("decoder/embeddings/weight")
    yield "proj_out.weight", tensor("decoder/projection/weight")


def _vocabulary(path: Path) -> dict[str, int]:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path)).get_vocab(with_added_tokens=True)
    except Exception as error:  # the library has no class of its own for it
        raise SimulstError(f"{path}: broken ({error}); bring the model again.") from error


@click.command()
@click.option("--model", required=True, type=PATH, help="Folder with model.bin.")
@click.option("--out", required=True, type=PATH, help="Folder for the new model.")
@force_option("Convert it again.")
def main(model: Path, out: Path, force: bool) -> None:
    """Convert a Whisper into Hugging Face's form.

    Fine-tuning begins with one, for example.
    """
    convert_whisper(model, out, force)


if __name__ == "__main__":
    run_command(main)
