"""A Hugging Face model's folder: on this disk, or in the hub's cache."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from simulst.errors import SimulstError, first_line

SETTINGS = ["*.json", "*.model", "*.txt", "*.spm", "*.jinja", "*.py"]
PATTERNS = [*SETTINGS, "*.safetensors"]


def model_type(folder: Path) -> str | None:
    """The architecture that config.json names; None where there is no such file."""
    config = folder / "config.json"
    if not config.is_file():
        return None
    try:
        found = json.loads(config.read_text(encoding="utf-8"))
    except ValueError:
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
    """The files of weights. Raises SimulstError: there are none."""
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not files:
        raise SimulstError(f"{folder}: has no weights (model.safetensors); copy the whole model again.")
    return files


def digest_of_folder(path: Path) -> str:
    """A short name of a model in a folder or on the hub: of its weights, configuration and tokeniser.

    Raises SimulstError: it has no weights.
    """
    folder = find_folder(path)
    settings = {file for pattern in SETTINGS for file in folder.glob(pattern)}
    return digest_of_files([*weight_files(folder), *sorted(settings)])


def digest_of_files(files: list[Path]) -> str:
    """A short name of what these files hold. Raises SimulstError: one cannot be read."""
    whole = hashlib.sha256()
    for part in files:
        try:
            with part.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise SimulstError(f"{part}: cannot be read ({error.strerror}); copy the whole model again.") from error
    return whole.hexdigest()[:16]
