"""Decoding configurations: a YAML file with the keys `read`, `stop`, `commit` and `search`.

    read:   {type: chunk, ms: 1000, initial_wait_ms: 2000}
    stop:   {type: end_of_sentence}
    commit: {type: local_agreement, n: 2}
    search: {type: beam, beam: 5}

A sweep is the same with lists: `read: [{...}, {...}]` tries each; a top-level list is a list of such grids.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from simulst.errors import SimulstError
from simulst.policy import commit, read, stop
from simulst.policy.commit import Commit
from simulst.policy.read import Read
from simulst.policy.stop import Stop
from simulst.search import BWBS, IBWBS, BeamSearch, JointBeamSearch

TYPES: dict[str, dict[str, type]] = {
    "read": {
        "chunk": read.Chunk,
        "block": read.Block,
        "wait_k": read.WaitK,
        "wait_stride": read.WaitStride,
        "boundary": read.Boundary,
        "offline": read.Offline,
    },
    "stop": {
        "end_of_sentence": stop.EndOfSentence,
        "max_tokens": stop.MaxTokens,
        "max_words": stop.MaxWords,
        "ctc": stop.CTC,
        "align_att": stop.AlignAtt,
    },
    "commit": {
        "all": commit.All,
        "hold": commit.Hold,
        "local_agreement": commit.LocalAgreement,
        "shared_prefix": commit.SharedPrefix,
    },
    "search": {"beam": BeamSearch, "joint_beam": JointBeamSearch, "bwbs": BWBS, "ibwbs": IBWBS},
}
DEFAULTS: dict[str, dict[str, Any]] = {"stop": {"type": "end_of_sentence"}, "search": {"type": "beam"}}


@dataclass(frozen=True)
class Decoding:
    """A whole decoding configuration. `raw` is what made it, to be stored beside the results."""

    read: Read
    commit: Commit
    stop: Stop = dataclasses.field(default_factory=stop.EndOfSentence)
    search: Any = dataclasses.field(default_factory=BeamSearch)
    raw: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def label(self) -> str:
        """A name for folders, tables and curves, such as `LA-2_1000ms`."""
        if isinstance(self.read, read.Offline):
            return _join(self.read.label, self.search.label)
        return self._system(self.read.label) if hasattr(self.read, "curve") else f"{self.strategy}_{self.read.label}"

    @property
    def strategy(self) -> str:
        """What a curve's points have in common: everything but READ, or but the number in the system's name."""
        if hasattr(self.read, "curve"):
            return self._system(self.read.curve)
        return _join(self.commit.label, self.stop.label, self.search.label)

    def _system(self, name: str) -> str:
        """A system that is called after its READ (`wait-3`, `k100-s10-N2`), with what does not go without saying."""
        usual = getattr(self.read, "usual_stop", ""), getattr(self.read, "usual_commit", "all")
        stop, commit = self.stop.label, self.commit.label
        if stop != usual[0]:
            name += f"-{stop or 'eos'}"
        return _join(name, commit if commit != usual[1] else "", self.search.label)


def _join(*parts: str) -> str:
    return "_".join(part for part in parts if part)


def load_decoding(path: str | Path) -> Decoding:
    """Read one configuration. Raises SimulstError naming the file, the key and the valid choices."""
    return parse_decoding(_load_yaml(path), str(path))


def load_sweep(path: str | Path) -> list[Decoding]:
    """Read the configurations of a sweep, in order. Raises SimulstError, also for two of the same label."""
    grids = _load_yaml(path)
    decodings: dict[str, Decoding] = {}
    for grid in grids if isinstance(grids, list) else [grids]:
        if not isinstance(grid, dict):
            raise SimulstError(f"{path}: a grid must be a mapping with the keys {', '.join(TYPES)}; found {grid!r}.")
        for key, value in grid.items():
            if value == []:
                raise SimulstError(f"{path}: '{key}' is an empty list; give at least one mapping to try.")
        choices = [[(key, v) for v in (value if isinstance(value, list) else [value])] for key, value in grid.items()]
        for combination in itertools.product(*choices):
            decoding = parse_decoding(dict(combination), str(path))
            if decoding.label in decodings:
                raise SimulstError(f"{path}: two configurations are called '{decoding.label}'; keep one of them.")
            decodings[decoding.label] = decoding
    if not decodings:
        raise SimulstError(f"{path}: an empty list; give at least one grid with the keys {', '.join(TYPES)}.")
    return list(decodings.values())


def parse_decoding(raw: Any, where: str) -> Decoding:
    """Build a configuration from plain mappings. `where` names the source in errors."""
    if not isinstance(raw, dict):
        raise SimulstError(f"{where}: a decoding configuration is a mapping with the keys {', '.join(TYPES)}.")
    for key in raw:
        if key not in TYPES:
            raise SimulstError(f"{where}: unknown key '{key}'; valid keys are {', '.join(TYPES)}.")
    full = {**DEFAULTS, **raw}
    for key in TYPES:
        if key not in full:
            raise SimulstError(f"{where}: the key '{key}' is missing; choose a type from {', '.join(TYPES[key])}.")
    parts = {key: _build(key, full[key], where) for key in TYPES}
    return Decoding(**parts, raw={key: full[key] for key in TYPES})


def _build(key: str, raw: Any, where: str) -> Any:
    if not isinstance(raw, dict) or "type" not in raw:
        types = ", ".join(TYPES[key])
        raise SimulstError(f"{where}: '{key}' must be a mapping with a 'type' ({types}); found {raw!r}.")
    cls = _find_class(key, str(raw["type"]), where)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    hints = typing.get_type_hints(cls)
    options = {}
    for name, value in raw.items():
        if name == "type":
            continue
        if name not in fields:
            raise SimulstError(
                f"{where}: '{key}' of type '{raw['type']}' has no option '{name}'; "
                f"it has {', '.join(fields) or 'no options'}."
            )
        try:
            # Strict: `n: "2"` or `n: true` is a slip of the pen, not a number.
            options[name] = TypeAdapter(hints[name]).validate_python(
                tuple(value) if isinstance(value, list) else value, strict=True
            )
        except ValidationError as error:
            message = error.errors()[0]["msg"]
            raise SimulstError(f"{where}: '{key}', option '{name}': {message}; found {value!r}.") from error
    for name, field in fields.items():
        if name not in options and field.default is field.default_factory is dataclasses.MISSING:
            raise SimulstError(f"{where}: '{key}' of type '{raw['type']}' needs the option '{name}'.")
    try:
        return cls(**options)
    except SimulstError as error:
        raise SimulstError(f"{where}: {error}") from error


def _find_class(key: str, name: str, where: str) -> type:
    if name in TYPES[key]:
        return TYPES[key][name]
    module, _, attribute = name.rpartition(".")
    if not module:
        raise SimulstError(
            f"{where}: '{key}' has no type '{name}'; choose from {', '.join(TYPES[key])}, "
            "or name your own class as package.module.Class."
        )
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, TypeError) as error:  # TypeError: a path that starts with a dot
        raise SimulstError(f"{where}: '{key}': cannot import '{name}' ({error}); check the path.") from error
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise SimulstError(f"{where}: '{key}': '{name}' is not a dataclass; write it like those in simulst/policy.")
    return cls


def _load_yaml(path: str | Path) -> Any:
    path = Path(path)
    if not path.is_file():
        raise SimulstError(f"{path}: no such configuration file.")
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SimulstError(f"{path}: not valid YAML ({str(error).splitlines()[0]}).") from error
