"""Model families, one file each. `load_model` picks the family by what it finds in the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.models.base import Model


def load_model(path: str | Path, source_language: str, target_language: str, **options: Any) -> Model:
    """Open a model folder.

    options: passed on to the family (`device`, `compute_type`, `threads`, ...).
    Raises SimulstError: no such folder, no known family, a language that the model does not have.
    """
    path = Path(path)
    if not path.is_dir():
        raise SimulstError(f"{path}: no such model folder; run the recipe's stage that brings the model, or give another.")
    if (path / "model.bin").is_file() and (path / "vocabulary.json").is_file():
        from simulst.models.whisper import Whisper

        return Whisper(path, source_language, target_language, **options)
    raise SimulstError(f"{path}: not a model that simulst knows; it needs a CTranslate2 Whisper (model.bin, vocabulary.json).")
