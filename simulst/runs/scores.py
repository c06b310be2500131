"""The scores of a run, scores.json: written from its log, and read again."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simulst.background import NOTHING, known_of, read_backgrounds
from simulst.errors import SimulstError
from simulst.files.folder import is_read_only, write_atomically
from simulst.log import read_log
from simulst.log.instance import Instance
from simulst.measure.latency import LONG_METRICS, METRICS
from simulst.runs.config import read_run_config

logger = logging.getLogger(__name__)

LOG, SCORES = "instances.log", "scores.json"
NUMBERS = (
    *(name + end for name in ("BLEU", "chrF", "COMET") for end in ("", "_low", "_high")),
    *(name + end for name in (*METRICS, *LONG_METRICS) for end in ("", "_CA")),
    *("WER", "CER", "RTF", "length_ratio", "missing", "extra", "invented", "term_recall"),
)
"""Keys of scores.json whose values are numbers, if they are there and are not None."""


def read_run_log(place: Path, unit: str = "word") -> list[Instance]:
    """As `read_log`, of a run's folder or of any log. In a run's folder, it also warns if the last ones are missing."""
    try:
        utterances = read_run_config(place if place.is_dir() else place.parent).utterances
    except (SimulstError, OSError):  # it is another program's
        utterances = 0
    return read_log(place, unit, utterances)


def score_run(
    folder: Path,
    language: str,
    unit: str | None = None,
    bootstrap: int = 1000,
    segmentation: Path | None = None,
    references: Path | None = None,
    context: Path | None = None,
) -> dict[str, Any]:
    """Score a run from its log, and write scores.json next to the log. A run of recognition also has error rates.

    language: target language.
    unit: of latency, "word" or "char"; None: by target language.
    bootstrap: number of resamples for confidence intervals.
    segmentation, references: the sentences of a run over whole recordings, as `score_recordings` takes them.
    context: a table whose terms' recall is scored; None: of those that the run was told.

    Returns: content of scores.json.
    """
    from simulst.measure.score import score_instances

    log, config = folder / LOG, read_run_config(folder)
    instances = read_log(log, utterances=config.utterances)
    source = config.task.source_language
    if context is not None:
        instances = with_terms(instances, context, source, language)
    if segmentation is not None and references is not None:
        from simulst.measure.longform import score_recordings

        scores = score_recordings(
            instances, segmentation, references, language, unit, bootstrap, log, source_language=source
        )
    else:
        scores = score_instances(
            instances, language=language, unit=unit, bootstrap=bootstrap, path=log, source_language=source
        )
    return write_scores(folder, scores)


def recordings_scores(folder: Path) -> dict[str, Any] | None:
    """The scores of whole recordings, if they are those of the log. `score_run` can't make them without a segmentation.

    Warns if they are of another log.
    """
    try:
        found = json.loads((folder / SCORES).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "recordings" not in found:
        return None
    if not is_of_log(found, folder):
        logger.warning(
            "%s: its scores of whole recordings are of another %s, so they are replaced; score the run with "
            "--segmentation and --references again.",
            folder,
            LOG,
        )
        return None
    return found


def is_of_log(scores: Mapping[str, Any], folder: Path) -> bool:
    """Whether scores were made of the log in the folder, by its digest. Scores of older versions have none."""
    return scores.get("log", "") in ("", _digest_of_log(folder))


def _digest_of_log(folder: Path) -> str:
    """A digest of what a run's log holds, 16 hexadecimal digits; empty if there is none. Times of files don't count."""
    try:
        return hashlib.sha256((folder / LOG).read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


def with_terms(instances: Sequence[Instance], context: Path, source: str, target: str) -> list[Instance]:
    """The instances with the terms that a table has for them. Raises SimulstError: a broken table."""
    known = read_backgrounds(context)
    found = []
    for instance in instances:
        own = known_of(known, (instance.name, instance.recording)) or NOTHING
        found.append(replace(instance, terms=list(own.between(source, target).target_terms)))
    return found


def write_scores(folder: Path, scores: dict[str, Any]) -> dict[str, Any]:
    """Write a run's scores.json, and return what it holds: the scores, and the digest of the log that they are of.

    In a folder where nothing can be written, the file stays, with a warning if it would change.

    COMET takes long, and not every command computes it. An earlier one stays if it is of this log and its references.
    """
    path = folder / SCORES
    try:
        earlier = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        earlier = {}
    if (
        isinstance(earlier, dict)
        and is_of_log(earlier, folder)
        and all(earlier.get(name) == scores.get(name) for name in ("sentences", "BLEU", "chrF"))
    ):
        scores = {**{name: value for name, value in earlier.items() if name.startswith("COMET")}, **scores}
    scores = {**scores, "log": _digest_of_log(folder)}
    if scores != earlier:
        try:
            write_atomically(path, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")
        except SimulstError as error:
            if not is_read_only(folder):
                raise
            logger.warning("%s", error)
    return scores


def read_scores(path: Path) -> dict[str, Any]:
    """A run's scores.json. Raises SimulstError: it is missing or broken."""
    try:
        scores = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SimulstError(f"{path}: no such file; let simulst evaluate finish the run.") from None
    except (ValueError, RecursionError) as error:  # such as brackets without end
        raise SimulstError(f"{path}: not valid JSON ({error}); remove it and run simulst evaluate again.") from error
    if not isinstance(scores, dict):
        raise SimulstError(f"{path}: not the scores of a run; remove it and run simulst evaluate again.")
    for key in NUMBERS:
        if scores.get(key) is not None and not is_number(scores[key]):
            raise SimulstError(
                f"{path}: {key} is {scores[key]!r}, which is no number; remove it and run simulst evaluate again."
            )
    return scores


def is_number(value: Any) -> bool:
    """Whether a score can be tabulated and drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
