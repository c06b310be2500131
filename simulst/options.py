"""Dataclasses made of plain values by pydantic: types and bounds are declared once, in the class.

`build_options` makes options of what a user wrote; `read_fields` takes what is needed of a file that a program wrote.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from simulst.errors import SimulstError
from simulst.files.text import read_json

T = TypeVar("T")

LARGEST = 1e15  # of any option; beyond it, what is computed from the number may overflow

# Types of options with their bounds.
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]
Number = Annotated[float, Field(allow_inf_nan=False)]
AnyNumber = Annotated[float, Field(ge=-math.inf)]  # but NaN
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


def option_names(cls: type) -> list[str]:
    """The names of a dataclass's options, in order; those of its base that have to be named come last."""
    fields = [field for field in dataclasses.fields(cls) if field.init]
    return [field.name for field in sorted(fields, key=lambda field: bool(field.kw_only))]


def build_options(cls: type[T], values: Mapping[str, Any], where: str, what: str) -> T:
    """An instance of the dataclass `cls` with these options.

    values: option → value.
    where: place that errors name, such as "la2.yaml".
    what: thing that errors name, such as "'read' of type 'chunk'".

    Raises SimulstError: an option is unknown, missing, of the wrong type or out of bounds.
    """
    names = option_names(cls)
    for name in values:
        if name not in names:
            known = ", ".join(names) or "no options"
            raise SimulstError(f"{where}: {what} has no option '{name}'; it has {known}.")
    options = {name: _checked(cls, name, value, f"{where}: {what}") for name, value in values.items()}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        missing = field.default is field.default_factory is dataclasses.MISSING
        if field.init and field.name not in options and missing:
            raise SimulstError(f"{where}: {what} needs the option '{field.name}'.")
    try:
        return cls(**options)
    except SimulstError as error:
        raise SimulstError(f"{where}: {error}") from error


def check_options(options: Any) -> None:
    """Raise SimulstError if an option of a dataclass that Python made is of the wrong type or out of bounds."""
    for name in option_names(type(options)):
        _checked(type(options), name, getattr(options, name), type(options).__name__)


def read_fields(cls: type[T], content: Any, where: str, remedy: str) -> T:
    """What a file holds, as the dataclass `cls`; what the class does not name is left out.

    where: names the file in errors; remedy: says what to do, without its full stop.
    Raises SimulstError: it is no mapping, or a field is missing or of another type.
    """
    try:
        return adapter_of(typing.cast(Any, cls)).validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        what = f"{place}: {first['msg']}" if place else "another kind of file"
        raise SimulstError(f"{where}: {what}; {remedy}.") from error


def read_json_fields(cls: type[T], path: Path, remedy: str) -> T:
    """The same of a file of JSON. Raises SimulstError: it is missing, not JSON, or as `read_fields` does."""
    return read_fields(cls, read_json(path, remedy), str(path), remedy)


@functools.cache
def adapter_of(cls: Any) -> TypeAdapter:
    """pydantic's check of this type."""
    return TypeAdapter(cls)


def _checked(cls: type, name: str, value: Any, what: str) -> Any:
    if isinstance(value, int | float) and LARGEST < abs(value) < math.inf:
        raise SimulstError(f"{what}, option '{name}': numbers above {LARGEST:g} are not accepted.")
    try:
        # Strict: `n: "2"` or `n: true` is a mistake, not a number.
        return _validator(cls, name).validate_python(_as_tuples(value), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        message = "Input should be a list" if first["type"] == "tuple_type" else first["msg"]
        raise SimulstError(f"{what}, option '{name}': {message}; found {value!r}.") from error


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


@functools.cache
def _validator(cls: type, name: str) -> TypeAdapter:
    # For a class of ours, such as a nested policy, pydantic only checks the type.
    hint = typing.get_type_hints(cls, include_extras=True)[name]
    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=True))
    except Exception:  # the type has its own pydantic configuration
        return TypeAdapter(hint)
