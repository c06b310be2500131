"""`simulst models`: turn models into the form of another library."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import PATH, Group, force_option

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16")


@click.group(cls=Group)
def models() -> None:
    """Convert a Whisper to or from CTranslate2's form."""


@models.command("to-ctranslate2")
@click.option("--model", required=True, type=PATH, help="Folder in Hugging Face's form, or name on the hub.")
@click.option("--out", required=True, type=PATH, help="Folder for the new model.")
@click.option(
    "--quantization",
    default="float32",
    show_default=True,
    type=click.Choice(QUANTIZATIONS),
    help="Type of the new model's weights.",
)
@force_option("Convert it again.")
def to_ctranslate2(model: Path, out: Path, quantization: str, force: bool) -> None:
    """Convert a Whisper into CTranslate2's form.

    Such as a fine-tuned one. CTranslate2's own converter does it.
    """
    from simulst.models.huggingface.to_ctranslate2 import to_ctranslate2

    to_ctranslate2(model, out, quantization, force)


@models.command("from-ctranslate2")
@click.option("--model", required=True, type=PATH, help="Folder with model.bin.")
@click.option("--out", required=True, type=PATH, help="Folder for the new model.")
@force_option("Convert it again.")
def from_ctranslate2(model: Path, out: Path, force: bool) -> None:
    """Convert a Whisper into Hugging Face's form.

    Fine-tuning begins with one, for example.
    """
    from simulst.models.huggingface.from_ctranslate2 import convert_whisper

    convert_whisper(model, out, force)
