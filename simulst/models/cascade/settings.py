"""A cascade's file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from simulst.config import Decoding, load_decoding, parse_decoding
from simulst.files.yaml import read_yaml
from simulst.options import build_options


@dataclass(frozen=True)
class CascadeOptions:
    """A cascade has no options but those of its file."""


@dataclass(frozen=True)
class Recogniser:
    """The recogniser of a cascade.

    model: as on the command line; a path is relative to the cascade's file.
    decoding: its decoding configuration, or the file that holds one.
    options: of the model.
    """

    model: str
    decoding: dict[str, Any] | str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """A cascade's file.

    recogniser: see `Recogniser`.
    translator: its type and options, see translators.py.
    unstable: whether words that the recogniser may still change are translated too.
    most_words: a sentence is cut after so many words (characters of zh, ja, ...). This is for text without punctuation.
    """

    recogniser: dict[str, Any]
    translator: dict[str, Any]
    unstable: bool = True
    most_words: Annotated[int, Field(ge=5)] = 80


def read_settings(path: Path) -> tuple[Settings, Recogniser]:
    """Raises SimulstError: a file that is not valid YAML, or lacks something."""
    raw = read_yaml(path, "cascade")
    settings = build_options(Settings, raw, str(path), "a cascade")
    recogniser = build_options(Recogniser, settings.recogniser, str(path), "'recogniser'")
    return settings, dataclasses.replace(recogniser, model=beside(path, recogniser.model))


def beside(path: Path, name: str) -> str:
    """A path relative to the cascade's file if such a file or folder exists, or else the name itself."""
    place = path.parent / name
    return str(place) if place.exists() else name


def decoding_of(path: Path, recogniser: Recogniser) -> Decoding:
    """The recogniser's decoding configuration, from the cascade's file or from its own."""
    inner = recogniser.decoding
    return parse_decoding(inner, str(path)) if isinstance(inner, dict) else load_decoding(beside(path, inner))
