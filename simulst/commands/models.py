"""`simulst models`: turn models into the form of another library; find the heads that align."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import PATH, Group, force_option, source_lang_option, target_lang_option
from simulst.errors import SimulstError

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16")


@click.group(cls=Group)
def models() -> None:
    """Convert a Whisper to or from CTranslate2's form; find the heads that align."""


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


@models.command("heads")
@click.option(
    "--model", required=True, type=PATH, help="A cascade's file; its translator is of type llm or huggingface."
)
@source_lang_option
@target_lang_option
@click.option("--alignments", required=True, type=PATH, help="Pairs with word alignments (.json), or Pharaoh's format.")
@click.option("--source", type=PATH, help="With Pharaoh's format: the source, a line for each pair.")
@click.option("--target", type=PATH, help="The same of the translations.")
@click.option("--count", default=6, show_default=True, type=click.IntRange(min=1), help="How many heads are chosen.")
def heads(
    model: Path,
    source_lang: str,
    target_lang: str,
    alignments: Path,
    source: Path | None,
    target: Path | None,
    count: int,
) -> None:
    """Find the heads that align a translator's text with its source.

    They are written beside the translator's model (alignment_heads.json), where STOP finds them.
    """
    from simulst.machine.threads import available_cores
    from simulst.models.cascade.loading import read_translator
    from simulst.models.cascade.settings import beside, read_settings
    from simulst.models.heads import rank, read_pairs, read_pharaoh
    from simulst.models.huggingface.alignment import HEADS
    from simulst.models.huggingface.folder import find_folder
    from simulst.opening import Opening

    if (source is None) != (target is None) or (source is None) != (alignments.suffix == ".json"):
        raise SimulstError("--alignments is a .json file, or stands with --source and --target.")
    pairs = read_pairs(alignments) if source is None or target is None else read_pharaoh(alignments, source, target)
    translator = read_translator(model, read_settings(model).translator)
    named = getattr(translator, "model", None)
    if named is None:
        raise SimulstError(f"{model}: this translator has no model with heads; give one of type llm or huggingface.")
    out = find_folder(Path(beside(model, named))) / HEADS
    opened = translator.load(model, available_cores())(Opening(source_lang, target_lang))
    found = rank(opened, pairs, count)
    found.write(out)
    for (layer, head), score in zip(found.heads, found.scores, strict=True):
        click.echo(f"layer {layer} head {head}: {score:.1%}")
    click.echo(
        f"their mean: {found.mean:.1%} of {found.tokens} tokens of {found.pairs} pairs attend most to an aligned word"
    )
    click.echo(
        f"halves: of the best heads of one half of the pairs, {found.same:.0%} are among the best of the other, where "
        f"they reach {found.other:.1%}"
    )
    click.echo(f"written: {out}")
