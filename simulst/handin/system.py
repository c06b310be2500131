"""One system of a hand-in: what `simulst choose --out` wrote for a latency regime, and its files in the folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from simulst.config import Decoding, parse_decoding
from simulst.errors import SimulstError
from simulst.files.code import files_of_modules
from simulst.files.yaml import read_yaml
from simulst.find import GROUP, modules_of, offered, offers_in
from simulst.languages import unit_of
from simulst.machine.processor import kind
from simulst.machine.threads import available_cores
from simulst.models.registry import files_of_model, files_of_part
from simulst.options import read_fields
from simulst.results.choose import Regime

LINKED = 1 << 20  # bytes; smaller files, such as code, are edited in place
SEGMENTATION, REFERENCES = "segmentation.yaml", "references.txt"
_OF_THE_SYSTEM = ("/usr/", "/bin/", "/lib")


@dataclass(frozen=True)
class System:
    """A chosen configuration, as its file says.

    regime: lags in ms of the metric `metric`: above the first, up to the second.
    run: folder of the run that was chosen; its log names the recordings.
    model, model_options, source_lang, target_lang, unit, decoding: as `simulst evaluate` takes them.
    segmentation, references: of the development recordings.
    threads, processor: with how many, and on which kind of processor a packed system's log was decoded.
    """

    regime: list[float]
    metric: str
    run: str
    model: str
    source_lang: str
    target_lang: str
    decoding: dict[str, Any]
    segmentation: str
    references: str
    unit: str = ""
    model_options: dict[str, Any] = field(default_factory=dict)
    threads: int = 0
    processor: str = ""

    @property
    def name(self) -> str:
        """Direction and regime, such as en-de_0-2000."""
        low, high = self.regime
        return f"{self.source_lang}-{self.target_lang}_{low:g}-{high:g}"

    @property
    def direction(self) -> str:
        """Such as en-de."""
        return f"{self.source_lang}-{self.target_lang}"

    @property
    def counted(self) -> str:
        """The unit in which lags count, "word" or "char"."""
        return self.unit or unit_of(self.target_lang)

    @property
    def configuration(self) -> dict[str, Any]:
        """simulstream's configuration of it."""
        content = {
            "type": "simulst.serve.simulstream.StreamProcessor",
            "model": self.model,
            "model_options": self.model_options,
            "decoding": self.decoding,
            "source_lang": self.source_lang,
            "target_lang": self.target_lang,
            "unit": self.unit,
            "detokenizer_type": "simuleval",
            "latency_unit": "char",
        }
        return {key: value for key, value in content.items() if value not in ("", {})}

    def unproved(self, scores: Mapping[str, Any]) -> str:
        """What scores say of the lag if it does not prove the regime. Empty: it does."""
        lag, (low, high) = scores.get(self.metric), self.regime
        if lag is not None and Regime(low, high).holds(lag):
            return ""
        return f"{self.metric} {lag} ms, which does not prove the regime of {low:g} to {high:g} ms"


def read_choice(path: Path) -> System:
    """Raises SimulstError: no file of `simulst choose --out`, or of a choice between runs over single sentences."""
    content = read_yaml(path, "choice")
    remedy = "give a file that simulst choose --out wrote"
    if isinstance(content, dict):
        content = {key: value for key, value in content.items() if key in System.__dataclass_fields__}
        for name in ("segmentation", "references"):
            if content.get(name) is None:
                raise SimulstError(
                    f"{path}: names no {name}; choose among runs over whole recordings, with --segmentation and "
                    "--references."
                )
    system = read_fields(System, content, str(path), remedy)
    if len(system.regime) != 2 or not system.regime[0] < system.regime[1]:
        raise SimulstError(f"{path}: 'regime' is no range of lags; {remedy}.")
    for name in (system.segmentation, system.references):
        if not Path(name).is_file():
            raise SimulstError(f"{path}: names {name}, which is not there; choose again.")
    return system


class Placer:
    """Puts the files of models and policies into a folder; each file once. Large ones are linked where the disk can."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._places: dict[str, str] = {}

    def model(self, path: str, options: dict[str, Any]) -> str:
        """The path of a model inside the folder; of one's own class `module:Name`.

        Raises SimulstError: a part of it is not named by a relative path; what `files_of_model` raises.
        """
        files = files_of_model(path, options)
        own = not Path(path).exists()  # one's own class; of a cascade, too, the recogniser or policy may be one
        code = files_of_modules(modules_of(path, "model")) if own else _modules(files)
        for name, file in code.items():
            self.module(name, file)
        if own:
            return next((entry.value for entry in offered("model").get(path, ())), path)
        place = self.tree(path, [file for file in files if file not in code.values()])
        inside = self._root / place
        known = (f"{os.path.abspath(self._root)}/", *_OF_THE_SYSTEM, *map(str, code.values()))
        if strangers := [f for f in files_of_model(inside, options) if not os.path.abspath(f).startswith(known)]:
            raise SimulstError(
                f"{path}: names {strangers[0]} by an absolute path, or by its place in this checkout; let the "
                "model name it by a path relative to itself."
            )
        if inside.is_file():  # a cascade, in which options of a class of one's own may name files
            _check_places(read_yaml(inside, "cascade"), path)
        return place

    def decoding(self, decoding: Decoding) -> dict[str, Any]:
        """A decoding configuration whose files are those of the folder. Modules of one's own are placed, too."""
        for name, file in decoding.code.items():
            self.module(name, file)
        places = {file: self.tree(file, files_of_part(file)) for file in decoding.files if Path(file).exists()}
        folders = {str(Path(file).parent): str(Path(place).parent) for file, place in places.items()}

        def moved(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: moved(part) for key, part in value.items()}
            if isinstance(value, list):
                return [moved(part) for part in value]
            return places.get(value, folders.get(value, value)) if isinstance(value, str) else value

        return {key: moved(value) for key, value in decoding.raw.items()}

    def option(self, value: Any) -> Any:
        """An option of one's own class: of a file or folder that is there, its place inside the folder."""
        if not isinstance(value, str) or not value or not os.path.exists(value):
            return value
        return self.tree(value, [file for file in (Path(value), *Path(value).rglob("*")) if file.is_file()])

    def module(self, name: str, file: Path) -> None:
        """A module of one's own, where Python finds it under its name, and by what its package offers."""
        place = Path("own", *name.split("."))
        place = place / file.name if file.name == "__init__.py" else place.with_suffix(".py")
        if (self._root / place).exists():
            return
        self.file(file, place)
        for package, version, line in offers_in(name):
            known = self._root / "own" / f"{package.replace('-', '_')}-{version}.dist-info"
            known.mkdir(exist_ok=True)
            (known / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
            entries = known / "entry_points.txt"
            before = entries.read_text() if entries.exists() else f"[{GROUP}]\n"
            entries.write_text(f"{before}{line}\n")

    def file(self, source: Path, inside: Path) -> None:
        target = self._root / inside
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        real = os.path.realpath(source)
        if os.path.getsize(real) >= LINKED:
            with contextlib.suppress(OSError):  # another disk
                os.link(real, target)
                return
        shutil.copy2(real, target)

    def tree(self, path: str, files: Iterable[Path]) -> str:
        """Files in their places relative to each other, as they name each other so; returns the place of `path`."""
        whole = Path(os.path.abspath(path))
        if str(whole) in self._places:
            return self._places[str(whole)]
        absolute = [Path(os.path.abspath(file)) for file in files if not str(file).startswith(_OF_THE_SYSTEM)]
        top = Path(os.path.commonpath([whole if whole.is_dir() else whole.parent, *(f.parent for f in absolute)]))
        name, number = whole.stem if whole.is_file() else whole.name, 1
        while (self._root / "models" / (place := name if number == 1 else f"{name}-{number}")).exists():
            number += 1
        for file in absolute:
            self.file(file, Path("models", place, file.relative_to(top)))
        self._places[str(whole)] = found = str(Path("models", place, whole.relative_to(top)))
        return found


def placed(system: System, placer: Placer, device: str) -> System:
    """A system with paths in the folder, which is decoded here.

    Raises SimulstError: as `Placer` does; it names a file of this machine that is in no folder's place.
    """
    decoding = parse_decoding(system.decoding, f"{system.run}: its decoding")
    options = dict(system.model_options)
    if not Path(system.model).exists():
        options = {name: placer.option(value) for name, value in options.items()}
    if device != "cpu":
        options["device"] = device
    found = replace(
        system,
        run=Path(system.run).name,
        model=placer.model(system.model, system.model_options),
        model_options=options,
        decoding=placer.decoding(decoding),
        segmentation=f"development/{SEGMENTATION}",
        references=f"development/{system.target_lang}.{REFERENCES}",
        threads=available_cores(),
        processor=kind(device),
    )
    _check_places([options, found.decoding], system.run)
    return found


def yaml_text(content: Any) -> str:
    """YAML as people write it."""
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)


def packed_mapping(path: Path) -> dict[str, Any]:
    """A mapping that was packed as YAML. Raises SimulstError: it is not there, or is none."""
    content = read_yaml(path, "packed file")
    if not isinstance(content, dict):
        raise SimulstError(f"{path}: is no mapping; pack again.")
    return content


def _check_places(content: Any, where: str) -> None:
    """Raise SimulstError if a text in it is the path of a file of this machine."""
    for value in _texts(content):
        if os.path.isabs(value) and os.path.exists(value) and not value.startswith(_OF_THE_SYSTEM):
            raise SimulstError(f"{where}: names {value}, which no other machine has; name it by a relative path.")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _modules(files: Iterable[Path]) -> dict[str, Path]:
    """Module → file, of the files that Python has imported."""
    known = {getattr(module, "__file__", None): name for name, module in sys.modules.items() if name != "__main__"}
    return {known[str(file)]: file for file in files if str(file) in known}
