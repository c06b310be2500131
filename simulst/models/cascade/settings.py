"""A cascade's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from simulst.files.yaml import read_yaml
from simulst.options import build_options


@dataclass(frozen=True)
class CascadeOptions:
    """A cascade has no options but those of its file."""


@dataclass(frozen=True)
class Settings:
    """A cascade's file.

    recogniser, translator: type and options of each, see recognisers.py and translators.py.
    unstable: whether words that the recogniser may still change are translated too.
    most_words: a sentence is cut after so many words (characters of zh, ja, ...). This is for text without punctuation.
    """

    recogniser: dict[str, Any]
    translator: dict[str, Any]
    unstable: bool = True
    most_words: Annotated[int, Field(ge=5)] = 80


def read_settings(path: Path) -> Settings:
    """Raises SimulstError: a file that is not valid YAML, or lacks something."""
    return build_options(Settings, read_yaml(path, "cascade"), str(path), "a cascade")


def beside(path: Path, name: str) -> str:
    """A path relative to the cascade's file if such a file or folder exists, or else the name itself."""
    place = path.parent / name
    return str(place) if place.exists() else name
