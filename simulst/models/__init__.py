"""Model families, one file each. `load_model` picks the family by what it finds in the folder.

Your own family is a class with the methods of `simulst.models.base.Model`, named by its import path
(`--model my_package.my_module:MyModel`). It is called as MyModel(source_language, target_language, **options), where
the options are those of `--model-option`; a folder of weights, say, is one of them.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from simulst.errors import SimulstError
from simulst.models.base import Model


def load_model(path: str | Path, source_language: str, target_language: str, **options: Any) -> Model:
    """Open a model folder, or a family of your own by its import path.

    options: passed on to the family (`device`, `compute_type`, `threads`, ...).
    Raises SimulstError: no such folder, no known family, an option or a language that the model does not have.
    """
    family = _family(path)
    known = _options(family)
    for name in options:
        if name not in known:
            raise SimulstError(f"{path}: the model has no option '{name}'; it has {', '.join(known) or 'none'}.")
    return family(source_language, target_language, **options)


def option_names(path: str | Path) -> list[str]:
    """The options of the family that `load_model` would pick. Raises SimulstError as it does."""
    return _options(_family(path))


def digest_of_weights(path: str | Path, options: Mapping[str, Any]) -> str:
    """A short name of a model's weights: trained anew, it has another one. Empty for a family of your own.

    Raises SimulstError: no such model, or weights that are missing.
    """
    folder = Path(path)
    if _is_espnet(folder):
        from simulst.models.experiment import Experiment

        experiment = Experiment(folder, str(options.get("checkpoint", "")))
        return hashlib.sha256(experiment.read(experiment.checkpoint)).hexdigest()[:16]
    if (folder / "model.bin").is_file():
        with (folder / "model.bin").open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    _family(path)
    return ""


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Options of a family from `NAME=VALUE` texts (`--model-option`). Raises SimulstError for other forms."""
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise SimulstError(f"--model-option {pair}: give it as NAME=VALUE.")
        try:
            options[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            options[name] = value
        if isinstance(options[name], list | dict):
            raise SimulstError(f"--model-option {pair}: the value must be a number, a word or true/false.")
    return options


def _family(path: str | Path) -> Callable[..., Model]:
    folder = Path(path)
    if (folder / "model.bin").is_file() and (folder / "vocabulary.json").is_file():
        from simulst.models.whisper import Whisper

        return partial(Whisper, folder)
    if _is_espnet(folder):
        from simulst.models.espnet import ESPnet

        return partial(ESPnet, folder)
    if folder.is_dir():
        raise SimulstError(
            f"{path}: not a model that simulst knows; it needs a CTranslate2 Whisper (model.bin, vocabulary.json), or "
            "an ESPnet experiment (config.yaml with a token_list, weights in *.pth) or the zip that ESPnet packed."
        )
    module, colon, attribute = str(path).partition(":")
    if not (colon and module and attribute) or "/" in module:
        raise SimulstError(
            f"{path}: no such model folder; run the recipe's stage that brings the model, or give another "
            "(or your own class as package.module:Class)."
        )
    try:
        family = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, TypeError) as error:
        raise SimulstError(f"{path}: cannot import the model ({error}); check the path and PYTHONPATH.") from error
    if not callable(getattr(family, "session", None)):
        raise SimulstError(f"{path}: not a model; write a class like Model in simulst/models/base.py.")
    return family


def _is_espnet(path: Path) -> bool:
    config = path / "config.yaml"
    if config.is_file():
        return any(line.startswith("token_list:") for line in config.read_text(encoding="utf-8").splitlines())
    return path.suffix == ".zip" and path.is_file()


def _options(family: Callable[..., Model]) -> list[str]:
    parameters = inspect.signature(family).parameters.values()
    return [p.name for p in parameters if p.name not in ("source_language", "target_language")]
