"""Encoder-decoder models of Hugging Face's transformers, from a local folder or by their name on the hub.

Nothing heavy is imported before a model is loaded. What differs between architectures is in architectures.py.
"""

from __future__ import annotations

from pathlib import Path

from simulst.models.base import Family
from simulst.models.huggingface.folder import files_of_folder, is_hub_name, model_type
from simulst.models.huggingface.options import HuggingFaceOptions
from simulst.session import Model


def _recognises(path: Path) -> bool:
    return model_type(path) is not None if path.exists() else is_hub_name(path)


def _load(path: Path, options: HuggingFaceOptions, cores: int) -> Model:
    from simulst.models.huggingface.loading import load

    return load(path, options, cores)


family = Family(
    name="huggingface",
    looks_like="a Hugging Face model (config.json with a model_type, model.safetensors) or its name on the hub",
    recognises=_recognises,
    options=HuggingFaceOptions,
    load=_load,
    files=lambda path, options: files_of_folder(path, options.trust_remote_code),
)
