"""The one door for what users bring: from a name to a policy, a model, a translator, a metric, ...

A name is one of simulst's own (`local_agreement`), one that an installed package offers (`majority`), or
`module:Name`, as Python's packages write it, of a class of one's own. A package offers things by entry points of the
group `simulst`, whose names are kind and name: `commit.majority = my_package.policies:Majority`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import logging
import re
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from simulst.errors import SimulstError, reason_of

GROUP = "simulst"
KINDS = (
    *("read", "stop", "commit", "search", "segment", "late"),
    *("family", "model", "recogniser", "translator", "architecture", "metric"),
)
_PATH = re.compile(r"\s*([\w.]+)\s*:\s*([\w.]+)\s*(?:\[.*\])?\s*")  # entry points may have extras in brackets

logger = logging.getLogger(__name__)


def find(kind: str, name: str, built_in: Mapping[str, Any], where: str) -> Any:
    """What a name means.

    kind: one of KINDS.
    built_in: simulst's own, by their names; a text is the `module:Name` of what is imported only if it is asked for.
    where: what names it, such as a file, for errors; empty: the user did, who sees the name.

    Raises SimulstError: there is no such name, or more than one thing has it; it can't be imported.
    """
    where = f"{where}: " if where else ""
    offers = offered(kind).get(name, ())
    if len(offers) + (name in built_in) > 1:
        places = [f"simulst{_spelled(built_in[name])}"] if name in built_in else []
        places += map(_shown, offers)
        raise SimulstError(
            f"{where}the {kind} '{name}' stands {len(places)} times, in {' and in '.join(places)}; write the one that "
            "you mean as module:Name, or uninstall the other package."
        )
    what = f"{where}the {kind} '{name}'"
    if offers:
        return _loaded(offers[0].value, f"{what} of {_shown(offers[0])}", "update or uninstall that package")
    found = built_in.get(name, name)
    if not isinstance(found, str):
        return found
    if not _PATH.fullmatch(found):
        raise SimulstError(f"{where}{_missing(kind, name, built_in)}")
    return _loaded(found, what, "check the path, and PYTHONPATH")


def find_options(kind: str, name: str, built_in: Mapping[str, Any], base: type, where: str, page: str) -> Any:
    """The same of a class of options: a dataclass derived from `base`. page: that tells how to write one, for errors.

    Raises SimulstError: as `find`; it is something else, or lacks a method.
    """
    cls = find(kind, name, built_in, where)
    what = f"{where}: the {kind} '{name}'"
    if not (isinstance(cls, type) and issubclass(cls, base) and _is_decorated(cls)):
        raise SimulstError(f"{what} is not a dataclass derived from {base.__module__}.{base.__qualname__}; see {page}.")
    if lacking := sorted(getattr(cls, "__abstractmethods__", ())):
        raise SimulstError(f"{what} has no '{lacking[0]}'; write it, see {page}.")
    return cls


def names(kind: str, built_in: Mapping[str, Any]) -> list[str]:
    """All names of a kind: simulst's own, and then those that packages offer. Nothing is imported."""
    return list(dict.fromkeys([*built_in, *sorted(offered(kind))]))


def modules_of(name: str, *kinds: str) -> list[str]:
    """The modules outside simulst that a name of these kinds means; nothing is imported. See files/code.py."""
    offers = [offer for kind in kinds for offer in offered(kind).get(name, ())]
    values = [name] if _PATH.fullmatch(name) else [offer.value for offer in offers]
    modules = [value.partition(":")[0].strip() for value in values]
    return [module for module in modules if module.partition(".")[0] != "simulst"]


def offered(kind: str) -> dict[str, list[EntryPoint]]:
    """Name → entry points, of what installed packages offer of this kind."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in _entries(tuple(sys.path)):
        of, _, name = entry.name.partition(".")
        if of == kind:
            found.setdefault(name, []).append(entry)
    return found


def offers_in(module: str) -> list[tuple[str, str, str]]:
    """Package, its version and the line of the entry point, of what packages offer in a module."""
    found = [entry for entry in _entries(tuple(sys.path)) if entry.value.partition(":")[0].strip() == module]
    return [(e.dist.name, e.dist.version, f"{e.name} = {e.value}") for e in found if e.dist is not None]


@functools.cache
def _entries(places: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """places: where Python looks for packages. Reading all of their metadata takes 50 ms."""
    found = tuple(entry_points(group=GROUP))
    for entry in found:
        if entry.name.partition(".")[0] not in KINDS:
            logger.warning(
                "%s offers '%s', which is ignored; its name must begin with one of %s and a dot.",
                _shown(entry),
                entry.name,
                ", ".join(KINDS),
            )
    return found


def _loaded(value: str, what: str, remedy: str) -> Any:
    """What `module:Name` names. what, remedy: for errors."""
    parts = _PATH.fullmatch(value)
    if parts is None:
        raise SimulstError(f"{what} is not written as module:Name; {remedy}.")
    try:
        module = importlib.import_module(parts[1])
    except SimulstError as error:
        raise SimulstError(f"{what}: {error}") from error
    except (Exception, SystemExit) as error:  # of any kind, as importing runs the user's code
        raise SimulstError(f"{what} cannot be imported ({reason_of(error)}); {remedy}.") from error
    try:
        return functools.reduce(getattr, parts[2].split("."), module)
    except AttributeError:
        raise SimulstError(f"{what} cannot be imported ({parts[1]} has no {parts[2]}); {remedy}.") from None


def _missing(kind: str, name: str, built_in: Mapping[str, Any]) -> str:
    module, _, attribute = name.rpartition(".")
    if module and all(part.isidentifier() for part in name.split(".")):
        return f"the {kind} '{name}' is written with a colon, as '{module}:{attribute}'."
    known = ", ".join(names(kind, built_in))
    own = "name your own as module:Name"
    return f"there is no {kind} '{name}'; {f'choose from {known}, or ' if known else ''}{own}."


def _shown(entry: EntryPoint) -> str:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package"
    return f"{package} ({entry.value})"


def _spelled(found: Any) -> str:
    if isinstance(found, type):
        return f" ({found.__module__}:{found.__qualname__})"
    return f" ({found})" if isinstance(found, str) else ""


def _is_decorated(cls: type) -> bool:
    """Whether a class is a dataclass, and not only derived from one, with options of its own that are no fields."""
    own = vars(cls).get("__annotations__", {})
    return dataclasses.is_dataclass(cls) and own.keys() <= cls.__dataclass_fields__.keys()
