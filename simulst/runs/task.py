"""The task of a run (model, languages, unit), and the model of this process."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from simulst.languages import unit_of
from simulst.machine.cluster import worker_threads
from simulst.machine.threads import available_cores
from simulst.models import check_languages, load_model
from simulst.session import Model

# A file has them as a mapping.
Options = Annotated[
    tuple[tuple[str, Any], ...],
    BeforeValidator(lambda found: tuple(found.items()) if isinstance(found, dict) else found),
]


@dataclass(frozen=True)
class Task:
    """Everything about a run except its data and its decoding configuration.

    model: model folder or file, or the name of a class (simulst/find.py).
    options: of the model family, as (name, value) pairs, so that tasks can be hashed.
    unit: "word" or "char"; empty: by target language.
    """

    model: str
    source_language: str
    target_language: str
    options: Options = ()
    unit: Annotated[str, Field(pattern="^(|word|char)$")] = ""

    def portable(self) -> Task:
        """The same task with absolute paths, as a cluster's workers may run in another folder."""
        return replace(self, model=str(Path(self.model).resolve())) if Path(self.model).exists() else self

    def check(self) -> None:
        """Raise SimulstError for languages, before the model is loaded; see `check_languages`."""
        check_languages(self.model, dict(self.options), self.source_language, self.target_language)

    @property
    def latency_unit(self) -> str:
        """The unit of latency: "word" or "char"."""
        return self.unit or unit_of(self.target_language)


def model_of(task: Task, jobs: int | None) -> Model:
    """This process's model, loaded once.

    jobs: processes that share this machine's cores; None: use the threads of the Dask worker.
    """
    return _model(task.model, task.options, available_cores(jobs) if jobs else worker_threads())


@functools.lru_cache(maxsize=1)
def _model(path: str, options: tuple[tuple[str, Any], ...], cores: int) -> Model:
    return load_model(path, cores, **dict(options))
