"""Read YAML with the safe loader, and refuse repeated keys (PyYAML silently takes the last one)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from simulst.errors import SimulstError
from simulst.files.text import read_text

MOST_REPEATED = 10_000
"""A document may have more parts than this only if it writes a tenth of them itself, without aliases. A few lines of
aliases can make billions of parts, and errors print what they found."""
LONG = 1000  # characters; a longer text counts as so many parts

_Fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(yaml.SafeLoader):
    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        return super().construct_object(node, deep=True)  # so that what contains itself is refused

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key in seen:
                mark = key_node.start_mark
                raise yaml.constructor.ConstructorError(None, None, f"the key '{key}' stands twice", mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def load_yaml(text: str, fast: bool = False) -> Any:
    """One YAML document.

    fast: by the compiled loader, if there is one, which is ten times faster, and takes the last of repeated keys.

    Raises yaml.YAMLError: not valid, a key that stands twice, a part that contains itself, several documents, aliases
        that repeat their parts without measure.
    """
    try:
        content = yaml.load(text, _Fast if fast else _Loader)
        sizes: dict[int, tuple[int, int]] = {}
        size = _size(content, sizes)
        if size > MOST_REPEATED and size > 10 * sum(own for _, own in sizes.values()):
            raise yaml.YAMLError(f"its aliases repeat their parts {size:,} times; write it without them")
        return content
    except (ValueError, RecursionError) as error:  # such as a date that there is not; brackets without end
        raise yaml.YAMLError(str(error)) from error


def _size(part: Any, sizes: dict[int, tuple[int, int]]) -> int:
    """How many parts it has once aliases are written out.

    sizes: by id, of each mapping, list, pair and long text so far: this number, and how many parts it has itself.
    """
    if isinstance(part, str) and len(part) > LONG:
        sizes[id(part)] = len(part), len(part)
    elif not isinstance(part, dict | list | tuple):
        return 1
    elif id(part) not in sizes:
        values = [*part, *part.values()] if isinstance(part, dict) else part
        sizes[id(part)] = 1 + sum(_size(value, sizes) for value in values), 1 + len(values)
    return sizes[id(part)][0]


def read_yaml(path: str | Path, what: str = "configuration file") -> Any:
    """Read a YAML file. what: name of its kind, for errors.

    Raises SimulstError: the file is missing, can't be read or is not valid YAML.
    """
    path = Path(path)
    text = read_text(path, f"give a {what}", what)
    try:
        return load_yaml(text)
    except yaml.YAMLError as error:
        if (
            isinstance(error, yaml.composer.ComposerError)
            and error.context == "expected a single document in the stream"
        ):
            raise SimulstError(f"{path}: holds several documents ('---'); give each a file of its own.") from error
        raise SimulstError(f"{path}: not valid YAML ({_reason(error)}).") from error


def _reason(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem}, line {error.problem_mark.line + 1}"
    return str(error).splitlines()[0]
