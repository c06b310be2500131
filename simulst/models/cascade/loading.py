"""From a cascade's file to a cascade that runs here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.files.code import files_of_modules
from simulst.find import find_options, modules_of, names
from simulst.machine.threads import available_cores
from simulst.models.cascade.recognisers import OwnModel, Recogniser
from simulst.models.cascade.session import Cascade
from simulst.models.cascade.settings import CascadeOptions, Settings, beside, read_settings
from simulst.models.cascade.transcript import Transcript
from simulst.models.cascade.translators import Translation, Translator
from simulst.models.huggingface.folder import find_folder
from simulst.opening import Opening
from simulst.options import build_options

RECOGNISERS = {"model": OwnModel, "transcript": Transcript}
TRANSLATORS = {  # only the one that is used is imported: some need torch
    "ctranslate2": "simulst.models.cascade.ctranslate2:CTranslate2Text",
    "huggingface": "simulst.models.cascade.huggingface:HuggingFaceText",
    "llm": "simulst.models.cascade.llm:LLM",
    "server": "simulst.models.cascade.server:Server",
}


def load(path: Path, options: CascadeOptions, cores: int) -> Cascade:
    """Raises SimulstError: a file that is not valid; what loading the recogniser and the translator raises."""
    settings = read_settings(path)
    recogniser = read_recogniser(path, settings)
    decoding = recogniser.policies(path)
    model = recogniser.load(path, cores)
    return Cascade(model, decoding, read_translator(path, settings.translator).load(path, cores), settings)


def files(path: Path, options: CascadeOptions) -> tuple[Path, ...]:
    """The cascade's file and those of its parts. Raises SimulstError: as `load`, or a file is missing."""
    settings = read_settings(path)
    recogniser, translator = read_recogniser(path, settings), read_translator(path, settings.translator)
    named = modules_of(_type(settings.recogniser, "model"), "recogniser")
    code = files_of_modules(named + modules_of(_type(settings.translator), "translator"))
    return tuple(dict.fromkeys([path, *recogniser.files(path), *translator.files(path), *code.values()]))


def check(path: Path, options: CascadeOptions, source: str, target: str) -> None:
    """Raises SimulstError: its recogniser does not hear the source language."""
    read_recogniser(path, read_settings(path)).check(path, source)


def tells(path: Path, options: CascadeOptions) -> bool:
    """Whether its recogniser may tell which language is spoken."""
    return read_recogniser(path, read_settings(path)).tells(path)


def open_translator(path: Path, source: str, target: str) -> tuple[Translation, Path]:
    """Of a cascade's file: a translation, and the folder of its model. Raises SimulstError: it has none."""
    translator = read_translator(path, read_settings(path).translator)
    model = getattr(translator, "model", None)
    if model is None:
        raise SimulstError(f"{path}: this translator has no model with heads; give one of type llm or huggingface.")
    opened = translator.load(path, available_cores())(Opening(source, target))
    return opened, find_folder(Path(beside(path, model)))


def read_translator(path: Path, raw: dict[str, Any]) -> Translator:
    """From what a cascade's file says. Raises SimulstError: no such type, wrong options."""
    translator: Translator = _read("translator", _type(raw), raw, TRANSLATORS, Translator, path)
    return translator


def read_recogniser(path: Path, settings: Settings) -> Recogniser:
    """From what a cascade's file says. Raises SimulstError: no such type, wrong options."""
    raw = settings.recogniser
    recogniser: Recogniser = _read("recogniser", _type(raw, "model"), raw, RECOGNISERS, Recogniser, path)
    return recogniser


def _type(raw: Mapping[str, Any], usual: str = "") -> str:
    return str(raw.get("type", usual))


def _read(kind: str, name: str, raw: Mapping[str, Any], built_in: Mapping[str, Any], base: type, path: Path) -> Any:
    if not name:
        raise SimulstError(f"{path}: '{kind}' has no 'type'; choose from {', '.join(names(kind, built_in))}.")
    cls = find_options(kind, name, built_in, base, str(path), "docs/own_model.md")
    values = {key: value for key, value in raw.items() if key != "type"}
    return build_options(cls, values, str(path), f"'{kind}' of type '{name}'")
