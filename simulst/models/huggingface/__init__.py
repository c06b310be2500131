"""Encoder-decoder models of Hugging Face's transformers, from a local folder or by their name on the hub.

options: what a user may choose. Nothing heavy is imported before a model is loaded. What differs between architectures
is in architectures.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from simulst.models.base import Family, Model
from simulst.models.huggingface.folder import digest_of_folder, is_hub_name, model_type

LEAST_WINDOW = 5.0  # seconds


@dataclass(frozen=True)
class HuggingFaceOptions:
    """Options of a Hugging Face model.

    device: the torch device, such as cpu or cuda.
    threads: torch's threads, in the whole process. 0: all that are available.
    dtype: of the weights and the arithmetic.
    window: the most seconds of speech that are encoded at once. Whisper has at most 30.
    padding_seconds: silence that is encoded after the speech. Whisper only (see simulst/models/whisper.py); 30 encodes
        the full window.
    other_targets: whether Whisper may be asked for any language by its token. It learns that by fine-tuning only.
    trust_remote_code: whether Python code in the model's folder may be run.
    """

    device: str = "cpu"
    threads: Annotated[int, Field(ge=0)] = 0
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    window: Annotated[float, Field(ge=LEAST_WINDOW, allow_inf_nan=False)] = 30.0
    padding_seconds: Annotated[float, Field(ge=0, le=30)] = 2.0
    other_targets: bool = False
    trust_remote_code: bool = False


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
    digest=lambda path, options: digest_of_folder(path),
)
