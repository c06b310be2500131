"""What is decoded with what, and the model that does it in this process."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulst.cluster import worker_threads
from simulst.languages import unit_of
from simulst.models import load_model
from simulst.models.base import Model
from simulst.threads import available_cores


@dataclass(frozen=True)
class Task:
    """What is decoded with what: all but the decoding configuration.

    options: of the model family, as (name, value) pairs so that tasks can be hashed.
    """

    model: str
    source_language: str
    target_language: str
    options: tuple[tuple[str, Any], ...] = ()
    unit: str = ""

    def portable(self) -> Task:
        """The same with whole paths: a cluster's workers may run in another folder."""
        return replace(self, model=str(Path(self.model).resolve())) if Path(self.model).exists() else self

    @property
    def latency_unit(self) -> str:
        """ "word" or "char"."""
        return self.unit or unit_of(self.target_language)


def model_of(task: Task, jobs: int | None) -> Model:
    """A process's model, loaded once. jobs: processes that share this machine; None: as the Dask worker says."""
    return _model(task.model, task.options, available_cores(jobs) if jobs else worker_threads())


@functools.lru_cache(maxsize=1)
def _model(path: str, options: tuple[tuple[str, Any], ...], cores: int) -> Model:
    return load_model(path, cores, **dict(options))
