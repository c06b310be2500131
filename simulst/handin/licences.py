"""The licences of all parts of a hand-in."""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import simulst
from simulst.errors import SimulstError
from simulst.handin.needs import Needs
from simulst.handin.system import System
from simulst.models.registry import files_of_model

LICENCES = ("licen[sc]e*", "copying*", "notice*")


def licences_of(systems: Iterable[System], given: Sequence[Path]) -> list[Path]:
    """The licence files of models, which lie beside their files, and those that were given.

    Raises SimulstError: a model has none, and none was given; one that was given is not there.
    """
    found = list(given)
    for file in given:
        if not file.is_file():
            raise SimulstError(f"{file}: no such file; give the model's licence.")
    for system in systems:
        model = system.model
        if not Path(model).exists():  # one's own class
            continue
        folders = dict.fromkeys([Path(model), *(file.parent for file in files_of_model(model, system.model_options))])
        listed = [file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir())]
        own = [file for file in listed if _is_licence(file)]
        if not own and not given:
            raise SimulstError(f"{model}: has no licence file; put its LICENSE there, or give it with --licence FILE.")
        found += own
    return list(dict.fromkeys(found))


def write_licences(part: Path, models: Sequence[Path], needs: Needs) -> None:
    """Write licences/: those of the models (`licences_of`), of all packages, and our own."""
    place = part / "licences"
    (place / "models").mkdir(parents=True)
    for number, file in enumerate(models, start=1):  # two models may call them the same
        shutil.copyfile(file, place / "models" / f"{number}-{file.absolute().parent.name}-{file.name}")
    rows = []
    for package in needs.packages:
        name = package.partition("==")[0]
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # for a GPU, and not installed here
            rows.append(f"{package}\tits wheel's")
            continue
        rows.append(f"{package}\t{_licence(found)}")
        for listed in found.files or ():
            source = Path(str(found.locate_file(listed)))
            of_wheel = listed.parts[0].endswith(".dist-info")
            named = _is_licence(source) or (of_wheel and "licenses" in listed.parts)
            if named and source.is_file() and not source.suffix.startswith(".py"):
                target = place.joinpath(name, *listed.parts[of_wheel:])  # those of its parts have the same names
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
    (place / "packages.tsv").write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    own = Path(simulst.__file__).parents[1] / "LICENSE"
    if own.is_file():
        shutil.copyfile(own, place / "simulst")


def _licence(found: importlib.metadata.Distribution) -> str:
    meta = found.metadata
    of_classifiers = [
        value.split(" :: ")[-1] for value in meta.get_all("Classifier", []) if value.startswith("License")
    ]
    said = {key: str(meta[key] or "") for key in ("License-Expression", "License") if key in meta}
    short = said.get("License-Expression") or "; ".join(of_classifiers) or said.get("License", "").partition("\n")[0]
    return short.strip() or "see its files"


def _is_licence(file: Path) -> bool:
    return file.is_file() and any(Path(file.name.lower()).match(pattern) for pattern in LICENCES)
