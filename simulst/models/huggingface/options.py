"""What a user may choose of a Hugging Face model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

LEAST_WINDOW = 5.0  # seconds


@dataclass(frozen=True)
class HuggingFaceOptions:
    """Options of a Hugging Face model.

    device: the torch device, such as cpu or cuda.
    threads: torch's threads, in the whole process. 0: all that are available.
    dtype: of the weights and the arithmetic.
    window: the most seconds of speech that are encoded at once. Whisper has at most 30.
    padding_seconds: silence that is encoded after the speech. Whisper only (see simulst/models/whisper); 30 encodes
        the full window.
    other_targets: whether Whisper may be asked for any language by its token. It learns that by fine-tuning only.
    instruction: what a speech LLM is told; {source} and {target} stand for the languages. Empty: to translate, or to
        transcribe.
    history: the most tokens of the text before the window that a speech LLM is shown.
    trust_remote_code: whether Python code in the model's folder may be run.
    architecture: the class that serves the model, such as `my_module:Mine`. Empty: that of the model's type.
    """

    device: str = "cpu"
    threads: Annotated[int, Field(ge=0)] = 0
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    window: Annotated[float, Field(ge=LEAST_WINDOW, allow_inf_nan=False)] = 30.0
    padding_seconds: Annotated[float, Field(ge=0, le=30)] = 2.0
    other_targets: bool = False
    instruction: str = ""
    history: Annotated[int, Field(ge=0)] = 0
    trust_remote_code: bool = False
    architecture: str = ""
