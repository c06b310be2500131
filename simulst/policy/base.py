"""What all parts of a decoding configuration have: options without anything of a stream in them, and names."""

from __future__ import annotations

import re
import string
from abc import ABC
from typing import Any, ClassVar

from simulst.errors import SimulstError
from simulst.needs import Need
from simulst.options import check_options


class Options(ABC):
    """Options of a part of a decoding configuration: a frozen dataclass. Nothing of a stream is in it.

    Each is checked against its type, with the bounds that the type has. `__post_init__` may check the rest.

    label: its name in folders, tables and curves. A class writes it with options (or properties) in braces, such as
        `label = "LA-{n}"`; of an instance it is filled in, such as "LA-2". Numbers are formatted as in Python. Of a
        text, a list or a yes-or-no option, what stands after the colon comes before the value, and all of it is left
        out if there is no value: `{name:-}` is "-small" or "", `{exact:-exact}` is "-exact" or "". With a question mark
        before its name, so it is of a number, and of any option at its default: `{?median:-med}` is "-med3" or "".
    sweeps: the option whose number changes along a curve; "": none.
    """

    sweeps: ClassVar[str] = ""
    template: ClassVar[str]  # the class's label

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        label = vars(cls).get("label", "")
        if not isinstance(label, str):
            raise SimulstError(
                f"the label of {cls.__name__} is no text; write one with options in braces, as label = 'LA-{{n}}'."
            )
        if "label" in vars(cls):
            cls.template = label
            delattr(cls, "label")

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def label(self) -> str:
        return self._fill(self.template)

    @property
    def curve(self) -> str:
        """The label with "n" in place of the number that changes along a curve."""
        return self._fill(re.sub(rf"-?{{{self.sweeps}\b.*?}}", "-n", self.template) if self.sweeps else self.template)

    @property
    def swept(self) -> float | None:
        """That number; None: there is none."""
        return getattr(self, self.sweeps) if self.sweeps else None

    @property
    def needs(self) -> frozenset[Need]:
        """What it needs of a model."""
        return frozenset()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it reads."""
        return ()

    def _fill(self, template: str) -> str:
        """A text with options in braces; see `label`."""
        try:
            return _FORMAT.vformat(template, (self,), {})
        except (AttributeError, TypeError, ValueError) as error:
            name = f"{type(self).__qualname__}: label '{template}'"
            raise SimulstError(f"{name} is wrong ({error}); write the class's options in braces.") from error


class _Format(string.Formatter):
    def get_value(self, key: Any, args: Any, kwargs: Any) -> Any:
        name = key.removeprefix("?")
        value = getattr(args[0], name)
        if name == key:
            return value
        changed = value != type(args[0]).__dataclass_fields__[name].default
        return changed if isinstance(value, bool) or not changed else f"{value:g}"

    def format_field(self, value: Any, spec: str) -> str:
        if isinstance(value, bool):
            return spec if value else ""
        if isinstance(value, Options):
            value = value.label
        if isinstance(value, tuple):
            value = "+".join(filter(None, (self.format_field(part, "") for part in value)))
        if isinstance(value, str):
            return spec + value if value else ""
        return format(value, spec)


_FORMAT = _Format()
