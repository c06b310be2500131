"""A Hugging Face model's folder: on this disk, or in the hub's cache."""

from __future__ import annotations

import json
from pathlib import Path

from simulst.errors import SimulstError, first_line
from simulst.files.folder import MADE_OF

SETTINGS = ["*.json", "*.model", "*.txt", "*.spm", "*.jinja", "*.py"]
PATTERNS = [*SETTINGS, "*.safetensors"]


def model_type(folder: Path) -> str | None:
    """The architecture that config.json names; None where there is no such file."""
    config = folder / "config.json"
    if not config.is_file():
        return None
    try:
        found = json.loads(config.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None
    kind = found.get("model_type") if isinstance(found, dict) else None
    return kind if isinstance(kind, str) else None


def is_hub_name(path: Path) -> bool:
    """Whether a path that does not exist can be the name of a model on the hub, `owner/name`."""
    text = str(path)
    return text.count("/") == 1 and not text.startswith(("/", ".", "~")) and not path.parent.exists()


def find_folder(path: Path) -> Path:
    """The model's folder; one on the hub is fetched, unless it was before.

    Raises SimulstError: no such folder, and the hub did not give it.
    """
    if path.is_dir():
        return path
    if not is_hub_name(path):
        raise SimulstError(f"{path}: no such folder; check the path.")
    try:
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(str(path), allow_patterns=PATTERNS))
        if not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(str(path), allow_patterns=[*PATTERNS, "pytorch_model*.bin"]))
    except Exception as error:  # the hub's client raises many unrelated kinds
        raise SimulstError(
            f"{path}: no such folder, and the Hugging Face hub did not give a model of that name "
            f"({first_line(error)}); check the name and the network, or give a local folder."
        ) from error
    return folder


def weight_files(folder: Path) -> list[Path]:
    """The files of weights that the library reads, with their index. Raises SimulstError: there are none."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return [folder / name]
        if index.is_file():
            return [*sorted(folder / shard for shard in _shards(index)), index]
    raise SimulstError(f"{folder}: has no weights (model.safetensors); copy the whole model again.")


def _shards(index: Path) -> set[str]:
    try:
        return set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SimulstError(f"{index}: not an index of weights; copy the whole model again.") from error


def files_of_folder(path: Path, code: bool = False) -> tuple[Path, ...]:
    """The files of a model in a folder or on the hub: its weights, configuration and tokeniser.

    code: whether its Python files are run.

    Raises SimulstError: it has no weights.
    """
    folder = find_folder(path)
    adapters = sorted(folder.rglob("adapter_model*.safetensors"))
    return (*weight_files(folder), *adapters, *settings_of_folder(folder, code))


def settings_of_folder(folder: Path, code: bool = False) -> list[Path]:
    """The files of configuration and tokeniser. code: whether Python files are run."""
    patterns = [pattern for pattern in SETTINGS if code or pattern != "*.py"]
    found = {file for pattern in patterns for file in folder.glob(pattern)}
    # These two are an index of weights, and the record of a command that made the folder.
    return sorted(file for file in found if not file.name.endswith(".index.json") and file.name != MADE_OF)
