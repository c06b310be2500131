"""The models. `load_model` finds one by its files, or by its name.

By files: each family (`simulst.models.base.Family`) says whether it recognises a path. A module or package in this
folder that has a `family` is one; installed packages offer others. By name: a class with the methods of
`simulst.session.Model`, as `module:Name` or offered by a package, is called with the options of `--model-option`.
simulst/find.py finds both.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from simulst.config import parse_values
from simulst.errors import SimulstError, not_installed, reason_of, warn_once
from simulst.files.code import files_of_modules
from simulst.files.folder import digest, digest_of_files, sha256_of
from simulst.find import find, modules_of, names, offered
from simulst.languages import AUTO, code_of
from simulst.machine.threads import add_alike_in_mkl, available_cores
from simulst.models.base import Family, cannot_tell
from simulst.options import build_options
from simulst.options import option_names as names_of
from simulst.session import Model


def load_model(path: str | Path, cores: int = 0, /, **options: Any) -> Model:
    """Load a model, whose words do not depend on the number of threads (see docs/models.md).

    path: a model folder or file, or the name of a class: `module:Name`, or one that an installed package offers.
    cores: how many processors the model may use if its options name no number of threads. 0: all that are available.
    options: the options of the family, such as `device` and `threads`.

    Raises SimulstError: no such folder; no family recognises it, or several do; an unknown option; broken files.
    """
    add_alike_in_mkl()
    _, family = _family(path)
    if family is not None:
        try:
            return family.load(Path(path), _checked(path, family, options), cores or available_cores())
        except ModuleNotFoundError as error:
            raise SimulstError(f"{path}: {not_installed(error)}") from error
    own = _own(path)
    try:
        inspect.signature(own).bind(**options)
    except TypeError as error:
        known = ", ".join(_parameters(own)) or "no options"
        raise SimulstError(f"{path}: {error}; the model has {known} (--model-option NAME=VALUE).") from error
    try:
        return own(**options)
    except SimulstError:
        raise
    except Exception as error:  # of any kind, as it is the user's code that runs
        raise SimulstError(f"{path}: the model cannot be made with these options ({reason_of(error)}).") from error


def check_languages(path: str | Path, options: Mapping[str, Any], source: str, target: str) -> None:
    """What can be told of languages before the model is loaded. source, target: those spoken and written.

    Raises SimulstError: there is no such language; the model's files tell that it lacks it, or that it can't find the
        language if that is `auto`; as `load_model`.
    """
    for language in (target,) if source == AUTO else (source, target):
        code_of(language)
    if source == AUTO:
        if not tells_language(path, options):
            raise SimulstError(cannot_tell(path))
    elif (family := _family(path)[1]) is not None:
        family.check(Path(path), _checked(path, family, options), source, target)


def tells_language(path: str | Path, options: Mapping[str, Any]) -> bool:
    """Whether a model may tell which language is spoken. Raises SimulstError as `load_model`."""
    _, family = _family(path)
    if family is None:
        return hasattr(_own(path), "spoken_languages")
    return family.tells(Path(path), _checked(path, family, options))


def option_names(path: str | Path) -> list[str]:
    """The names of the options that `load_model` accepts for this path. Raises SimulstError as `load_model` does."""
    _, family = _family(path)
    return _parameters(_own(path)) if family is None else names_of(family.options)


def files_of_model(path: str | Path, options: Mapping[str, Any]) -> tuple[Path, ...]:
    """The files that a model is made of: all that loading reads, in a fixed order.

    Of your own class they are the files of its module, of the module that its name means, and of your modules that
    these import; of a package's family, its modules, too. What your class reads is not known.

    Raises SimulstError: no such model; wrong options; a missing file.
    """
    name, family = _family(path)
    if family is not None:
        own = files_of_modules(modules_of(name, "family")).values()
        return tuple(dict.fromkeys([*family.files(Path(path), _checked(path, family, options)), *own]))
    modules = dict.fromkeys([*modules_of(str(path), "model"), _own(path).__module__])
    return tuple(files_of_modules(modules).values())


def digest_of_weights(path: str | Path, options: Mapping[str, Any]) -> str:
    """A hash of the files that a model is made of. It changes if the model is trained again.

    Raises SimulstError: no such model; wrong options; a missing file.
    """
    found = digest_of_files(files_of_model(path, options))
    return digest([found, str(path)]) if _family(path)[1] is None else found  # a module may have several classes


def is_name(path: str | Path) -> bool:
    """Whether it is the name of a class, and no path."""
    name = str(path)
    return not Path(path).exists() and ((":" in name and "/" not in name) or name in offered("model"))


def files_of_part(path: str | Path) -> tuple[Path, ...]:
    """The files of what a policy reads: those of a model, or the file itself. Raises SimulstError: no such model."""
    return files_of_model(path, {}) if Path(path).is_dir() else (Path(path),)


def digest_of_part(path: str | Path) -> str:
    """A hash of what a policy reads. Raises SimulstError: no such model, or a file that can't be read."""
    return digest_of_weights(path, {}) if Path(path).is_dir() else sha256_of(Path(path))


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse options of the form `NAME=VALUE` (`--model-option`). Raises SimulstError for any other form."""
    options = parse_values(pairs, "--model-option", plain=True)
    for name, value in options.items():
        if not isinstance(value, str | bool | int | float | None):
            raise SimulstError(f"--model-option {name}={value}: the value must be a number, a word or true/false.")
    return options


def families() -> dict[str, Family]:
    """Name → family, of all whose names are clear and that can be imported; sorted. They load their libraries late."""
    found = {}
    for name in sorted(names("family", _built_in())):
        with contextlib.suppress(SimulstError):
            found[name] = _find_family(name)
    return found


@functools.cache
def _built_in() -> dict[str, Family]:
    modules = pkgutil.iter_modules(sys.modules[__package__].__path__)
    content = {module.name: vars(importlib.import_module(f"{__package__}.{module.name}")) for module in modules}
    return {name: members["family"] for name, members in content.items() if "family" in members}


def _find_family(name: str) -> Family:
    found = find("family", name, _built_in(), "")
    if not isinstance(found, Family):
        raise SimulstError(f"the family '{name}' is no simulst.models.base.Family; see docs/own_model.md.")
    return found


def _family(path: str | Path) -> tuple[str, Family | None]:
    """The name of the family that recognises a folder or file, and the family; None for the name of a class."""
    place, known = Path(path), families()
    if place.exists() and str(path) in offered("model"):
        raise SimulstError(f"{path}: here, and a model that a package offers; give the absolute path, or module:Name.")
    found = [name for name, family in known.items() if _recognises(name, family, place)]
    # A folder may have a model in the forms of two families of ours.
    found = [name for name in found if name in _built_in()][:1] + [name for name in found if name not in _built_in()]
    if len(found) > 1:
        both = " and ".join(f"'{name}' ({known[name].looks_like})" for name in found)
        raise SimulstError(f"{path}: recognised by the families {both}; uninstall the package of one of them.")
    if found:
        return found[0], known[found[0]]
    if place.is_dir():
        kinds = ", or ".join(family.looks_like for family in known.values())
        raise SimulstError(f"{path}: not a model that simulst knows; give {kinds}{_lacking(known)}.")
    return "", None


def _checked(path: str | Path, family: Family, options: Mapping[str, Any]) -> Any:
    return build_options(family.options, options, str(path), "the model")


def _recognises(name: str, family: Family, place: Path) -> bool:
    """As the family says. What is wrong with a package's is told, and ends the opening of no other model."""
    try:
        return family.recognises(place)
    except Exception as error:  # of any kind, as it is a package's code that runs
        if name in _built_in():
            raise
        package = getattr(offered("family")[name][0].dist, "name", "a package")
        warn_once(f"the family '{name}' of {package} fails for {place} ({reason_of(error)}); update or uninstall it.")
        return False


def _lacking(known: Iterable[str]) -> str:
    """Why families are not among those that are known, to end a sentence."""
    reasons = ""
    for name in offered("family").keys() - set(known):
        try:
            _find_family(name)
        except SimulstError as error:
            reasons += f" ({str(error).rstrip('.')})"
    return reasons


def _own(path: str | Path) -> Any:
    """The class that a name means."""
    if not is_name(path):
        what = "a file, not a model folder" if Path(path).is_file() else "no such model folder"
        known = ", ".join(offered("model"))
        raise SimulstError(
            f"{path}: {what}; fetch or train the model first, or give another (or your own class as module:Name"
            f"{f', or one of {known}' if known else ''}){_lacking(families())}."
        )
    own = find("model", str(path), {}, "")
    session = getattr(own, "session", None)
    try:
        inspect.signature(session).bind(own, None)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise SimulstError(
            f"{path}: not a model; write a class like Model in simulst/session.py, with a method session(opening)."
        ) from error
    return own


def _parameters(own: Any) -> list[str]:
    return list(inspect.signature(own).parameters)
