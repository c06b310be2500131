"""The model families. `load_model` asks each of them whether it recognises the path.

A family is a module or package in this folder that has a `family` (`simulst.models.base.Family`). Your own model does
not have to be in this folder. Write a class with the methods of `simulst.session.Model` and give its import path
(`--model my_package.my_module:MyModel`). The class is called with the options of `--model-option`, such as a folder of
weights.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from simulst.errors import SimulstError, reason_of, remedy_of
from simulst.files.code import files_of_modules
from simulst.files.folder import digest_of_files, sha256_of
from simulst.files.lock import digest
from simulst.files.yaml import load_yaml
from simulst.machine.threads import add_alike_in_mkl, available_cores
from simulst.models.base import Family
from simulst.options import build_options
from simulst.options import option_names as names_of
from simulst.session import Model


def load_model(path: str | Path, cores: int = 0, /, **options: Any) -> Model:
    """Load a model, whose words do not depend on the number of threads (see docs/models.md).

    path: a model folder, or the import path of your own class.
    cores: how many processors the model may use if its options name no number of threads. 0: all that are available.
    options: the options of the family, such as `device` and `threads`.

    Raises SimulstError: no such folder; no family recognises it; an unknown option; broken files.
    """
    add_alike_in_mkl()
    family = _family(path)
    if family is not None:
        checked: Any = build_options(family.options, options, str(path), "the model")
        return family.load(Path(path), checked, cores or available_cores())
    own = _own(path)
    known = _parameters(own)
    for name in options:
        if name not in known:
            raise SimulstError(f"{path}: the model has no option '{name}'; it has {', '.join(known) or 'no options'}.")
    lacking = [name for name, one in inspect.signature(own).parameters.items() if _needed(one) and name not in options]
    if lacking:
        raise SimulstError(
            f"{path}: the model needs the option '{lacking[0]}'; give --model-option {lacking[0]}=VALUE."
        )
    try:
        return own(**options)
    except SimulstError:
        raise
    except Exception as error:  # of any kind, as it is the user's code that runs
        raise SimulstError(f"{path}: the model cannot be made with these options ({reason_of(error)}).") from error


def option_names(path: str | Path) -> list[str]:
    """The names of the options that `load_model` accepts for this path. Raises SimulstError as `load_model` does."""
    family = _family(path)
    return _parameters(_own(path)) if family is None else names_of(family.options)


def files_of_model(path: str | Path, options: Mapping[str, Any]) -> tuple[Path, ...]:
    """The files that a model is made of: all that loading reads, in a fixed order.

    Of your own class they are the files of its module, of the module that the path names, and of your modules that
    these import. What the code reads is not known.

    Raises SimulstError: no such model; wrong options; a missing file.
    """
    family = _family(path)
    if family is not None:
        return family.files(Path(path), build_options(family.options, options, str(path), "the model"))
    modules = dict.fromkeys([str(path).partition(":")[0], _own(path).__module__])
    return tuple(files_of_modules(modules).values())


def digest_of_weights(path: str | Path, options: Mapping[str, Any]) -> str:
    """A hash of the files that a model is made of. It changes if the model is trained again.

    Raises SimulstError: no such model; wrong options; a missing file.
    """
    found = digest_of_files(files_of_model(path, options))
    return found if _family(path) else digest([found, str(path)])  # a module may have several classes


def files_of_part(path: str | Path) -> tuple[Path, ...]:
    """The files of what a policy reads: those of a model, or the file itself. Raises SimulstError: no such model."""
    return files_of_model(path, {}) if Path(path).is_dir() else (Path(path),)


def digest_of_part(path: str | Path) -> str:
    """A hash of what a policy reads. Raises SimulstError: no such model, or a file that can't be read."""
    return digest_of_weights(path, {}) if Path(path).is_dir() else sha256_of(Path(path))


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse options of the form `NAME=VALUE` (`--model-option`). Raises SimulstError for any other form."""
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise SimulstError(f"--model-option {pair}: give it as NAME=VALUE.")
        try:
            options[name] = load_yaml(value)
        except yaml.YAMLError:
            options[name] = value
        if not isinstance(options[name], str | bool | int | float | None):
            raise SimulstError(f"--model-option {pair}: the value must be a number, a word or true/false.")
    return options


@functools.cache
def families() -> tuple[Family, ...]:
    """All families, sorted by name. Their libraries are imported only when a model is loaded."""
    found = []
    for module in pkgutil.iter_modules(sys.modules[__package__].__path__):
        content = importlib.import_module(f"{__package__}.{module.name}")
        if "family" in vars(content):
            found.append(content.family)
    return tuple(sorted(found, key=lambda family: family.name))


def _family(path: str | Path) -> Family | None:
    """The family that recognises a folder or file; None for an import path."""
    place = Path(path)
    for family in families():
        if family.recognises(place):
            return family
    if place.is_dir():
        kinds = ", or ".join(family.looks_like for family in families())
        raise SimulstError(f"{path}: not a model that simulst knows; give {kinds}.")
    return None


def _own(path: str | Path) -> Any:
    """The class that an import path names."""
    module, colon, attribute = str(path).partition(":")
    if not (colon and module and attribute) or "/" in module:
        what = "a file, not a model folder" if Path(path).is_file() else "no such model folder"
        raise SimulstError(
            f"{path}: {what}; fetch or train the model first, or give another "
            "(or your own class as package.module:Class)."
        )
    try:
        own = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # of any kind, as importing runs the user's code
        raise SimulstError(f"{path}: cannot import the model ({reason_of(error)}); {remedy_of(error)}.") from error
    session = getattr(own, "session", None)
    try:
        inspect.signature(session).bind(own, None)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise SimulstError(
            f"{path}: not a model; write a class like Model in simulst/session.py, with a method session(opening)."
        ) from error
    return own


def _needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


def _parameters(own: Any) -> list[str]:
    return list(inspect.signature(own).parameters)
