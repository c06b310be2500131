"""A run's scores.json: written, and read again."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.files.folder import is_read_only, write_atomically
from simulst.files.text import read_json
from simulst.log import LOG
from simulst.measure.metric import OWN, Metric, is_of_its_code, metrics_in

logger = logging.getLogger(__name__)

SCORES = "scores.json"


def recordings_scores(folder: Path) -> dict[str, Any] | None:
    """The scores of whole recordings, if they are those of the log: they can't be made again without a segmentation.

    Warns if they are of another log.
    """
    found = _earlier(folder)
    if "recordings" not in found:
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


def _earlier(folder: Path) -> dict[str, Any]:
    """What a folder's scores.json holds; nothing if it is missing or broken."""
    try:
        found = read_json(folder / SCORES, "")
    except SimulstError:
        return {}
    return found if isinstance(found, dict) else {}


def write_scores(folder: Path, scores: dict[str, Any]) -> dict[str, Any]:
    """Write a run's scores.json, and return what it holds: the scores, and the digest of the log that they are of.

    In a folder where nothing can be written, the file stays, with a warning if it would change.

    COMET and metrics of one's own may take long, and not every command computes them. Earlier ones stay if they are of
    this log and its references, and if a metric's module is what it was.
    """
    earlier = _earlier(folder)
    if is_of_log(earlier, folder) and all(earlier.get(key) == scores.get(key) for key in ("sentences", "BLEU", "chrF")):
        own = {key: one for key, one in (earlier.get(OWN) or {}).items() if is_of_its_code(one)}
        stays = ("COMET", *own)
        parts = tuple(f"{key}_" for key in stays)  # intervals, signatures, models
        kept = {key: value for key, value in earlier.items() if key in stays or key.startswith(parts)}
        scores = {**kept, **scores}
        if own:
            scores[OWN] = {**own, **scores.get(OWN, {})}
    scores = {**scores, "log": _digest_of_log(folder)}
    if scores != earlier:
        try:
            write_atomically(folder / SCORES, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")
        except SimulstError as error:
            if not is_read_only(folder):
                raise
            logger.warning("%s", error)
    return scores


def read_scores(folder: Path) -> dict[str, Any]:
    """A run's scores. Raises SimulstError: scores.json is missing or broken."""
    path, remedy = folder / SCORES, "let simulst evaluate write it"
    scores = read_json(path, remedy)
    if not isinstance(scores, dict):
        raise SimulstError(f"{path}: not the scores of a run; {remedy}.")
    check_numbers(scores, str(path), remedy)
    return scores


def check_numbers(scores: Mapping[str, Any], where: str, remedy: str) -> dict[str, Metric]:
    """The metrics in scores, by their keys. Raises SimulstError: one of them is there and is no number."""
    metrics = metrics_in([scores])
    for key, metric in metrics.items():
        for name in (key, f"{key}_low", f"{key}_high") if metric.kind == "quality" else (key,):
            value = scores.get(name)
            if value is not None and not (type(value) in (int, float) and math.isfinite(value)):
                raise SimulstError(f"{where}: {name} is {value!r:.40}, which is no number; {remedy}.")
    return metrics
