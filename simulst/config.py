"""Decoding configurations: a YAML file with the keys `read`, `stop`, `commit`, `search`, `segment` and `late`.

    read:    {type: chunk, ms: 1000, initial_wait_ms: 2000}
    stop:    {type: end_of_sentence}
    commit:  {type: local_agreement, n: 2}
    search:  {type: beam, beam: 5}
    segment: {type: none}
    late:    {type: wait}

A sweep has lists in place of values: `read: [{...}, {...}]` and `ms: [500, 1000]` try each item. A list at the top
level is a list of such grids. `$NAME` in place of a value, such as the file of a boundary predictor, is given when the
sweep is run (`--set NAME=VALUE`).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from simulst.errors import SimulstError
from simulst.files.code import files_of_modules
from simulst.files.yaml import load_yaml, read_yaml
from simulst.find import find_options, modules_of, names
from simulst.needs import Need
from simulst.options import build_options
from simulst.policy.base import Options
from simulst.policy.commit import Commit, LocalAgreement
from simulst.policy.late import Late, Skip, Wait
from simulst.policy.read import Chunk, Read
from simulst.policy.segment import Pause, Segmentation, Whole
from simulst.policy.stop import EndOfSentence, Stop
from simulst.policy.types import COMMIT, LATE, READ, SEGMENT, STOP
from simulst.search import BWBS, IBWBS, BeamSearch, JointBeamSearch, SearchOptions

KINDS: dict[str, type[Options]] = {
    "read": Read,
    "stop": Stop,
    "commit": Commit,
    "search": SearchOptions,
    "segment": Segmentation,
    "late": Late,
}
TYPES: dict[str, Mapping[str, type[Options]]] = {
    "read": READ,
    "stop": STOP,
    "commit": COMMIT,
    "search": {"beam": BeamSearch, "joint_beam": JointBeamSearch, "bwbs": BWBS, "ibwbs": IBWBS},
    "segment": SEGMENT,
    "late": LATE,
}
MOST = 10_000  # configurations of a sweep
LONGEST_LABEL = 200  # bytes; a folder's name may have 255
REMEDIES = {
    ("read", Need.BLOCKS): "write 'read: {type: chunk, ms: ...}'",
    ("search", Need.KEPT_BEAM): "write 'search: {type: joint_beam}'",
    ("search", Need.INCREMENTAL): "write 'search: {type: joint_beam}'",
    ("search", Need.STEPS): "write 'search: {type: beam}'",
    ("search", Need.LIBRARY_SEARCH): "write 'search: {type: joint_beam}'",
    ("search", Need.DRAFT): "leave 'draft' out",
    ("search", Need.CTC): "write 'ctc_weight: 0.0' under search",
    ("commit", Need.END_TIMES): "write most_behind, which counts words",
    (
        "segment",
        Need.LEAVING,
    ): "write 'segment: {type: pause, seconds: 0.5}', or give an ESPnet model the option window=30",
    ("stop", Need.CTC): "take another STOP, such as align_att",
    ("stop", Need.STEPS): "take another STOP, such as max_words, or none",
}


@dataclass(frozen=True)
class Decoding:
    """A decoding configuration.

    read, commit, stop: the policies.
    search: options of the search. None: the model's default.
    segment: whether the stream is cut at pauses.
    late: what is done when computation is slower than speech.
    raw: the plain values that the configuration was built from. They are stored with the results.

    Raises SimulstError: the parts contradict each other.
    """

    read: Read
    commit: Commit
    stop: Stop = dataclasses.field(default_factory=EndOfSentence)
    search: SearchOptions | None = None
    segment: Segmentation = dataclasses.field(default_factory=Whole)
    late: Late = dataclasses.field(default_factory=Wait)
    raw: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        self.stop.check(self.commit)
        self.read.check(self.stop, self.commit, self.late)
        _check_label(self.label)

    @property
    def files(self) -> tuple[str, ...]:
        """Files that the parts load, such as a boundary predictor."""
        parts = (self.read, self.stop, self.commit, self.search, self.segment, self.late)
        return tuple(file for part in parts if part is not None for file in part.files)

    def portable(self) -> dict[str, Any]:
        """`raw` with absolute paths of `files`, as a cluster's workers may run in another folder."""
        files = [Path(file) for file in self.files]

        def absolute(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: part if key == "name" else absolute(part) for key, part in value.items()}
            if isinstance(value, list):
                return [absolute(part) for part in value]
            named = isinstance(value, str) and any(Path(value) in (file, file.parent) for file in files)
            return str(Path(value).absolute()) if named and Path(value).exists() else value

        return {key: absolute(part) for key, part in self.raw.items()}

    @property
    def code(self) -> dict[str, Path]:
        """Module → file, of the user's own policies (`raw` has their names) and of what these import."""
        modules = {module for name in _types(self.raw) for module in modules_of(name, *TYPES)}
        # An option of such a policy may have a `type` that is no policy.
        return files_of_modules(sorted(module for module in modules if module in sys.modules))

    def check(self, search: SearchOptions, gives: frozenset[Need]) -> None:
        """Check that the model's session gives everything that the policies and the search need.

        search: the search that is used.
        gives: what the session gives.

        Raises SimulstError: something is missing.
        """
        parts = {"read": self.read, "stop": self.stop, "commit": self.commit, "search": search, "segment": self.segment}
        for key, part in parts.items():
            for need in Need:  # in a fixed order, so that the error is always the same
                if need in part.needs - gives - {Need.AUDIO}:
                    name = _name_of(key, part)
                    remedy = REMEDIES.get((key, need), f"take another {key}")
                    raise SimulstError(f"{key}: {name} needs {need.value}, which this model does not have; {remedy}.")

    @property
    def label(self) -> str:
        """A name for folders, tables and curves, such as `LA-2_1000ms`."""
        return self._system(self.read.label) if self.read.curve else f"{self.strategy}_{self.read.label}"

    @property
    def strategy(self) -> str:
        """The label without READ's number. Systems that differ only in that number have the same strategy."""
        if self.read.curve:
            return self._system(self.read.curve)
        return self._joined(self.commit.label, self.stop.label)

    @property
    def curve(self) -> tuple[str, float | None]:
        """The name of the curve that this configuration lies on, and the number that changes along the curve.

        This is READ's number; if READ has none, or STOP fixes it, STOP's; if STOP has none, COMMIT's; None if no part
        has one.
        """
        if self.read.swept is not None and not self.stop.fixes_read:
            return self.strategy, self.read.swept
        if self.stop.swept is not None:
            return self._joined(self.commit.label, self.stop.curve), self.stop.swept
        if self.commit.swept is not None:
            return self._joined(self.commit.curve, self.stop.label), self.commit.swept
        return self.strategy, None

    def _system(self, name: str) -> str:
        """The label of a system that is named after its READ, such as `wait-3`, with the parts that are not usual."""
        stop, commit = self.stop.label, self.commit.label
        if stop != self.read.usual_stop:
            name += f"-{stop or 'eos'}"
        return self._joined(name, commit if commit != self.read.usual_commit else "")

    def _joined(self, *names: str) -> str:
        """These names, and those of the other parts that are not at their default."""
        others = (self.search.label if self.search else "", self.segment.label, self.late.label)
        return "_".join(filter(None, (*names, *others)))


def _check_label(label: str) -> None:
    """Raise SimulstError if the label can't be the name of a folder: it names one in sweeps."""
    if "/" in label or label.startswith(".") or not label.isprintable():
        raise SimulstError(
            f"its label {label!r} can't name a folder; write names without '/', '.' at the beginning and line breaks."
        )
    if len(label.encode()) > LONGEST_LABEL:
        raise SimulstError(f"its label {label!r} is longer than {LONGEST_LABEL} bytes; write shorter names.")


def _name_of(key: str, part: Any) -> str:
    """The type name of a part, as a configuration file writes it."""
    return next((name for name, cls in TYPES[key].items() if cls is type(part)), type(part).__name__)


def load_decoding(path: str | Path) -> Decoding:
    """Read one configuration. Raises SimulstError, which names the file, the key and the valid choices."""
    return parse_decoding(read_yaml(path), str(path))


def load_sweep(path: str | Path, values: Mapping[str, Any] | None = None) -> list[Decoding]:
    """Read the configurations of a sweep, in order.

    values: what stands for `$NAME` in the file. A grid with a name whose value is an empty list is left out.

    Raises SimulstError: an invalid configuration, two with the same label, a name that has no value, or more than
        `MOST` configurations.
    """
    grids = read_yaml(path)
    decodings: dict[str, Decoding] = {}
    total = 0
    for grid in grids if isinstance(grids, list) else [grids]:
        grid = _filled(grid, values or {}, str(path))
        if grid is _NOTHING:
            continue
        if not isinstance(grid, dict):
            raise SimulstError(f"{path}: a grid must be a mapping with the keys {', '.join(TYPES)}; found {grid!r}.")
        for key, value in grid.items():
            if value == []:
                raise SimulstError(f"{path}: '{key}' is an empty list; give at least one mapping to try.")
        choices = [_choices(key, value, str(path)) for key, value in grid.items()]
        total += math.prod(count for count, _ in choices)
        if total > MOST:  # counted before any is built
            raise SimulstError(f"{path}: {total} configurations or more; list fewer values, for at most {MOST}.")
        for combination in itertools.product(*(parts for _, parts in choices)):
            decoding = parse_decoding(dict(zip(grid, combination, strict=True)), str(path))
            if decoding.label in decodings:
                raise SimulstError(f"{path}: two configurations are called '{decoding.label}'; keep one of them.")
            decodings[decoding.label] = decoding
    if not decodings:
        raise SimulstError(f"{path}: an empty list; give at least one grid with the keys {', '.join(TYPES)}.")
    return list(decodings.values())


_NOTHING = object()


def _filled(raw: Any, values: Mapping[str, Any], where: str) -> Any:
    """A part of a sweep with `values` in place of `$NAME`; _NOTHING if one of these is an empty list."""
    if isinstance(raw, str) and raw.startswith("$"):
        name = raw[1:]
        if name not in values:
            raise SimulstError(f"{where}: '{raw}' has no value; give it as --set {name}=VALUE.")
        return _NOTHING if values[name] == [] else values[name]
    if isinstance(raw, list):
        parts = [_filled(part, values, where) for part in raw]
        return _NOTHING if any(part is _NOTHING for part in parts) else parts
    if isinstance(raw, dict):
        parts = [_filled(part, values, where) for part in raw.values()]
        return _NOTHING if any(part is _NOTHING for part in parts) else dict(zip(raw, parts, strict=True))
    return raw


def parse_values(pairs: Iterable[str], option: str = "--set", plain: bool = False) -> dict[str, Any]:
    """Parse NAME=VALUE, such as `k=[1, 3]`. plain: a value that is no YAML is a word.

    Raises SimulstError: no name; without `plain`, no YAML.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise SimulstError(f"{option} {pair}: give it as NAME=VALUE.")
        try:
            values[name] = load_yaml(value)
        except yaml.YAMLError:
            if not plain:
                raise SimulstError(f"{option} {pair}: the value is no valid YAML.") from None
            values[name] = value
    return values


def _choices(key: Any, value: Any, where: str) -> tuple[int, Iterator[Any]]:
    """How many values a sweep tries for one key, and these.

    These are the items of the list, or the one value. If options of an item are lists, the item stands for every
    combination of their values.
    """
    count, found = 0, list[Iterable[Any]]()
    for part in value if isinstance(value, list) else [value]:
        if key not in TYPES or not isinstance(part, dict) or "type" not in part:
            count += 1
            found.append([part])  # invalid; `parse_decoding` raises the error
            continue
        hints, lists = typing.get_type_hints(_find_class(key, str(part["type"]), where)), []
        for name, option in part.items():
            several = isinstance(option, list) and not _is_tuple(hints.get(name))
            if several and not option:
                raise SimulstError(
                    f"{where}: '{key}', option '{name}' is an empty list; give at least one value to try."
                )
            lists.append([(name, each) for each in (option if several else [option])])
        count += math.prod(map(len, lists))
        found.append(map(dict, itertools.product(*lists)))
    return count, itertools.chain.from_iterable(found)


def parse_decoding(raw: Any, where: str) -> Decoding:
    """Build a configuration from plain mappings. where: the name of the source, for errors."""
    if not isinstance(raw, dict):
        remedy = "; a list of them is for simulst sweep --decodings" if isinstance(raw, list) else ""
        raise SimulstError(f"{where}: a decoding configuration is a mapping with the keys {', '.join(TYPES)}{remedy}.")
    for key in raw:
        if key not in TYPES:
            raise SimulstError(f"{where}: unknown key '{key}'; valid keys are {', '.join(TYPES)}.")
    for key in ("read", "commit"):
        if key not in raw:
            raise SimulstError(f"{where}: the key '{key}' is missing; choose a type from {_known(key)}.")
    parts = {key: _build(key, raw[key], where) for key in TYPES if key in raw}
    try:
        return Decoding(**parts, raw={key: raw[key] for key in TYPES if key in raw})
    except SimulstError as error:
        raise SimulstError(f"{where}: {error}") from error


def _types(raw: Any) -> Iterator[str]:
    """The types of all parts that plain values describe, at any depth."""
    if isinstance(raw, dict) and "type" in raw:
        yield str(raw["type"])
    for part in raw.values() if isinstance(raw, dict) else raw if isinstance(raw, list) else ():
        yield from _types(part)


def _build(key: str, raw: Any, where: str) -> Any:
    if not isinstance(raw, dict) or "type" not in raw:
        raise SimulstError(f"{where}: '{key}' must be a mapping with a 'type' ({_known(key)}); found {raw!r}.")
    cls = _find_class(key, str(raw["type"]), where)
    what = f"'{key}' of type '{raw['type']}'"
    hints = typing.get_type_hints(cls)
    values = {name: value for name, value in raw.items() if name != "type"}
    for name, value in values.items():
        if isinstance(value, list) and name in hints and not _is_tuple(hints[name]):
            raise SimulstError(
                f"{where}: {what}, option '{name}' has several values, {value!r}; give one, or use simulst sweep."
            )
        values[name] = _nested(hints.get(name), value, where, f"'{key}', option '{name}'")
    built: Any = build_options(cls, values, where, what)
    if key in ("stop", "search"):  # results are shared by these
        try:
            hash(built)
        except TypeError as error:
            raise SimulstError(
                f"{where}: {what} can't be hashed ({error}); use a frozen dataclass with tuples (docs/policy.md)."
            ) from error
    return built


def _nested(hint: Any, value: Any, where: str, what: str) -> Any:
    """The value of an option. If it describes a part, a list of parts or other options, they are built."""
    for key, kind in KINDS.items():
        if _is_tuple(hint) and typing.get_args(hint)[0] is kind and isinstance(value, list):
            return [_build(key, part, where) for part in value]
        if hint is kind and isinstance(value, dict):
            return _build(key, value, where)
    options = isinstance(value, dict) and dataclasses.is_dataclass(hint)
    return build_options(hint, value, where, what) if options else value


def _is_tuple(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple


def _known(key: str) -> str:
    return ", ".join(names(key, TYPES[key]))


def _find_class(key: str, name: str, where: str) -> type[Options]:
    cls: type[Options] = find_options(key, name, TYPES[key], KINDS[key], where, "docs/policy.md")
    if not hasattr(cls, "template"):
        raise SimulstError(f"{where}: the {key} '{name}' has no 'label'; write it, see docs/policy.md.")
    return cls


# Built without the door: what packages offer may be wrong, and this is needed for everything.
LIVE = Decoding(
    Chunk(1000),
    LocalAgreement(2, whole_words=True),
    segment=Pause(0.5),
    late=Skip(),
    raw={
        "read": {"type": "chunk", "ms": 1000},
        "commit": {"type": "local_agreement", "n": 2, "whole_words": True},
        "segment": {"type": "pause", "seconds": 0.5},
        "late": {"type": "skip"},
    },
)
"""For a stream of any length and any model, if nobody has given a configuration. conf/decode/live.yaml is the same."""
