"""Pool runs of several test sets: one log of all their sentences, which is scored and compared as any other."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simulst.errors import SimulstError
from simulst.files.folder import digest, write_atomically
from simulst.log import LOG, read_log
from simulst.log.instance import Instance
from simulst.measure.file import SCORES
from simulst.runs.folder import RunConfig, read_run_config, write_run_config

logger = logging.getLogger(__name__)


def pool(folders: Sequence[Path], out: Path) -> list[Path]:
    """Pool the runs of the configurations that all folders have. The folders stay as they are.

    folders: each holds the runs of one test set, all by one model into one language. In the pooled log it is a stratum.
    out: gets a run's folder for each configuration, not scored.
    Returns: these folders.

    Raises SimulstError: fewer than two folders; a folder is given twice; there is no configuration that all have; runs
        of one name are of several models, target languages or configurations; a log is broken.
    """
    places = [folder.resolve() for folder in folders]
    if len(set(places)) < max(2, len(places)):
        raise SimulstError("give two or more folders of runs, each one once: one for each test set that is pooled.")
    root = Path(os.path.commonpath(places))
    strata = [str(place.relative_to(root)) for place in places]
    complete = [{scores.parent.name for scores in folder.glob(f"*/{SCORES}")} for folder in folders]
    names = set.intersection(*complete)
    if not names:
        raise SimulstError(f"{', '.join(map(str, folders))}: have no complete run of one name; decode the same sweep.")
    if left := sorted(set.union(*complete) - names):
        logger.warning("%s: not in all folders; left out.", ", ".join(left))
    return [_pool([folder / name for folder in folders], strata, out / name) for name in sorted(names)]


def _pool(runs: Sequence[Path], strata: Sequence[str], out: Path) -> Path:
    configs = [read_run_config(run) for run in runs]
    for run, config in zip(runs, configs, strict=True):
        for key, known in _kept(configs[0]).items():
            if _kept(config)[key] != known:
                raise SimulstError(f"{runs[0]} and {run}: have another {key}, so they can't be pooled.")
    pooled: list[Instance] = []
    for run, config, stratum in zip(runs, configs, strata, strict=True):
        for instance in read_log(run / LOG, config.task.latency_unit, config.utterances):
            pooled.append(replace(instance, index=len(pooled), stratum=stratum))
    sources = {config.task.source_language for config in configs}
    task = replace(configs[0].task, source_language=sources.pop() if len(sources) == 1 else "")
    out.mkdir(parents=True, exist_ok=True)
    names = digest(config.names for config in configs)
    write_run_config(out, replace(configs[0], task=task, utterances=len(pooled), names=names))
    write_atomically(out / LOG, "".join(instance.to_json() + "\n" for instance in pooled))
    (out / SCORES).unlink(missing_ok=True)  # of an earlier log
    return out


def _kept(config: RunConfig) -> dict[str, object]:
    """What runs that are pooled must have in common."""
    return {
        "model": config.weights or config.task.model,
        "model's options": config.task.options,
        "target language": config.task.target_language,
        "unit": config.task.latency_unit,
        "configuration": config.decoding,
    }
