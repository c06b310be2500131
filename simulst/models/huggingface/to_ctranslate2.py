"""A Whisper in Hugging Face's form, such as a fine-tuned one, turned into CTranslate2's by its own converter."""

from __future__ import annotations

from pathlib import Path

from simulst.errors import SimulstError, first_line
from simulst.files.folder import digest_of_files, written_whole
from simulst.models.huggingface.folder import files_of_folder, find_folder, model_type
from simulst.models.huggingface.loading import quiet

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16")


def to_ctranslate2(model: Path, out: Path, quantization: str = "float32", force: bool = False) -> None:
    """Write `out`, which the Whisper family loads, unless it is complete.

    quantization: of the weights in the file. Another type can be asked for when the model is loaded.
    force: write it again.

    Raises SimulstError: no Whisper, a missing file, or what the converter does not take.
    """
    folder = find_folder(model)
    if model_type(folder) != "whisper":
        raise SimulstError(
            f"{model}: no Whisper, but '{model_type(folder)}'; only Whisper's family has CTranslate2's form."
        )
    if not (folder / "tokenizer.json").is_file():
        raise SimulstError(f"{model}: tokenizer.json is missing; copy the whole model.")
    made_of = {"weights": digest_of_files(files_of_folder(folder)), "quantization": quantization}
    with written_whole(out, made_of, force) as part:
        if part is None:
            return
        from ctranslate2.converters import TransformersConverter

        try:
            with quiet():
                converter = TransformersConverter(str(folder), copy_files=["tokenizer.json"])
                converter.convert(str(part), quantization=quantization, force=True)
        except Exception as error:  # the converter raises many unrelated kinds
            raise SimulstError(f"{model}: CTranslate2 cannot convert it ({first_line(error)}).") from error
        print(f"{out}: written")
