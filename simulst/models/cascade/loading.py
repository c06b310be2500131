"""From a cascade's file to a cascade that runs here."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.models.cascade.session import Cascade
from simulst.models.cascade.settings import CascadeOptions, beside, decoding_of, read_settings
from simulst.models.cascade.translators import Opener, Translator
from simulst.models.registry import files_of_model, files_of_part, load_model
from simulst.options import build_options
from simulst.policy.segment import Whole

TRANSLATORS = {
    "command": "Command",
    "ctranslate2": "CTranslate2Text",
    "huggingface": "HuggingFaceText",
    "llm": "LLM",
    "server": "Server",
}
"""The class of each type, in the module of that name. Only the one that is used is imported: some need torch."""


def load(path: Path, options: CascadeOptions, cores: int) -> Cascade:
    """Raises SimulstError: a file that is not valid; what loading the recogniser and the translator raises."""
    settings, part = read_settings(path)
    decoding = decoding_of(path, part)
    if decoding.segment != Whole():
        raise SimulstError(f"{path}: a recogniser has no 'segment' of its own; write it in the run's configuration.")
    recogniser = load_model(part.model, cores, **part.options)
    return Cascade(recogniser, decoding, load_translator(path, settings.translator, cores), settings)


def files(path: Path) -> tuple[Path, ...]:
    """The cascade's file and those of its parts. Raises SimulstError: as `load`, or a file is missing."""
    settings, part = read_settings(path)
    decoding = decoding_of(path, part)
    policies = [file for name in decoding.files for file in files_of_part(name)] + list(decoding.code.values())
    inner = [] if isinstance(part.decoding, dict) else [Path(beside(path, part.decoding))]
    translator = read_translator(path, settings.translator)
    whole = (path, *inner, *policies, *files_of_model(part.model, part.options), *translator.files(path))
    return tuple(dict.fromkeys(whole))


def load_translator(path: Path, raw: dict[str, Any], cores: int) -> Opener:
    """From what a cascade's file says. Raises SimulstError: no such type, wrong options, what `load` raises."""
    return read_translator(path, raw).load(path, cores)


def read_translator(path: Path, raw: dict[str, Any]) -> Translator:
    """From what a cascade's file says. Raises SimulstError: no such type, wrong options."""
    kind = raw.get("type")
    if kind not in TRANSLATORS:
        raise SimulstError(f"{path}: 'translator' has no type '{kind}'; choose from {', '.join(TRANSLATORS)}.")
    values = {name: value for name, value in raw.items() if name != "type"}
    options = getattr(importlib.import_module(f"simulst.models.cascade.{kind}"), TRANSLATORS[kind])
    translator: Translator = build_options(options, values, str(path), f"'translator' of type '{kind}'")
    return translator
