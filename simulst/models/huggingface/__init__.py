"""Encoder-decoder models of Hugging Face's transformers, from a local folder or by their name on the hub.

Nothing heavy is imported before a model is loaded. What differs between architectures is in architectures.py.
"""

from __future__ import annotations

from pathlib import Path

from simulst.files.code import files_of_modules
from simulst.find import modules_of
from simulst.models.base import Family, later
from simulst.models.huggingface.folder import files_of_folder, find_folder, is_hub_name, model_type
from simulst.models.huggingface.options import HuggingFaceOptions


def _recognises(path: Path) -> bool:
    return model_type(path) is not None if path.exists() else is_hub_name(path)


def _files(path: Path, options: HuggingFaceOptions) -> tuple[Path, ...]:
    found = files_of_folder(path, options.trust_remote_code)
    architecture = options.architecture or str(model_type(find_folder(path)))
    return (*found, *files_of_modules(modules_of(architecture, "architecture")).values())


def _tells(path: Path, options: HuggingFaceOptions) -> bool:
    """Whisper alone does, unless it is one of English; of a name on the hub, this is not known before it is fetched."""
    return not path.is_dir() or options.architecture != "" or model_type(path) == "whisper"


family = Family(
    looks_like="a Hugging Face model (config.json with a model_type, model.safetensors) or its name on the hub",
    recognises=_recognises,
    options=HuggingFaceOptions,
    load=later("simulst.models.huggingface.loading:load"),
    files=_files,
    tells=_tells,
)
