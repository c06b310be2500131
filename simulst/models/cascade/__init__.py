"""A cascade: a recogniser that is a model of ours under a policy of its own, and a text model that translates.

    recogniser:
      model: whisper-base
      decoding: {read: {type: chunk, ms: 1000}, commit: {type: local_agreement, n: 2}}
    translator: {type: huggingface, model: Helsinki-NLP/opus-mt-en-es}

The decoding configuration of a run (READ, STOP, COMMIT, search) is that of the translator. At each READ, it translates
what the recogniser has heard, its unstable words too unless `unstable: false`. COMMIT says which words are final.
"""

from __future__ import annotations

from pathlib import Path

from simulst.models.base import Family
from simulst.models.cascade.settings import CascadeOptions
from simulst.session import Model

SUFFIXES = (".yaml", ".yml")


def _recognises(path: Path) -> bool:
    if path.suffix not in SUFFIXES or not path.is_file():
        return False
    return any(line.startswith("recogniser:") for line in path.read_text("utf-8", errors="replace").splitlines())


def _load(path: Path, options: CascadeOptions, cores: int) -> Model:
    from simulst.models.cascade.loading import load

    return load(path, options, cores)


def _files(path: Path, options: CascadeOptions) -> tuple[Path, ...]:
    from simulst.models.cascade.loading import files

    return files(path)


def _check(path: Path, options: CascadeOptions, source: str, target: str) -> None:
    from simulst.models.cascade.loading import read_recogniser
    from simulst.models.cascade.settings import read_settings

    read_recogniser(path, read_settings(path)).check(path, source)


def _tells(path: Path, options: CascadeOptions) -> bool:
    from simulst.models.cascade.loading import read_recogniser
    from simulst.models.cascade.settings import read_settings

    return read_recogniser(path, read_settings(path)).tells(path)


family = Family(
    looks_like="a cascade (a YAML file with a recogniser and a translator)",
    recognises=_recognises,
    options=CascadeOptions,
    load=_load,
    files=_files,
    check=_check,
    tells=_tells,
)
