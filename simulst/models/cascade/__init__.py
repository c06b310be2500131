"""A cascade: a recogniser that is a model of ours under a policy of its own, and a text model that translates.

    recogniser:
      model: whisper-base
      decoding: {read: {type: chunk, ms: 1000}, commit: {type: local_agreement, n: 2}}
    translator: {type: command, command: apertium -u eng-spa}

The decoding configuration of a run (READ, STOP, COMMIT, search) is that of the translator. At each READ, it translates
what the recogniser has heard, its unstable words too unless `unstable: false`. COMMIT says which words are final.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from simulst.errors import SimulstError
from simulst.files.lock import digest
from simulst.files.yaml import read_yaml
from simulst.models.base import Family
from simulst.options import build_options

if TYPE_CHECKING:
    from simulst.config import Decoding
    from simulst.models.cascade.session import Cascade

SUFFIXES = (".yaml", ".yml")


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


def _recognises(path: Path) -> bool:
    if path.suffix not in SUFFIXES or not path.is_file():
        return False
    return any(line.startswith("recogniser:") for line in path.read_text("utf-8", errors="replace").splitlines())


def _load(path: Path, options: CascadeOptions, cores: int) -> Cascade:
    from simulst.models.cascade.session import Cascade
    from simulst.models.cascade.translators import load_translator
    from simulst.models.registry import load_model

    settings, part = read_settings(path)
    decoding = _decoding_of(path, part)
    if decoding.segment.pause_seconds:
        raise SimulstError(f"{path}: a recogniser is not cut at pauses; write 'segment' in the run's configuration.")
    recogniser = load_model(part.model, cores, **part.options)
    return Cascade(recogniser, decoding, load_translator(path, settings.translator, cores), settings)


def _decoding_of(path: Path, recogniser: Recogniser) -> Decoding:
    """The recogniser's decoding configuration, from the cascade's file or from its own."""
    from simulst.config import load_decoding, parse_decoding

    inner = recogniser.decoding
    return parse_decoding(inner, str(path)) if isinstance(inner, dict) else load_decoding(beside(path, inner))


def _digest(path: Path, options: CascadeOptions) -> str:
    from simulst.models.registry import digest_of_weights

    settings, part = read_settings(path)
    # The decoding configuration may be a file of its own, whose content can change while its name stays.
    decoding = json.dumps(_decoding_of(path, part).raw, sort_keys=True)
    parts = [path.read_text(encoding="utf-8"), decoding, digest_of_weights(part.model, part.options)]
    model, kind = settings.translator.get("model"), settings.translator.get("type")
    if kind in ("huggingface", "llm", "ctranslate2") and isinstance(model, str):
        from simulst.models.huggingface.folder import digest_of_files, digest_of_folder

        place = Path(beside(path, model))
        parts.append(digest_of_files([place / "model.bin"]) if kind == "ctranslate2" else digest_of_folder(place))
    return digest(parts)


family = Family(
    name="cascade",
    looks_like="a cascade (a YAML file with a recogniser and a translator)",
    recognises=_recognises,
    options=CascadeOptions,
    load=_load,
    digest=_digest,
)
